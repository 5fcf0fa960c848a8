"""The `netbisect` command: one module per subcommand."""

import logging

# The notice of the first font cache would be in the error output of a command.
logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)

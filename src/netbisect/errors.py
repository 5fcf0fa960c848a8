"""The base class of errors that a user can correct."""


class UserError(Exception):
    """An error that the command line reports as one sentence, without a traceback."""

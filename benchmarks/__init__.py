"""How good the search is, beside other searches and beside what information allows."""

import os

# There is a process for each core; threads for small matrices would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

"""Arrays of floats, computed in one thread.

BLAS would use a thread per processor, also for matrices as small as those of a search. On a busy
machine these wait for each other: a search takes four times as long.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

Floats = NDArray[np.float64]

threadpool_limits(1, user_api="blas")

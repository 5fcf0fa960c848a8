"""Arrays of floats, computed in one thread.

By default, BLAS uses a thread per processor even for the small matrices of a search. On a busy
machine these threads wait for each other, and a search takes four times as long.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

Floats = NDArray[np.float64]

threadpool_limits(1, user_api="blas")

"""Random noise of images, boots and seconds.

    pps = level * (1 + image) * mode * (1 + boot) * (1 - outlier) * (1 + second)

`image` is constant per kernel image; `mode`, `boot` and `outlier` per boot; `second` is AR(1).
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from netbisect.demo.lab.config import MachineProfile

_WILDEST = 2.0
"""Maximum standard deviation between boots, in medians; the fitted tail is too heavy."""


def _draws(*key: object) -> random.Random:
    return random.Random("/".join(map(str, key)))


class RouterNoise:
    """All random draws of a router, determined by the seed."""

    def __init__(self, profile: MachineProfile, seed: int, router: str) -> None:
        self.profile = profile
        self.seed = seed
        self.router = router

    def boot_factor(self, image: str, boot: int, scenario: str) -> float:
        """Factor of a boot of an image for a set of rules."""
        profile = self.profile
        of_image = _draws(self.seed, self.router, "image", image, scenario)
        factor = 1 + of_image.gauss(0, profile.image / 100)
        log_sd = of_image.gauss(0, profile.boot_log_sd)
        sd = profile.boot_median * min(math.exp(log_sd), _WILDEST)
        if _draws(self.seed, self.router, "mode", boot).random() < profile.mode_chance:
            factor *= 1 - profile.mode_gap / 100
        of_boot = _draws(self.seed, self.router, "boot", boot, image, scenario)
        factor *= 1 + of_boot.gauss(0, sd / 100)
        outlier = _draws(self.seed, self.router, "outlier", boot)
        if outlier.random() < profile.outlier_chance:
            depth = outlier.expovariate(1 / profile.outlier_depth)
            factor *= 1 - min(depth, 90) / 100
        return factor

    def seconds(self, *key: object) -> Iterator[float]:
        """Factors for the seconds of a run."""
        draws = _draws(self.seed, self.router, "second", *key)
        memory = self.profile.memory
        step = self.profile.second / 100 * math.sqrt(1 - memory**2)
        state = draws.gauss(0, self.profile.second / 100)
        while True:
            yield 1 + state
            state = memory * state + draws.gauss(0, step)

"""Draws the luck of images, boots and seconds.

    pps = level * (1 + image) * mode * (1 + boot) * (1 - outlier) * (1 + second)

`image` belongs to the code, `mode`, `boot` and `outlier` to one boot, `second` is AR(1).
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from netbisect.demo.lab.config import Profile

_WILDEST = 2.0
"""Cap of the sd between boots, in medians: the fitted tail is too heavy beyond."""


def _draws(*key: object) -> random.Random:
    return random.Random("/".join(map(str, key)))


class Luck:
    """All draws of one router; the same seed gives the same night."""

    def __init__(self, profile: Profile, seed: int, router: str) -> None:
        self.profile = profile
        self.seed = seed
        self.router = router

    def boot_factor(self, image: str, boot: int, scenario: str) -> float:
        """What this boot of this image makes of the level, for one set of rules."""
        profile = self.profile
        of_image = _draws(self.seed, self.router, "image", image, scenario)
        factor = 1 + of_image.gauss(0, profile.image / 100)
        log_sd = of_image.gauss(0, profile.boot.log_sd)
        sd = profile.boot.median * min(math.exp(log_sd), _WILDEST)
        if _draws(self.seed, self.router, "mode", boot).random() < profile.modes.chance:
            factor *= 1 - profile.modes.gap / 100
        of_boot = _draws(self.seed, self.router, "boot", boot, image, scenario)
        factor *= 1 + of_boot.gauss(0, sd / 100)
        outlier = _draws(self.seed, self.router, "outlier", boot)
        if outlier.random() < profile.outlier.chance:
            depth = outlier.expovariate(1 / profile.outlier.depth)
            factor *= 1 - min(depth, 90) / 100
        return factor

    def seconds(self, *key: object) -> Iterator[float]:
        """Factors for the seconds of one run."""
        draws = _draws(self.seed, self.router, "second", *key)
        memory = self.profile.memory
        step = self.profile.second / 100 * math.sqrt(1 - memory**2)
        state = draws.gauss(0, self.profile.second / 100)
        while True:
            yield 1 + state
            state = memory * state + draws.gauss(0, step)

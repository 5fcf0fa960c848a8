"""Confirmation: separates changes of the code from image noise.

Two images of equal performance differ by image noise, in every retest. A retest therefore only
shows that a difference is of the two kernels, and not of the machine at the time. A change of the
code is confirmed by the images of the history (`image_shift`), or by a difference that no two
images of equal performance have: about six standard deviations, by the test of `stats.sequential`
with the image noise as scatter.
"""

from __future__ import annotations

import math

from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.jobs import CompareJob
from netbisect.bisect.model.results import Confirmed, NotConfirmed
from netbisect.bisect.stats.sequential import PRIOR_WEIGHT, log_uniform_effects, sequential_test


def exceeds_images(ln_ratio: float, boots: int, noise: Noise, min_effect: float) -> bool:
    """Whether no two images of equal performance differ by so much.

    Args:
        ln_ratio: Difference of two images.
        boots: Boots of each image.
        noise: Noise of the series.
        min_effect: Smallest |ln ratio| worth an alert.
    """
    sd = math.sqrt(noise.image**2 + noise.boot**2 / boots)
    effects = math.copysign(1.0, ln_ratio) * log_uniform_effects(min_effect)
    tested = sequential_test([ln_ratio], sd, PRIOR_WEIGHT, effects)
    return abs(ln_ratio) >= min_effect and tested.shown


def judge(job: CompareJob, result: Confirmed) -> Confirmed | NotConfirmed:
    """Judges a retest that confirmed a difference of two images.

    Returns:
        The confirmed effects, the lead first; its effect is that of the images, if they agree.
    """
    lead = result.effects[0]
    if job.agreed is not None:
        return Confirmed((job.agreed, *result.effects[1:]))
    boots = min(lead.good_boots, lead.bad_boots)
    if exceeds_images(lead.ln_ratio, boots, job.noise or Noise(), job.min_effect):
        return result
    return NotConfirmed(result.effects, "two images of equal performance may differ by as much")

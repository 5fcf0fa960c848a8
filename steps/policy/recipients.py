"""Recipients of mails, by the rules of the settings; committers of verified culprits."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from netbisect.steps.service.mail_address import is_mail_address
from netbisect.steps.service.settings import MailRule, MailSettings


def recipients(
    settings: MailSettings,
    branch: str,
    testbed: str,
    paths: Sequence[str] = (),
    committers: Sequence[str] = (),
) -> tuple[str, ...]:
    """Returns addresses, each once: those of `to`, then those of rules, then the committers.

    `paths` are the files changed by verified culprits. Their committers count if the settings allow
    it and the address is valid.
    """
    rules = [one for one in settings.rules if _holds(one, branch, testbed, paths)]
    addresses = [] if any(one.instead for one in rules) else [*settings.to]
    for one in rules:
        addresses += one.to
    if settings.committers:
        addresses += [one for one in committers if _is_wanted(one)]
    return tuple(dict.fromkeys(addresses))


def _holds(rule: MailRule, branch: str, testbed: str, paths: Sequence[str]) -> bool:
    here = fnmatchcase(branch, rule.branch) and fnmatchcase(testbed, rule.testbed)
    return here and (not rule.path or any(fnmatchcase(path, rule.path) for path in paths))


def _is_wanted(text: str) -> bool:
    """Whether an address in a commit, which is arbitrary text, is usable."""
    return is_mail_address(text) and not text.lower().startswith("noreply@")

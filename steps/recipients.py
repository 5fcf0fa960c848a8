"""Who is told of what: the rules of the settings, and the committer of a verified culprit."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from netbisect.steps.settings import MailRule, MailSettings


def recipients(
    settings: MailSettings,
    branch: str,
    testbed: str,
    paths: Sequence[str] = (),
    committers: Sequence[str] = (),
) -> tuple[str, ...]:
    """Returns addresses, each once: those of `to`, then those of rules, then the committers.

    Args:
        settings: With the rules.
        branch: On which something changed.
        testbed: On which it was seen.
        paths: Files that the verified culprit touches; empty as long as there is none.
        committers: Addresses of those who committed verified culprits. They are left out unless
            the settings allow it, and where one is no plain address.
    """
    rules = [one for one in settings.rules if _holds(one, branch, testbed, paths)]
    told = [] if any(one.instead for one in rules) else [*settings.to]
    for one in rules:
        told += one.to
    if settings.committers:
        told += [one for one in committers if _is_address(one)]
    return tuple(dict.fromkeys(told))


def _holds(rule: MailRule, branch: str, testbed: str, paths: Sequence[str]) -> bool:
    here = fnmatchcase(branch, rule.branch) and fnmatchcase(testbed, rule.testbed)
    return here and (not rule.path or any(fnmatchcase(path, rule.path) for path in paths))


def _is_address(text: str) -> bool:
    """Commits name whom they like; only an address that settings could name is written to."""
    try:
        MailRule(to=(text,))
    except ValueError:
        return False
    return text.isascii() and text.isprintable() and not text.lower().startswith("noreply@")

"""Recipients of mails."""

from __future__ import annotations

import pytest

from netbisect.steps.policy.recipients import recipients
from netbisect.steps.service.settings import MailRule, MailSettings

LIST, IGB, STABLE = "perf@lab.invalid", "igb@lab.invalid", "re@lab.invalid"


def settings(*rules: MailRule, committers: bool = False) -> MailSettings:
    return MailSettings(
        to=(LIST,), sender="netbisect@lab.invalid", rules=rules, committers=committers
    )


def test_rules_add_recipients_to_the_list() -> None:
    """A rule for paths needs a verified culprit."""
    rule = MailRule(to=(STABLE, LIST), branch="stable/*")

    assert recipients(settings(rule), "main", "c2558") == (LIST,)
    assert recipients(settings(rule), "stable/15", "c2558") == (LIST, STABLE)

    rule = MailRule(to=(IGB,), path="sys/dev/e1000/*")

    assert recipients(settings(rule), "main", "c2558") == (LIST,)
    touched = ["sys/net/iflib.c", "sys/dev/e1000/if_em.c"]
    assert recipients(settings(rule), "main", "c2558", touched) == (LIST, IGB)
    assert recipients(settings(rule), "main", "c2558", touched[:1]) == (LIST,)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "root",
        "a@b\nBcc: all@lab.invalid",
        "<a@b>",
        "noreply@github.com",
        "ü@b.invalid",
        "a@ü.invalid",
        "&@[9",
        "(m@):a",
    ],
)
def test_invalid_addresses_of_committers_are_ignored(address: str) -> None:
    found = recipients(settings(committers=True), "main", "c2558", committers=[address])

    assert found == (LIST,)

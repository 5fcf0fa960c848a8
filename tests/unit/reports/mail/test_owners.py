"""Mails to the owners of testbeds."""

from __future__ import annotations

from netbisect.bisect.model.faults import Fault
from netbisect.reports.mail.owners import quarantine, worker_away, worker_back


def test_mails_about_workers_name_their_hosts_and_give_advice() -> None:
    away = worker_away("lab\x07", ["c2558", "e5-2650"], 2000.0)
    assert away.subject == "[netbisect] lab: worker offline, work is queued"
    assert "work has been queued for it for 33 min" in " ".join(away.text.split())
    assert "c2558, e5-2650" in away.text
    assert "buildbot-worker start" in away.text
    back = worker_back("lab", ["c2558"])
    assert back.subject == "[netbisect] lab: worker back online"
    assert "\x07" not in away.subject + away.text


def test_mail_about_a_quarantine_has_reason_advice_and_console() -> None:
    log = "\n".join(
        [*(f"line {number}" for number in range(99)), "panic: \x1b[31mno\x00" + "x" * 99]
    )
    fault = Fault.NO_LINK.value
    mail = quarantine("c2558", "Atom", why="no link", by="netbisect", fault=fault, log=log)

    assert mail.subject == "[netbisect] c2558: in quarantine"
    lines = mail.text.splitlines()
    assert max(map(len, lines)) <= 78
    assert "The testbed c2558 is in quarantine: no link." in lines
    assert "Look at the cables and at the ports' other ends." in lines
    assert "  netbisect testbeds release c2558 --note '...'" in lines
    assert any(line.startswith("  panic: [31mno xxx") for line in lines)
    assert "  line 98" in lines
    assert "  line 1" not in lines

"""Instructions for replies to alert mails, and the answers to replies."""

from __future__ import annotations

from netbisect.bisect.model.mail import Mail
from netbisect.reports.render import plaintext, words

COMMANDS = """\
  ack REASON       accept the change
  mute 14d REASON  no mails for 14 days
  fixed by HASH    the commit HASH fixes it
  invalid REASON   the measurement was wrong
  reopen REASON    open a closed, muted or acknowledged alert again
"""
INVITATION = f"\nTo change this alert, reply with one of these lines\n\n{COMMANDS}"
"""Follows the text of an alert mail."""


def done(number: int, now: str) -> Mail:
    """The answer to a command; `now` is the state from `words.state`."""
    return Mail(f"Re: [netbisect] alert {number}", f"Alert {number} is {now}.\n")


def not_understood(number: int, why: str) -> Mail:
    """The answer to a reply that changed nothing."""
    text = plaintext.wrap(f"Your mail about alert {number} changed nothing: {words.clean(why)}.")
    return Mail(
        f"Re: [netbisect] alert {number}: not understood",
        f"{text}\n\nA command is one of these lines, in plain text\n\n{COMMANDS}",
    )

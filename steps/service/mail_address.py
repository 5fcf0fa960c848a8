"""Syntax check of mail addresses."""

from __future__ import annotations


def check_mail_address(text: str) -> None:
    """Checks an address without DNS queries; ValueError for Unicode or a display name, too."""
    import email_validator  # noqa: PLC0415 - `netbisect detect FILE` does without

    # Labs have domains of their own, such as .internal, and a service may run on localhost.
    email_validator.SPECIAL_USE_DOMAIN_NAMES.clear()
    try:
        email_validator.validate_email(
            text, check_deliverability=False, globally_deliverable=False, allow_smtputf8=False
        )
    except email_validator.EmailNotValidError as error:
        raise ValueError(f"{text!r}: expected a mail address: {error}") from error
    if not text.isascii():
        raise ValueError(f"{text!r}: expected a mail address in ASCII")


def is_mail_address(text: str) -> bool:
    """Whether `check_mail_address` accepts the text."""
    try:
        check_mail_address(text)
    except ValueError:
        return False
    return True

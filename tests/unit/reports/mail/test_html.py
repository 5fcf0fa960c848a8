"""The HTML part of a mail."""

from __future__ import annotations

import re
from html import unescape

import pytest
import report_cases
from hypothesis import given
from hypothesis import strategies as st

from netbisect.reports.mail import alerts
from netbisect.reports.mail.html import as_html


def body(html: str) -> str:
    return html.split("<body>")[1].split("</body>", maxsplit=1)[0]


@pytest.mark.parametrize("name", ["alert_case", "culprit_case"])
def test_html_has_the_words_of_the_text(name: str) -> None:
    case = getattr(report_cases, name)()
    mail = alerts.mail(case)

    without_tags = re.sub(r"<[^>]*>", " ", body(as_html(mail.subject, mail.text)))
    assert unescape(without_tags).split() == mail.text.split()


@given(st.text(), st.text(max_size=2000))
def test_text_is_escaped(subject: str, text: str) -> None:
    """The output has no tags but those of as_html()."""
    html = as_html(subject, text)

    tags = set(re.findall(r"<(/?[a-z0-9]+)", body(html)))
    assert tags <= {"p", "/p", "pre", "/pre", "h2", "/h2", "a", "/a"}
    assert "javascript:" not in re.findall(r'href="([^"]*)"', html)

"""The page of a request."""

from __future__ import annotations

import re

import report_documents

from netbisect.bisect.model.results import Effect
from netbisect.reports.model.compared import ComparedScenario, Set
from netbisect.reports.site import requests
from netbisect.reports.site.requests import Narrowing, PartView


def test_each_caption_names_revision_and_scenario() -> None:
    """Plots of several revisions and scenarios look alike."""
    document = report_documents.request_document()
    effect = Effect("fwd4", -0.1, -0.12, -0.08, 1e-6, 4, 4)
    narrowing = [
        Narrowing(f"n{number} against n1 in forwarding", [effect], 0.02) for number in (2, 3)
    ]
    boots = [
        ComparedScenario(name, [Set("n1", (1e6, 1.1e6, 1e6)), Set("n2", (9e5, 9.1e5, 9e5))])
        for name in ("forwarding", "pf")
    ]
    view = PartView(document.parts[0], boots, narrowing)
    text = requests.page(document, [view], [], "x.json").html()
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", text, re.DOTALL)

    assert [caption.partition(". ")[0] for caption in captions[-4:]] == [
        "n2 against n1 in forwarding",
        "n3 against n1 in forwarding",
        "forwarding",
        "pf",
    ]

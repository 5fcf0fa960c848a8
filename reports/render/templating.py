"""Environment of the templates."""

from __future__ import annotations

import inspect

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from netbisect.reports.render import plaintext, summary, words

environment = Environment(
    loader=PackageLoader("netbisect.reports"),
    autoescape=select_autoescape(["html"]),
    undefined=StrictUndefined,
    auto_reload=False,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
for _module in (plaintext, words):
    environment.filters.update(inspect.getmembers(_module, inspect.isfunction))
environment.globals.update(count=words.count, summary=summary)
# Opens the frame of a table, which can be scrolled by keyboard; labels are unique in a page.
environment.globals["table_region"] = environment.get_template(
    "table_region.html"
).module.table_region  # type: ignore[attr-defined]

"""Environment of the templates."""

from __future__ import annotations

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
environment.filters.update(
    block=words.block,
    certainty=words.certainty,
    clean=words.clean,
    cleaned=words.cleaned,
    cost=words.cost,
    day=words.day,
    day_known=words.day_known,
    duration=words.duration,
    listing=words.listing,
    moment=words.moment,
    number=words.number,
    shell=plaintext.shell,
    table=plaintext.table,
    tie=plaintext.tie,
    wrap=plaintext.wrap,
)
environment.globals.update(count=words.count, summary=summary)
# Opens the frame of a table, which can be scrolled by keyboard; labels are unique in a page.
environment.globals["table_region"] = environment.get_template(
    "table_region.html"
).module.table_region  # type: ignore[attr-defined]

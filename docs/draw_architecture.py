"""Draws the packages of netbisect and their imports into docs/architecture.md (Mermaid).

An arrow means "imports"; arrows implied by others are left out.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
LAYERS = ("bisect", "store", "workers", "reports", "steps")
COMMANDS = ("cli", "demo", "localbisect")
BEGIN, END = "```mermaid\n", "```\n"

Graph = dict[str, set[str]]


@functools.cache
def imported(path: Path) -> list[str]:
    """The modules of netbisect that a file imports, without the prefix."""
    return [
        f"{node.module.removeprefix('netbisect.')}.{alias.name}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("netbisect.")
        for alias in node.names
    ]


def graph(depth: int, packages: Iterable[str]) -> Graph:
    """Imports between packages, cut off at `depth` parts of the name."""
    found: Graph = {}
    for package in packages:
        folder = ROOT / "src" / "netbisect" / package
        for path in sorted(folder.resolve().rglob("*.py")):
            if path.name == "__init__.py" or "base" in path.parts:
                continue
            inner = path.relative_to(folder.resolve()).with_suffix("").parts
            name = ".".join((package, *inner)[:depth])
            targets = {".".join(module.split(".")[:depth]) for module in imported(path)}
            found.setdefault(name, set()).update(targets - {name})
    return {name: targets & found.keys() for name, targets in found.items()}


def reachable(edges: Graph, start: str) -> set[str]:
    """All nodes behind a node."""
    found: set[str] = set()
    waiting = [*edges[start]]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += edges[node]
    return found


def reduced(edges: Graph) -> list[tuple[str, str]]:
    """The edges without those implied by others."""
    return sorted(
        (name, target)
        for name, targets in edges.items()
        for target in targets
        if not any(target in reachable(edges, other) for other in targets - {target})
    )


def draw() -> str:
    """The diagram."""
    lines = ["flowchart TD"]
    for package in LAYERS:
        edges = graph(2, [package])
        lines += [f"  subgraph {package}", "    direction TB"]
        lines += [f'    {name}["{name.partition(".")[2]}"]' for name in sorted(edges)]
        lines += [f"    {name} --> {target}" for name, target in reduced(edges)]
        lines.append("  end")
    outer = reduced(graph(1, [*LAYERS, *COMMANDS]))
    lines += [f"  {name} ==> {target}" for name, target in outer]
    return "".join(f"{line}\n" for line in lines)


def main() -> None:
    """Replaces the diagram in the page."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}{draw()}{END}{after}")


if __name__ == "__main__":
    main()

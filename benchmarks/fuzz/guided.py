"""One parser under atheris, which looks for inputs that reach what none has reached before.

Started by `benchmarks.fuzz`: libFuzzer, inside of atheris, has the process for itself.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Arguments: the name of the parser, then what libFuzzer takes; it ends the process."""
    import atheris  # noqa: PLC0415 - there where it is installed; and it must be the first

    name, *options = sys.argv[1:]
    from benchmarks.fuzz import modules  # noqa: PLC0415 - as light as can be

    with atheris.instrument_imports(include=list(modules.MODULES[name])):
        from benchmarks.fuzz import parsers  # noqa: PLC0415 - what it imports is to be watched
    parser = parsers.PARSERS[name]

    def feed(data: bytes) -> None:
        try:
            parser.eat(data)
        except parser.refuses:
            return

    atheris.Setup([name, *options], feed)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

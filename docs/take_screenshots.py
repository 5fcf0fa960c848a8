"""Takes the pictures of the README from the demonstration; needs chromium.

python docs/take_screenshots.py           # takes them
python docs/take_screenshots.py SITE      # from a folder that `netbisect site` has written
python docs/take_screenshots.py --check   # tells if templates have changed since
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "screenshots"
TEMPLATES = FOLDER / "templates.sha256"
"""Digest of the templates that the pictures show."""
WORK = ROOT / "build" / "screenshots"
WIDTH, HEIGHT = 1000, 1060
SIZE_MAX = 200_000
"""Bytes of a picture."""
PICTURES = {"alert": ("alert-1.html", ""), "search": ("bisection-*.html", "line")}
"""By name: pattern of the page, and the heading to which a picture skips, or ""."""
_MAIN = '<main id="main">'


def digest() -> str:
    """Digest of all templates and style sheets."""
    found = hashlib.sha256()
    for path in sorted((ROOT / "reports" / "templates").rglob("*.*")):
        found.update(path.read_bytes())
    return found.hexdigest()


def make_site() -> Path:
    """Runs the demonstration and writes its database as a site."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    demo, site = str(WORK / "demo"), WORK / "site"
    subprocess.run([sys.executable, "-m", "netbisect.demo", "play", "--place", demo], check=True)
    netbisect = str(Path(sys.executable).with_name("netbisect"))
    subprocess.run([netbisect, "site", str(site), "--folder", demo], check=True)
    return site


def skipped_to(text: str, heading: str) -> str:
    """A page whose contents begin with the heading of this id.

    Raises:
        SystemExit: There is no such heading.
    """
    head, main, body = text.partition(_MAIN)
    _, found, rest = body.partition(f'<h2 id="{heading}"')
    if not found:
        sys.exit(f"there is no heading {heading!r}")
    return head + main + found + rest


def take(page: Path, heading: str, picture: Path) -> None:
    """Takes the picture of the top of a page, or of its part from a heading on.

    Raises:
        SystemExit: chromium is not installed, there is no such heading, or the picture is too
            large.
    """
    chromium = shutil.which("chromium") or shutil.which("chrome")
    if chromium is None:
        sys.exit("chromium is not installed")
    with tempfile.TemporaryDirectory() as folder:
        shown, raw = Path(folder) / "page.html", Path(folder) / "picture.png"
        text = page.read_text()
        shown.write_text(skipped_to(text, heading) if heading else text)
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        options += [f"--user-data-dir={folder}", f"--window-size={WIDTH},{HEIGHT}"]
        options += ["--blink-settings=preferredColorScheme=1", f"--screenshot={raw}"]
        subprocess.run([chromium, *options, shown.as_uri()], check=True, capture_output=True)
        Image.open(raw).convert("RGB").quantize(64).save(picture, optimize=True)
    if picture.stat().st_size > SIZE_MAX:
        sys.exit(f"{picture} has more than {SIZE_MAX} bytes")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("site", nargs="?", type=Path, metavar="SITE", help="a written site")
    parser.add_argument("--check", action="store_true", help="only compare the templates")
    options = parser.parse_args()
    if options.check:
        if TEMPLATES.read_text().strip() != digest():
            sys.stdout.write(
                "The pictures in README.md are older than the templates: make screenshots\n"
            )
        return
    site = options.site or make_site()
    FOLDER.mkdir(exist_ok=True)
    for name, (pattern, heading) in PICTURES.items():
        page = min(site.glob(pattern), default=None)
        if page is None:
            sys.exit(f"{site}: no page {pattern}")
        take(page, heading, FOLDER / f"{name}.png")
    TEMPLATES.write_text(f"{digest()}\n")


if __name__ == "__main__":
    main()

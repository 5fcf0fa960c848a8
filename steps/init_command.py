"""`netbisect init`: a folder with everything that a service needs, to be edited."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import click

from netbisect.steps import control
from netbisect.steps.commands import sentences
from netbisect.steps.secret_files import make_passwords
from netbisect.steps.settings import load
from netbisect.steps.shipped import filled

_LAB = "lab.toml"
_PASSWORDS = "workers"
_NEXT = """\
{folder} has the settings of a service.

 1. Describe your machines in {lab}, and let it be checked:
    netbisect-lab --lab {lab} doctor
 2. Say in {settings} which branches are watched, and who is told.
 3. netbisect check {folder}
 4. netbisect start {folder}
 5. On the host of each worker, with NAME as {lab} says and the password
    in {passwords}/NAME, which step 3 makes where there is none:
    buildbot-worker create-worker DIR MASTER:9989 NAME PASSWORD

`netbisect service` writes what systemd or rc.d need to start it with the machine.
"""


@click.command(epilog="Example: netbisect init --to perf@example.org /var/netbisect")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--to",
    metavar="ADDRESS",
    default="root@localhost",
    show_default=True,
    help="Who is told of changes.",
)
@click.option(
    "--repository",
    metavar="ADDRESS",
    default="https://git.freebsd.org/src.git",
    show_default=True,
    help="Of the tree under watch, as for `git clone`.",
)
@click.option(
    "--lab",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A lab file that there is already (default: an example is written).",
)
@sentences
def init(folder: Path, to: str, repository: str, lab: Path | None) -> None:
    """Write the settings of a new service into FOLDER, which must be absent or empty."""
    folder = folder.absolute()
    write(folder, to=to, repository=repository, lab=lab)
    paths = {
        "folder": folder,
        "lab": lab.absolute() if lab else folder / _LAB,
        "settings": folder / control.SETTINGS,
        "passwords": folder / _PASSWORDS,
    }
    click.echo(_NEXT.format(**paths), nl=False)


def write(folder: Path, *, to: str, repository: str, lab: Path | None = None) -> None:
    """Writes settings, an example of a lab file, Buildbot's own file and passwords of workers.

    With a lab file that there is, no example is written, and `repository` is not used.

    The folder is closed to all but its owner and group, the passwords to all but its owner.
    All or nothing.

    Raises:
        ServiceError: the folder is not empty, or cannot be written.
        FileError: an argument does not suit the settings.
    """
    existed = folder.exists()
    try:
        if existed and any(folder.iterdir()):
            raise control.ServiceError(
                f"{folder} is not empty: a service begins in a folder of its own"
            )
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise control.ServiceError(f"{folder} cannot be used: {error.strerror}") from error
    try:
        _fill(folder, to, repository, lab)
        _, found = load(folder / control.SETTINGS)
        make_passwords(folder / _PASSWORDS, [*found.by_worker])
    except BaseException as error:
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if not existed:
            folder.rmdir()
        if isinstance(error, OSError):
            said = f"{folder} cannot be written: {error.strerror}"
            raise control.ServiceError(said) from error
        raise


def _fill(folder: Path, to: str, repository: str, lab: Path | None) -> None:
    folder.chmod(0o750)
    words = {
        "to": to,
        "sender": f"netbisect@{socket.getfqdn() or 'localhost'}",
        "lab": str(lab.absolute()) if lab else _LAB,
    }
    settings = filled("netbisect.toml", **{key: _text(word) for key, word in words.items()})
    (folder / control.SETTINGS).write_text(settings)
    if lab is None:
        (folder / _LAB).write_text(filled("lab.toml", repository=_text(repository)))
    (folder / control.TAC).write_text(filled(control.TAC))
    (folder / _PASSWORDS).mkdir(mode=0o700)


def _text(value: str) -> str:
    """As it stands between the quotes of a TOML string."""
    return "".join(
        f"\\u{ord(char):04x}" if char in '"\\' or not char.isprintable() else char for char in value
    )

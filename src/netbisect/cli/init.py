"""`netbisect init`."""

from __future__ import annotations

import shlex
import shutil
import socket
from pathlib import Path

import click
from click.core import ParameterSource

from netbisect.steps.service import control
from netbisect.steps.service.mail_address import is_mail_address
from netbisect.steps.service.secrets import make_passwords
from netbisect.steps.service.settings import load
from netbisect.steps.service.shipped_files import fill_template

_LAB = "lab.toml"
_PASSWORDS = "workers"
_NEXT = """\
{folder} contains the settings of a service.

 1. Describe your machines in {lab}, and check them:
    netbisect-lab --lab {lab} doctor
 2. Set the branches and the recipients of mail in {settings}.
 3. netbisect check {folder}
 4. netbisect start {folder}
 5. On the host of each worker, with NAME from {lab} and PASSWORD
    from {passwords}/NAME (step 3 creates missing passwords):
    buildbot-worker create-worker DIR MASTER:9989 NAME PASSWORD
    buildbot-worker start DIR
 6. netbisect night {folder}
    measures now what the nights will measure; `netbisect follow` shows it.

`netbisect service` prints a systemd unit or an rc.d script.
"""


@click.command(epilog="Example: netbisect init --to perf@example.org /var/netbisect")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--to",
    metavar="ADDRESS",
    default="root@localhost",
    show_default=True,
    help="Recipient of alerts.",
)
@click.option(
    "--repository",
    metavar="ADDRESS",
    default="https://git.freebsd.org/src.git",
    show_default=True,
    help="Address of the source repository, as for `git clone`.",
)
@click.option(
    "--lab",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Existing lab file (default: write an example).",
)
def init(folder: Path, to: str, repository: str, lab: Path | None) -> None:
    """Create the settings of a new service in FOLDER, which must be absent or empty."""
    source = click.get_current_context().get_parameter_source("repository")
    if lab is not None and source is not ParameterSource.DEFAULT:
        raise click.UsageError(
            "--repository and --lab are mutually exclusive: a lab file names its own"
        )
    folder = folder.absolute()
    write(folder, to=to, repository=repository, lab=lab)
    paths = {
        "folder": folder,
        "lab": lab.absolute() if lab else folder / _LAB,
        "settings": folder / control.SETTINGS,
        "passwords": folder / _PASSWORDS,
    }
    words = {name: shlex.quote(str(path)) for name, path in paths.items()}
    click.echo(_NEXT.format(**words), nl=False)


def write(folder: Path, *, to: str, repository: str, lab: Path | None = None) -> None:
    """Writes settings, a lab file, the file of Buildbot and passwords of workers, all or nothing.

    The folder is new or empty; only the owner can read it. Alerts go to `to`. Without an existing
    lab file, an example is written, with this address of the source repository.

    Raises:
        ServiceError: The folder is not empty, or cannot be written.
        FileError: An argument is invalid in the settings.
    """
    existed = folder.exists()
    try:
        if existed and any(folder.iterdir()):
            raise control.ServiceError(f"{folder} is not empty: expected a new or an empty folder")
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise control.ServiceError(f"{folder} cannot be used: {error.strerror}") from error
    try:
        _fill(folder, to, repository, lab)
        _, found = load(folder / control.SETTINGS)
        make_passwords(folder / _PASSWORDS, [*found.hosts_by_worker])
    except BaseException as error:
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if not existed:
            folder.rmdir()
        if isinstance(error, OSError):
            message = f"{folder} cannot be written: {error.strerror}"
            raise control.ServiceError(message) from error
        raise


def _fill(folder: Path, to: str, repository: str, lab: Path | None) -> None:
    folder.chmod(0o700)
    words = {
        "to": to,
        "sender": _sender(),
        "lab": str(lab.absolute()) if lab else _LAB,
    }
    settings = fill_template("netbisect.toml", **{key: _text(word) for key, word in words.items()})
    (folder / control.SETTINGS).write_text(settings)
    if lab is None:
        (folder / _LAB).write_text(fill_template("lab.toml", repository=_text(repository)))
    (folder / control.TAC).write_text(fill_template(control.TAC))
    (folder / _PASSWORDS).mkdir(mode=0o700)


def _sender() -> str:
    """An address on this host, or on localhost if the host name is invalid in mail addresses."""
    here = f"netbisect@{socket.getfqdn()}"
    return here if is_mail_address(here) else "netbisect@localhost"


def _text(value: str) -> str:
    """The content of a quoted TOML string."""
    return "".join(
        f"\\u{ord(char):04x}" if char in '"\\' or not char.isprintable() else char for char in value
    )

"""The command `netbisect-lab`: lab operations with or without the service.

Facts are JSON lines on standard output; messages go to standard error.
"""

from __future__ import annotations

import pkgutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click

from netbisect.workers.build.artifacts import ArtefactError
from netbisect.workers.build.patches import PatchError
from netbisect.workers.cli import options, output
from netbisect.workers.config.toml import FileError
from netbisect.workers.transport.errors import BusyError, LabFault, NoiseError
from netbisect.workers.vm.vm import VmError

_COMMANDS = {
    "bench": "trial:bench",
    "boot": "trial:boot",
    "build": "build:build",
    "calibrate": "noise_report:calibrate_command",
    "doctor": "doctor:doctor",
    "image-noise": "noise_report:image_noise_command",
    "profile": "trial:profile",
    "recover": "trial:recover",
    "trial": "trial:trial",
    "vm": "vm:vm_commands",
}
"""Module and name of each command."""


class _LazyGroup(click.Group):
    """Imports the command that is called, and no other."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's interface
        return [*_COMMANDS]

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's interface
        cmd_name: str,
    ) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        found: click.Command = pkgutil.resolve_name(f"{__package__}.{_COMMANDS[cmd_name]}")
        return found


@click.group(
    cls=_LazyGroup,
    epilog=f"Example: {options.PROGRAM} --lab lab.toml doctor",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--lab", type=options.PATH, default="lab.toml", show_default=True, help="The lab file."
)
@click.pass_context
def netbisect_lab(context: click.Context, lab: Path) -> None:
    """Build kernels, boot them on a testbed, send packets through them.

    Facts are printed as JSON lines on standard output, messages on standard error.
    """
    context.obj = lab


def _stop(number: int, _: object) -> NoReturn:
    # As an exception, so that every `finally` on the way leaves its machine clean.
    raise SystemExit(128 + number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit status."""
    signal.signal(signal.SIGTERM, _stop)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # ignored by nohup(1)
        signal.signal(signal.SIGHUP, _stop)
    try:
        result: int = netbisect_lab.main(
            arguments, prog_name=options.PROGRAM, standalone_mode=False
        )
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (FileError, ArtefactError, PatchError) as error:
        options.say(f"{options.PROGRAM}: {error}")
        return output.EXIT_USAGE
    except (VmError, LabFault, NoiseError, BusyError) as error:
        options.say(f"{options.PROGRAM}: {error}")
        return output.EXIT_FAILED if isinstance(error, BusyError) else output.EXIT_LAB
    except OSError as error:
        where = error.filename or "a file cannot be written"
        options.say(f"{options.PROGRAM}: {where}: {error.strerror}")
        return output.EXIT_FAILED
    except click.Abort:
        options.say(f"{options.PROGRAM}: stopped")
        return 130
    return result


if __name__ == "__main__":
    sys.exit(main())

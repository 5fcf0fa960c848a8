"""A mail server on loopback that keeps what it is given: one file per mail.

`python -m netbisect.demo.mailbox PORT FOLDER`
"""

from __future__ import annotations

import asyncio
import signal
import sys
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session


def welcome(*_: object) -> AuthResult:
    """Whoever comes with a name and a password is let in, as those who come without are."""
    return AuthResult(success=True)


class Keep:
    """Takes every mail."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def handle_DATA(  # noqa: N802 - aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        """Writes it down, whole or not at all."""
        del server, session
        number = len(list(self.folder.glob("*.eml"))) + 1
        work = self.folder / f"{number:03d}.new"
        work.write_bytes(envelope.original_content or b"")
        work.replace(work.with_suffix(".eml"))
        return "250 kept"


def read(folder: Path) -> list[EmailMessage]:
    """The mails in a folder, oldest first."""
    found = []
    for path in sorted(folder.glob("*.eml")):
        mail = message_from_bytes(path.read_bytes(), policy=policy.default)
        assert isinstance(mail, EmailMessage)
        found.append(mail)
    return found


async def serve(port: int, folder: Path) -> None:
    """Serves until it is told to stop."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)

    def protocol() -> SMTP:
        # On loopback nobody listens to a password.
        return SMTP(Keep(folder), authenticator=welcome, auth_require_tls=False)

    server = await loop.create_server(protocol, "127.0.0.1", port)
    async with server:
        print("ready", flush=True)
        await stopped.wait()


def main() -> None:
    """The command line."""
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(serve(int(sys.argv[1]), folder))


if __name__ == "__main__":
    main()

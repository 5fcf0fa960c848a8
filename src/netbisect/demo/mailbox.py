"""A mail server on loopback that stores mails, one per file.

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
    """Accepts any login."""
    return AuthResult(success=True)


class MailKeeper:
    """Accepts all mails except those to the domain `refused.invalid`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Accepts or refuses a recipient."""
        del server, session, options
        if address.endswith("@refused.invalid"):
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 fine"

    async def handle_DATA(  # noqa: N802 - aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        """Stores the mail atomically."""
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
    """Serves until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)

    def protocol() -> SMTP:
        # Passwords are safe on the loopback interface.
        return SMTP(MailKeeper(folder), authenticator=welcome, auth_require_tls=False)

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

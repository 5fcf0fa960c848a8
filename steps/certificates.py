"""TLS between workers and master: where the master listens, and whether its certificate is good."""

from __future__ import annotations

import ssl
import time
from datetime import UTC, datetime

from netbisect.steps.secret_files import check_private
from netbisect.steps.settings import WorkerSettings
from netbisect.workers.tomlfile import FileError


def endpoint(settings: WorkerSettings) -> str:
    """Where the master listens for workers, as Twisted writes such a place."""
    from twisted.internet.endpoints import quoteStringArgument  # noqa: PLC0415 - the master alone needs it

    kind, more = "tcp", ""
    if settings.certificate is not None and settings.key is not None:
        kind = "ssl"
        certificate, key = (
            quoteStringArgument(str(p)) for p in (settings.certificate, settings.key)
        )
        # The same file twice: the certificate is the first in it, what it is signed by follows.
        more = f":privateKey={key}:certKey={certificate}:extraCertChain={certificate}"
    return f"{kind}:{settings.port}:interface={quoteStringArgument(settings.interface)}{more}"


def examine(settings: WorkerSettings) -> str:
    """What can be said of the master's certificate; "" where there is none.

    Raises:
        FileError: certificate and key cannot be read, do not belong together, or have expired.
    """
    if settings.certificate is None or settings.key is None:
        return ""
    check_private(settings.key, "workers.key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(settings.certificate, settings.key)
        ends = _ends(settings.certificate.read_bytes())
    except (OSError, ValueError) as error:
        raise FileError(
            f"workers.certificate: {settings.certificate} and {settings.key} cannot be used: a "
            f"certificate and its key in PEM expected ({error})"
        ) from error
    day = f"{datetime.fromtimestamp(ends, UTC):%Y-%m-%d}"
    if ends < time.time():
        raise FileError(f"workers.certificate: {settings.certificate} has expired on {day}")
    return f"{settings.certificate}, until {day}"


def _ends(pem: bytes) -> float:
    """Until when a certificate is good, seconds since the epoch."""
    from cryptography import x509  # noqa: PLC0415 - comes with Twisted's TLS; most commands need none

    return x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()

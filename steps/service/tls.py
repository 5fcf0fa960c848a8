"""TLS between workers and master."""

from __future__ import annotations

import ssl
import time
from datetime import UTC, datetime

from netbisect.steps.service.secrets import check_private_file
from netbisect.steps.service.settings import WorkerSettings
from netbisect.workers.config.toml import FileError


def worker_endpoint(settings: WorkerSettings) -> str:
    """Returns the endpoint string of the master's worker port."""
    from twisted.internet.endpoints import quoteStringArgument  # noqa: PLC0415 - only for the master

    kind, more = "tcp", ""
    if settings.certificate is not None and settings.key is not None:
        kind = "ssl"
        certificate, key = (
            quoteStringArgument(str(p)) for p in (settings.certificate, settings.key)
        )
        # The file contains the certificate, followed by its chain.
        more = f":privateKey={key}:certKey={certificate}:extraCertChain={certificate}"
    return f"{kind}:{settings.port}:interface={quoteStringArgument(settings.interface)}{more}"


def check_certificate(settings: WorkerSettings) -> str:
    """Describes the master's certificate; returns "" without TLS.

    Raises FileError if certificate and key are unreadable, do not match, or have expired.
    """
    if settings.certificate is None or settings.key is None:
        return ""
    check_private_file(settings.key, "workers.key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(settings.certificate, settings.key)
        ends = _ends(settings.certificate.read_bytes())
    except (OSError, ValueError) as error:
        raise FileError(
            f"workers.certificate: {settings.certificate} and {settings.key}: "
            f"expected a certificate and its key in PEM ({error})"
        ) from error
    day = f"{datetime.fromtimestamp(ends, UTC):%Y-%m-%d}"
    if ends < time.time():
        raise FileError(f"workers.certificate: {settings.certificate} expired on {day}")
    return f"{settings.certificate}, until {day}"


def _ends(pem: bytes) -> float:
    """Expiry date, seconds since the epoch."""
    from cryptography import x509  # noqa: PLC0415 - part of Twisted[tls]

    return x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()

"""TLS between workers and master."""

from __future__ import annotations

import ipaddress
import shutil
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from buildbot.plugins import worker
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from real_master import WORKER, RealMaster, case

from netbisect.steps.service.settings import WorkerSettings
from netbisect.steps.service.tls import check_certificate, worker_endpoint
from netbisect.workers.config.toml import FileError

PASSWORD = "let-me-in"


class Authority:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, folder.name)])
        own = self._builder(self._name, self._key, 1).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        signed = own.sign(self._key, hashes.SHA256())
        (folder / "root.pem").write_bytes(signed.public_bytes(Encoding.PEM))

    def _builder(
        self, name: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=9))
            .not_valid_after(now + timedelta(days=days))
        )

    def certify(self, folder: Path, days: int = 1) -> WorkerSettings:
        """Returns settings with a certificate for this host."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
        here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        signed = (
            self._builder(name, key, days)
            .add_extension(here, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        (folder / "master.pem").write_bytes(signed.public_bytes(Encoding.PEM))
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (folder / "master.key").write_bytes(private)
        (folder / "master.key").chmod(0o600)
        return WorkerSettings(certificate=folder / "master.pem", key=folder / "master.key")


class TlsTest(RealMaster):
    def setUp(self) -> Any:
        done = super().setUp()
        command = ["create-worker", "--quiet", "--connection-string=tls:placeholder"]
        command += [str(self.folder / "worker"), "127.0.0.1", "remote", PASSWORD]
        subprocess.run([*WORKER, *command], check=True)
        return done

    @case
    async def test_a_worker_connects_to_a_trusted_master_only(self) -> None:
        known, other = (Authority(self.folder / name) for name in ("known", "other"))
        endpoint = worker_endpoint(replace(known.certify(self.folder), port=1)).replace(
            "ssl:1:", "ssl:0:"
        )
        remote = worker.Worker("remote", PASSWORD, missing_timeout=0)
        await self.start(more_workers=[remote], protocols={"pb": {"port": endpoint}})
        port = self.master.workers.registrations["remote"].getPBPort()

        def start_worker(name: str, connection: str) -> Path:
            """Starts a copy of the worker; returns its log."""
            folder = self.folder / f"worker-{name}"
            shutil.copytree(self.folder / "worker", folder)
            tac = folder / "buildbot.tac"
            text = tac.read_text().replace(str(self.folder / "worker"), str(folder))
            tac.write_text(text.replace("tls:placeholder", connection))
            return self.run_worker(folder)

        def logged(log: Path, words: str) -> bool:
            return log.is_file() and words in log.read_text()

        untrusting = start_worker("other", f"tls:127.0.0.1:{port}:trustRoots={other.folder}")
        plain = start_worker("plain", f"tcp:127.0.0.1:{port}")
        good = start_worker("known", f"tls:127.0.0.1:{port}:trustRoots={known.folder}")
        await self.until(lambda: remote.conn is not None)
        await self.until(lambda: logged(good, "Connected to"))
        await self.until(lambda: logged(untrusting, "Scheduling retry"))
        await self.until(lambda: logged(plain, "Starting factory"))
        for log in (untrusting, plain):
            assert "Connected to" not in log.read_text()
            assert PASSWORD not in log.read_text()


def test_certificates_are_checked_before_the_start(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    settings = authority.certify(tmp_path)
    assert f"{tmp_path / 'master.pem'}, until " in check_certificate(settings)
    assert check_certificate(WorkerSettings()) == ""

    (tmp_path / "master.key").chmod(0o644)
    with pytest.raises(FileError, match=r"workers\.key: .* has mode 0644"):
        check_certificate(settings)
    (tmp_path / "older").mkdir()
    with pytest.raises(FileError, match="expired on"):
        check_certificate(authority.certify(tmp_path / "older", days=-1))
    (tmp_path / "master.key").chmod(0o600)
    with pytest.raises(FileError, match="expected a certificate and its key in PEM"):
        check_certificate(replace(settings, key=tmp_path / "older" / "master.key"))
    (tmp_path / "master.pem").write_text("none")
    with pytest.raises(FileError, match="expected a certificate and its key in PEM"):
        check_certificate(settings)

"""A PostgreSQL of the tests' own: one private cluster for all tests of a process.

Registered as a plugin by conftest.py. It listens on a socket in a folder of its own, forgets
everything, and ends with the process that started it, however that ends.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.pool import Pool

from netbisect.store.database import open_database
from netbisect.store.schema import migrate
from netbisect.store.tables import Base

_USER = "netbisect"
_LEDGER = "ledger"
_SETTINGS = {
    # Nothing of it is to survive, so nothing waits for a disk.
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "listen_addresses": "",
    "shared_buffers": "32MB",
    "max_connections": "40",
}
_RUN = """
folder=$1; shift
"$@" & server=$!
read -r _        # a line at the end, or the end of whoever holds the other side
kill -INT $server; wait $server; rm -rf "$folder"
"""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A server that runs."""

    programs: Path
    """Folder of PostgreSQL's own programs."""
    folder: Path

    def url(self, database: str) -> str:
        """SQLAlchemy address of one of its databases."""
        return f"postgresql+psycopg://{_USER}@/{database}?host={self.folder}"

    def do(self, statement: str) -> None:
        """Outside of all transactions, in the database of the cluster itself."""
        with _connect(self.folder) as connection:
            connection.execute(statement)


def _connect(folder: Path, database: str = "postgres") -> Any:
    import psycopg  # noqa: PLC0415 - it need not be there

    return psycopg.connect(f"host={folder} user={_USER} dbname={database}", autocommit=True)


def _programs() -> Path | None:
    """Where initdb is: on PATH, or where Debian puts it; the newest version."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    folders = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = sorted(folders, key=lambda path: float(path.parts[-3]))
    return newest[-1].parent if newest else None


def _owner() -> str | None:
    """As whom it runs: PostgreSQL refuses root; None where there is nobody else."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid()).pw_name
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    return None


def _start(programs: Path, folder: Path, owner: str) -> subprocess.Popen[bytes]:
    """Makes a cluster and starts its server.

    Its order of text is that of people, as on most servers, and not that of bytes.
    """
    account = pwd.getpwnam(owner)
    shutil.chown(folder, account.pw_uid, account.pw_gid)
    who = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    as_owner = who if os.geteuid() == 0 else {}
    data = folder / "data"
    make = [programs / "initdb", "--no-sync", "--auth=trust", "--username", _USER, "-D", data]
    order = ["--encoding=UTF8", "--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en"]
    subprocess.run([*make, *order], cwd=folder, check=True, capture_output=True, **as_owner)
    options = [f"--{key}={value}" for key, value in _SETTINGS.items()]
    serve = [programs / "postgres", "-D", data, "-k", folder, *options]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            ["sh", "-c", _RUN, "sh", folder, *serve],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            **as_owner,
        )


def _wait(folder: Path, server: subprocess.Popen[bytes]) -> None:
    import psycopg  # noqa: PLC0415 - it need not be there

    until = time.monotonic() + 60
    while True:
        try:
            _connect(folder).close()
        except psycopg.OperationalError:
            if time.monotonic() > until or server.poll() is not None:
                pytest.fail(f"PostgreSQL does not start: {(folder / 'log').read_text()}")
            time.sleep(0.02)
        else:
            return


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The server; tests that want it are skipped where PostgreSQL is not installed."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    programs, owner = _programs(), _owner()
    if programs is None:
        pytest.skip("PostgreSQL's server (initdb) is not installed")
    if owner is None:
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    # Not below pytest's own folder, into which only its owner may look.
    folder = Path(tempfile.mkdtemp(prefix="netbisect-pg-"))
    server = _start(programs, folder, owner)
    try:
        _wait(folder, server)
        found = Cluster(programs, folder)
        found.do(f"CREATE DATABASE {_LEDGER} TEMPLATE template0")
        engine = open_database(found.url(_LEDGER))
        migrate(engine)
        engine.dispose()
        yield found
    finally:
        server.communicate(b"\n", timeout=60)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def connections() -> Iterator[None]:
    """What the test has left open is closed."""
    opened: list[Any] = []

    def note(connection: Any, _: Any) -> None:
        opened.append(connection)

    event.listen(Pool, "connect", note)
    yield
    event.remove(Pool, "connect", note)
    for connection in opened:
        connection.close()


@pytest.fixture
def empty_postgresql(cluster: Cluster, connections: None) -> Iterator[str]:
    """Address of a database without tables."""
    cluster.do("CREATE DATABASE empty TEMPLATE template0")
    yield cluster.url("empty")
    cluster.do("DROP DATABASE empty WITH (FORCE)")


@pytest.fixture
def postgresql_url(cluster: Cluster, connections: None) -> Iterator[str]:
    """Address of a database with its tables and nothing in them.

    It is one for all tests, emptied after each: to make one takes ten times as long.
    """
    yield cluster.url(_LEDGER)
    tables = [table.name for table in reversed(Base.metadata.sorted_tables)]
    with _connect(cluster.folder, _LEDGER) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid != pg_backend_pid()"
        )
        connection.execute("SET session_replication_role = replica")  # no look at foreign keys
        connection.execute(";".join(f"DELETE FROM {name}" for name in tables))  # noqa: S608 - our own tables
        connection.execute(
            "SELECT setval(oid::regclass, 1, false) FROM pg_class WHERE relkind = 'S'"
        )

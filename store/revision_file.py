"""Keeps the index of revisions in step with the clone.

The file holds nothing that the clone does not: it follows the clone whenever it is opened, within
one transaction, and is made anew where it cannot be read. Whoever opens it while another process
brings it up to date waits until that has ended.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from netbisect.store.history import History, HistoryError
from netbisect.store.revision_index import BLOCK, Index, Spot, on_way

_VERSION = 1
"""Of the tables; a file with another one is made anew."""
_PATIENCE = 120.0
"""Seconds until another process must have made the index."""
_CACHE = 65_536
"""KiB, for hashes come in no order."""
_HEADS, _TAGS, _NOTES = "refs/heads/", "refs/tags/", "refs/notes/commits"
_TABLE, _NOTE, MESSAGE = 0, 1, 2
"""Who says so, the most trustworthy first: a message may be a copy of another commit's."""
_TABLES = """
CREATE TABLE known (what TEXT PRIMARY KEY, state TEXT NOT NULL);
CREATE TABLE chains (id INTEGER PRIMARY KEY, parent INTEGER, base INTEGER NOT NULL);
CREATE TABLE commits (
  chain INTEGER, number INTEGER, hash BLOB NOT NULL, at INTEGER NOT NULL,
  PRIMARY KEY (chain, number)) WITHOUT ROWID;
CREATE UNIQUE INDEX commits_by_hash ON commits (hash);
CREATE TABLE blocks (
  chain INTEGER, block INTEGER, earliest INTEGER NOT NULL,
  PRIMARY KEY (chain, block)) WITHOUT ROWID;
CREATE TABLE branches (
  name TEXT PRIMARY KEY, head TEXT NOT NULL, chain INTEGER NOT NULL, number INTEGER NOT NULL);
CREATE TABLE subversion (
  number INTEGER, path TEXT, hash BLOB, source INTEGER,
  PRIMARY KEY (number, path, source, hash)) WITHOUT ROWID;
CREATE INDEX subversion_by_hash ON subversion (hash);
CREATE INDEX subversion_by_path ON subversion (path, number);
"""
_SAID = (
    re.compile(r"^[ \t]*svn-revision:[ \t]*(?P<path>\S+)@(?P<number>\d{1,9})\b", re.MULTILINE),
    re.compile(
        r"^[ \t]*svn path=(?P<path>\S*?);[ \t]*revision=(?P<number>\d{1,9})\b", re.MULTILINE
    ),
    re.compile(
        r"^[ \t]*git-svn-id:[ \t]*[^\s/]+//[^\s/]*/(?:\S*\bbase/)?(?P<path>\S+?)"
        r"@(?P<number>\d{1,9})\b",
        re.MULTILINE,
    ),
    re.compile(r"^[ \t]*(?P<path>)Revision:[ \t]*r?(?P<number>\d{1,9})[ \t]*$", re.MULTILINE),
)
_MARKS = ("svn", "Revision:")
_TABLE_STATE = "table of numbers"
_FULL = re.compile(r"[0-9a-f]{40}")
_ROW = re.compile(r"r?(\d{1,9})\t([^\t\s]+)\t([0-9a-f]{40})")


def place(history: History) -> Path:
    """Where the index of a clone is."""
    return history.directory.with_name(f"{history.directory.name}.revisions")


@contextmanager
def open_index(history: History) -> Iterator[Index]:
    """The index, in step with the clone; what it says is of one moment.

    Raises:
        HistoryError: the clone or the table of numbers cannot be read, or the index not written.
    """
    if not history.is_clone():
        raise HistoryError(history.not_yet())
    path = place(history)
    try:
        database = _opened_or_made(history, path)
    except (sqlite3.Error, OSError) as error:
        raise HistoryError(f"the index {path} cannot be used: {error}") from error
    with closing(database):
        try:
            database.execute("BEGIN")
            yield Index(database)
        except sqlite3.DatabaseError as error:
            _remove(path)
            raise HistoryError(
                f"the index {path} was damaged ({error}) and is removed; the next time it is made "
                "anew"
            ) from error


def _remove(path: Path) -> None:
    for end in ("", "-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)


def _opened_or_made(history: History, path: Path) -> sqlite3.Connection:
    try:
        return _opened(history, path)
    except sqlite3.OperationalError:  # no room, no right to write
        raise
    except sqlite3.DatabaseError:  # damaged, or of another version
        _remove(path)
        return _opened(history, path)


def _opened(history: History, path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        if _version(database) != _VERSION or _seen(database) != _state(history):
            database.execute(f"PRAGMA cache_size = -{_CACHE}")
            database.execute("BEGIN IMMEDIATE")
            _follow(history, database)
            database.execute("COMMIT")
    except BaseException:
        database.close()  # what was not committed is as if it had never been
        raise
    return database


def _version(database: sqlite3.Connection) -> int:
    version: int = database.execute("PRAGMA user_version").fetchone()[0]
    if version not in (0, _VERSION):
        raise sqlite3.DatabaseError(f"it is of version {version}")
    return version


def _state(history: History) -> dict[str, str]:
    """All that the index depends on: branches, tags, notes, and the table of numbers."""
    state = history.references(_HEADS, _TAGS, _NOTES)
    if history.table is not None:
        try:
            status = history.table.stat()
        except OSError as error:
            raise HistoryError(f"{history.table} cannot be read: {error.strerror}") from error
        state[_TABLE_STATE] = f"{history.table} {status.st_size} {status.st_mtime_ns}"
    return state


def _seen(database: sqlite3.Connection) -> dict[str, str]:
    return dict(database.execute("SELECT what, state FROM known").fetchall())


def _follow(history: History, database: sqlite3.Connection) -> None:
    """Brings all tables up to date, within the transaction that is open."""
    if _version(database) == 0:
        for statement in _TABLES.split(";"):
            database.execute(statement)
        database.execute(f"PRAGMA user_version = {_VERSION}")
    seen, state = _seen(database), _state(history)
    _follow_branches(history, database, state)
    _follow_notes(history, database, seen.get(_NOTES), state.get(_NOTES))
    if seen.get(_TABLE_STATE) != state.get(_TABLE_STATE):
        database.execute("DELETE FROM subversion WHERE source = ?", (_TABLE,))
        if history.table is not None:
            _add(database, _TABLE, _rows(history.table))
    database.execute("DELETE FROM known")
    database.executemany("INSERT INTO known VALUES (?, ?)", state.items())


# -------------------------------------------------------------------------------- the branches


def _follow_branches(history: History, database: sqlite3.Connection, state: dict[str, str]) -> None:
    heads = {
        name.removeprefix(_HEADS): head for name, head in state.items() if name.startswith(_HEADS)
    }
    before = dict(database.execute("SELECT name, head FROM branches").fetchall())
    changed = [name for name in heads if before.get(name) != heads[name]]
    # The others grow out of these; the order is of no other consequence.
    changed.sort(key=lambda name: (name not in ("main", "master"), name))
    for name in changed:
        spot = Index(database).spot(heads[name]) or _grown(history, database, heads[name])
        database.execute(
            "REPLACE INTO branches VALUES (?, ?, ?, ?)",
            (name, heads[name], spot.chain, spot.number),
        )
    gone = before.keys() - heads.keys()
    database.executemany("DELETE FROM branches WHERE name = ?", [(name,) for name in gone])
    index = Index(database)
    rewritten = ((index.spot(before[name]), index.line(name)) for name in changed if name in before)
    if gone or any(old is None or not on_way(old, line) for old, line in rewritten):
        _prune(database)


def _grown(history: History, database: sqlite3.Connection, head: str) -> Spot:
    """Adds the commits that lead to a head, and says where that is."""
    index = Index(database)
    fresh: list[tuple[bytes, int]] = []
    said: list[tuple[int, str, bytes]] = []
    fork: Spot | None = None
    for step in history.walk(head):
        fork = index.spot(step.revision)
        if fork is not None:
            break
        revision = bytes.fromhex(step.revision)
        fresh.append((revision, step.at))
        said += [(number, path, revision) for number, path in _said(step.message)]
    base = fork.number if fork else 0
    if fork is not None and base == _tip(database, fork.chain):
        chain = fork.chain
    else:
        parent = fork.chain if fork else None
        added = database.execute("INSERT INTO chains (parent, base) VALUES (?, ?)", (parent, base))
        assert added.lastrowid is not None
        chain = added.lastrowid
    rows = enumerate(reversed(fresh), base + 1)
    database.executemany(
        "INSERT INTO commits (chain, number, hash, at) VALUES (?, ?, ?, ?)",
        ((chain, number, revision, at) for number, (revision, at) in rows),
    )
    database.execute(
        "REPLACE INTO blocks SELECT chain, number / ?1, MIN(at) FROM commits "
        "WHERE chain = ?2 AND number >= ?3 GROUP BY number / ?1",
        (BLOCK, chain, base // BLOCK * BLOCK),
    )
    _add(database, MESSAGE, said)
    return Spot(head, chain, base + len(fresh), fresh[0][1])


def _tip(database: sqlite3.Connection, chain: int) -> int:
    query = "SELECT MAX(number) FROM commits WHERE chain = ?"
    tip: int = database.execute(query, (chain,)).fetchone()[0]
    return tip


def _prune(database: sqlite3.Connection) -> None:
    """Forgets commits that are on no branch any longer."""
    index = Index(database)
    kept: dict[int, int] = {}
    for name in index.branches:
        for stretch in index.line(name):
            kept[stretch.chain] = max(stretch.to, kept.get(stretch.chain, 0))
    for (chain,) in database.execute("SELECT id FROM chains").fetchall():
        beyond = (chain, kept.get(chain, 0))
        database.execute(
            "DELETE FROM subversion WHERE source = ? AND hash IN "
            "(SELECT hash FROM commits WHERE chain = ? AND number > ?)",
            (MESSAGE, *beyond),
        )
        database.execute("DELETE FROM commits WHERE chain = ? AND number > ?", beyond)
        if chain not in kept:
            database.execute("DELETE FROM blocks WHERE chain = ?", (chain,))
            database.execute("DELETE FROM chains WHERE id = ?", (chain,))


# ------------------------------------------------------------------------ Subversion's numbers


def subversion_path(branch: str) -> str:
    """What a branch was called in Subversion."""
    path = branch.strip("/").removeprefix("base/")
    return "head" if path in {"main", "master"} else path


def _said(text: str) -> Iterator[tuple[int, str]]:
    """Numbers and paths that a message or a note tells."""
    if not any(mark in text for mark in _MARKS):
        return
    for pattern in _SAID:
        for match in pattern.finditer(text):
            yield int(match["number"]), subversion_path(match["path"])


def _add(database: sqlite3.Connection, source: int, rows: Iterable[tuple[int, str, bytes]]) -> None:
    database.executemany(
        "INSERT OR IGNORE INTO subversion (number, path, hash, source) VALUES (?, ?, ?, ?)",
        ((*row, source) for row in rows),
    )


def _follow_notes(
    history: History, database: sqlite3.Connection, old: str | None, new: str | None
) -> None:
    if old == new:
        return
    changed: list[tuple[str, str | None]] = []
    try:
        changed += history.notes(old, new) if old and new else ()
    except HistoryError:  # the old ones are gone from the clone
        old = None
    if old is None or new is None:
        database.execute("DELETE FROM subversion WHERE source = ?", (_NOTE,))
        changed = list(history.notes(None, new)) if new else []
    notes = [(bytes.fromhex(one), text) for one, text in changed if _FULL.fullmatch(one)]
    database.executemany(
        "DELETE FROM subversion WHERE hash = ? AND source = ?",
        ((revision, _NOTE) for revision, _ in notes),
    )
    _add(
        database,
        _NOTE,
        ((*said, revision) for revision, text in notes if text for said in _said(text)),
    )


def _rows(table: Path) -> Iterator[tuple[int, str, bytes]]:
    """The rows of a table of numbers."""
    try:
        lines = table.read_text(encoding="ascii").splitlines()
    except UnicodeDecodeError as error:
        raise HistoryError(f"{table} holds more than ASCII, at byte {error.start}") from error
    except OSError as error:
        raise HistoryError(f"{table} cannot be read: {error.strerror}") from error
    for at, line in enumerate(lines, 1):
        row = _ROW.fullmatch(line)
        if row is not None:
            yield int(row[1]), subversion_path(row[2]), bytes.fromhex(row[3])
        elif line.strip() and not line.startswith("#"):
            raise HistoryError(
                f"{table}, line {at}: a number, a branch and a full hash with a tab between each, "
                "such as 311849, head and 40 digits, would be right"
            )

"""The schema of netbisect.toml; docs/settings.md explains every key."""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from netbisect.steps.service.mail_address import check_mail_address
from netbisect.steps.service.web_settings import LoginSettings, PeopleRule
from netbisect.workers.config import toml
from netbisect.workers.config.lab import Lab, load_lab
from netbisect.workers.config.validation import check, check_size, parse_size

SETTINGS = "netbisect.toml"
"""File name in the folder of a service."""
_PORT_MAX = 65535
_MOST_LOG_DAYS = 36500
"""A century; Buildbot subtracts them from the date, which cannot be before the year 1."""
MOST_BOOTS = 100
"""Most boots per revision of a request."""
_THIS_HOST = ("127.0.0.1", "::1", "localhost")
_LIST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*\Z")


def _is_address(url: str) -> bool:
    """Whether this is an HTTP URL that ends with a slash."""
    parts = urlsplit(url)
    return bool(parts.scheme in ("http", "https") and parts.netloc and url.endswith("/"))


def _check_port(name: str, port: int) -> None:
    check(0 < port <= _PORT_MAX, f"{name} {port}: expected a TCP port, 1 to {_PORT_MAX}")


def _check_least(table: object, **least: float) -> None:
    """Checks lower bounds of keys."""
    for name, low in least.items():
        value = getattr(table, name)
        check(value >= low, f"{name} {value:g}: expected {low:g} or more")


def _check_positive(table: object, *names: str) -> None:
    for name in names:
        value = getattr(table, name)
        check(value > 0, f"{name} {value:g}: expected more than 0")


def _check_hour(name: str, hour: int) -> None:
    check(0 <= hour < 24, f"{name} {hour}: expected 0 to 23")  # noqa: PLR2004 - a day's


def _check_addresses(addresses: Sequence[str]) -> None:
    check(addresses, "to: expected at least one address")
    for address in addresses:
        check_mail_address(address)


@dataclass(frozen=True, slots=True)
class NightSettings:
    """Start of the nightly runs, and boots per testbed."""

    hour: int = 1
    minute: int = 0
    boots: int = 5
    against_itself: int = 14
    """Nights between measurements of an unchanged kernel; 0: never."""

    def __post_init__(self) -> None:
        _check_hour("hour", self.hour)
        check(0 <= self.minute < 60, f"minute {self.minute}: expected 0 to 59")  # noqa: PLR2004
        _check_least(self, boots=1, against_itself=0)


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """Searches for culprits."""

    use_groups: bool = True
    hours: float = 48.0

    def __post_init__(self) -> None:
        _check_positive(self, "hours")


@dataclass(frozen=True, slots=True)
class WebSettings:
    """The web pages."""

    url: str = "http://127.0.0.1:8010/"
    port: int = 8010
    interface: str = "127.0.0.1"
    reading: Literal["open", "login"] = "open"
    calls_per_minute: int = 120
    trusted_proxies: tuple[str, ...] = ()
    hook_file: Path | None = None
    login: LoginSettings = field(default_factory=LoginSettings)
    people: tuple[PeopleRule, ...] = ()

    def __post_init__(self) -> None:
        _check_port("port", self.port)
        _check_least(self, calls_per_minute=1)
        for proxy in self.trusted_proxies:
            ipaddress.ip_address(proxy)  # raises ValueError with a message
        check(
            _is_address(self.url),
            f"url {self.url!r}: expected http:// or https:// and a slash at the end",
        )


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Connection of the workers, and their command."""

    port: int = 9989
    interface: str = "127.0.0.1"
    password_file: Path = Path("workers.password")
    command: tuple[str, ...] = ("netbisect-lab",)
    patience_minutes: float = 30.0
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        _check_port("port", self.port)
        check(
            (self.certificate is None) == (self.key is None),
            "certificate and key: expected both, or neither",
        )
        check(self.command, "command: expected at least the name of the program")
        _check_least(self, patience_minutes=0)


@dataclass(frozen=True, slots=True)
class MastersSettings:
    """Shared resources of several masters; empty for one master."""

    database: str = ""
    router: str = ""
    realm: str = "buildbot"

    def __post_init__(self) -> None:
        check(
            bool(self.database) == bool(self.router),
            "database and router: expected both, or neither",
        )
        check(
            not self.database or self.database.startswith("postgresql"),
            f"database {self.database!r}: expected the address of a server, postgresql+psycopg://…",
        )
        check(
            not self.router or self.router.startswith(("ws://", "wss://")),
            f"router {self.router!r}: expected ws:// or wss://",
        )

    def for_buildbot(self) -> dict[str, object]:
        if not self.router:
            return {}
        router = {"type": "wamp", "router_url": self.router, "realm": self.realm}
        return {"multiMaster": True, "db": {"db_url": self.database}, "mq": router}


@dataclass(frozen=True, slots=True)
class MailRule:
    """Additional or alternative recipients for some alerts."""

    to: tuple[str, ...]
    branch: str = "*"
    """Shell patterns; `*` matches slashes, too."""
    testbed: str = "*"
    path: str = ""
    instead: bool = False

    def __post_init__(self) -> None:
        _check_addresses(self.to)


@dataclass(frozen=True, slots=True)
class MailSettings:
    """Recipients and mail server."""

    to: tuple[str, ...]
    sender: str
    reply_to: str = ""
    answers: str = ""
    """Address for commands in replies to alerts; a token is added to it: `reply+7.TOKEN@…`."""
    answers_maildir: Path | None = None
    answers_key_file: Path = Path("answers.key")
    list_id: str = ""
    html: bool = False
    committers: bool = False
    digest: bool = True
    digest_hour: int = 8
    """Local hour of the daily digest."""
    rules: tuple[MailRule, ...] = ()
    server: str = "127.0.0.1"
    port: int = 25
    starttls: bool = False
    user: str = ""
    password_file: Path | None = None

    def __post_init__(self) -> None:
        _check_port("port", self.port)
        _check_addresses(self.to)
        _check_addresses([self.sender, *filter(None, [self.reply_to, self.answers])])
        check(
            self.answers or self.answers_maildir is None,
            "answers_maildir: expected with answers, the address of these mails",
        )
        check(
            not self.user or self.starttls or self.server in _THIS_HOST,
            "user: expected with starttls = true, or with a server on this host; otherwise the "
            "password is sent unencrypted",
        )
        check(
            bool(self.user) == (self.password_file is not None),
            "user and password_file: expected both, or neither",
        )
        check(
            not self.list_id or _LIST.match(self.list_id),
            f"list_id {self.list_id!r}: expected a name such as netbisect.example.org",
        )
        _check_hour("digest_hour", self.digest_hour)


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Links to commits, where `{revision}` is the hash."""

    commit: str = "https://cgit.freebsd.org/src/commit/?id={revision}"

    def __post_init__(self) -> None:
        check("{revision}" in self.commit, f"commit {self.commit!r}: expected {{revision}} in it")


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """Limits and defaults of requests."""

    open_per_person: int = 5
    boots_per_day: int = 200
    boots: int = 5
    share_days: float = 3.0
    hours: float = 48.0

    def __post_init__(self) -> None:
        _check_least(self, open_per_person=1, boots_per_day=1, share_days=0)
        _check_positive(self, "hours")
        check(1 <= self.boots <= MOST_BOOTS, f"boots {self.boots}: expected 1 to {MOST_BOOTS}")


@dataclass(frozen=True, slots=True, repr=False)
class Settings:
    """A settings file."""

    branches: tuple[str, ...]
    mail: MailSettings
    lab: Path = Path("lab.toml")
    database: str = ""
    """SQLAlchemy URL; defaults to netbisect.sqlite in the state folder."""
    state: Path = Path()
    poll: int = 300
    """Seconds between polls of the tree."""
    tick: float = 15.0
    """Seconds between polls of the job queue, in case an event was lost."""
    stall_minutes: float = 10.0
    """Watchdog timeout, in addition to the limits of each operation."""
    min_effect_percent: float = 2.0
    kernel_space: str = "50 GB"
    patience_days: float = 14.0
    trial_log_space: str = "5 GB"
    log_days: int = 180
    night: NightSettings = field(default_factory=NightSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    web: WebSettings = field(default_factory=WebSettings)
    workers: WorkerSettings = field(default_factory=WorkerSettings)
    links: LinkSettings = field(default_factory=LinkSettings)
    requests: RequestSettings = field(default_factory=RequestSettings)
    masters: MastersSettings = field(default_factory=MastersSettings)

    def __post_init__(self) -> None:
        check(self.branches, "branches: expected at least one")
        names = [one.replace("/", "-") for one in self.branches]  # as in names of schedulers
        check(len({*names}) == len(names), "branches: expected names that differ if each / is a -")
        check_size("kernel_space", self.kernel_space)
        check_size("trial_log_space", self.trial_log_space)
        check(
            not self.masters.router or self.database.startswith("postgresql"),
            "masters: expected with a database that several hosts can use, postgresql+psycopg://…",
        )
        check(
            (self.web.interface, self.web.port) != (self.workers.interface, self.workers.port),
            f"web.port and workers.port {self.web.port}: expected different ports",
        )
        _check_positive(self, "poll", "tick", "stall_minutes")
        _check_least(self, patience_days=0)
        check(
            1 <= self.log_days <= _MOST_LOG_DAYS,
            f"log_days {self.log_days}: expected 1 to {_MOST_LOG_DAYS}",
        )
        check(
            0 < self.min_effect_percent < 50,  # noqa: PLR2004 - half the packets are no detail
            f"min_effect_percent {self.min_effect_percent}: expected more than 0, less than 50",
        )

    def __repr__(self) -> str:
        """Branches and folder only: Buildbot logs the arguments of each step."""
        return f"<Settings of {', '.join(self.branches)} in {self.state}>"

    @property
    def min_effect(self) -> float:
        """Smallest drop worth an alert, as |ln ratio|."""
        return -math.log1p(-self.min_effect_percent / 100)

    @property
    def stall_seconds(self) -> float:
        return self.stall_minutes * 60

    @property
    def kernel_bytes(self) -> int:
        return parse_size(self.kernel_space)

    def page_address(self, page: str) -> str:
        """URL of a page, such as index.html."""
        return f"{self.web.url}plugins/netbisect/{page}"

    def report_address(self, alert: int) -> str:
        return self.page_address(f"alert-{alert}.html")

    def profile_address(self, job: int) -> str:
        return self.page_address(f"profile-{job}.html")

    def request_address(self, request: int) -> str:
        return self.page_address(f"request-{request}.html")

    def request_file_address(self, request: int, path: str) -> str:
        """URL of a file in the folder of a request."""
        return self.page_address(f"reports/request-{request}/{path}")

    @property
    def kernels(self) -> Path:
        return self.state / "kernels"

    @property
    def patches(self) -> Path:
        """Patches of requests, as sent to build hosts."""
        return self.state / "patches"

    @property
    def trial_logs(self) -> Path:
        """Trial logs, one folder per action."""
        return self.state / "visits"

    @property
    def trial_log_bytes(self) -> int:
        return parse_size(self.trial_log_space)

    @property
    def reports(self) -> Path:
        return self.state / "reports"

    @property
    def mirror(self) -> Path:
        """Bare clone of the tree."""
        return self.state / "tree.git"


def load_settings(path: Path) -> Settings:
    """Loads a settings file; relative paths are relative to it.

    Raises FileError with one line per error: file, key and expectation.
    """
    try:
        loaded = toml.load(path, Settings)
    except toml.FileError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise toml.FileError(
                f"there is no {path.absolute()}; expected the folder of a service (FOLDER or "
                "--folder), as `netbisect init` creates it"
            ) from error
        raise
    settings = toml.resolve_paths(loaded, path.resolve().parent)
    database = settings.database or f"sqlite:///{settings.state / 'netbisect.sqlite'}"
    return replace(settings, database=database)


def load(path: Path) -> tuple[Settings, Lab]:
    """Loads the settings and the lab file. Raises FileError."""
    settings = load_settings(path)
    lab = load_lab(settings.lab)
    _check_owners(settings.lab, lab)
    return settings, lab


def _check_owners(path: Path, lab: Lab) -> None:
    """Checks the mail addresses of owners, for which lab hosts lack the library."""
    for number, testbed in enumerate(lab.testbeds):
        try:
            if testbed.owner:
                check_mail_address(testbed.owner)
        except ValueError as error:
            raise toml.FileError(f"{path}: testbeds[{number}].owner: {error}") from error

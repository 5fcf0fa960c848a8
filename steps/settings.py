"""netbisect.toml: what the service watches, when, and whom it tells.

docs/lab.md explains every key. The classes here *are* the schema.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from netbisect.steps.web_settings import LoginSettings, PeopleRule
from netbisect.workers import tomlfile
from netbisect.workers.lab import Lab, load_lab
from netbisect.workers.space import bytes_of

SETTINGS = "netbisect.toml"
"""In the folder of a service."""
OPEN, LOGIN = "open", "login"
"""Who may read."""
_PORT_MAX = 65535
MOST_BOOTS = 100
"""Of each revision, that a request may ask for."""
_THIS_HOST = ("127.0.0.1", "::1", "localhost")
_ADDRESS = re.compile(r"[^@\s,;<>]+@[^@\s,;<>]+\Z")
_LIST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*\Z")


def _check(condition: object, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _is_address(url: str) -> bool:
    """Of a folder of pages."""
    parts = urlsplit(url)
    return bool(parts.scheme in ("http", "https") and parts.netloc and url.endswith("/"))


def _check_port(name: str, port: int) -> None:
    _check(0 < port <= _PORT_MAX, f"{name} {port}: expected a TCP port, 1 to {_PORT_MAX}")


def _check_addresses(addresses: Sequence[str]) -> None:
    _check(addresses, "to: expected at least one address")
    for address in addresses:
        _check(_ADDRESS.match(address), f"{address!r}: expected a mail address")


@dataclass(frozen=True, slots=True)
class NightSettings:
    """When a night starts, and how often each testbed boots in it."""

    hour: int = 1
    minute: int = 0
    boots: int = 5
    against_itself: int = 14
    """Every so many nights a testbed measures a kernel that it has measured; 0: never."""

    def __post_init__(self) -> None:
        _check(0 <= self.hour < 24, f"hour {self.hour}: expected 0 to 23")  # noqa: PLR2004 - a day's
        _check(0 <= self.minute < 60, f"minute {self.minute}: expected 0 to 59")  # noqa: PLR2004
        _check(self.boots >= 1, f"boots {self.boots}: expected 1 or more")
        _check(
            self.against_itself >= 0,
            f"against_itself {self.against_itself}: expected nights, or 0 for never",
        )


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How the commits behind alerts are looked for."""

    use_groups: bool = True
    """Whether idle testbeds of the same group measure for a search, too."""


@dataclass(frozen=True, slots=True)
class WebSettings:
    """The web pages."""

    url: str = "http://127.0.0.1:8010/"
    """Under which people reach them; ends with a slash."""
    port: int = 8010
    interface: str = "127.0.0.1"
    """Address to listen on; a proxy with TLS and passwords belongs in front of any other."""
    reading: str = OPEN
    """open, or login for those who have logged in, or have a token."""
    calls_per_minute: int = 120
    """Of the API, for each person, and for each address where nobody has said who it is."""
    hook_file: Path | None = None
    """A line `name:password` for whoever may say that there is something new in the tree."""
    login: LoginSettings = field(default_factory=LoginSettings)
    people: tuple[PeopleRule, ...] = ()

    def __post_init__(self) -> None:
        _check_port("port", self.port)
        _check(
            self.reading in (OPEN, LOGIN), f"reading {self.reading!r}: expected {OPEN} or {LOGIN}"
        )
        _check(
            self.calls_per_minute >= 1,
            f"calls_per_minute {self.calls_per_minute}: expected 1 or more",
        )
        _check(
            _is_address(self.url),
            f"url {self.url!r}: expected http:// or https:// and a slash at the end",
        )


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How workers reach the master, and what they run."""

    port: int = 9989
    interface: str = "127.0.0.1"
    password_file: Path = Path("workers.password")
    """One line, which all workers know; or a folder with a file for each, called as the worker."""
    command: tuple[str, ...] = ("netbisect-lab",)
    """The lab's command line, as workers find it."""
    patience_minutes: float = 30.0
    """Minutes that a worker may be away while work waits for it; then somebody is told."""
    certificate: Path | None = None
    """In PEM, followed by those that it is signed by; with it workers come by TLS alone."""
    key: Path | None = None
    """Of the certificate, in PEM."""

    def __post_init__(self) -> None:
        _check_port("port", self.port)
        _check(
            (self.certificate is None) == (self.key is None),
            "certificate and key: expected both, or neither",
        )
        _check(self.command, "command: expected at least the name of the program")
        _check(
            self.patience_minutes >= 0,
            f"patience_minutes {self.patience_minutes:g}: expected 0 or more",
        )

    def within(self, folder: Path) -> WorkerSettings:
        """The same, with paths that are relative to a folder."""
        return replace(
            self,
            password_file=folder / self.password_file,
            certificate=self.certificate and folder / self.certificate,
            key=self.key and folder / self.key,
        )


@dataclass(frozen=True, slots=True)
class MastersSettings:
    """What several masters of one service share; there is one where nothing is said."""

    database: str = ""
    """SQLAlchemy address of Buildbot's own database."""
    router: str = ""
    """WebSocket address of the WAMP router by which they hear of each other."""
    realm: str = "buildbot"
    """Of that router."""

    def __post_init__(self) -> None:
        _check(
            bool(self.database) == bool(self.router),
            "database and router: expected both, or neither",
        )
        _check(
            not self.database or self.database.startswith("postgresql"),
            f"database {self.database!r}: expected the address of a server, postgresql+psycopg://…",
        )
        _check(
            not self.router or self.router.startswith(("ws://", "wss://")),
            f"router {self.router!r}: expected ws:// or wss://",
        )

    def for_buildbot(self) -> dict[str, object]:
        """What it says in Buildbot's own configuration."""
        if not self.router:
            return {}
        router = {"type": "wamp", "router_url": self.router, "realm": self.realm}
        return {"multiMaster": True, "db": {"db_url": self.database}, "mq": router}


@dataclass(frozen=True, slots=True)
class MailRule:
    """Who besides, or instead, is told of some of the changes."""

    to: tuple[str, ...]
    branch: str = "*"
    """Patterns of a shell, in which `*` stands for slashes too."""
    testbed: str = "*"
    path: str = ""
    """Of a file that the verified culprit touches; empty: of whatever commit, known or not."""
    instead: bool = False
    """Those of `[mail] to` are not told then."""

    def __post_init__(self) -> None:
        _check_addresses(self.to)


@dataclass(frozen=True, slots=True)
class MailSettings:
    """Whom to tell, and through which server."""

    to: tuple[str, ...]
    sender: str
    reply_to: str = ""
    """Where answers go; the sender when empty."""
    list_id: str = ""
    """For filters of readers; `netbisect.` and the domain of the sender when empty."""
    html: bool = False
    """Whether mails bring their text as HTML too."""
    committers: bool = False
    """Whether who committed a verified culprit is told how the search ended."""
    digest: bool = True
    digest_hour: int = 8
    """When a day's digest is sent, by the master's clock."""
    rules: tuple[MailRule, ...] = ()
    server: str = "127.0.0.1"
    port: int = 25
    starttls: bool = False
    user: str = ""
    password_file: Path | None = None

    def __post_init__(self) -> None:
        _check_port("port", self.port)
        _check_addresses(self.to)
        _check_addresses([self.sender, *filter(None, [self.reply_to])])
        _check(
            not self.user or self.starttls or self.server in _THIS_HOST,
            "user: expected with starttls = true, or with a server on this host: the password "
            "would be sent for anybody to read",
        )
        _check(
            not self.list_id or _LIST.match(self.list_id),
            f"list_id {self.list_id!r}: expected a name such as netbisect.example.org",
        )
        _check(
            0 <= self.digest_hour < 24,  # noqa: PLR2004 - a day's
            f"digest_hour {self.digest_hour}: expected 0 to 23",
        )


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Where people look at a commit, in which `{revision}` stands for its hash, and at the site."""

    commit: str = "https://cgit.freebsd.org/src/commit/?id={revision}"
    site: str = ""
    """Where people find what `netbisect site` writes; empty where nobody does."""

    def __post_init__(self) -> None:
        _check("{revision}" in self.commit, f"commit {self.commit!r}: expected {{revision}} in it")
        _check(
            not self.site or _is_address(self.site),
            f"site {self.site!r}: expected http:// or https:// and a slash at the end",
        )


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """What people may ask for."""

    open_per_person: int = 5
    """Requests that one person may have open."""
    boots_per_day: int = 200
    """For one person's requests, in 24 hours; after these they wait."""
    boots: int = 5
    """Of each revision, where nothing else is asked for."""
    share_days: float = 3.0
    """For so long boots of one request count for others of the same revision and testbed."""
    hours: float = 48.0
    """Of the lab, that a search which somebody has asked for may take."""

    def __post_init__(self) -> None:
        _check(
            self.open_per_person >= 1, f"open_per_person {self.open_per_person}: expected 1 or more"
        )
        _check(self.boots_per_day >= 1, f"boots_per_day {self.boots_per_day}: expected 1 or more")
        _check(1 <= self.boots <= MOST_BOOTS, f"boots {self.boots}: expected 1 to {MOST_BOOTS}")
        _check(self.share_days >= 0, f"share_days {self.share_days:g}: expected 0 or more")
        _check(self.hours > 0, f"hours {self.hours:g}: expected more than 0")


@dataclass(frozen=True, slots=True)
class Settings:
    """A whole settings file."""

    branches: tuple[str, ...]
    mail: MailSettings
    lab: Path = Path("lab.toml")
    """The lab file; it must lie at the same place on every host of the lab."""
    database: str = ""
    """SQLAlchemy address; a file netbisect.sqlite beside the settings when absent."""
    state: Path = Path()
    """Folder for kernels, reports and the tree's mirror; the settings' own when absent."""
    poll: int = 300
    """Seconds between two looks at the tree."""
    tick: float = 15.0
    """Seconds between two looks at the open questions, should an event have been lost."""
    min_effect_percent: float = 2.0
    """Smallest drop worth an alert."""
    kernel_space: str = "50 GB"
    """Disk that the master's finished kernels may take; what open questions need stays."""
    patience_days: float = 14.0
    """Days that a comparison or a search waits for a testbed in quarantine."""
    visit_space: str = "5 GB"
    """For the logs of visits on the master."""
    log_days: int = 180
    """For so long Buildbot keeps what builds and visits printed."""
    night: NightSettings = field(default_factory=NightSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    web: WebSettings = field(default_factory=WebSettings)
    workers: WorkerSettings = field(default_factory=WorkerSettings)
    links: LinkSettings = field(default_factory=LinkSettings)
    requests: RequestSettings = field(default_factory=RequestSettings)
    masters: MastersSettings = field(default_factory=MastersSettings)

    def __post_init__(self) -> None:
        _check(self.branches, "branches: expected at least one")
        for name in ("kernel_space", "visit_space"):
            try:
                bytes_of(getattr(self, name))
            except ValueError as error:
                raise ValueError(f"{name} {error}") from None
        _check(
            not self.masters.router or self.database.startswith("postgresql"),
            "masters: expected with a database that several hosts can use, postgresql+psycopg://…",
        )
        _check(self.poll > 0, f"poll {self.poll}: expected seconds > 0")
        _check(self.tick > 0, f"tick {self.tick}: expected seconds > 0")
        _check(self.log_days >= 1, f"log_days {self.log_days}: expected 1 or more")
        _check(self.patience_days >= 0, f"patience_days {self.patience_days:g}: expected 0 or more")
        _check(
            0 < self.min_effect_percent < 50,  # noqa: PLR2004 - half the packets are no detail
            f"min_effect_percent {self.min_effect_percent}: expected more than 0, less than 50",
        )

    @property
    def min_effect(self) -> float:
        """Smallest drop worth an alert, as |ln ratio|."""
        return -math.log1p(-self.min_effect_percent / 100)

    @property
    def kernel_bytes(self) -> int:
        """`kernel_space` in bytes."""
        return bytes_of(self.kernel_space)

    def report_address(self, alert: int) -> str:
        """Where people find the page of an alert."""
        return f"{self.web.url}plugins/netbisect/reports/alert-{alert}.html"

    def profile_address(self, question: int) -> str:
        """Where people find the page of a profile that was asked for."""
        return f"{self.web.url}plugins/netbisect/reports/profile-{question}.html"

    def request_address(self, request: int) -> str:
        """Where people find the page of a request."""
        return f"{self.web.url}plugins/netbisect/reports/request-{request}.html"

    def request_file_address(self, request: int, path: str) -> str:
        """Where people find a file of the folder of a request."""
        return f"{self.web.url}plugins/netbisect/reports/request-{request}/{path}"

    @property
    def kernels(self) -> Path:
        """The master's artefact store."""
        return self.state / "kernels"

    @property
    def patches(self) -> Path:
        """Patches by which people want to see revisions changed, as build hosts are sent them."""
        return self.state / "patches"

    @property
    def visits(self) -> Path:
        """Folder of what visits left behind, one folder for each decision."""
        return self.state / "visits"

    @property
    def visit_bytes(self) -> int:
        """How much room they have."""
        return bytes_of(self.visit_space)

    @property
    def reports(self) -> Path:
        """Folder of the report pages."""
        return self.state / "reports"

    @property
    def mirror(self) -> Path:
        """Bare clone of the tree under watch."""
        return self.state / "tree.git"


def load_settings(path: Path) -> Settings:
    """The settings file at `path`; relative places are relative to it.

    Raises:
        FileError: one line per fault: file, key, what would be right.
    """
    settings = tomlfile.load(path, Settings)
    here = path.resolve().parent
    mail = settings.mail
    if mail.password_file is not None:
        mail = replace(mail, password_file=here / mail.password_file)
    web = replace(settings.web, login=settings.web.login.within(here))
    if web.hook_file is not None:
        web = replace(web, hook_file=here / web.hook_file)
    state = here / settings.state
    return replace(
        settings,
        lab=here / settings.lab,
        state=state,
        database=settings.database or f"sqlite:///{state / 'netbisect.sqlite'}",
        mail=mail,
        web=web,
        workers=settings.workers.within(here),
    )


def load(path: Path) -> tuple[Settings, Lab]:
    """Settings and lab file together; raises what either raises."""
    settings = load_settings(path)
    return settings, load_lab(settings.lab)

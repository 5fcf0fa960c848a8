"""The schema of `[web.login]` and `[[web.people]]` in netbisect.toml."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from netbisect.steps.service.rights import Right, parse_rights
from netbisect.workers.config.validation import check

ANY_USER = "*"


@dataclass(frozen=True, slots=True)
class LoginSettings:
    """Logins of the web pages."""

    kind: Literal["none", "htpasswd", "github", "gitlab", "google"] = "none"
    users_file: Path | None = None
    """Output of `htpasswd -B`."""
    client_id: str = ""
    client_secret_file: Path | None = None
    server: str = ""

    def __post_init__(self) -> None:
        check(
            (self.users_file is not None) == (self.kind == "htpasswd"),
            "users_file: expected with the kind htpasswd, and with no other",
        )
        oauth = self.kind not in ("none", "htpasswd")
        check(
            oauth == bool(self.client_id) == (self.client_secret_file is not None),
            "client_id and client_secret_file: expected with the kinds github, gitlab and "
            "google, and with no other",
        )
        check(
            not self.server or self.kind in ("github", "gitlab"),
            "server: expected with the kinds github and gitlab only",
        )
        check(self.server or self.kind != "gitlab", "server: expected the URL of GitLab")
        check(
            not self.server or self.server.startswith("https://"),
            f"server {self.server!r}: expected https://",
        )


@dataclass(frozen=True, slots=True)
class PeopleRule:
    """Rights of some users."""

    who: tuple[str, ...]
    """User names; `*` for all users who can log in."""
    rights: tuple[str, ...]

    def __post_init__(self) -> None:
        check(self.who, "who: expected at least one name")
        check(self.rights, "rights: expected at least one right")
        parse_rights(self.rights)


def rights_from_rules(rules: Collection[PeopleRule], who: str) -> frozenset[Right]:
    """Returns the union of the rights of all matching rules."""
    names = {right for rule in rules if {who, ANY_USER} & set(rule.who) for right in rule.rights}
    return parse_rights(names)

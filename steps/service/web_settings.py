"""The schema of `[web.login]` and `[[web.people]]` in netbisect.toml."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from netbisect.steps.service.rights import Right, parse_rights

NO_LOGIN, HTPASSWD, GITHUB, GITLAB, GOOGLE = "none", "htpasswd", "github", "gitlab", "google"
LOGIN_KINDS = (NO_LOGIN, HTPASSWD, GITHUB, GITLAB, GOOGLE)
ANY_USER = "*"


@dataclass(frozen=True, slots=True)
class LoginSettings:
    """Logins of the web pages."""

    kind: str = NO_LOGIN
    users_file: Path | None = None
    """Output of `htpasswd -B`."""
    client_id: str = ""
    client_secret_file: Path | None = None
    """File with the secret on one line."""
    server: str = ""
    """URL of GitLab or GitHub Enterprise."""

    def __post_init__(self) -> None:
        if self.kind not in LOGIN_KINDS:
            raise ValueError(f"kind {self.kind!r}: expected one of {', '.join(LOGIN_KINDS)}")
        if (self.users_file is not None) != (self.kind == HTPASSWD):
            raise ValueError("users_file: expected with the kind htpasswd, and with no other")
        oauth = self.kind not in (NO_LOGIN, HTPASSWD)
        if oauth != bool(self.client_id) or oauth != (self.client_secret_file is not None):
            raise ValueError(
                "client_id and client_secret_file: expected with the kinds github, gitlab and "
                "google, and with no other"
            )
        if self.server and self.kind not in (GITHUB, GITLAB):
            raise ValueError("server: expected with the kinds github and gitlab only")
        if self.kind == GITLAB and not self.server:
            raise ValueError("server: expected the URL of GitLab")
        if self.server and urlsplit(self.server).scheme != "https":
            raise ValueError(f"server {self.server!r}: expected https://")

    def within(self, folder: Path) -> LoginSettings:
        """Resolves the paths against a folder."""
        users, secret = self.users_file, self.client_secret_file
        return replace(
            self,
            users_file=None if users is None else folder / users,
            client_secret_file=None if secret is None else folder / secret,
        )


@dataclass(frozen=True, slots=True)
class PeopleRule:
    """Rights of some users."""

    who: tuple[str, ...]
    """User names; `*` for all users who can log in."""
    rights: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.who:
            raise ValueError("who: expected at least one name")
        if not self.rights:
            raise ValueError("rights: expected at least one right")
        parse_rights(self.rights)


def rights_from_rules(rules: Collection[PeopleRule], who: str) -> frozenset[Right]:
    """Returns the union of the rights of all matching rules."""
    names = {right for rule in rules if {who, ANY_USER} & set(rule.who) for right in rule.rights}
    return parse_rights(names)

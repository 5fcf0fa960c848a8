"""Of netbisect.toml: who may log in on the web pages, and what they may do there."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from netbisect.steps.rights import Right, rights_of

NOBODY, HTPASSWD, GITHUB, GITLAB, GOOGLE = "none", "htpasswd", "github", "gitlab", "google"
KINDS = (NOBODY, HTPASSWD, GITHUB, GITLAB, GOOGLE)
EVERYBODY = "*"


@dataclass(frozen=True, slots=True)
class LoginSettings:
    """How people show who they are."""

    kind: str = NOBODY
    users_file: Path | None = None
    """As `htpasswd -B` writes it."""
    client_id: str = ""
    client_secret_file: Path | None = None
    """One line."""
    server: str = ""
    """Of GitLab, or of a company's own GitHub."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind {self.kind!r}: expected one of {', '.join(KINDS)}")
        if (self.users_file is not None) != (self.kind == HTPASSWD):
            raise ValueError("users_file: expected with the kind htpasswd, and with no other")
        oauth = self.kind not in (NOBODY, HTPASSWD)
        if oauth != bool(self.client_id) or oauth != (self.client_secret_file is not None):
            raise ValueError(
                "client_id and client_secret_file: expected with the kinds github, gitlab and "
                "google, and with no other"
            )
        if self.server and self.kind not in (GITHUB, GITLAB):
            raise ValueError("server: expected with the kinds github and gitlab only")
        if self.kind == GITLAB and not self.server:
            raise ValueError("server: expected the address of the GitLab")
        if self.server and urlsplit(self.server).scheme != "https":
            raise ValueError(f"server {self.server!r}: expected https://")

    def within(self, folder: Path) -> LoginSettings:
        """The same, with paths that are relative to a folder."""
        users, secret = self.users_file, self.client_secret_file
        return replace(
            self,
            users_file=None if users is None else folder / users,
            client_secret_file=None if secret is None else folder / secret,
        )


@dataclass(frozen=True, slots=True)
class PeopleRule:
    """What some of those who have logged in may do."""

    who: tuple[str, ...]
    """As the login calls them; `*` for everybody who can log in."""
    rights: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.who:
            raise ValueError("who: expected at least one name")
        if not self.rights:
            raise ValueError("rights: expected at least one right")
        rights_of(self.rights)


def rights_in(rules: Collection[PeopleRule], who: str) -> frozenset[Right]:
    """What somebody who has logged in may do: the rights of all rules together."""
    names = {right for rule in rules if {who, EVERYBODY} & set(rule.who) for right in rule.rights}
    return rights_of(names)

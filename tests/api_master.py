"""A master with its web server and a tree, and calls of its API."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from typing import Any

import treq
from real_master import RealMaster
from twisted.web.iweb import IResponse

from netbisect.steps import tokens
from netbisect.steps.rights import rights_of
from netbisect.steps.settings import Settings
from netbisect.store.history import History

API = "plugins/netbisect/api/v1"
DIFF = "--- a/x.c\n+++ b/x.c\n@@ -1 +1 @@\n-a\n+b\n"
ORIGIN = "http://127.0.0.1:8010"


class ApiMaster(RealMaster):
    """A master with its web server, and a tree of four commits."""

    def setUp(self) -> Any:
        done = super().setUp()
        work = self.folder / "work"
        self.git("init", "-q", "-b", "main", str(work))
        for number in range(4):
            (work / "x.c").write_text(f"{number}\n")
            self.git("-C", str(work), "add", ".")
            self.git("-C", str(work), "commit", "-qm", f"Change {number}")
        self.git("-C", str(work), "push", "-q", str(self.folder / "tree.git"), "main")
        History(self.settings.mirror, self.lab.source.repository).update()
        return done

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", *arguments], check=True)

    def change(self, **web: Any) -> Settings:
        self.settings = replace(self.settings, web=replace(self.settings.web, **web))
        return self.settings

    async def serve(self, **others: Any) -> None:
        # When conftest is read, a deprecated name that Buildbot uses would still be an error.
        from netbisect.steps.web import www  # noqa: PLC0415

        config = www(self.settings) | {"port": "tcp:0:interface=127.0.0.1"}
        plugins = {"netbisect": config["plugins"]["netbisect"]}
        pages = {"www": config | {"plugins": plugins}, "buildbotURL": self.settings.web.url}
        await self.start(**pages, **others)

    def token(self, *rights: str, who: str = "ann", days: float | None = 1) -> str:
        return tokens.create(self.ledger, who, rights_of(rights), by="root", days=days)[1]

    async def call(
        self,
        method: str,
        path: str,
        token: str = "",
        data: Any = None,
        *,
        follow: bool = True,
        **headers: str,
    ) -> IResponse:
        url = f"http://127.0.0.1:{self.master.www.getPortnum()}/{path}"
        named = {name.replace("_", "-"): [value] for name, value in headers.items()}
        if token:
            named["authorization"] = [f"Bearer {token}"]
        content = None
        if data is not None:
            named.setdefault("content-type", ["application/json"])
            content = data if isinstance(data, bytes) else json.dumps(data).encode()
        return await treq.request(
            method, url, headers=named, data=content, persistent=False, allow_redirects=follow
        )

    async def told(self, answer: IResponse) -> Any:
        return json.loads(await treq.content(answer))

    async def asked(self, status: int, token: str, **body: Any) -> Any:
        body = {"kind": "compare", "subjects": ["main~1", "main"], **body}
        answer = await self.call("POST", f"{API}/requests", token, body)
        told = await self.told(answer)
        assert answer.code == status, told
        return told

    async def get(self, status: int, path: str, token: str = "") -> Any:
        answer = await self.call("GET", f"{API}/{path}", token)
        told = await self.told(answer)
        assert answer.code == status, told
        return told

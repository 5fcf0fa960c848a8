"""Stands in for netbisect-lab where a test needs an ending that no real lab gives on demand.

It speaks as netbisect-lab does: facts on standard output, the same exit statuses. What each
revision does is read from `script.json` beside the lab file:

    {"REVISION": {"build": "ok", "trial": "ok", "pps": 950000}}

where a revision with a patch is called REVISION+MARK, and an ending is ok, dud, lab (needs its
owner), infra (bad infrastructure), usage (another lab file), crash (dies without a word) or wait
(until the file `go` appears). What is said of a testbed or a builder goes before what is
said of the revision; the `factor` of a testbed multiplies its rates, and `recover` may end as lab
or crash, or each time as the next of a list. With a `tape` its boots say what is on it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import uuid
from pathlib import Path

from netbisect.bisect import wire
from netbisect.bisect.faults import Fault
from netbisect.bisect.model import (
    Boot,
    Conditions,
    Dud,
    Fact,
    Kernel,
    Profile,
    Reaction,
    Sample,
    Stage,
)
from netbisect.bisect.subject import commit_of, patch_of, with_patch
from netbisect.workers.artefact import FACT, ArtefactStore

STATUS = {"ok": 0, "dud": 3, "lab": 4, "infra": 3, "usage": 2, "crash": 1}


REACTIONS = {
    "dud": (Reaction.SKIP, Fault.PANIC_AT_BOOT),
    "lab": (Reaction.QUARANTINE, Fault.HOST_KEY),
    "infra": (Reaction.INFRA, Fault.THROTTLING),
}


def say(fact: Fact | Profile) -> None:
    print(wire.dumps(fact), flush=True)


def dud(revision: str, stage: Stage, ending: str, testbed: str = "") -> Dud:
    reaction, fault = REACTIONS[ending]
    if stage is Stage.BUILD and ending == "lab":
        reaction, fault = Reaction.INFRA, Fault.BUILDER
    return Dud(
        uuid.uuid4().hex,
        revision,
        stage,
        reaction,
        "as the script says",
        0,
        1,
        testbed,
        log="the last words of the machine",
        fault=fault.value,
    )


def wait(folder: Path) -> None:
    (folder / "waiting").touch()
    while not (folder / "go").exists():
        time.sleep(0.02)


def build(folder: Path, revision: str, config: str) -> None:
    name = with_patch(revision, patch_of(config))
    stage = folder / f"stage-{name}"  # several builders may be at work
    stage.mkdir(exist_ok=True)
    (stage / "kernel").write_text(f"kernel of {name}")
    log = folder / f"log-{name}"
    log.write_text("made\n")
    say(
        ArtefactStore(folder / "build" / "kernels").put(
            stage,
            lambda key, size: Kernel(
                revision, config, "amd64", f"id-{name}", key, revision[:12], size, 1.0, 1.0
            ),
            log,
        )
    )


def trial(
    folder: Path, key: str, testbed: str, scenarios: list[str], pps: float, tape: list[float]
) -> None:
    kernel = wire.loads_as((folder / "kernels" / key / FACT).read_text(), Kernel)
    now = time.time()
    boot = Boot(uuid.uuid4().hex, testbed, key, kernel.revision, now, 1.0)
    say(boot)
    luck = random.Random(boot.id)
    for scenario in scenarios:
        say(Conditions("same", testbed, scenario, {}))
        rate = pps * luck.gauss(1, 0.004)
        if tape:  # boots that were recorded, one after the other
            named = with_patch(kernel.revision, patch_of(kernel.config))
            made = (folder / "calls").read_text().splitlines().count(f"trial {named}")
            rate = tape[made - 1]
        name = uuid.uuid4().hex
        say(Sample(name, boot.id, testbed, scenario, rate, 1e6, (), (), (), "same", now, 1.0))


def recover(folder: Path, testbed: str, *, look: bool) -> int:
    script = json.loads((folder / "script.json").read_text())
    ending = script.get(testbed, {}).get("recover", "ok")
    line = f"{'look' if look else 'recover'} {testbed}"
    if isinstance(ending, list):
        ending = ending[(folder / "places").read_text().splitlines().count(line)]
    with (folder / "places").open("a") as places:
        places.write(f"{line}\n")
    if ending == "lab":
        print("netbisect-lab: the generator does not answer", file=sys.stderr)
    return STATUS[ending]


def profile(folder: Path, asked: argparse.Namespace, problem: str) -> None:
    kernel = wire.loads_as((folder / "kernels" / asked.kernel / FACT).read_text(), Kernel)
    [scenario] = asked.scenario
    rate, now = asked.rate or 1.0, time.time()
    say(Boot(uuid.uuid4().hex, asked.testbed, kernel.key, kernel.revision, now, 1.0))
    seen = Profile(
        kernel.revision,
        kernel.key,
        asked.testbed,
        scenario,
        "cycles",
        rate,
        1000,
        0,
        now,
        30.0,
        problem,
    )
    say(seen)
    logs = Path(asked.logs)
    logs.mkdir(exist_ok=True)
    (logs / f"profile-{scenario}.folded").write_text(f"ether_input;{kernel.revision[:4]} 1000\n")
    (logs / f"profile-{scenario}.json").write_text(wire.dumps(seen))


def main() -> int:  # noqa: C901 - a line for every verb and ending
    parser = argparse.ArgumentParser()
    for name in ("lab", "builder", "revision", "config", "testbed", "kernel", "logs"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--scenario", action="append", default=[])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--look", action="store_true")
    parser.add_argument("--rate", type=float)
    parser.add_argument("verb")
    asked = parser.parse_args()
    folder = Path(asked.lab).parent
    if asked.verb == "recover":
        return recover(folder, asked.testbed, look=asked.look)
    revision = with_patch(asked.revision or "", patch_of(asked.config or ""))
    if asked.verb in ("trial", "profile"):
        fact = wire.loads_as((folder / "kernels" / asked.kernel / FACT).read_text(), Kernel)
        revision = with_patch(fact.revision, patch_of(fact.config))
    script = json.loads((folder / "script.json").read_text())
    own = script.get(asked.builder if asked.verb == "build" else asked.testbed, {})
    part = {
        "build": "ok",
        "trial": "ok",
        "profile": "ok",
        "pps": 950_000,
        "factor": 1,
        "tape": [],
        **script.get(revision, {}),
        **own,
    }
    ending = part[asked.verb]
    with (folder / "calls").open("a") as calls:
        calls.write(f"{asked.verb} {revision}\n")
    with (folder / "places").open("a") as places:
        places.write(f"{asked.verb} {asked.builder or asked.testbed}\n")
    if asked.logs:
        Path(asked.logs).mkdir(exist_ok=True)
        (Path(asked.logs) / f"{asked.verb}-{ending}.log").write_text(revision)
    if ending == "wait":
        wait(folder)
        ending = "ok"
    if ending == "ok" and asked.verb == "build":
        build(folder, asked.revision, asked.config)
    elif asked.verb == "profile" and ending in ("ok", "dud"):
        profile(folder, asked, "" if ending == "ok" else "no event")
    elif ending == "ok":
        scenarios = asked.scenario * asked.runs
        trial(
            folder,
            asked.kernel,
            asked.testbed,
            scenarios,
            part["pps"] * part["factor"],
            part["tape"],
        )
    elif ending == "usage":
        print("netbisect-lab: lab.toml: there is no such testbed", file=sys.stderr)
    elif ending in REACTIONS:
        stage = Stage.BUILD if asked.verb == "build" else Stage.BOOT
        say(dud(commit_of(revision), stage, ending, asked.testbed or ""))
    return STATUS[ending]


if __name__ == "__main__":
    sys.exit(main())

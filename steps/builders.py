"""Workers, builders and locks, made from the lab file."""

from __future__ import annotations

from typing import Any

from buildbot.config import BuilderConfig
from buildbot.plugins import steps, util, worker
from buildbot.process.build import Build
from buildbot.process.buildstep import BuildStep
from buildbot.process.factory import BuildFactory
from buildbot.process.properties import Properties

from netbisect.steps.lab_step import (
    AVOIDED_PROPERTY,
    DECISION_PROPERTY,
    KERNEL_PROPERTY,
    LOOK_PROPERTY,
    PROFILE_PROPERTY,
    RUNS_PROPERTY,
    LabStep,
)
from netbisect.steps.secret_files import worker_passwords
from netbisect.steps.settings import Settings
from netbisect.steps.tell import Tell
from netbisect.steps.transfer import FetchKernel, SendPatches, upload_steps
from netbisect.steps.visits import LOGS, KeepVisit
from netbisect.workers.lab import Builder, Lab, Testbed, worker_of
from netbisect.workers.make import CALLS
from netbisect.workers.profile import MOST_BYTES, file_of

_SLACK = 3600.0
"""Seconds that a command may take beyond its own limits before Buildbot ends it."""


def kernel_builder(arch: str) -> str:
    """Name of the Buildbot builder that builds kernels for an architecture."""
    return f"kernel-{arch}"


def bench_builder(testbed: str) -> str:
    """Name of the Buildbot builder that visits a testbed."""
    return f"bench-{testbed}"


def recover_builder(testbed: str) -> str:
    """Name of the Buildbot builder that brings a testbed back to its known-good kernel."""
    return f"recover-{testbed}"


def all_builders(lab: Lab) -> list[str]:
    """Names of all builders of a lab."""
    arches = dict.fromkeys(builder.arch for builder in lab.builders)
    return [
        *(kernel_builder(arch) for arch in arches),
        *(bench_builder(testbed.name) for testbed in lab.testbeds),
        *(recover_builder(testbed.name) for testbed in lab.testbeds),
    ]


def workers(settings: Settings, lab: Lab) -> list[worker.Worker]:
    """One worker for all hosts that name it; it does as much at a time as it has hosts."""
    passwords = worker_passwords(settings.workers.password_file, [*lab.by_worker])
    return [
        worker.Worker(name, passwords[name], max_builds=len(hosts))
        for name, hosts in lab.by_worker.items()
    ]


def dut_lock(testbed: Testbed) -> util.MasterLock:
    """Whoever holds it has the testbed for itself."""
    return util.MasterLock(f"dut-{testbed.name}", maxCount=1)


def kernel_lock() -> util.WorkerLock:
    """One kernel at a time on each build host, also where testbeds share its worker."""
    return util.WorkerLock("kernel", maxCount=1)


def builders(settings: Settings, lab: Lab) -> list[BuilderConfig]:
    """A kernel builder per architecture; for each testbed one to visit and one to recover it."""
    arches: dict[str, list[Builder]] = {}
    for builder in lab.builders:
        arches.setdefault(builder.arch, []).append(builder)
    found = [_kernel_config(settings, arch, hosts) for arch, hosts in arches.items()]
    for testbed in lab.testbeds:
        found += _testbed_configs(settings, lab, testbed)
    return found


def _lab_step(settings: Settings, verb: str, arguments: Any, limit: Any, **more: Any) -> LabStep:
    """A step whose command ends itself; Buildbot only ends one that does not, after `limit`."""
    return LabStep(
        verb,
        arguments,
        settings=settings,
        name=verb,
        timeout=None,  # a build says nothing for hours: its output is in its log
        maxTime=limit,
        sigtermTime=30,
        **more,
    )


def elsewhere(builder: Any, free: list[Any], request: Any) -> Any:
    """A free worker for a kernel: none of those that could not build it, while others are there.

    Args:
        builder: Buildbot's; it knows the workers that are attached.
        free: Those that could begin now.
        request: With the workers to be avoided among its properties.
    """
    avoided = set(request.properties.getProperty(AVOIDED_PROPERTY, []))
    if avoided.issuperset(one.worker.workername for one in builder.workers):
        avoided = set()
    left = [one for one in free if one.worker.workername not in avoided]
    return left[0] if left else None


_TRIAL, _PROFILE, _UPLOAD = "trial", "profile", "upload profile"


class _VisitFactory(BuildFactory):
    """A visit is a trial or a profile; the other's steps would cost time, even when skipped."""

    def newBuild(self, requests: list[Any], builder: Any) -> Build:
        build = super().newBuild(requests, builder)
        profile = requests[0].properties.hasProperty(PROFILE_PROPERTY)
        others = (_TRIAL,) if profile else (_PROFILE, _UPLOAD)
        build.setStepFactories(
            [step for step in self.steps if step.kwargs.get("name") not in others]
        )
        return build


def _profile_steps(settings: Settings, testbed: Testbed, limit: Any) -> list[BuildStep]:
    """They belong to the builder of visits, so that the priority of visits is theirs, too."""

    @util.renderer
    def arguments(properties: Properties) -> list[str]:
        pps = properties.getProperty(PROFILE_PROPERTY, 0.0)
        chosen = ["--testbed", testbed.name, "--kernel", properties[KERNEL_PROPERTY]]
        chosen += ["--scenario", properties["scenarios"][0], "--logs", LOGS]
        return [*chosen, *(["--rate", f"{pps:.0f}"] if pps else [])]

    @util.renderer
    def files(properties: Properties) -> list[str]:
        scenario = properties["scenarios"][0]
        return [f"{LOGS}/{file_of(scenario, kind)}" for kind in ("folded", "json")]

    return [
        _lab_step(settings, _PROFILE, arguments, limit),
        steps.MultipleFileUpload(
            name=_UPLOAD,
            workersrcs=files,
            masterdest=util.Interpolate(f"{settings.visits}/%(prop:{DECISION_PROPERTY})s"),
            maxsize=MOST_BYTES,
            haltOnFailure=True,
        ),
    ]


def _kernel_config(settings: Settings, arch: str, hosts: list[Builder]) -> BuilderConfig:
    by_worker = {worker_of(host): host for host in hosts}

    @util.renderer
    def arguments(properties: Properties) -> list[str]:
        host = by_worker[properties["workername"]]
        revision, config = properties["revision"], properties["kernel_config"]
        return ["--builder", host.name, "--revision", revision, "--config", config]

    @util.renderer
    def place(properties: Properties) -> str:
        host = by_worker[properties["workername"]]
        return str(host.kernels / properties[KERNEL_PROPERTY])

    @util.renderer
    def patches(properties: Properties) -> str:
        return str(by_worker[properties["workername"]].patches)

    # Tools and kernel, each perhaps once more from nothing, and what is installed.
    limit = CALLS * max(host.build_timeout for host in hosts)
    return BuilderConfig(
        name=kernel_builder(arch),
        description=f"kernels for {arch}",
        workernames=list(by_worker),
        factory=BuildFactory(
            [
                SendPatches(store=settings.patches, place=patches),
                _lab_step(settings, "build", arguments, limit + _SLACK),
                *upload_steps(place, settings),
            ]
        ),
        nextWorker=elsewhere,
        locks=[kernel_lock().access("exclusive")],
        collapseRequests=False,
        tags=["kernel"],
    )


def _testbed_configs(settings: Settings, lab: Lab, testbed: Testbed) -> list[BuilderConfig]:
    locks = [dut_lock(testbed).access("exclusive")]
    # Twice it is booted, each time perhaps by the power switch; twice every run is tried.
    timing = testbed.timing
    shortest = 8 * timing.boot_timeout + 2 * len(testbed.scenarios) * timing.run_timeout

    @util.renderer
    def limit(properties: Properties) -> float:
        further = properties.getProperty(RUNS_PROPERTY, 1) - 1
        return shortest + 2 * further * len(testbed.scenarios) * timing.run_timeout + _SLACK

    @util.renderer
    def arguments(properties: Properties) -> list[str]:
        chosen = ["--testbed", testbed.name, "--kernel", properties[KERNEL_PROPERTY]]
        for scenario in properties["scenarios"]:
            chosen += ["--scenario", scenario]
        if (runs := properties.getProperty(RUNS_PROPERTY, 1)) > 1:
            chosen += ["--runs", str(runs)]
        return [*chosen, "--logs", LOGS]

    @util.renderer
    def home(properties: Properties) -> list[str]:
        look = ["--look"] if properties.getProperty(LOOK_PROPERTY) else []
        return ["--testbed", testbed.name, *look]

    bench = BuilderConfig(
        name=bench_builder(testbed.name),
        description=testbed.description or f"visits to {testbed.name}",
        workernames=[worker_of(testbed)],
        factory=_VisitFactory(
            [
                FetchKernel(
                    store=settings.kernels, place=str(lab.kernels), emptied=f"build/{LOGS}"
                ),
                _lab_step(settings, _TRIAL, arguments, limit),
                *_profile_steps(settings, testbed, limit),
                KeepVisit(settings=settings),
                Tell(settings=settings, lab=lab),
            ]
        ),
        locks=locks,
        collapseRequests=False,
        tags=["bench", testbed.name],
    )
    recover = BuilderConfig(
        name=recover_builder(testbed.name),
        description=f"{testbed.name} back to its known-good kernel",
        workernames=[worker_of(testbed)],
        factory=BuildFactory([_lab_step(settings, "recover", home, shortest + _SLACK)]),
        locks=locks,
        collapseRequests=False,
        tags=["recover", testbed.name],
    )
    return [bench, recover]

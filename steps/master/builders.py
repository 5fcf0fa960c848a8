"""Workers, builders and locks, made from the lab file."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from buildbot.config import BuilderConfig
from buildbot.plugins import steps, util, worker
from buildbot.process.build import Build
from buildbot.process.buildstep import BuildStep
from buildbot.process.factory import BuildFactory
from buildbot.process.properties import Properties
from buildbot.process.results import RETRY
from buildbot.process.workerforbuilder import AbstractWorkerForBuilder
from twisted.internet import defer
from twisted.python import log

from netbisect.bisect.model import profile_stacks
from netbisect.steps.master.lab_step import (
    AVOIDED_PROPERTY,
    DECISION_PROPERTY,
    KERNEL_PROPERTY,
    LOOK_PROPERTY,
    PROFILE_PROPERTY,
    RUNS_PROPERTY,
    LabStep,
)
from netbisect.steps.master.report_step import ReportStep
from netbisect.steps.master.transfer import FetchKernel, SendPatches, upload_steps
from netbisect.steps.master.trial_logs import LOGS, KeepTrialLogs
from netbisect.steps.service.secrets import worker_passwords
from netbisect.steps.service.settings import Settings
from netbisect.workers.build.make import CALLS
from netbisect.workers.config.builder import Builder
from netbisect.workers.config.lab import Lab, worker_name
from netbisect.workers.config.testbed import Testbed

_SLACK = 3600.0
"""Seconds beyond a command's own limits after which Buildbot ends it."""


def kernel_builder(arch: str) -> str:
    """Name of the Buildbot builder that builds kernels for an architecture."""
    return f"kernel-{arch}"


def bench_builder(testbed: str) -> str:
    """Name of the Buildbot builder that runs trials on a testbed."""
    return f"bench-{testbed}"


def recover_builder(testbed: str) -> str:
    """Name of the Buildbot builder that returns a testbed to its known-good kernel."""
    return f"recover-{testbed}"


def workers(settings: Settings, lab: Lab) -> list[worker.Worker]:
    """The workers; each runs as many builds at a time as it has hosts."""
    passwords = worker_passwords(settings.workers.password_file, [*lab.hosts_by_worker])
    return [
        worker.Worker(name, passwords[name], max_builds=len(hosts))
        for name, hosts in lab.hosts_by_worker.items()
    ]


def builders(settings: Settings, lab: Lab) -> list[BuilderConfig]:
    """A kernel builder per architecture; per testbed a builder for trials and one for recovery."""
    arches: dict[str, list[Builder]] = {}
    for builder in lab.builders:
        arches.setdefault(builder.arch, []).append(builder)
    found = [_kernel_config(settings, arch, hosts) for arch, hosts in arches.items()]
    for testbed in lab.testbeds:
        found += _testbed_configs(settings, lab, testbed)
    return found


def choose_worker(builder: Any, free: list[Any], request: Any) -> Any:
    """A free worker for a kernel, or None; avoids workers that failed to build it."""
    avoided = set(request.properties.getProperty(AVOIDED_PROPERTY, []))
    if avoided.issuperset(one.worker.workername for one in builder.workers):
        avoided = set()
    left = [one for one in free if one.worker.workername not in avoided]
    return left[0] if left else None


_TRIAL, _PROFILE, _UPLOAD = "trial", "profile", "upload profile"


class LabBuild(Build):
    """A build that also ends if it is cancelled, or loses its worker, before its first step."""

    @defer.inlineCallbacks
    def startBuild(
        self, workerforbuilder: AbstractWorkerForBuilder
    ) -> Generator[defer.Deferred[Any], Any, None]:
        """Buildbot would leave such a build open for ever."""
        try:
            yield super().startBuild(workerforbuilder)
        except (AssertionError, AttributeError):  # of None instead of the worker
            if self.buildid is None or self.finished or workerforbuilder.worker is not None:
                raise
            log.msg(f"{self}: lost its worker before its first step")
            yield self.buildFinished(["worker", "lost"], RETRY)
        else:
            if self.stopped and not self.finished and self._preparation_step is None:
                # The request was cancelled after it was claimed and before there was a build.
                yield self.buildFinished(["cancelled", f"({self.stopped_reason})"], self.results)


class _LabFactory(BuildFactory):
    buildClass = LabBuild


class _TrialFactory(_LabFactory):
    """Leaves out the steps of a profile for a trial, and the other way round."""

    def newBuild(self, requests: list[Any], builder: Any) -> Build:
        build = super().newBuild(requests, builder)
        profile = requests[0].properties.hasProperty(PROFILE_PROPERTY)
        others = {_TRIAL} if profile else {_PROFILE, _UPLOAD}
        build.setStepFactories(
            [
                one
                for one in self.steps
                if others.isdisjoint([*one.args[:1], one.kwargs.get("name")])
            ]
        )
        return build


def _profile_steps(settings: Settings, testbed: Testbed, limit: Any) -> list[BuildStep]:
    """Steps of a profile, on the builder of trials so that they share its queue."""

    @util.renderer
    def arguments(properties: Properties) -> list[str]:
        pps = properties.getProperty(PROFILE_PROPERTY, 0.0)
        chosen = ["--testbed", testbed.name, "--kernel", properties[KERNEL_PROPERTY]]
        chosen += ["--scenario", properties["scenarios"][0], "--logs", LOGS]
        return [*chosen, *(["--rate", f"{pps:.0f}"] if pps else [])]

    @util.renderer
    def files(properties: Properties) -> list[str]:
        scenario = properties["scenarios"][0]
        return [f"{LOGS}/{profile_stacks.file_name(scenario, kind)}" for kind in ("folded", "json")]

    return [
        LabStep(_PROFILE, arguments, limit, settings=settings),
        steps.MultipleFileUpload(
            name=_UPLOAD,
            workersrcs=files,
            masterdest=util.Interpolate(f"{settings.trial_logs}/%(prop:{DECISION_PROPERTY})s"),
            maxsize=profile_stacks.MOST_BYTES,
            haltOnFailure=True,
        ),
    ]


def _kernel_config(settings: Settings, arch: str, hosts: list[Builder]) -> BuilderConfig:
    by_worker = {worker_name(host): host for host in hosts}

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

    # Tools and kernel, each perhaps twice, and the installation.
    limit = CALLS * max(host.build_timeout for host in hosts)
    return BuilderConfig(
        name=kernel_builder(arch),
        description=f"kernels for {arch}",
        workernames=list(by_worker),
        factory=_LabFactory(
            [
                SendPatches(store=settings.patches, place=patches),
                LabStep("build", arguments, limit + _SLACK, settings=settings),
                *upload_steps(place, settings),
            ]
        ),
        nextWorker=choose_worker,
        locks=[util.WorkerLock("kernel", maxCount=1).access("exclusive")],
        collapseRequests=False,
        tags=["kernel"],
    )


def _testbed_configs(settings: Settings, lab: Lab, testbed: Testbed) -> list[BuilderConfig]:
    locks = [util.MasterLock(f"dut-{testbed.name}", maxCount=1).access("exclusive")]
    # Two boots, each perhaps by the power switch; each run perhaps twice.
    timing = testbed.timing
    shortest = 8 * timing.boot_timeout + 2 * len(testbed.scenarios) * timing.run_timeout

    @util.renderer
    def limit(properties: Properties) -> float:
        # Tunables of its own give a scenario a boot of its own.
        scenarios = max(len(testbed.scenarios), len(properties["scenarios"]))
        runs = properties.getProperty(RUNS_PROPERTY, 1) * scenarios
        return 8 * scenarios * timing.boot_timeout + 2 * runs * timing.run_timeout + _SLACK

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
        description=testbed.description or f"trials on {testbed.name}",
        workernames=[worker_name(testbed)],
        factory=_TrialFactory(
            [
                FetchKernel(
                    store=settings.kernels, place=str(lab.kernels), emptied=f"build/{LOGS}"
                ),
                LabStep(_TRIAL, arguments, limit, settings=settings),
                *_profile_steps(settings, testbed, limit),
                KeepTrialLogs(settings=settings),
                ReportStep(settings=settings, lab=lab),
            ]
        ),
        locks=locks,
        collapseRequests=False,
        tags=["bench", testbed.name],
    )
    recover = BuilderConfig(
        name=recover_builder(testbed.name),
        description=f"recovery of {testbed.name}",
        workernames=[worker_name(testbed)],
        factory=_LabFactory([LabStep("recover", home, shortest + _SLACK, settings=settings)]),
        locks=locks,
        collapseRequests=False,
        tags=["recover", testbed.name],
    )
    return [bench, recover]

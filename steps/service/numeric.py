"""Proxies for numeric and plotting modules, which run in the compute process."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netbisect.bisect import measurement, plan
    from netbisect.bisect.detection import (
        confirmation,
        health,
        histories,
        recovery,
        screening,
        self_check,
    )
    from netbisect.bisect.stats import effect as effect_sizes
    from netbisect.bisect.stats import unaffected
    from netbisect.reports.console import health as health_report
    from netbisect.reports.documents import netbenches
else:
    from netbisect.steps.service.compute import RemoteModule

    effect_sizes = RemoteModule("netbisect.bisect.stats.effect")
    confirmation = RemoteModule("netbisect.bisect.detection.confirmation")
    histories = RemoteModule("netbisect.bisect.detection.histories")
    screening = RemoteModule("netbisect.bisect.detection.screening")
    health = RemoteModule("netbisect.bisect.detection.health")
    measurement = RemoteModule("netbisect.bisect.measurement")
    plan = RemoteModule("netbisect.bisect.plan")
    recovery = RemoteModule("netbisect.bisect.detection.recovery")
    self_check = RemoteModule("netbisect.bisect.detection.self_check")
    unaffected = RemoteModule("netbisect.bisect.stats.unaffected")
    health_report = RemoteModule("netbisect.reports.console.health")
    netbenches = RemoteModule("netbisect.reports.documents.netbenches")

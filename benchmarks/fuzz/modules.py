"""Whose branches count for each parser: known before any of them is imported, to be watched."""

_WORKERS = "netbisect.workers."
MODULES = {
    "pkt-gen": (f"{_WORKERS}pktgen",),
    "console": (f"{_WORKERS}panic", f"{_WORKERS}last_words"),
    "ifconfig": (f"{_WORKERS}ports", f"{_WORKERS}freebsd", f"{_WORKERS}checkup"),
    "sysctl": (f"{_WORKERS}running", f"{_WORKERS}userland"),
    "sensors": (f"{_WORKERS}freebsd", f"{_WORKERS}observe"),
    "doctor": (f"{_WORKERS}checkup",),
    "kldstat": (f"{_WORKERS}firewall",),
    "gpart": (f"{_WORKERS}deploy_nanobsd",),
    "df": (f"{_WORKERS}kernel_folder",),
    "pmccontrol": (f"{_WORKERS}profile",),
    "image": (f"{_WORKERS}identity", "elftools"),
    "lab file": (f"{_WORKERS}lab", f"{_WORKERS}tomlfile", f"{_WORKERS}space", "tomllib"),
    "patch": (f"{_WORKERS}patches",),
    "pmcstat": ("netbisect.bisect.stacks",),
    "commit message": ("netbisect.bisect.trailers",),
    "facts": ("netbisect.bisect.wire", "json"),
    "ministat": ("netbisect.reports.ministat_input",),
    "netbenches": ("netbisect.store.netbenches_files", "json"),
    "API": ("netbisect.steps.api_bodies", f"{_WORKERS}tomlfile", "json"),
    "htpasswd": ("netbisect.steps.login",),
}

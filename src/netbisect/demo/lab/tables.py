"""Rules, tables, states and routes of the simulated router: large ones have costs of their own."""

from __future__ import annotations

from dataclasses import dataclass, field

_COUNT, _MOST = "net.inet.ip.fw.dyn_count", "net.inet.ip.fw.dyn_max"
DYNAMIC = {
    _MOST: "16384",
    "net.inet.ip.fw.dyn_buckets": "8192",
    "net.inet.ip.fw.dyn_udp_lifetime": "10",
    _COUNT: "0",
}
"""Sysctls for states of ipfw."""
_RULES, _FLOWS, _ROUTES, _FULL = 500, 50_000, 10_000, 500_000
"""Least numbers that are large."""


@dataclass
class Tables:
    """What packet filters and the router search for each packet."""

    pf_rules: list[str] = field(default_factory=list)
    ipfw_rules: list[str] = field(default_factory=list)
    ipf_rules: list[str] = field(default_factory=list)
    ipf_packets: int = 0
    """Packets since the rules of ipf were loaded."""
    addresses: dict[str, set[str]] = field(default_factory=dict)
    """Addresses of the table of pf or ipfw."""
    routes: set[str] = field(default_factory=set)
    """Added networks."""
    bird_routes: int = 0
    """Number of networks that BIRD has added."""
    flows: int = 0
    """Flows of the last traffic."""

    def states(self, firewall: str) -> int:
        """States of pf, two per flow, or of ipfw."""
        if firewall == "pf":
            return 2 * self.flows * any(rule == "pass" for rule in self.pf_rules)
        return self.flows * any("keep-state" in rule for rule in self.ipfw_rules)

    def begin(self, flows: int, sysctls: dict[str, str]) -> None:
        """Makes the states of new traffic."""
        self.flows = flows
        if _COUNT in sysctls:
            sysctls[_COUNT] = str(min(self.states("ipfw"), int(sysctls[_MOST])))

    def large(self, firewall: str) -> list[str]:
        """Cost centres of the rules, table and states of pf or ipfw."""
        rules = self.pf_rules if firewall == "pf" else self.ipfw_rules
        sizes = {
            "rules": len(rules) >= _RULES,
            "table": bool(self.addresses.get(firewall)),
            "states": self.states(firewall) >= _FLOWS,
        }
        return [f"{firewall}_{name}" for name, large in sizes.items() if large]

    def others(self) -> list[str]:
        """Cost centres of ipf and of the routing table."""
        found = {
            "ipf": bool(self.ipf_rules),
            "route_table": len(self.routes) >= _ROUTES,
            "full_table": self.bird_routes >= _FULL,
        }
        return [name for name, used in found.items() if used]

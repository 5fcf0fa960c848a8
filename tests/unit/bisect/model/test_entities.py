"""Labels of commits, and digests of conditions."""

from __future__ import annotations

from netbisect.bisect.model.entities import Conditions


def test_digest_of_conditions() -> None:
    values = {"processors": "4", "cpu": "Atom C2558"}
    one = Conditions.of("c2558", "inet4-forwarding", values)
    turned = Conditions.of("c2558", "inet4-forwarding", dict(reversed(values.items())))
    other = Conditions.of("c2558", "inet4-forwarding", {**values, "processors": "8"})

    assert one.digest == turned.digest == "c5d2dc015d9d746a"
    assert other.digest != one.digest
    assert one == Conditions(one.digest, "c2558", "inet4-forwarding", values)

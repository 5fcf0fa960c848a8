"""Digests of conditions."""

from __future__ import annotations

from netbisect.bisect.model.entities import Commit, Conditions


def test_digest_of_conditions() -> None:
    values = {"processors": "4", "cpu": "Atom C2558"}
    one = Conditions.of("c2558", "inet4-forwarding", values)
    reordered = Conditions.of("c2558", "inet4-forwarding", dict(reversed(values.items())))
    other = Conditions.of("c2558", "inet4-forwarding", {**values, "processors": "8"})

    assert one.digest == reordered.digest == "c5d2dc015d9d746a"
    assert other.digest != one.digest
    assert one == Conditions(one.digest, "c2558", "inet4-forwarding", values)


def test_only_hashes_are_shortened() -> None:
    names = ("0123456789abcdef" + 24 * "0", "release-14.0.12", "r311849")
    labels = [Commit(name, 13, "", "", "", "", 0.0).label for name in names]
    assert labels == ["n13-0123456789ab", "n13-release-14.0.12", "r311849"]

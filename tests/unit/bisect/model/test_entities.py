"""Labels of commits, and digests of conditions."""

from __future__ import annotations

from netbisect.bisect.model.entities import Commit, Conditions


def commit(revision: str) -> Commit:
    return Commit(revision, 302145, "a change", "", "A", "a@netbisect.invalid", 5.0)


def test_label_of_a_git_commit() -> None:
    assert commit("0a1b2c3d4e5f" + 28 * "7").label == "n302145-0a1b2c3d4e5f"


def test_label_of_a_subversion_commit() -> None:
    assert commit("r311849").label == "r311849"


def test_digest_of_conditions() -> None:
    values = {"processors": "4", "cpu": "Atom C2558"}
    one = Conditions.of("c2558", "inet4-forwarding", values)
    turned = Conditions.of("c2558", "inet4-forwarding", dict(reversed(values.items())))
    other = Conditions.of("c2558", "inet4-forwarding", {**values, "processors": "8"})

    assert one.digest == turned.digest == "c5d2dc015d9d746a"
    assert other.digest != one.digest
    assert one == Conditions(one.digest, "c2558", "inet4-forwarding", values)

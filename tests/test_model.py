"""What the nouns say of themselves."""

from __future__ import annotations

from netbisect.bisect.model import Commit, Conditions


def commit(revision: str) -> Commit:
    return Commit(revision, 302145, "a change", "", "A", "a@netbisect.invalid", 5.0)


def test_a_commit_is_called_by_its_number_and_the_start_of_its_hash() -> None:
    assert commit("0a1b2c3d4e5f" + 28 * "7").label == "n302145-0a1b2c3d4e5f"


def test_a_commit_whose_name_is_a_number_is_called_by_that() -> None:
    assert commit("r311849").label == "r311849"


def test_conditions_are_told_apart_by_their_values_and_not_by_the_order_of_those() -> None:
    """The digest is in every database: another one would part samples that belong together."""
    values = {"processors": "4", "cpu": "Atom C2558"}
    one = Conditions.of("c2558", "inet4-forwarding", values)
    turned = Conditions.of("c2558", "inet4-forwarding", dict(reversed(values.items())))
    other = Conditions.of("c2558", "inet4-forwarding", {**values, "processors": "8"})

    assert one.digest == turned.digest == "c5d2dc015d9d746a"
    assert other.digest != one.digest
    assert one == Conditions(one.digest, "c2558", "inet4-forwarding", values)

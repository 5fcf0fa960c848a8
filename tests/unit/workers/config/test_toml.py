"""Reading TOML into dataclasses, and messages about errors."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.workers.config.toml import FileError, Scalar, load, resolve_paths, structure


@dataclass(frozen=True)
class Wheel:
    size: int
    kind: str = "round"

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size {self.size}: expected 1 or more")


@dataclass(frozen=True)
class Car:
    name: str
    wheels: tuple[Wheel, ...]
    weight: float = 1.0
    open: bool = False
    manual: Path | None = None
    notes: dict[str, Scalar] = field(default_factory=dict)


def car(tmp_path: Path, text: str) -> Car:
    path = tmp_path / "car.toml"
    path.write_text(text)
    return load(path, Car)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wheels = []", "name: this key is missing"),
        (
            'name = 1\nwheels = []\nweight = "2"',
            "name: expected a string, found a whole number (1)",
        ),
        (
            'name = "a"\nwheels = []\nweight = true',
            "weight: expected a number, found true or false (True)",
        ),
        (
            'name = "a"\nwheels = []\nopen = 1',
            "open: expected true or false, found a whole number (1)",
        ),
        ('name = "a"\nwheels = {size = 1}', "wheels: expected a list, found a table"),
        ('name = "a"\nwheels = [[1]]', "wheels[0]: expected a table, found a list"),
        (
            'name = "a"\nwheels = [{size = 1}, {size = 1.5}]',
            "wheels[1].size: expected a whole number, found a number (1.5)",
        ),
        (
            'name = "a"\nwheels = [{size = 1, knd = "x"}]',
            "wheels[0]: unknown key 'knd'; did you mean 'kind'?",
        ),
        (
            'name = "a"\nwheels = [{size = 1, colour = "x"}]',
            "wheels[0]: unknown key 'colour'; known here: size, kind",
        ),
        ('name = "a"\nwheels = [{size = 0}]', "wheels[0]: size 0: expected 1 or more"),
        (
            'name = "a"\nwheels = []\nnotes = {x = [1]}',
            "notes['x']: expected a string or a whole number, found a list",
        ),
    ],
)
def test_errors_name_the_place(tmp_path: Path, text: str, message: str) -> None:
    """The first line of the message is `FILE: KEY: PROBLEM`."""
    with pytest.raises(FileError) as caught:
        car(tmp_path, text)
    assert str(caught.value).splitlines()[0] == f"{tmp_path / 'car.toml'}: {message}"


toml_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(toml_data)
def test_arbitrary_data_raises_only_file_errors(data: object) -> None:
    """Other exceptions are not raised, and values have exactly the types of their fields."""
    with contextlib.suppress(FileError):
        assert type(structure(data, Car, source="x").name) is str


def test_the_home_of_an_unknown_user_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="~nobody-here/x: this host has no such user"):
        resolve_paths(Car("a", (), manual=Path("~nobody-here/x")), tmp_path)

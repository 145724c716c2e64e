"""Problems whose data the tests read and write; only what files need of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest


@dataclass(frozen=True)
class Axis:
    name: str
    low: float
    high: float
    periodic: bool = False


@dataclass(frozen=True)
class Given:
    name: str
    of: tuple[str, ...]
    hidden: bool = False
    history: None = None


@dataclass(frozen=True)
class FileProblem:
    name: str
    coordinates: tuple[Axis, ...]
    inputs: tuple[Given, ...]
    unknowns: tuple[str, ...] = ("u",)
    channels: tuple[str, ...] = ("u",)
    units: dict[str, str] = field(default_factory=dict)
    hash: str = "c0ffee"
    infer: tuple[str, ...] = ()
    angles: tuple[Axis, ...] = ()
    spec: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(title="A title"))

    @property
    def visible_inputs(self) -> tuple[Given, ...]:
        return tuple(i for i in self.inputs if not i.hidden)

    def coordinate(self, name: str) -> Axis:
        return next(c for c in self.coordinates if c.name == name)

    def to_yaml(self) -> str:
        return f"name: {self.name}\n"


T, X, Y = Axis("t", 0.0, 1.0), Axis("x", 0.0, 2.0, periodic=True), Axis("y", -1.0, 1.0)


@pytest.fixture
def line() -> FileProblem:
    """One unknown u(t, x) from u0(x)."""
    return FileProblem("line", (T, X), (Given("u0", ("x",)),), units={"t": "s", "x": "m"})


@pytest.fixture
def several() -> FileProblem:
    """u and psi over (t, x) from u0(x), a source f(t, x) and a scalar nu."""
    given = (Given("u0", ("x",)), Given("f", ("t", "x")), Given("nu", ()))
    return FileProblem("several", (T, X), given, channels=("u", "psi"))


@pytest.fixture
def plane() -> FileProblem:
    """A steady u(x, y) from a(x, y)."""
    return FileProblem("plane", (X, Y), (Given("a", ("x", "y")),))

"""A spec as an object: exactly what the YAML says, every text with its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, TypeAlias

from piop.boundary import BoundaryCondition
from piop.errors import Issue, Place
from piop.spec.distributions import Distribution
from piop.spec.tree import Node, ScalarNode

Text: TypeAlias = ScalarNode
Setting: TypeAlias = "bool | int | float | str | tuple[Setting, ...]"


def issue_at(place: Place, message: str, hint: str = "") -> Issue:
    """What is wrong at a place, and what to do; a hint begins a sentence of its own."""
    stop = "." if hint and message[-1:] not in ".?" else ""
    return Issue(message + stop, place.file, place.line, place.column, hint)


class SensorPlacement(StrEnum):
    """Ways to place the sensors of an input, by their keywords in the spec.

    Attributes:
        GRID: On an even grid, the same for every sample.
        UNIFORM: Independently and uniformly, anew for every sample.
        LATIN_HYPERCUBE: One in each of equal slices of every axis, anew for every sample.
        SOBOL: At scrambled Sobol points, anew for every sample.
        POINTS: At the points where the solution is known.
    """

    GRID = "grid"
    UNIFORM = "uniform"
    LATIN_HYPERCUBE = "latin_hypercube"
    SOBOL = "sobol"
    POINTS = "points"

    def shape(self, count: int, dimension: int) -> tuple[int, ...]:
        """Arrange about ``count`` sensors: equally many along each axis of a grid."""
        return (round(count ** (1 / dimension)),) * dimension if self is self.GRID else (count,)


def _empty(**options: Any) -> Any:
    """A field that is an empty mapping unless given."""
    return field(default_factory=lambda: MappingProxyType({}), **options)


@dataclass(frozen=True)
class InputSpec:
    """One input: ``of`` coordinates, and either a distribution or an expression of other inputs.

    Attributes:
        of: Coordinates it depends on; empty for a scalar.
        distribution: How it is drawn.
        expression: In place of a distribution.
        hidden: Drawn, but not shown to the network.
        smooth: Whether point-wise derivatives of it exist; None lets the distribution decide.
    """

    of: tuple[Text, ...]
    distribution: Distribution | None = None
    expression: Text | None = None
    hidden: bool = False
    smooth: bool | None = None


@dataclass(frozen=True)
class ConditionSpec:
    """One boundary condition as written; kinds that name no unknown leave it empty."""

    kind: type[BoundaryCondition]
    unknown: str
    values: tuple[Text, ...]
    place: Place = field(default_factory=Place, compare=False)


@dataclass(frozen=True)
class AuxiliarySpec:
    """An unknown fixed by a linear elliptic equation, and its mean where that leaves a constant."""

    equation: Text
    mean: Text | None = None


@dataclass(frozen=True)
class SensorSpec:
    """Where an input is observed: ``count`` points (per axis on a grid), and how they are placed.

    ``place: points`` are those of the solution, as many as ``save`` says.
    """

    count: tuple[int, ...] | None = None
    place: SensorPlacement = SensorPlacement.UNIFORM


@dataclass(frozen=True)
class LearnSpec:
    """The inverse operator: from noisy observations of unknowns to inputs."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    noise: tuple[float, ...] = ()


@dataclass(frozen=True)
class Spec:
    """A spec as written; see the documentation of the language for the meaning of each word.

    Attributes:
        places: Dotted path of every key to its place, such as ``boundary.x``.
        domain: The shape as a tree of values, checked; None for a box.
        folder: Folder that paths in the spec are relative to; None allows any.
    """

    name: str
    unknowns: tuple[Text, ...]
    equations: tuple[Text, ...]
    title: str = ""
    source: str = ""
    time: Mapping[str, tuple[Text, Text]] = _empty()
    space: Mapping[str, tuple[Text, Text]] = _empty()
    parameters: Mapping[str, Text | Distribution] = _empty()
    inputs: Mapping[str, InputSpec] = _empty()
    definitions: Mapping[str, Text] = _empty()
    auxiliary: Mapping[str, AuxiliarySpec] = _empty()
    gauge: Mapping[str, Text] = _empty()
    initial: Mapping[str, Text] = _empty()
    boundary: Mapping[str, tuple[ConditionSpec, ...]] = _empty()
    domain: Node | None = None
    sensors: Mapping[str, SensorSpec] = _empty()
    save: Mapping[str, int] = _empty()
    units: Mapping[str, str] = _empty()
    solve: Mapping[str, Setting] = _empty()
    infer: tuple[Text, ...] = ()
    learn: LearnSpec | None = None
    places: Mapping[str, Place] = _empty(compare=False, repr=False)

    @property
    def random_parameters(self) -> dict[str, Distribution]:
        """The parameters that are drawn, which makes them scalar inputs."""
        return {n: v for n, v in self.parameters.items() if not isinstance(v, ScalarNode)}

    def issue(self, path: str, message: str, hint: str = "") -> Issue:
        """What is wrong with a key, at its place; the message says which key."""
        return issue_at(self.place(path), f"{path}: {message}", hint)

    def place(self, path: str) -> Place:
        """Where a key stands; the nearest key above it if it is not written."""
        while path and path not in self.places:
            path = path.rpartition(".")[0]
        return self.places.get(path, Place())

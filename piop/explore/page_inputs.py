"""Inputs as the page gives them: drawn, painted, changed by waves, or measured at sensors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from piop.arguments import LARGEST_SEED, flag, mapping, real_number, sequence, whole_number
from piop.errors import UsageError, did_you_mean, excerpt
from piop.explore.limits import DRAWN_POINTS, LARGEST, SENSORS, WAVES
from piop.fields import FunctionSamples, InputFunction, grid_axis, tensor_grid
from piop.problem import Coordinate, Input, Problem
from piop.run.user_inputs import interpolate_input
from piop.sampling import Draws, InputSampler, place_sensors, reconstruct
from piop.sampling.distributions import input_axes, input_sampler
from piop.sampling.functions import ProductFunction, ScalarFunction
from piop.sampling.random import Purpose

PAGE = Purpose("page")
"""Inputs that are drawn for the page."""


def drawn_axes(axes: Sequence[Coordinate]) -> list[Tensor]:
    """Lay the even grid on which an input is shown and painted, along each axis ``[n]``."""
    if not axes:
        return []
    count = DRAWN_POINTS[len(axes)]
    return [grid_axis(a.low, a.high, count + (not a.periodic), a.periodic) for a in axes]


@final
class Draw:
    """Draws all inputs of a problem; those of the last seeds are kept.

    Args:
        problem: The problem.
    """

    def __init__(self, problem: Problem) -> None:
        sampler = InputSampler(problem)
        self._drawn = lru_cache(maxsize=8)(lambda seed: sampler(Draws.of(PAGE, seed, [0])))

    def __call__(self, seed: int) -> Mapping[str, InputFunction]:
        """Draw one function of each input, hidden ones included."""
        return self._drawn(seed)


class InputDefinition(ABC):
    """How the page defines one input.

    Attributes:
        kind: Its keyword in messages.
        keys: The keys beside ``kind``; those of other kinds are refused.
    """

    kind: ClassVar[str]
    keys: ClassVar[tuple[str, ...]]

    @classmethod
    @abstractmethod
    def read(cls, place: str, item: Input, given: Mapping[str, Any]) -> InputDefinition:
        """Read what the page sends.

        Args:
            place: Where it stands, for messages.
            item: The input.
            given: The keys and values.

        Raises:
            UsageError: If values are missing, of another kind, or too many.
        """

    @abstractmethod
    def function(self, problem: Problem, item: Input, draw: Draw) -> InputFunction:
        """Make the function (B = 1) that is shown and observed at sensors."""

    def exact(self, problem: Problem, item: Input, draw: Draw) -> InputFunction:
        """Make the function that the reference is solved for.

        Raises:
            DataError: If what is given does not determine a function.
        """
        return self.function(problem, item, draw)

    @property
    def measured(self) -> FunctionSamples | None:
        """Sensors that come with the definition; None where they are placed in a function."""
        return None


@final
@dataclass(frozen=True)
class Drawn(InputDefinition):
    """A function drawn from the distribution of the spec.

    Attributes:
        seed: Of the draw.
    """

    seed: int
    kind: ClassVar[str] = "draw"
    keys: ClassVar[tuple[str, ...]] = ("seed",)

    @classmethod
    def read(cls, place: str, item: Input, given: Mapping[str, Any]) -> Drawn:
        """See the base class."""
        return cls(whole_number(f"{place}.seed", given.get("seed"), 0, LARGEST_SEED))

    def function(self, problem: Problem, item: Input, draw: Draw) -> InputFunction:
        """See the base class."""
        return draw(self.seed)[item.name]


@final
@dataclass(frozen=True)
class Painted(InputDefinition):
    """Values on the grid of :func:`drawn_axes`.

    Attributes:
        values: In row-major order.
        within: Whether the function is the nearest one that the distribution can draw, in the sense
            of its interpolation from sensors.
    """

    values: tuple[float, ...]
    within: bool
    kind: ClassVar[str] = "values"
    keys: ClassVar[tuple[str, ...]] = ("values", "within")

    @classmethod
    def read(cls, place: str, item: Input, given: Mapping[str, Any]) -> Painted:
        """See the base class."""
        values = _numbers(f"{place}.values", given.get("values"), SENSORS)
        return cls(values, flag(f"{place}.within", given.get("within", True)))

    def function(self, problem: Problem, item: Input, draw: Draw) -> InputFunction:
        """See the base class."""
        axes = drawn_axes(input_axes(problem, item))
        count = math.prod(map(len, axes))
        if not axes or len(self.values) != count:
            expected = f"{count} values on a grid" if axes else "a number, without coordinates"
            message = f"has {len(self.values)} painted values; expected {expected}"
            raise UsageError(f"input {item.name!r}: {message}")
        values = torch.tensor(self.values, dtype=torch.float64)[None, :, None]
        samples = FunctionSamples(tensor_grid(axes)[None], values)
        if self.within or not item.smooth:
            return reconstruct(problem, item, samples)
        return interpolate_input(problem, item, samples)


@final
@dataclass(frozen=True)
class Waved(InputDefinition):
    """A function some of whose coefficients are changed.

    Attributes:
        base: The function before.
        changes: Position among the coefficients of the distribution → coefficient.
    """

    base: InputDefinition
    changes: Mapping[int, float]
    kind: ClassVar[str] = "waves"
    keys: ClassVar[tuple[str, ...]] = ("base", "changes")

    @classmethod
    def read(cls, place: str, item: Input, given: Mapping[str, Any]) -> Waved:
        """See the base class."""
        base = read_definition(f"{place}.base", item, given.get("base"))
        if isinstance(base, Waved):
            raise UsageError(f"{place}.base: waves of waves; give the definition below them")
        changes = mapping(f"{place}.changes", given.get("changes"), '{"3": 0.5}')
        if len(changes) > WAVES:
            raise UsageError(f"{place}.changes: has {len(changes)} waves; at most {WAVES}")
        found = {}
        for key, value in changes.items():
            position = int(key) if key.isascii() and key.isdigit() and len(key) < 8 else -1
            if position < 0:
                raise UsageError(f"{place}.changes: {excerpt(key)} is not the number of a wave")
            found[position] = _number(f"{place}.changes.{position}", value)
        return cls(base, found)

    def function(self, problem: Problem, item: Input, draw: Draw) -> InputFunction:
        """See the base class."""
        spectrum = input_sampler(problem, item).spectrum()
        base = None
        if spectrum is not None:
            base = coefficients(problem, item, self.base.function(problem, item, draw))
        if spectrum is None or base is None:
            raise UsageError(f"input {item.name!r}: its distribution is not stated by waves")
        found = base.flatten().clone()
        for position, value in self.changes.items():
            if position >= len(found):
                message = f"has no wave {position}; its distribution has {len(found)}"
                raise UsageError(f"input {item.name!r}: {message}")
            found[position] = value
        return spectrum.function(found.reshape(1, *spectrum.variance.shape))


@final
@dataclass(frozen=True)
class Number(InputDefinition):
    """A number, for an input without coordinates.

    Attributes:
        value: The number.
    """

    value: float
    kind: ClassVar[str] = "number"
    keys: ClassVar[tuple[str, ...]] = ("value",)

    @classmethod
    def read(cls, place: str, item: Input, given: Mapping[str, Any]) -> Number:
        """See the base class."""
        return cls(_number(f"{place}.value", given.get("value")))

    def function(self, problem: Problem, item: Input, draw: Draw) -> InputFunction:
        """See the base class."""
        if item.of:
            names = ", ".join(item.of)
            raise UsageError(f"input {item.name!r}: is a function of {names}, not a number")
        return ScalarFunction(torch.tensor([self.value], dtype=torch.float64))


@final
@dataclass(frozen=True)
class Measured(InputDefinition):
    """Values at sensors, as from a file.

    Attributes:
        points: Position of each sensor.
        values: Value at each.
    """

    points: tuple[tuple[float, ...], ...]
    values: tuple[float, ...]
    kind: ClassVar[str] = "sensors"
    keys: ClassVar[tuple[str, ...]] = ("points", "values")

    @classmethod
    def read(cls, place: str, item: Input, given: Mapping[str, Any]) -> Measured:
        """See the base class."""
        points = _points(f"{place}.points", item, given.get("points"))
        values = _numbers(f"{place}.values", given.get("values"), SENSORS)
        if len(points) != len(values):
            raise UsageError(f"{place}: has {len(points)} points and {len(values)} values")
        return cls(points, values)

    @property
    def measured(self) -> FunctionSamples:
        """See the base class."""
        points = torch.tensor(self.points, dtype=torch.float64)
        values = torch.tensor(self.values, dtype=torch.float64)
        return FunctionSamples(points.reshape(1, len(values), -1), values[None, :, None])

    def function(self, problem: Problem, item: Input, draw: Draw) -> InputFunction:
        """See the base class: the interpolant under the distribution."""
        return reconstruct(problem, item, self.measured)

    def exact(self, problem: Problem, item: Input, draw: Draw) -> InputFunction:
        """See the base class."""
        return interpolate_input(problem, item, self.measured)


KINDS: Mapping[str, type[InputDefinition]] = {
    own.kind: own for own in (Drawn, Painted, Waved, Number, Measured)
}
"""Keyword in messages → kind of definition."""


def read_definition(place: str, item: Input, given: Any) -> InputDefinition:
    """Read the definition of one input.

    Raises:
        UsageError: If it is none.
    """
    found = mapping(place, given, '{"kind": "draw", "seed": 0}')
    kind = found.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise UsageError(f"{place}.kind: {excerpt(kind)} is not one of {', '.join(KINDS)}")
    own = KINDS[kind]
    if unknown := sorted(found.keys() - {"kind", *own.keys}):
        raise UsageError(f"{place}: {excerpt(unknown[0])} is not one of {', '.join(own.keys)}")
    return own.read(place, item, found)


@final
@dataclass(frozen=True)
class SensorLayout:
    """Where one input is observed.

    Attributes:
        points: Positions; empty for those of the spec.
        seed: Of sensors that the spec places at random.
    """

    points: tuple[tuple[float, ...], ...] = ()
    seed: int = 0

    @classmethod
    def read(cls, place: str, item: Input, given: Any) -> SensorLayout:
        """Read what the page sends.

        Raises:
            UsageError: If it is no list of positions in the domain, and no seed.
        """
        found = mapping(place, given, '{"seed": 0}')
        if unknown := sorted(found.keys() - {"points", "seed"}):
            raise UsageError(f"{place}: {excerpt(unknown[0])} is not one of points, seed")
        if "points" in found:
            return cls(_points(f"{place}.points", item, found["points"]))
        return cls(seed=whole_number(f"{place}.seed", found.get("seed", 0), 0, LARGEST_SEED))

    def place(self, problem: Problem, item: Input) -> Tensor:
        """Return the positions ``[1, M, d]``."""
        if self.points:
            return torch.tensor(self.points, dtype=torch.float64)[None]
        return place_sensors(problem, item, Draws.of(PAGE, self.seed, [0]))


@final
@dataclass(frozen=True)
class PageInputs:
    """All inputs as the page defines them, and where they are observed.

    Attributes:
        problem: The problem.
        draw: Draws its inputs.
        definitions: Input → definition.
        layouts: Input → sensors, for those that are not at the sensors of the spec.
    """

    problem: Problem
    draw: Draw = field(repr=False)
    definitions: Mapping[str, InputDefinition]
    layouts: Mapping[str, SensorLayout]

    def functions(self) -> dict[str, InputFunction]:
        """Make the functions that are shown (B = 1)."""
        return self._each(lambda own, item: own.function(self.problem, item, self.draw))

    def exact(self) -> dict[str, InputFunction]:
        """Make the functions that the reference is solved for.

        Raises:
            DataError: If sensors do not determine a function.
        """
        return self._each(lambda own, item: own.exact(self.problem, item, self.draw))

    def _each(
        self, make: Callable[[InputDefinition, Input], InputFunction]
    ) -> dict[str, InputFunction]:
        return {i.name: make(self.definitions[i.name], i) for i in self.problem.visible_inputs}

    def observe(self, functions: Mapping[str, InputFunction]) -> dict[str, FunctionSamples]:
        """Observe functions at the sensors; measured values stay as they are."""
        found = {}
        for item in self.problem.visible_inputs:
            layout = self.layouts.get(item.name)
            measured = self.definitions[item.name].measured
            if measured is not None and layout is None:
                found[item.name] = measured
                continue
            at = (layout or SensorLayout()).place(self.problem, item)
            found[item.name] = FunctionSamples(at, functions[item.name](at)[..., None].double())
        return found

    @property
    def edited_sensors(self) -> bool:
        """Whether sensors are elsewhere than the spec places them."""
        own = any(d.measured is not None for d in self.definitions.values())
        return own or any(s.points or s.seed for s in self.layouts.values())


def read_inputs(problem: Problem, draw: Draw, given: Any, sensors: Any) -> PageInputs:
    """Read all inputs that the page sends.

    Args:
        problem: The problem.
        draw: Draws its inputs.
        given: Input → definition.
        sensors: Input → sensors, of some or none.

    Raises:
        UsageError: Naming what is missing, unknown, or no definition.
    """
    items = {item.name: item for item in problem.visible_inputs}
    found = mapping("inputs", given, '{"u0": {"kind": "draw", "seed": 0}}')
    layouts = mapping("sensors", {} if sensors is None else sensors, '{"u0": {"seed": 0}}')
    for part, names in (("inputs", found), ("sensors", layouts)):
        for name in names:
            if name not in items:
                hint = did_you_mean(name, items) or f"One of {', '.join(items) or 'none'}."
                raise UsageError(f"{part}: {excerpt(name)} is not an input. {hint}")
    if missing := [name for name in items if name not in found]:
        raise UsageError(f"inputs: {missing[0]!r} is missing")
    return PageInputs(
        problem,
        draw,
        {n: read_definition(f"inputs.{n}", item, found[n]) for n, item in items.items()},
        {n: SensorLayout.read(f"sensors.{n}", items[n], value) for n, value in layouts.items()},
    )


def coefficients(problem: Problem, item: Input, function: InputFunction) -> Tensor | None:
    """Return coefficients ``[K1, …, Kd]`` of a function (B = 1) in the waves of its distribution.

    None where the distribution is not stated by waves.
    """
    spectrum = input_sampler(problem, item).spectrum()
    if spectrum is None:
        return None
    shape = spectrum.variance.shape
    if not (isinstance(function, ProductFunction) and function.coefficients.shape[1:] == shape):
        points = tensor_grid(drawn_axes(input_axes(problem, item)))[None]
        samples = FunctionSamples(points, function(points)[..., None])
        function = reconstruct(problem, item, samples)
    return function.coefficients[0] if isinstance(function, ProductFunction) else None


def _number(place: str, value: Any) -> float:
    found = real_number(place, value)
    if abs(found) > LARGEST:
        raise UsageError(f"{place}: {found:g} is larger than {LARGEST:g}")
    return found


def _numbers(place: str, value: Any, most: int) -> tuple[float, ...]:
    parts = sequence(place, value, "[0.5, 1.0]")
    if not 0 < len(parts) <= most:
        raise UsageError(f"{place}: has {len(parts)} numbers; expected one to {most}")
    return tuple(_number(f"{place}[{i}]", part) for i, part in enumerate(parts))


def _points(place: str, item: Input, value: Any) -> tuple[tuple[float, ...], ...]:
    parts = sequence(place, value, "[[0.5]]")
    if not 0 < len(parts) <= SENSORS:
        raise UsageError(f"{place}: has {len(parts)} sensors; expected one to {SENSORS}")
    found = []
    for i, part in enumerate(parts):
        own = sequence(f"{place}[{i}]", part, "[0.5]")
        if len(own) != len(item.of):
            message = f"has {len(own)} coordinates; expected {len(item.of)}"
            raise UsageError(f"{place}[{i}]: {message}")
        found.append(tuple(_number(f"{place}[{i}]", x) for x in own))
    return tuple(found)

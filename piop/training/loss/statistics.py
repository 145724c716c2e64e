"""Typical sizes of inputs, unknowns and residuals, which make the loss dimensionless."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import sympy as sp
import torch
from torch import Tensor

from piop.datasets import AnyDataset
from piop.errors import UsageError
from piop.fields import FunctionSamples
from piop.forms.hard_constraints import lift_expression
from piop.forms.terms import derivative_index
from piop.models.core.base import Inputs
from piop.problem import Problem
from piop.problem.constraints import decide_constraints
from piop.problem.inputs import history_of
from piop.residual import Lift, Residual, compile_residual
from piop.sampling import Draws, collocation, observe, sample_inputs
from piop.training.loss.known_functions import Functions, known_field

TINY = 1e-12
"""Sizes below are rounding."""

Gains = Sequence[Sequence[float]]
"""What a long wave of size one of each unknown adds to each residual, ``[E][C]``."""


def find_sizes(
    problem: Problem, known: Sequence[float], driving: Sequence[float], gains: Callable[[], Gains]
) -> tuple[list[float], list[float]]:
    """Find the sizes of the unknowns and of the residuals.

    An unknown that evolves is as large as what is known of it, its initial data and wall values;
    where those vanish, as large as what the residual of the known drives in time T; its equation,
    which holds ∂ᵏu/∂tᵏ, is as large as u/Tᵏ. An auxiliary unknown is as large as its source lets
    it be. All others are sized by :func:`balanced_sizes`.

    Args:
        problem: The problem.
        known: Size of what is known of each channel ``[C]``, its units.
        driving: Size of each equation's residual for what is known ``[E]``, its units.
        gains: What :func:`with_wave` adds to each residual; called only where it is asked for.

    Returns:
        Sizes of the channels and of the equations, their units.
    """
    kind = [time_derivative(problem, e) for e in range(len(problem.residuals))]
    settled: dict[int, float] = {}
    for channel, name in enumerate(problem.channels):
        own = [(e, k[1]) for e, k in enumerate(kind) if k and k[0] == name]
        source = _elliptic_size(problem, name, driving)
        if own or source > TINY:
            driven = [driving[e] * _span(problem, order) for e, order in own]
            settled[channel] = next((s for s in (known[channel], *driven, source) if s > TINY), 1.0)
    drives = [
        settled[problem.channels.index(k[0])] / _span(problem, k[1]) if k else size
        for k, size in zip(kind, driving, strict=True)
    ]
    if len(settled) == len(known) and all(size > TINY for size in drives):
        return [settled[c] for c in range(len(known))], drives
    return balanced_sizes(known, drives, gains(), settled)


def balanced_sizes(
    known: Sequence[float],
    driving: Sequence[float],
    gain: Gains,
    settled: Mapping[int, float] | None = None,
) -> tuple[list[float], list[float]]:
    """Find sizes at which the longest waves balance what drives them.

    Args:
        known: Size of what is known of each unknown ``[C]``.
        driving: Size of each equation ``[E]``, 0 where nothing drives it.
        gain: What a wave of size one adds to it.
        settled: Unknowns whose size is settled.

    Returns:
        Of each unknown the size of what is known of it, or what balances the equation that drives
        it least, whichever is more; where nothing drives it, what balances the other unknowns. Of
        each equation what drives it, or where nothing does, the largest of its terms.
    """
    found = dict(settled or {})
    for c, size in enumerate(known):
        balance = [d / row[c] for d, row in zip(driving, gain, strict=True) if d > TINY < row[c]]
        best = max(size, min(balance, default=0.0))
        if best > TINY:
            found.setdefault(c, best)
    for c in range(len(known)):
        others = [
            max((row[k] * s for k, s in found.items()), default=0.0) / row[c]
            for row in gain
            if row[c] > TINY
        ]
        found.setdefault(c, max(others, default=0.0) or 1.0)
    scale = [found[c] for c in range(len(known))]
    terms = [max(g * s for g, s in zip(row, scale, strict=True)) for row in gain]
    return scale, [d if d > TINY else t or 1.0 for d, t in zip(driving, terms, strict=True)]


def known_expressions(problem: Problem) -> tuple[sp.Expr, ...]:
    """Give u0 of each channel with what its walls add to it, zero where it has neither."""
    walls, found = decide_constraints(problem).hard_faces, []
    for channel, faces in zip(problem.channels, walls, strict=True):
        started = int(channel in problem.initial)
        lifts = (lift_expression(problem.pde, channel, started, own) for own in (faces, ()))
        found.append(next((e for e in lifts if e is not None), sp.S.Zero))
    return tuple(found)


def with_wave(problem: Problem, start: Sequence[sp.Expr], channel: int) -> list[sp.Expr]:
    """Add to one channel the longest wave that fits: half between walls, one round a period.

    Its root mean square is one.
    """
    wave = sp.Mul(
        *(
            sp.sqrt(2) * sp.sin((2 if c.periodic else 1) * sp.pi * (c.symbol - c.low) / c.length)
            for c in problem.space
        )
    )
    return [e + wave if i == channel else e for i, e in enumerate(start)]


def time_derivative(problem: Problem, equation: int) -> tuple[str, int] | None:
    """Find the unknown whose highest time derivative an equation holds, and its order."""
    if problem.time is None:
        return None
    symbols = [c.symbol for c in problem.coordinates]
    found = [
        (derivative_index(atom, symbols)[0], atom.expr.func.__name__)
        for atom in problem.residuals[equation].atoms(sp.Derivative)
        if atom.expr.func.__name__ in problem.channels
    ]
    order, name = max(found, default=(0, ""))
    return (name, order) if order else None


def _span(problem: Problem, order: int) -> float:
    return 1.0 if problem.time is None else problem.time.length**order


def _elliptic_size(problem: Problem, name: str, driving: Sequence[float]) -> float:
    """Size of an auxiliary unknown: its source times (L/2π)² of the longest axis."""
    auxiliaries = problem.pde.auxiliaries
    own = driving[len(problem.residuals) - len(auxiliaries) :]  # its equations come last
    source = {a.name: size for a, size in zip(auxiliaries, own, strict=True)}.get(name, 0.0)
    return source * (max((c.length for c in problem.space), default=0.0) / (2 * math.pi)) ** 2


FUNCTIONS, POINTS = 256, 64
"""Random functions, and points on each, over which the statistics are taken."""
WINDOWS_VERSION = 1
"""To be raised when the same numbers of time windows come to mean another network or lift."""


@dataclass(frozen=True)
class Statistics:
    """Typical sizes under the distribution of the inputs; kept with the model.

    Attributes:
        input_mean: Mean of each visible input, its units.
        input_std: Standard deviation of each visible input, its units.
        channel_mean: Mean of what initial data and walls prescribe of each channel, its units.
        channel_scale: Typical size of each channel, its units.
        equation_scale: Typical size of each equation's residual, its units.
        gridded: Inputs whose sensors lie on even grids, the same for every function.
        grid: Points along each coordinate of the data that are trained on; empty where they are
            scattered, or there are none.
        noise: Standard deviations that levels of noise are fractions of, at each sensor of an input
            or over all; none for inputs that are observed without noise.
        windows: Time windows that the operator is applied to; all that is above is of one.
        waves: Length of the longest wave vectors that the state at the start of a window keeps, in
            periods over an axis; 0 without windows.
        bulk: Most periods along an axis of the waves that attention's tokens resolve.
        lattice: Times, and points along each axis, of the lattice on which the equations are
            integrated; empty where they are evaluated at random points.
        potential: Whether the network is the potential of the unknowns.
        windows_version: That of what follows from the numbers of time windows.
    """

    input_mean: dict[str, float]
    input_std: dict[str, float]
    channel_mean: tuple[float, ...]
    channel_scale: tuple[float, ...]
    equation_scale: tuple[float, ...]
    gridded: tuple[str, ...] | None = None
    grid: tuple[int, ...] = ()
    noise: dict[str, list[float]] = field(default_factory=dict)
    windows: int = 1
    waves: int = 0
    bulk: int = 0
    lattice: tuple[int, ...] = ()
    potential: bool = False
    windows_version: int = WINDOWS_VERSION

    def to_json(self) -> dict[str, Any]:
        """Give the statistics as plain dicts, lists and numbers."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Statistics:
        """Build the statistics that :meth:`to_json` wrote.

        Raises:
            UsageError: If they are of time windows of an earlier version.
        """
        stored: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        known = stored.setdefault("windows_version", 0) == WINDOWS_VERSION
        if stored.get("windows", 1) > 1 and not known:
            raise UsageError(
                "this run was trained in time windows by an earlier version, which chose the waves "
                "of its network otherwise; train it again with piop solve"
            )
        stored.pop("harmonics", None)  # of earlier versions
        return cls(**stored)


def find_statistics(
    problem: Problem, data: AnyDataset | None, seed: int = 0, *, physics: bool = True
) -> Statistics:
    """Measure the statistics of a run.

    Statistics come from the data where available, else from the distribution of the inputs. Where
    the data have every channel and nothing is learned from the equations, no function is drawn, for
    the distribution may be one that cannot be differentiated. Nor is one for an operator that
    observes the past of the solution, which no distribution gives: a channel without data, such as
    a stream function, is left without a size there.

    Args:
        problem: The problem.
        data: The data to train on; None for the distribution alone.
        seed: Of the random functions; the same for every run of a problem, so that runs differ in
            their weights and batches alone, and share what is compiled.
        physics: Whether the operator is trained on the equations.
    """
    problem = problem.at()
    if data is None:
        return distribution_statistics(problem, compile_residual(problem), seed)
    count = len(problem.channels)
    plain = Statistics({}, {}, (0.0,) * count, (1.0,) * count, (1.0,) * len(problem.residuals))
    whole = all(name in data.channels for name in problem.channels)
    if physics or not (whole or history_of(problem)):
        plain = distribution_statistics(problem, compile_residual(problem), seed)
    return replace(data_statistics(problem, data, plain), noise=noise_scales(problem, data))


def distribution_statistics(problem: Problem, residual: Residual, seed: int) -> Statistics:
    """Measure the statistics over random functions of the distribution.

    The sizes of unknowns and residuals are found by :func:`find_sizes`.
    """
    draws = Draws(seed, 0, torch.arange(FUNCTIONS))
    functions = sample_inputs(problem, draws)
    seen = observe(functions, problem, draws)
    return statistics_over(problem, residual, functions, seen, collocation(problem, draws, POINTS))


def statistics_over(
    problem: Problem, residual: Residual, functions: Functions, seen: Inputs, queries: Tensor
) -> Statistics:
    """Measure the statistics over given functions.

    Args:
        problem: The problem.
        residual: Its compiled equations.
        functions: The inputs.
        seen: What is seen of them.
        queries: Points ``[B, N, D]`` over which sizes are taken.
    """
    start = known_expressions(problem)
    values = known_field(problem, start)(functions, queries)

    def residual_at(expressions: Sequence[sp.Expr]) -> Tensor:
        return _residual_of(residual, residual.compile_lift(expressions), functions, queries)

    found = residual_at(start)
    driving = found.square().mean((0, 1)).sqrt()
    size = values.square().mean((0, 1)).sqrt()

    def gains() -> list[list[float]]:
        waves = [residual_at(with_wave(problem, start, c)) - found for c in range(len(start))]
        return torch.stack([w.square().mean((0, 1)).sqrt() for w in waves], 1).tolist()

    scale, equations = find_sizes(problem, size.tolist(), driving.tolist(), gains)
    return Statistics(
        input_mean={name: float(s.values.mean()) for name, s in seen.items()},
        input_std={name: _nonzero(float(_given(s).std())) for name, s in seen.items()},
        channel_mean=tuple(values.mean((0, 1)).tolist()),
        channel_scale=tuple(scale),
        equation_scale=tuple(equations),
    )


def _residual_of(residual: Residual, lift: Lift, functions: Functions, queries: Tensor) -> Tensor:
    """Each equation's residual for known channels: ``[B, N, E]``."""
    rows = lift(functions, queries)
    known = residual.evaluate_inputs(functions, queries)
    return residual(lambda q: lift.attach(rows, q), queries, known).values


def _nonzero(size: float) -> float:
    """Return a size, or one where it is no more than rounding."""
    return size if size > TINY else 1.0


def _given(samples: FunctionSamples) -> Tensor:
    """Values of the sensors that there are, without those that fill up shorter samples."""
    return samples.values if samples.mask is None else samples.values[samples.mask]


class FunctionSize:
    """Measures the size of each function's solution: its mean square over the distribution's.

    The mean over the unknowns of (mean square of u0)/scale², where u0 is not zero;
    otherwise of what drives the unknown instead, as in :func:`distribution_statistics`.

    Args:
        problem: The problem.
        residual: Its compiled equations.
        statistics: Typical sizes under the distribution.
    """

    def __init__(self, problem: Problem, residual: Residual, statistics: Statistics) -> None:
        start = known_expressions(problem)
        units = dict(zip(problem.channels, statistics.channel_scale, strict=True))
        given = [(e, name) for e, name in zip(start, problem.channels, strict=True) if e != 0]
        self.known = known_field(problem, [e / units[name] for e, name in given])
        self.residual, self.lift = residual, residual.compile_lift(start)
        self.units = statistics.equation_scale

    def __call__(self, functions: Functions, queries: Tensor) -> Tensor:
        """Measure B functions at ``queries [B, N, D]``: ``[B]``, dimensionless."""
        if self.known.expressions:
            return self.known(functions, queries).square().mean((1, 2))
        found = _residual_of(self.residual, self.lift, functions, queries)
        return (found / found.new_tensor(self.units)).square().mean((1, 2))


def data_statistics(problem: Problem, data: AnyDataset, drawn: Statistics) -> Statistics:
    """Replace the sizes of inputs and measured channels by those of a data set.

    Args:
        problem: The problem.
        data: The data set.
        drawn: Statistics over functions of the distribution, kept for channels without data.
    """
    inputs = {item.name: Moments() for item in problem.visible_inputs}
    channels = {name: Moments() for name in data.channels}
    for piece in data.chunks():
        for name, samples in piece.inputs.items():
            inputs[name].add(_given(samples).flatten())
        for name, values in piece.values.items():
            channels[name].add(values.double().flatten())
    mean, scale = list(drawn.channel_mean), list(drawn.channel_scale)
    for channel, name in enumerate(problem.channels):
        if own := channels.get(name):
            mean[channel], scale[channel] = float(own.mean), float(own.square) ** 0.5 or 1.0
    return replace(
        drawn,
        input_mean={name: float(m.mean) for name, m in inputs.items()},
        input_std={name: _nonzero(float(m.std)) for name, m in inputs.items()},
        channel_mean=tuple(mean),
        channel_scale=tuple(scale),
    )


class Moments:
    """Mean, mean square and standard deviation of rows of numbers that come in chunks.

    Attributes:
        count: Rows so far.
        mean: Mean of each column ``[...]``.
        square: Mean square of each column.

    Source: Chan, Golub & LeVeque 1983, eq. 2.1 (doi:10.1080/00031305.1983.10483115).
    """

    def __init__(self) -> None:
        self.count = 0
        self.mean = self.square = self._spread = torch.zeros((), dtype=torch.float64)

    def add(self, rows: Tensor) -> None:
        """Take a chunk of rows ``[n, ...]`` into account."""
        n, mean = len(rows), rows.mean(0).double()
        spread = rows.var(0, correction=0).double() * n
        fraction = n / (self.count + n)
        away = mean - self.mean
        self._spread = self._spread + (spread + away**2 * self.count * fraction)
        self.mean = self.mean + fraction * away
        self.square = self.square + fraction * (rows.square().mean(0).double() - self.square)
        self.count += n

    @property
    def std(self) -> Tensor:
        """Standard deviation of each column; 0 of a single row."""
        return (self._spread / max(1, self.count - 1)).sqrt()


def noise_scales(problem: Problem, data: AnyDataset) -> dict[str, list[float]]:
    """Measure the standard deviation of each noisy input at each sensor, or over all of them.

    Args:
        problem: Whose inputs they are.
        data: What is trained on.

    Returns:
        Input → ``[M]`` numbers, or one; none for inputs without noise.
    """
    found = {}
    for item in problem.visible_inputs:
        if item.distribution is not None and any(item.distribution.noise_levels):
            each = _same_sensors(data, item.name)
            moments = Moments()
            for piece in data.chunks():
                moments.add(_rows(piece.inputs[item.name], each))
            found[item.name] = [float(f"{v:.6g}") for v in moments.std.tolist()]
    return found


def _same_sensors(data: AnyDataset, name: str) -> bool:
    first = data.take(torch.arange(1)).inputs[name].points
    return all(
        s.mask is None and s.points.shape[1] == first.shape[1] and bool((s.points == first).all())
        for s in data.sensor_chunks(name)
    )


def _rows(samples: FunctionSamples, each: bool) -> Tensor:
    """Values ``[n, M]`` of all sensors, or those of all together ``[n·M, 1]``."""
    values = (samples.values if each else _given(samples))[..., 0].double()
    return values if each else values.reshape(-1, 1)

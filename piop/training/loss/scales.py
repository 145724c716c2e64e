"""How large unknowns and residuals are, from what is known of them and what drives them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import sympy as sp

from piop.forms.lift import lift_expression
from piop.forms.streams import derivative_index
from piop.problem import Problem
from piop.problem.conditions import decide_conditions

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
    evolving = {
        e: settled[problem.channels.index(k[0])] / _span(problem, k[1])
        for e, k in enumerate(kind)
        if k
    }
    drives = [evolving.get(e, size) for e, size in enumerate(driving)]
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
    walls = decide_conditions(problem).walls
    found = []
    for channel, faces in zip(problem.channels, walls, strict=True):
        started = int(channel in problem.initial)
        whole = lift_expression(problem, channel, started, faces)
        found.append(lift_expression(problem, channel, started, ()) if whole is None else whole)
    return tuple(sp.S.Zero if e is None else e for e in found)


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
    found: list[tuple[int, str]] = []
    for atom in problem.residuals[equation].atoms(sp.Derivative):
        name = atom.expr.func.__name__
        if name in problem.channels and (order := derivative_index(atom, symbols)[0]):
            found.append((order, name))
    order, name = max(found, default=(0, ""))
    return (name, order) if order else None


def _span(problem: Problem, order: int) -> float:
    assert problem.time is not None  # noqa: S101 - only evolution equations ask
    return problem.time.length**order


def _elliptic_size(problem: Problem, name: str, driving: Sequence[float]) -> float:
    """Size of an auxiliary unknown: its source times (L/2π)² of the longest axis."""
    for position, auxiliary in enumerate(problem.auxiliaries):
        if auxiliary.name == name:
            equation = len(problem.residuals) - len(problem.auxiliaries) + position
            longest = max(c.length for c in problem.space)
            return driving[equation] * (longest / (2 * math.pi)) ** 2
    return 0.0

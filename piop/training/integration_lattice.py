"""The lattice on which the equations are integrated over time: as fine as solutions ask for."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from piop.problem.residual_form import FormDecision
from piop.residual import Lattice
from piop.residual.lattice import lobatto_nodes
from piop.training.resolution import degree_needed, waves_needed

NODES = 17
"""Times of collocation in each window at which solutions are looked at; an odd number."""
UNRESOLVED = 3e-3
"""Root of the part of a solution's variance that may lie beyond what a lattice resolves."""
UNRESOLVED_IN_TIME = 1e-2
"""That of polynomials of the most times, beyond which random points are taken."""
FEWEST_TIMES, FEWEST_POINTS = 5, 16
MOST_TIMES = 8
"""With twelve times training is unstable at the default step size: ``burgers_fno`` after 300 steps
0.107, with eight 0.013."""
ALIASED = 3
"""Points per wave: half of them resolve it, the others keep products of two waves apart from it."""
MOST_POINTS = {1: 1200, 2: 4096, 3: 8192}
"""Points of a lattice at most, by the number of axes: what a step can take of one function."""
STEP_POINTS = 4096
"""Points of all functions of a step, about."""
FEWEST_FUNCTIONS, MOST_FUNCTIONS = 2, 16
CLIP = 0.01
"""Largest norm of the gradient, unless the user says otherwise: this loss is about a hundredth of
that at random points, whose limit of 1 would let single batches throw a network off
(docs/training.md)."""


def node_times(low: float, length: float, windows: int) -> list[float]:
    """Return the times of collocation in all windows, in order, ends of windows once.

    Args:
        low: Start of the time axis.
        length: Its length.
        windows: Into how many windows it is divided.
    """
    nodes = lobatto_nodes(NODES)[:-1] + torch.arange(windows)[:, None]
    return [low + length * t / windows for t in (*nodes.flatten().tolist(), windows)]


def choose_lattice(
    values: Mapping[str, Tensor], windows: int, form: FormDecision
) -> tuple[tuple[int, ...], str]:
    """Choose the lattice on which the equations are integrated over each window.

    Args:
        values: As of :func:`find_lattice`.
        windows: Into how many windows the time axis is divided.
        form: In which form the equations may be trained.

    Returns:
        Its times and points, none for random points; why, a clause.

    Raises:
        ValueError: If the integral form is requested, and no lattice resolves the solutions.
    """
    if not form.integral:
        return (), form.why
    return chosen(find_lattice(values, windows), form)


def chosen(found: Lattice | str, form: FormDecision) -> tuple[tuple[int, ...], str]:
    """Give a lattice and why, or none and why not.

    Raises:
        ValueError: If the integral form is requested, and there is none.
    """
    if isinstance(found, Lattice):
        shape = (found.times, *found.points)
        return shape, f"{' × '.join(map(str, shape))} points resolve reference solutions"
    if form.requested:
        raise ValueError(f"form: integral is not possible: {found}; use auto or strong")
    return (), found


def even_points(values: Mapping[str, Tensor], unresolved: float = UNRESOLVED) -> int:
    """Return the points along each periodic axis that resolve all unknowns; an even number."""
    waves = max(waves_needed(value, unresolved) for value in values.values())
    points = max(FEWEST_POINTS, ALIASED * waves)
    return points + points % 2


def too_large_over_any_time(values: Mapping[str, Tensor]) -> bool:
    """Whether a lattice that resolves some solutions in space is too large, however few its times.

    Args:
        values: Unknown → its values at some times on an even grid ``[B, T, n1, …]``.
    """
    axes = next(iter(values.values())).ndim - 2
    return FEWEST_TIMES * even_points(values) ** axes > MOST_POINTS[axes]


def find_lattice(values: Mapping[str, Tensor], windows: int) -> Lattice | str:
    """Find the coarsest lattice that resolves some solutions, each unknown relative to itself.

    Args:
        values: Unknown → its values at :func:`node_times` on an even grid ``[B, T, n1, …]``.
        windows: Into how many windows the time axis is divided.

    Returns:
        The lattice of one window; where it would be too large, the reason, a clause.
    """
    axes = next(iter(values.values())).ndim - 2
    within = [by_window(v, windows) for v in values.values()]
    degree, least = (
        max(degree_needed(v, part) for v in within) for part in (UNRESOLVED, UNRESOLVED_IN_TIME)
    )
    if least + 2 > MOST_TIMES:  # as many times as coefficients, and one more
        return f"solutions need more than {MOST_TIMES} times of collocation in each window"
    times = min(MOST_TIMES, max(FEWEST_TIMES, degree + 2))
    lattice = Lattice(times, (even_points(values),) * axes)
    if lattice.size > MOST_POINTS[axes]:
        along = " × ".join(map(str, (lattice.times, *lattice.points)))
        return f"solutions need a lattice of {along} points or more, too many for a step"
    return lattice


def settings_on(lattice: Lattice) -> dict[str, float]:
    """Return the settings that go with a lattice, unless the user or the spec gives others."""
    functions = min(max(STEP_POINTS // lattice.size, FEWEST_FUNCTIONS), MOST_FUNCTIONS)
    return {"functions": functions, "clip": CLIP}


def by_window(values: Tensor, windows: int) -> Tensor:
    """Take the values of each window, both ends included: ``[B, windows, NODES, n1, …]``."""
    step = NODES - 1
    return torch.stack([values[:, k * step : (k + 1) * step + 1] for k in range(windows)], 1)

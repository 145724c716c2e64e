"""The coarsest grid of cells: where faces should lie, so that all finer ones lie well too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from piop.spec.laws import PiecewiseConstant

_FEWEST = (32, 24, 8)  # cells along an axis, by dimension
_ODD = (1024, 48, 10)  # most cells of a periodic axis that no longer halves


def first_grid(problem: Any, shape: Sequence[int], cap: int) -> tuple[tuple[int, ...], bool]:
    """Choose the coarsest grid.

    Args:
        problem: The ``Problem``; cells of piecewise constant inputs keep their faces.
        shape: Points of the output along each axis.
        cap: Most cells along an axis; three levels must fit under it.

    Returns:
        Cells along each axis, and whether cells meet at the nodes of the output.
    """
    rank = len(shape)
    pieces = [_pieces(problem, c.name) for c in problem.space]
    intervals = [
        n if c.periodic else max(n - 1, 1) for c, n in zip(problem.space, shape, strict=True)
    ]
    shortest = min(c.length for c in problem.space)
    found, aligned = [], True
    for axis, wanted, own in zip(problem.space, intervals, pieces, strict=True):
        fewest = _FEWEST[rank - 1] * 2 ** round(math.log2(axis.length / shortest))
        both = _fit(math.lcm(wanted, own), own, fewest)
        odd = both // (both & -both)
        fits = 4 * both <= cap and not (axis.periodic and odd > _ODD[rank - 1])
        aligned &= fits
        found.append(both if fits else _fit(own, own, 2 * fewest))
    return tuple(found), aligned


def _fit(count: int, keep: int, fewest: int) -> int:
    """Halve or double a count towards the fewest, as long as it stays a multiple of ``keep``."""
    while count % (2 * keep) == 0 and count // 2 >= fewest:
        count //= 2
    while count < fewest:
        count *= 2
    return count


def _pieces(problem: Any, axis: str) -> int:
    """Cells of piecewise constant inputs along an axis: their least common multiple."""
    laws = [(i.law, i.of) for i in problem.inputs if isinstance(i.law, PiecewiseConstant)]
    counts = [law.per_axis(len(of))[of.index(axis)] for law, of in laws if axis in of]
    return math.lcm(1, *counts)

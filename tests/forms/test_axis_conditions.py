"""Conditions at the ends of an axis, and the waves that meet them."""

import math

import numpy as np
import pytest

from piop.errors import NotSupportedError
from piop.forms.axis_conditions import PeriodicConditions, WallConditions, axis_conditions
from piop.problem import Problem

SPEC = """
piop: 1
name: example
space: {{x: [0, 2]}}
unknowns: [u, v]
equations: ["dxx(u) - v = 0", "dxx(v) - u = 1"]
boundary: {{{boundary}}}
save: {{x: 17}}
"""
ENDS = {"D": "dirichlet: {u: 0, v: 0}", "N": "neumann: {u: 0, v: 0}"}


def found(boundary: str) -> object:
    return axis_conditions(Problem.from_yaml(SPEC.format(boundary=boundary)).pde, 0)


@pytest.mark.parametrize(
    ("low", "high", "extension"),
    [("D", "D", "odd"), ("N", "N", "even"), ("D", "N", None), ("N", "D", None)],
)
def test_values_or_slopes_vanish_at_each_end(low: str, high: str, extension: str | None) -> None:
    conditions = found(f"x.min: {{{ENDS[low]}}}, x.max: {{{ENDS[high]}}}")
    assert conditions == WallConditions((low == "D", high == "D"))
    assert conditions.extension == extension


def test_a_periodic_axis_has_waves_of_both_signs() -> None:
    conditions = found("x: periodic")
    assert conditions == PeriodicConditions()
    assert conditions.extension == "periodic"
    np.testing.assert_allclose(conditions.wavenumbers(2.0, 2) / math.pi, [0, 1, -1, 2, -2])


@pytest.mark.parametrize(
    ("vanish", "quarters"),
    [
        ((True, True), [2, 4, 6]),
        ((False, False), [0, 2, 4]),
        ((True, False), [1, 3, 5]),
        ((False, True), [1, 3, 5]),
    ],
)
def test_half_waves_fit_between_walls(vanish: tuple[bool, bool], quarters: list[int]) -> None:
    waves = WallConditions(vanish).wavenumbers(2.0, 3)
    np.testing.assert_allclose(waves, np.array(quarters) * math.pi / 4)


@pytest.mark.parametrize(
    "boundary",
    [
        "x: {dirichlet: {u: 1, v: 0}}",
        "x: {neumann: {u: 0, v: 2}}",
        "x: [{dirichlet: {u: 0}}, {neumann: {v: 0}}]",
        "x: {robin: {u: [1, 1, 0], v: [1, 1, 0]}}",
    ],
)
def test_other_walls_are_refused(boundary: str) -> None:
    with pytest.raises(NotSupportedError, match="along x it is neither periodic, nor"):
        found(boundary)

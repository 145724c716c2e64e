"""Which steps are tried on the way through the save times."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import pytest

from piop.errors import SolverError
from piop.problem import Problem
from piop.reference import solve_reference
from piop.reference.chebyshev.time_stepping import TimeStepping


@dataclass
class Tried:
    start: float
    length: float
    error: float
    tolerance: float


@pytest.fixture
def tried(monkeypatch):
    """All steps that are tried, on every level."""
    found, usual = [], TimeStepping._try

    def recorded(stepping, w, t, h):
        step = usual(stepping, w, t, h)
        found.append(Tried(t, h, float(step.errors.amax()), stepping.control.tolerance))
        return step

    monkeypatch.setattr(TimeStepping, "_try", recorded)
    return found


def solve(equation, start, times):
    problem = Problem(
        name="case",
        time={"t": [0, times[-1]]},
        unknowns=["u"],
        equations=[equation],
        initial=start,
    )
    return solve_reference(problem, {}, times=times)


def test_steps_of_an_interval_begin_as_long_as_the_last_ones(tried):
    """An oscillator is as fast in every interval: no step of the later ones is rejected."""
    assert solve("d(u, t, 2) = -400*u", {"u": 1, "dt(u)": 0}, [1, 2, 3, 4, 5]).accepted.all()
    later = [step for step in tried if step.start >= 1]
    assert len(later) > 20
    assert all(step.error <= step.tolerance for step in later)


def test_nothing_is_stepped_after_every_sample_has_been_given_up(tried):
    """u = 1/(1 − t) ends at t = 1."""
    with pytest.raises(SolverError, match="no step from t = "):
        solve("dt(u) = u**2", {"u": 1}, [0.5, 2, 3, 4, 5])
    assert 0.99 < max(step.start for step in tried) < 1.01


def test_a_step_whose_iterations_fail_is_tried_again_a_quarter_as_long(tried):
    """u²/2 + log(u)/1000 falls evenly: u as a root until t = 0.5, and is at rest from then on."""
    solve("dt(u) = -u/(0.001 + u**2)", {"u": 1}, [0.5, 2])
    failed = [(a.length, b.length) for a, b in pairwise(tried) if a.error == math.inf]
    assert failed
    assert all(after == length / 4 for length, after in failed)

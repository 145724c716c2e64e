"""Data narrower than steps or meshes are met or refused, never stepped over."""

import math

import numpy as np
import pytest
import torch
from scipy.special import erf

from piop.problem import Problem
from piop.reference import Limits, solve_reference
from piop.reference.chebyshev.time_stepping import TimeStepping
from piop.sampling import Draws, sample_inputs

WALLS = {"x.min": {"dirichlet": {"u": 0}}, "x.max": {"dirichlet": {"u": 0}}}


def scalars(functions):
    return [functions[n].on_grid(()).numpy()[:, None] for n in "cw"]


def solved(count, source, evolution=True, **inputs):
    words = {"time": {"t": [0, 1]}, "initial": {"u": 0}} if evolution else {}
    problem = Problem(
        name="case",
        space={"x": [0, 1]},
        unknowns=["u"],
        inputs={"c": {"law": "uniform", "low": 0.1, "high": 0.9}, **inputs},
        equations=[("dt(u) = 0.1*dxx(u) + " if evolution else "-dxx(u) = ") + source],
        boundary=WALLS,
        save={**({"t": 9} if evolution else {}), "x": 33},
        **words,
    )
    functions = sample_inputs(problem, Draws(0, 0, torch.arange(count)))
    return solve_reference(problem, functions), functions


def test_a_pulse_in_time_is_not_stepped_over():
    """sin πx times ∫ e^{−λ(t − s)} e^{−((s − c)/w)²} ds / w, λ = 0.1 π²."""
    width = {"law": "log_uniform", "low": 1e-5, "high": 1e-2}
    solution, functions = solved(6, "exp(-((t - c)/w)**2)/w*sin(pi*x)", w=width)
    c, w = scalars(functions)
    t, x, rate = solution.times.numpy(), solution.axes[0].numpy(), 0.1 * math.pi**2
    shift = rate * w / 2
    gained = erf((t - c) / w - shift) - erf(-c / w - shift)
    growth = np.exp(-rate * (t - c) + shift**2) * math.sqrt(math.pi) / 2 * gained
    exact = growth[..., None] * np.sin(math.pi * x)
    difference = np.linalg.norm(solution.values["u"].numpy() - exact, axis=(1, 2))
    error = difference / np.linalg.norm(exact, axis=(1, 2))
    assert (error < 1e-6).all()
    assert (error < solution.error_estimate.numpy()).all()
    assert bool(solution.accepted.all())


@pytest.mark.parametrize("evolution", [True, False])
def test_a_spike_between_the_points_is_refused(evolution):
    width = {"law": "log_uniform", "low": 1e-5, "high": 4e-4}
    solution, _ = solved(4, "exp(-((x - c)/w)**2)/w", evolution=evolution, w=width)
    assert not bool(solution.accepted.any())
    assert float(solution.error_estimate.min()) > 0.1
    assert any("data vary between its points" in note for note in solution.notes)


def test_rounding_of_steps_does_not_hold_them_short(monkeypatch):
    """After a spike has spread: doubled steps err 128 times as much as rounding, at most 1e-13."""
    counts, run = [], TimeStepping.run

    def counted(self, *arguments):
        result = run(self, *arguments)
        counts.append(result.steps)
        return result

    monkeypatch.setattr(TimeStepping, "run", counted)
    problem = Problem(
        name="case",
        time={"t": [0, 1]},
        space={"x": [0, 1]},
        unknowns=["u"],
        inputs={
            "c": {"law": "uniform", "low": 0.2, "high": 0.8},
            "w": {"law": "log_uniform", "low": 1e-5, "high": 1e-2},
        },
        equations=["dt(u) = 0.1*dxx(u)"],
        initial={"u": "sin(pi*x) + 0.1*exp(-((x - c)/w)**2)"},
        boundary=WALLS,
        save={"t": 8, "x": 33},
    )
    functions = sample_inputs(problem, Draws(0, 0, torch.arange(4)))
    times = np.linspace(0, 1, 8)[1:]
    solve_reference(problem, functions, times=times, limits=Limits(steps=20_000))
    assert max(counts) < 3000

"""Terms that are narrow in an unknown are met, or the solution is not accepted."""

from itertools import pairwise
from math import pi, sqrt

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import erf

from piop.problem import Problem
from piop.reference import Limits, solve_reference
from piop.reference.features.along_paths import PathTerm, narrow_terms

LINE = {"space": {"x": [0, 1]}, "save": {"t": 4, "x": 64}, "boundary": {"x": "periodic"}}
START = {"time": {"t": [0, 1]}, "initial": {"s": 0, "u": 1}}


def solved(tolerance, limits=None, **words):
    problem = Problem(name="case", **words)
    return solve_reference(problem, {}, tolerance=tolerance, limits=limits)


def judged(solution, exact):
    """The error and its estimate, of one sample."""
    found = solution.values["u"][0].numpy()
    error = sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2))
    return error, float(solution.error_estimate[0])


def walls(low, high):
    return {"x.min": {"dirichlet": {"u": low}}, "x.max": {"dirichlet": {"u": high}}}


def test_a_pulse_in_an_unknown_is_not_stepped_over():
    c, w = 0.7788, 2.6e-5
    solution = solved(
        1e-6,
        unknowns=["s", "u"],
        equations=["dt(s) = 1", f"dt(u) = exp(-((s - {c})/{w})**2)/{w}"],
        save={"t": 9},
        **START,
    )
    exact = 1 + sqrt(pi) / 2 * (erf((solution.times.numpy() - c) / w) + erf(c / w))
    error, estimate = judged(solution, exact)
    assert error <= estimate <= 1e-6


def test_a_pulse_that_an_algebraic_unknown_has_is_not_stepped_over():
    c, w = 0.7788, 2.6e-5
    solution = solved(
        1e-6,
        unknowns=["s", "u", "v"],
        equations=["dt(s) = 1", "2*dt(u) = v", f"v = exp(-((s - {c})/{w})**2)/{w}"],
        save={"t": 9},
        **START,
    )
    exact = 1 + sqrt(pi) / 4 * (erf((solution.times.numpy() - c) / w) + erf(c / w))
    error, estimate = judged(solution, exact)
    assert error <= estimate <= 1e-6


def test_a_bottleneck_in_an_unknown_is_not_stepped_over():
    c, w, e = 0.4424, 3.2e-4, 4e-4
    solution = solved(
        1e-6,
        time={"t": [0, 1]},
        unknowns=["u"],
        equations=[f"dt(u) = 1 - (1 - {e})*exp(-((u - {c})/{w})**2)"],
        initial={"u": 0},
        save={"t": 9},
    )

    def slowness(u):
        return 1 / (1 - (1 - e) * np.exp(-(((u - c) / w) ** 2)))

    def duration(u):
        ends = [0, *(q for q in c + w * np.array([-6, -1, -0.02, 0, 0.02, 1, 6]) if 0 < q < u), u]
        return sum(quad(slowness, a, b, limit=200, epsabs=1e-13)[0] for a, b in pairwise(ends))

    times = solution.times.tolist()
    exact = [brentq(lambda u, t=t: duration(u) - t, 0, t + 1e-15, xtol=1e-14) for t in times]
    error, estimate = judged(solution, np.array(exact))
    assert error <= estimate <= 1e-6


def test_a_pulse_in_an_unknown_is_not_stepped_over_by_fourier_series():
    c, w = 0.87, 1.76e-4
    solution = solved(
        1e-5,
        time={"t": [0, 1]},
        unknowns=["s", "u"],
        equations=["dt(s) = 1", f"dt(u) = 0.01*dxx(u) + exp(-((s - {c})/{w})**2)/{w}"],
        initial={"s": 0, "u": "sin(2*pi*x)"},
        **LINE,
    )
    t, x = solution.times.numpy()[:, None], solution.axes[0].numpy()
    wave = np.sin(2 * pi * x) * np.exp(-0.04 * pi**2 * t)
    error, estimate = judged(solution, wave + sqrt(pi) / 2 * (erf((t - c) / w) + 1))
    assert error <= estimate <= 1e-5


def test_digits_of_a_pulse_in_an_unknown_are_kept():
    """((s − c)/w)² multiplied out loses ten digits of the argument, four of the integral."""
    c, w = 0.2947417, 1.26e-5
    solution = solved(
        1e-5,
        time={"t": [0, 1]},
        unknowns=["s", "u"],
        equations=["dt(s) = 1", f"dt(u) = exp(-((s - {c})/{w})**2)/{w}"],
        initial={"s": 0, "u": 1},
        **LINE,
    )
    t = solution.times.numpy()[:, None]
    exact = 1 + sqrt(pi) / 2 * (erf((t - c) / w) + erf(c / w)) + 0 * solution.axes[0].numpy()
    error, estimate = judged(solution, exact)
    assert error <= estimate < 1e-9


def test_a_reaction_between_the_nodes_is_not_accepted():
    solution = solved(
        1e-5,
        space={"x": [0, 1]},
        unknowns=["u"],
        equations=["-dxx(u) = 0.25*exp(-((u - 0.45)/1e-4)**2)/1e-4"],
        boundary=walls(0, 1),
        save={"x": 33},
    )
    assert float(solution.error_estimate[0]) > 0.1
    assert "terms of the equations vary between its points" in solution.notes[0]


@pytest.mark.parametrize("boundary", ["periodic", "walls"])
def test_a_reaction_between_the_nodes_at_save_times_is_not_accepted(boundary):
    ends = {} if boundary == "periodic" else {"boundary": walls("t", "t")}
    solution = solved(
        1e-4,
        Limits(levels=2),
        time={"t": [0, 1]},
        unknowns=["u"],
        equations=["dt(u) = 0.001*dxx(u) + 1 + 0.1*exp(-((u - 1.2)/1e-3)**2)"],
        initial={"u": "sin(2*pi*x)"},
        **{**LINE, **ends},
    )
    assert float(solution.error_estimate[0]) > 1e-3


def term(text, **unknowns):
    return narrow_terms(
        Problem(
            name="case",
            time={"t": [0, 1]},
            unknowns=["u", "v"],
            equations=[f"dt(u) = {text}", "dt(v) = 1"],
            initial={"u": 0, "v": 0},
        )
    )


def hidden(own: PathTerm, *leaves, reach=1, negligible=1e-9):
    """The mean between points that a term with leaves in the order of their names hides."""
    order = sorted(range(len(own.leaves)), key=lambda i: str(own.leaves[i]))
    values = [torch.empty(0)] * len(leaves)
    for i, given in zip(order, leaves, strict=True):
        values[i] = torch.tensor([given], dtype=torch.float64)
    largest = torch.zeros(1, dtype=torch.float64)
    return own.hidden(values, 1, reach, largest, None, negligible)[0]


def test_polynomials_of_unknowns_are_left_out():
    assert not term("u**3*v - 2*u + v*sin(t)")
    (own,) = term("u**2 + exp(-u)*v")
    assert len(own.leaves) == 2


def test_what_a_path_hides_is_found():
    (own,) = term("-3*exp(-((u - v)/1e-5)**2)")
    found = hidden(own, [0.0, 0.25, 0.5, 0.75], [0.3, 0.3, 0.3, 0.3])
    assert found.tolist() == pytest.approx([0, 3 * sqrt(pi) * 1e-5 / 0.25, 0], rel=0.05)


@pytest.mark.parametrize(
    "text", ["sin(u)", "tanh(3*u)*v", "exp(-5/(u + 1))", "abs(u)*u", "sqrt(1 + u**2)", "cos(u)**2"]
)
def test_smooth_terms_hide_nothing(text):
    (own,) = term(text)
    for width in (0.4, 2.0):
        u = torch.linspace(-0.37, 0.7, 7) * width
        leaves = [u.tolist(), (1 - u).tolist()][: len(own.leaves)]
        assert float(hidden(own, *leaves).amax()) == 0

"""What has no solution, or none that this solver can find, is refused with the reason."""

import pytest
import torch

from piop.errors import NotSupportedError, SolverError
from piop.problem import Problem
from piop.problem.capabilities import choose_method
from piop.problem.reference_methods import Chebyshev, FiniteVolumes
from piop.reference import Limits, solve_reference

from ..cases import Scalars


def problem(equations, boundary, unknowns=("u",), initial=None, **words):
    initial = dict.fromkeys(unknowns, "sin(pi*x)") if initial is None else initial
    return Problem(
        name="case",
        time={"t": [0, 1]},
        space={"x": [0, 1]},
        unknowns=list(unknowns),
        equations=[equations] if isinstance(equations, str) else equations,
        initial=initial,
        boundary=boundary,
        save={"t": 3, "x": 17},
        **words,
    )


ZERO = {"dirichlet": {"u": 0}}


def refusal(case):
    return Chebyshev().refuse(case)


def test_shocks_are_left_to_other_methods():
    burgers = problem("dt(u) + d(u**2/2, x) = 0", {"x.min": ZERO, "x.max": []})
    assert "nonlinear first-order equation, whose solutions may jump" in refusal(burgers)
    assert isinstance(choose_method(burgers), FiniteVolumes)


def test_first_order_systems_need_their_characteristics():
    sound = problem(["dt(u) + dx(p) = 0", "dt(p) + dx(u) = 0"], {"x": ZERO}, unknowns=("u", "p"))
    assert "first-order system, whose characteristics" in refusal(sound)
    assert isinstance(choose_method(sound), FiniteVolumes)


def test_beams_need_higher_orders():
    clamped = [ZERO, {"neumann": {"u": 0}}]
    beam = problem(
        "d(u, t, 2) + d(u, x, 4) = 0", {"x": clamped}, initial={"u": "0", "dt(u)": "sin(pi*x)"}
    )
    with pytest.raises(NotSupportedError, match="order 4 along a walled axis"):
        choose_method(beam)


def test_jumps_are_left_to_finite_volumes():
    step = {"a": {"of": ["x"], "law": "piecewise_constant", "cells": 4, "low": 1, "high": 2}}
    layers = problem("dt(u) = d(a*dx(u), x)", {"x": ZERO}, inputs=step)
    with pytest.raises(NotSupportedError, match=r"inputs with jumps \(a\)"):
        choose_method(layers)


@pytest.mark.parametrize(("speed", "face", "word"), [(1.0, "x.min", "out"), (-1.0, "x.max", "in")])
def test_conditions_stand_where_characteristics_run_in(speed, face, word):
    speeds = {"c": {"of": [], "law": "uniform", "low": -2, "high": 2}}
    boundary = {"x.min": ZERO, "x.max": []}
    advection = problem("dt(u) + c*(x - 0.5)*dx(u) = sin(t)", boundary, inputs=speeds)
    with pytest.raises(SolverError, match=f"sample 0: at {face} characteristics run {word}"):
        solve_reference(advection, {"c": Scalars([speed])})


def test_a_wave_that_does_not_fit_its_wall_names_face_and_jump():
    string = problem("d(u, t, 2) = dxx(u)", {"x": ZERO}, initial={"u": "x", "dt(u)": "0"})
    with pytest.raises(SolverError, match=r"sample 0: .* condition at x\.max by 1\.00e\+00"):
        solve_reference(string, {})


def test_the_slope_of_a_wave_at_a_free_end_is_judged_by_the_data():
    """No polynomial through 17 points has this slope: 2e-5 is not of the data, 1e-5 is."""
    free = {"x": {"neumann": {"u": 0}}}
    equation, flat = "d(u, t, 2) = dxx(u)", "sin(2*pi*x)**2"
    solution = solve_reference(
        problem(equation, free, initial={"u": flat, "dt(u)": "0"}), {}, tolerance=1e-4
    )
    t, x = solution.times[:, None], solution.axes[0]
    exact = (1 - torch.cos(4 * torch.pi * x) * torch.cos(4 * torch.pi * t)) / 2
    assert float((solution.values["u"][0] - exact).abs().max()) < 1e-4
    tilted = problem(equation, free, initial={"u": f"{flat} + 1e-5*x", "dt(u)": "0"})
    with pytest.raises(SolverError, match=r"sample 0: .* condition at x\.min by 1\.00e-05"):
        solve_reference(tilted, {})


def test_blow_up_names_sample_and_time():
    growth = problem(
        "dt(u) = u**2 + 0.001*dxx(u)",
        {"x": {"neumann": {"u": 0}}},
        initial={"u": "c"},
        inputs={"c": {"of": [], "law": "uniform", "low": 0.1, "high": 3}},
    )
    with pytest.raises(SolverError, match=r"sample 1: no step from t = 0.5 on succeeds"):
        solve_reference(growth, {"c": Scalars([0.2, 2.0])}, tolerance=1e-4)


def test_samples_beyond_the_finest_level_are_not_accepted():
    """A layer of 1e-5 between walls that differ: no polynomial of the finest level resolves it."""
    layer = problem("dt(u) + dx(u) = 1e-5*dxx(u)", {"x": ZERO}, initial={"u": "16*x**2*(1-x)**2"})
    solution = solve_reference(layer, {}, times=[1.0], tolerance=1e-4, limits=Limits(levels=3))
    assert solution.accepted.tolist() == [False]
    assert "sample 0: tolerance 1.0e-04 not met; refinement ended at" in solution.notes[0]
    assert float(solution.error_estimate[0]) > 1e-4
    assert torch.isfinite(solution.values["u"]).all()

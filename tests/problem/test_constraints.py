import pytest

from piop.forms.terms import highest_space_order
from piop.problem import Problem
from piop.problem.constraints import decide_constraints, expression_smoothness

SERIES = {
    "of": ["x"],
    "law": "fourier_series",
    "terms": 2,
    "amplitude": [-1, 1],
    "wavenumber": [1, 2],
}


def problem(u0=None, initial=None, equation="dt(u) = 0.1*dxx(u)", **inputs):
    return Problem(
        name="p",
        time={"t": [0, 1]},
        space={"x": [0, 1]},
        unknowns=["u"],
        inputs={"u0": u0 or SERIES, **inputs},
        equations=[equation],
        initial=initial or {"u": "u0"},
        boundary={"x": "periodic"},
    )


def field(alpha):
    return {"of": ["x"], "law": "gaussian_random_field", "tau": 1.0, "alpha": alpha}


def test_smooth_data_and_periodic_axes_are_hard_constraints():
    found = decide_constraints(problem())
    assert found.lift_orders == (1,)
    assert found.soft_initial == ()
    assert found.hard_periodic == ("x",)
    assert all(d.hard for d in found)


@pytest.mark.parametrize(("alpha", "hard"), [(2.5, False), (2.6, True)])
def test_a_field_needs_more_derivatives_than_the_equation(alpha, hard):
    """In one dimension alpha - 1/2 must exceed the order two."""
    found = decide_constraints(problem(field(alpha)))
    assert found.lift_orders == (int(hard),)
    assert [(c.unknown, c.order) for c in found.soft_initial] == ([] if hard else [("u", 0)])


def test_the_reason_for_a_soft_constraint_is_told():
    (first, _) = decide_constraints(problem(field(1.5)))
    assert str(first).startswith("u at t = 0 is u0(x): soft constraint")
    assert "needs 2 of its derivatives" in first.why
    assert "u0 has fewer than 1 derivatives" in first.why


def test_a_derivative_of_the_data_costs_one():
    rough = problem(field(2.6), initial={"u": "dx(u0)"})
    assert decide_constraints(rough).lift_orders == (0,)


def test_jumps_are_never_hard_constraints():
    jumps = {"of": ["x"], "law": "piecewise_constant", "cells": 4, "low": 0, "high": 1}
    assert decide_constraints(problem(jumps, equation="dt(u) = -dx(u)")).lift_orders == (0,)


def test_data_that_are_declared_rough_are_never_hard_constraints():
    (first, _) = decide_constraints(problem({**SERIES, "smooth": False}, equation="dt(u) = -dx(u)"))
    assert not first.hard
    assert "u0 is declared smooth: false" in first.why


def test_kinks_in_the_expression_are_no_hard_constraints():
    assert decide_constraints(problem(initial={"u": "abs(u0)"})).lift_orders == (0,)


def test_hidden_data_are_no_hard_constraints():
    hidden = {**SERIES, "hidden": True}
    seen = {"of": ["x"], "expression": "2*g", "smooth": True}
    found = decide_constraints(problem(seen, initial={"u": "g + u0"}, g=hidden))
    assert found.lift_orders == (0,)
    assert "does not see" in next(iter(found)).why


def test_an_expression_is_as_smooth_as_what_it_is_made_of():
    seen = {"of": ["x"], "expression": "g**2", "smooth": True}
    made = problem(seen, g={**field(2.6), "hidden": True})
    assert expression_smoothness(made, made.initial["u"][0])[0] == pytest.approx(2.1)


def test_soft_leaves_everything_to_the_loss():
    found = decide_constraints(problem(), "soft")
    assert found.lift_orders == (0,)
    assert [(c.unknown, c.order) for c in found.soft_initial] == [("u", 0)]
    assert [c.axis for c in found.soft_periodic] == ["x"]
    assert not any(d.hard for d in found)
    assert {d.why for d in found} == {"as requested"}


def test_hard_refuses_what_cannot_be_a_hard_constraint():
    with pytest.raises(ValueError, match="hard is not possible"):
        decide_constraints(problem(field(1.5)), "hard")


def test_another_word_is_refused():
    with pytest.raises(ValueError, match="one of auto, hard, soft"):
        decide_constraints(problem(), "firm")  # type: ignore[arg-type]


def test_second_order_in_time_has_two_hard_constraints():
    wave = Problem(
        name="wave",
        time={"t": [0, 1]},
        space={"x": [0, 1]},
        unknowns=["u"],
        inputs={"u0": SERIES, "v0": SERIES},
        equations=["dtt(u) = dxx(u)"],
        initial={"u": "u0", "dt(u)": "v0"},
        boundary={"x": "periodic"},
    )
    found = decide_constraints(wave)
    assert found.lift_orders == (2,)
    assert [d.what for d in [*found][:2]] == [
        "u at t = 0 is u0(x)",
        "dt(u) at t = 0 is v0(x)",
    ]


def test_auxiliary_unknowns_have_no_hard_constraints():
    found = decide_constraints(Problem.from_file("navier_stokes"))
    assert found.lift_orders[1] == 0


def test_the_order_in_space_is_that_of_the_unknown():
    kdv = Problem.from_file("kdv")
    assert highest_space_order(kdv.pde, kdv.residuals, ["u"]) == 3

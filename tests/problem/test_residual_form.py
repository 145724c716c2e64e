"""In which form equations are trained, as far as the symbols tell."""

import pytest

from piop.problem import Problem
from piop.problem.residual_form import decide_form


def example(**changes):
    words = {
        "name": "reaction",
        "time": {"t": [1, 3]},
        "space": {"x": [0, 1]},
        "unknowns": ["u"],
        "inputs": {"u0": {"of": ["x"], "law": "gaussian_random_field", "tau": 3, "alpha": 4}},
        "equations": ["dt(u) = 0.1*dxx(u) + t*u*(1 - u)"],
        "initial": {"u": "u0"},
        "boundary": {"x": "periodic"},
    }
    return Problem(**{k: v for k, v in {**words, **changes}.items() if v is not None})


SECOND = {
    "equations": ["d(u, t, 2) = 0.1*dxx(u) - u**3"],
    "initial": {"u": "u0", "dt(u)": "0"},
}
CROSSED = {
    "unknowns": ["u", "v"],
    "equations": ["dt(v) = 0.1*dxx(u) - u**2", "dt(u) = 0.1*dxx(u) - u*v"],
    "initial": {"u": "u0", "v": "u0"},
}
FLOW = {
    "auxiliary": {"psi": {"equation": "-lap(psi) = u", "mean": 0}},
    "equations": ["dt(u) = 0.1*dxx(u) - u*dx(psi)"],
    "inputs": {
        "u0": {
            "of": ["x"],
            "law": "gaussian_random_field",
            "tau": 3,
            "alpha": 4,
            "zero_mean": True,
        }
    },
}


BOX = {axis: {"neumann": {"u": 0}} for axis in "xy"}
CLAMPED = {"x": {"dirichlet": {"u": 0}, "neumann": {"u": 0}}}
SLOPES = {"x": {"neumann": {"u": 0}}}


def walls(*equations, **changes):
    words = {"boundary": SLOPES, "equations": list(equations), "initial": {"u": 0}, "inputs": None}
    return example(**{**words, **changes})


def test_slopes_on_walls_are_linearised_with_the_equations():
    for equation in ("dt(u) = 0.1*dxx(u) + t*u*(1 - u)", "dt(u) = 0.1*dxx(u) + x"):
        assert decide_form(walls(equation)).integral
    values = walls("dt(u) = 0.1*dxx(u)", boundary={"x": {"dirichlet": {"u": 0}}})
    assert decide_form(values).why == "all conditions on walls are hard constraints"
    assert decide_form(values, requested="integral").integral


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {
                "space": {"x": [0, 1], "y": [0, 1]},
                "equations": ["dt(u) = 0.1*lap(u) - u**2"],
                "boundary": BOX,
            },
            "nor an interval",
        ),
        ({"equations": ["dt(u) = -dxxxx(u)"], "boundary": CLAMPED}, "higher order"),
        ({"equations": ["dt(u) = 0.1*dxx(u) - abs(u)"]}, "kink"),
        ({"initial": {"u": "abs(x - 0.5)"}}, "the initial data are a soft constraint"),
        ({"boundary": {"x": ["dx(u) = u"]}}, "belongs to no unknown"),
        ({"equations": ["dt(u) + dx(u) = 0"], "boundary": {"x": "outflow"}}, "outflow"),
        (
            {
                "unknowns": ["p", "q"],
                "equations": ["dt(q) = dxx(q)", "dt(p) = dxx(p)"],
                "initial": {"p": 0, "q": 0},
                "boundary": {"x": {"neumann": {"p": 0, "q": 0}}},
            },
            "another unknown",
        ),
    ],
)
def test_what_is_not_linearised_between_walls(changes, why):
    assert why in decide_form(walls("dt(u) = 0.1*dxx(u)", **changes)).why


def test_nonlinear_evolutions_may_be_integrated_unless_asked_otherwise():
    assert decide_form(example()).integral
    assert not decide_form(example(), requested="strong").integral
    assert "as requested" in str(decide_form(example(), requested="strong"))
    assert decide_form(example(), requested="integral").requested


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (SECOND, "second order in time"),
        (CROSSED, "another unknown"),
        (FLOW, "psi does not evolve"),
        ({"equations": ["dt(u) = -(u**2)"]}, "no term is linear"),
        ({"parameters": {"a": 1}, "infer": ["a"], "initial": {"u": "u0 + a"}}, "inferred"),
    ],
)
def test_what_cannot_be_integrated_is_trained_at_points(changes, why):
    problem = example(**changes)
    decision = decide_form(problem)
    assert not decision.integral
    assert why in decision.why
    with pytest.raises(ValueError, match=f"form: integral is not possible: .*{why}"):
        decide_form(problem, requested="integral")


def test_linear_equations_are_integrated_on_request_alone():
    linear = example(equations=["dt(u) = 0.1*dxx(u) + t*u0"])
    assert "linear" in decide_form(linear).why
    assert decide_form(linear, requested="integral").integral


def test_soft_initial_data_cannot_be_integrated():
    assert "soft" in decide_form(example(), "soft").why


def test_check_says_which_form_and_why():
    assert "residual    integral, where a lattice" in example().describe()
    fixed = walls("dt(u) = 0.1*dxx(u)", boundary={"x": {"dirichlet": {"u": 0}}})
    why = "all conditions on walls are hard constraints"
    assert f"residual    strong, {why}" in fixed.describe()
    asked = example(solve={"form": "strong"})
    assert "residual    strong, as requested" in asked.describe()


def test_steady_boxes_are_linearised_unless_their_linear_part_is_solved_exactly():
    kept = {"time": None, "initial": None}
    linear = example(equations=["dxx(u) = u - u0"], **kept)
    assert decide_form(linear).why == "its linear part is solved exactly"
    assert decide_form(linear, requested="integral").integral
    varying = example(equations=["dx((2 + x*(1 - x))*dx(u)) = u - u0"], **kept)
    assert decide_form(varying).integral
    kinked = example(equations=["dxx(u) = abs(u) - u0"], **kept)
    assert decide_form(kinked).why == "an equation or a condition has a kink or a jump"
    shape = Problem.from_file("poisson_lshape")
    assert decide_form(shape).why == "there are no equations on a box"


LAW = {"equations": ["dt(u) + u*dx(u) = 0.1*dxx(u)"]}


def test_nonlinear_conservation_laws_have_a_potential_where_no_lattice_resolves_them():
    decision = decide_form(example(**LAW))
    assert (decision.integral, decision.potential) == (True, True)
    assert str(decision).endswith("reference solutions, else potential")
    assert not decide_form(example()).potential
    assert not decide_form(example(**LAW), requested="strong").potential
    alone = decide_form(example(equations=["dt(u) + dx(u**3) = dx(u**2*dx(u))"]))
    assert str(alone) == "potential, the equations are conservation laws on a periodic interval"


def test_the_potential_may_be_requested():
    decision = decide_form(example(**LAW), requested="potential")
    assert str(decision) == "potential, as requested"
    linear = example(equations=["dt(u) = 0.1*dxx(u)"])
    assert not decide_form(linear).potential
    assert decide_form(linear, requested="potential", linear_part="learned").potential
    with pytest.raises(ValueError, match="potential is not possible: its linear part is solved"):
        decide_form(linear, requested="potential")


@pytest.mark.parametrize(
    ("changes", "constraints", "linear_part", "why"),
    [
        ({}, "auto", "auto", "no conservation law"),
        (LAW, "soft", "auto", "soft constraint"),
        (LAW, "auto", "exact", "solved exactly"),
        (SECOND, "auto", "auto", "second order in time"),
        ({**LAW, "initial": {"u": "abs(x - 0.5)"}, "inputs": None}, "auto", "auto", "soft"),
    ],
)
def test_what_has_no_potential(changes, constraints, linear_part, why):
    problem = example(**changes)
    assert not decide_form(problem, constraints, "auto", linear_part).potential
    with pytest.raises(ValueError, match=f"form: potential is not possible: .*{why}"):
        decide_form(problem, constraints, "potential", linear_part)

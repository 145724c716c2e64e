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


def test_nonlinear_evolutions_may_be_integrated_unless_asked_otherwise():
    assert decide_form(example()).integral
    assert not decide_form(example(), requested="strong").integral
    assert "as requested" in str(decide_form(example(), requested="strong"))
    assert decide_form(example(), requested="integral").requested


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"time": None, "equations": ["dxx(u) = u - u0"], "initial": None}, "steady"),
        ({"boundary": {"x": {"neumann": {"u": 0}}}}, "not periodic"),
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
    walls = example(boundary={"x": {"neumann": {"u": 0}}})
    assert "residual    strong, an axis of space is not periodic" in walls.describe()
    asked = example(solve={"form": "strong"})
    assert "residual    strong, as requested" in asked.describe()

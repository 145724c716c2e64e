"""Time windows, as far as the symbols tell."""

import math

import pytest

from piop.problem import Problem
from piop.problem.constraints import decide_constraints
from piop.problem.time_windows import State, decide_windows, window_problem


def example(**changes):
    words = {
        "name": "reaction",
        "time": {"t": [1, 3]},
        "space": {"x": [0, 1]},
        "unknowns": ["u"],
        "inputs": {
            "u0": {"of": ["x"], "law": "gaussian_random_field", "tau": 3, "alpha": 4},
            "k": {"law": "uniform", "low": 1, "high": 2},
        },
        "equations": ["dt(u) = 0.1*dxx(u) + k*u*(1 - u)"],
        "initial": {"u": "u0 + 1"},
        "boundary": {"x": "periodic"},
    }
    return Problem(**{k: v for k, v in {**words, **changes}.items() if v is not None})


OF_TIME = {
    "u0": {"of": ["x"], "law": "gaussian_random_field", "tau": 3, "alpha": 4},
    "k": {"of": ["t", "x"], "law": "gaussian_random_field", "tau": 3, "alpha": 4},
}
HIDDEN = {
    "u0": {"of": ["x"], "law": "gaussian_random_field", "tau": 3, "alpha": 4, "hidden": True},
    "k": {"law": "uniform", "low": 1, "high": 2},
}
SECOND = {
    "equations": ["d(u, t, 2) = 0.1*dxx(u) - k*u**3"],
    "initial": {"u": "u0", "dt(u)": "0"},
}


def test_a_nonlinear_evolution_has_four_windows_unless_it_is_asked_otherwise():
    assert decide_windows(example()).count == 4
    assert decide_windows(example(), requested=7).count == 7
    assert str(decide_windows(example(), requested=1)) == "none, as requested"


def test_windows_may_be_doubled_where_the_equations_are_integrated_over_time():
    found = decide_windows(example(equations=["dt(u) = 0.1*dxx(u) + u - k*u**2"]))
    assert (found.count, found.most) == (4, 16)
    assert str(found).startswith("4 to 16, where")
    learned = decide_windows(example())  # k, which differs, is in the linear part
    assert (learned.count, learned.most) == (4, 4)
    assert str(learned).startswith("4, where")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"time": None, "equations": ["dxx(u) = u - k*u0"], "initial": None}, "steady"),
        ({"equations": ["dt(u) = 0.1*dxx(u) + k*t*u*(1 - u)"]}, "names t"),
        ({"inputs": OF_TIME}, "k depends on t"),
        ({"inputs": HIDDEN}, "does not see u0"),
        ({"boundary": {"x": {"neumann": {"u": 0}}}}, "not periodic"),
        (SECOND, "second order in time"),
        ({"parameters": {"a": 1}, "infer": ["a"], "initial": {"u": "u0 + a"}}, "inferred"),
    ],
)
def test_what_another_window_does_not_repeat_is_refused_with_the_reason(changes, why):
    problem = example(**changes)
    assert why in decide_windows(problem).why
    assert decide_windows(problem).count == 1
    with pytest.raises(ValueError, match=why):
        decide_windows(problem, requested=2)


def test_linear_equations_have_windows_on_request_alone():
    problem = example(equations=["dt(u) = 0.1*dxx(u) + k*u"])
    assert decide_windows(problem).why == "the equations are linear"
    assert decide_windows(problem, requested=2).count == 2
    assert "soft" in decide_windows(problem, "soft").why


def test_a_window_begins_with_its_state_and_keeps_the_inputs_that_the_equations_name():
    window = window_problem(example(), 4, State(5, 3))
    assert (window.time.low, window.time.high) == (1, 1.5)
    assert [item.name for item in window.inputs] == ["u at the start", "k"]
    assert window.initial["u"] == (window.inputs[0].symbol,)
    assert window.residuals == example().residuals
    assert window.inputs[0].of == ("x",)


def test_the_state_is_a_hard_constraint_even_where_initial_data_are_too_rough():
    rough = example(
        inputs={
            "u0": {"of": ["x"], "law": "gaussian_random_field", "tau": 3, "alpha": 0.75},
            "k": {"law": "uniform", "low": 1, "high": 2},
        }
    )
    assert decide_constraints(rough).lift_orders == (0,)
    window = window_problem(rough, 4, State(5, 3))
    assert decide_constraints(window).lift_orders == (1,)
    assert window.inputs[0].distribution.differentiability(1) == math.inf

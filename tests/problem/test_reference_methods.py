"""A solver is named where it solves the problem, and refuses others before anything is trained."""

import pytest

from piop.errors import NotSupportedError
from piop.problem import Problem

WALL = {"dirichlet": {"u": 0}}


def equation(text, **boundary):
    law = {"law": "fourier_series", "terms": 2, "amplitude": [-1, 1], "wavenumber": [1, 2]}
    number = {"k": {"law": "uniform", "low": 1, "high": 2}} if "k" in text else {}
    return Problem(
        name="case",
        time={"t": [0, 1]},
        space={"x": [0, 1]},
        unknowns=["u"],
        inputs={"u0": {"of": ["x"], **law}, **number},
        equations=[text],
        initial={"u": "u0"},
        boundary=boundary or {"x": "periodic"},
        sensors={"u0": {"count": 16, "place": "grid"}},
        save={"t": 5, "x": 16},
    )


def ordinary(text):
    law = {"law": "uniform", "low": 1, "high": 2}
    return Problem(
        name="case",
        time={"t": [0, 1]},
        unknowns=["u"],
        inputs={"a": law},
        equations=[text],
        initial={"u": "a"},
        save={"t": 5},
    )


@pytest.mark.parametrize(
    ("problem", "name"),
    [
        (equation("2*k*dt(u) = dxx(u)"), "Fourier"),
        (equation("k*(2 + x)*dt(u) = dxx(u)", x=WALL), "Chebyshev"),
        (ordinary("a*dt(u) = -u"), "Radau"),
    ],
)
def test_factors_of_the_time_derivative_that_stay_are_solved(problem, name):
    assert problem.capabilities.method.name.startswith(name)
    solution = problem.solve_reference(problem.sample(1, seed=0), tolerance=1e-3)
    assert bool(solution.accepted.all())


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (equation("(1 + t)*dt(u) = dxx(u)"), "linearly with a constant factor"),
        (equation("dt(u**2) = dxx(u)"), "linearly with a constant factor"),
        (
            equation("(1 + t)*dt(u) = dxx(u)", x=WALL),
            r"the factor 1 \+ t of the time derivative of u",
        ),
        (equation("dt(u**2) = dxx(u)", x=WALL), r"the factor 2\*u of the time derivative"),
        (
            equation("dt(u) = dxx(u)", **{"x.min": WALL, "x.max": ["dt(u) + dx(u) = 0"]}),
            "a time derivative in the condition at x.max",
        ),
        (ordinary("u*dt(u) = 1"), "the factor u of the time derivative"),
        (ordinary("(1 + t)*dt(u) = -u"), r"the factor 1 \+ t of the time derivative"),
    ],
)
def test_a_solver_is_not_named_for_factors_that_change(problem, reason):
    assert problem.capabilities.method is None
    with pytest.raises(NotSupportedError, match=reason):
        problem.solve_reference(problem.sample(1, seed=0))

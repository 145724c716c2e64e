"""Linear evolutions whose coefficients vary in space, read from their equations."""

import pytest

from piop.errors import NotSupportedError
from piop.forms.varying_evolution import OperatorTerm, VaryingEvolution, varying_evolution
from piop.problem import Problem
from tests.varying import example


def read(*equations: str, **settings: str) -> VaryingEvolution:
    return varying_evolution(example(*equations, **settings).pde)


def test_each_term_is_divided_by_the_number_before_the_time_derivative() -> None:
    problem = example("2*dt(u) = dx((1 + 0.5*cos(2*pi*x))*dx(u)) - cos(2*pi*x)*u")
    found = varying_evolution(problem.pde)
    (x,) = problem.pde.space
    terms = {(t.row, t.column, t.outer, t.inner): t.coefficient for t in found.terms}
    assert {key: float(value.subs(x.symbol, 0)) for key, value in terms.items()} == {
        (0, 0, (0,), (2,)): 0.5,
        (0, 0, (1,), (1,)): 0.25,
        (0, 0, (0,), (0,)): -0.5,
    }
    assert (found.second, found.points) == (False, 128)


def test_waves_without_damping_are_of_second_order() -> None:
    found = varying_evolution(Problem.from_file("wave2d_cvit").pde)
    assert (found.second, found.points) == (True, 32)
    assert {(t.row, t.column, t.inner) for t in found.terms} == {
        (0, 0, (2, 0)),
        (0, 0, (0, 2)),
    }
    damped = read("d(u, t, 2) = (2 + cos(2*pi*x))*dxx(u) - dt(u)", slope="0")
    assert not damped.second
    one = [t for t in damped.terms if (t.row, t.column) == (0, 1)]  # u_t is a state of its own
    assert one == [OperatorTerm(0, 1, (0,), one[0].coefficient, (0,))]
    assert one[0].coefficient == 1


def test_unknowns_share_the_points_of_a_grid() -> None:
    rows = "dt(p) = (2 + cos(2*pi*x))*dxx(q)", "dt(q) = -(2 + cos(2*pi*x))*dxx(p)"
    assert read(*rows, unknowns="p, q").points == 128
    names = [f"u{i}" for i in range(10)]
    many = [f"dt({n}) = (2 + cos(2*pi*x))*dxx({n})" for n in names]
    assert read(*many, unknowns=", ".join(names)).points == 102


@pytest.mark.parametrize(
    ("equation", "why"),
    [
        ("dt(u) = (1 + a**2)*dxx(u)", r"varies with more than space: a\(x\)\*\*2"),
        ("dt(u) = (1 + t)*dxx(u)", "varies with more than space: t"),
        ("dt(u) = (2 + cos(2*pi*x))*dx(u)", "before a derivative of odd order"),
        ("(2 + cos(2*pi*x))*dt(u) = dxx(u)", "time derivative"),
    ],
)
def test_other_coefficients_are_named(equation: str, why: str) -> None:
    with pytest.raises(NotSupportedError, match=why):
        read(equation)


def test_walls_are_named() -> None:
    with pytest.raises(NotSupportedError, match="coefficients vary, and along x it is not period"):
        read("dt(u) = (2 + cos(2*pi*x))*dxx(u)", boundary="x: {dirichlet: {u: 0}}")


def test_three_axes_have_too_many_modes() -> None:
    text = Problem.from_file("heat3d").to_yaml()
    varying = text.replace("lap(u)", "(2 + cos(2*pi*x))*lap(u)")
    assert varying != text
    with pytest.raises(NotSupportedError, match="1 unknowns on 3 axes have too many modes"):
        varying_evolution(Problem.from_yaml(varying).pde)

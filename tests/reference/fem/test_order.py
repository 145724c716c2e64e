"""Orders of convergence in L2 on shapes, by degree and kind of condition."""

from typing import final

import pytest
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from piop.expression import write
from piop.fields import InputFunction
from piop.reference.fem.solve import ShapeSolver
from piop.reference.input_values import Sources
from piop.reference.solution import Limits, Request
from piop.sampling import Draws, sample_inputs

from .cases import SLANTED, X, Y, manufactured, on_shape, order

SMOOTH = sympy.exp(X - 2 * Y) + sympy.sin(3 * X + Y)
KINDS = ["dirichlet", "flux", "exchange"]


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_order_is_one_above_the_degree_with_each_kind_around_a_hole(degree, kind):
    problem = manufactured(SMOOTH, 1 + X + Y**2, 1, kinds={"cavity": kind})
    found, error = order(problem, SMOOTH, degree)
    assert degree + 0.85 < found < degree + 1.3
    assert error < (2e-3 if degree == 1 else 2e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_order_of_each_kind_on_slanted_sides(kind):
    kinds = {"outline": kind}
    problem = manufactured(SMOOTH, 2 + sympy.sin(3 * X), 1, kinds=kinds, domain=SLANTED)
    found, error = order(problem, SMOOTH, 2)
    assert 2.8 < found < 3.4
    assert error < 2e-5


def test_order_with_drift():
    problem = manufactured(SMOOTH, 1 + X * Y, 0, drift=(3, -2), kinds={"cavity": "exchange"})
    found, error = order(problem, SMOOTH, 2)
    assert 2.8 < found < 3.4
    assert error < 2e-5


@pytest.mark.parametrize(("curved", "expected"), [(True, (2.7, 3.6)), (False, (1.7, 2.3))])
def test_edges_must_bend_with_the_boundary(curved, expected):
    """Constants on circles: u = 1 + log(2r) between them, which straight edges get second order."""
    ring = {"disk": [0.5, 0.5, 0.5], "holes": {"inner": {"disk": [0.5, 0.5, 0.2]}}}
    boundary = {"outline": {"dirichlet": {"u": 1}}, "inner": {"neumann": {"u": -5}}}
    problem = on_shape("-lap(u) = 0", boundary, ring)
    r = sympy.sqrt((X - sympy.Rational(1, 2)) ** 2 + (Y - sympy.Rational(1, 2)) ** 2)
    found, _ = order(problem, 1 + sympy.log(2 * r), 2, curved=curved)
    assert expected[0] < found < expected[1]


@final
class Known(InputFunction):
    """One function of x and y, from an expression; values alone."""

    batch, dimension = 1, 2

    def __init__(self, expression):
        self.function = sympy.lambdify((X, Y), expression, "numpy")

    def derivative(self, points, order):
        assert not any(order)
        return torch.from_numpy(self.function(*points[0].numpy().T))[None]

    def take(self, index):
        return self

    def to(self, device=None, dtype=None):
        return self


@pytest.mark.parametrize(("graded", "expected"), [(True, (2.75, 3.4)), (False, (1.2, 1.5))])
def test_a_corner_keeps_the_order_by_meshes_graded_towards_it(graded, expected):
    """r^(2/3) cos(2ψ/3) around the corner of an L, ψ from its bisector: zero on both sides."""
    corner = {"polygon": [[0, 0], [1, 0], [1, 0.5], [0.5, 0.5], [0.5, 1], [0, 1]]}
    x, y = X - sympy.Rational(1, 2), Y - sympy.Rational(1, 2)
    u = (x**2 + y**2) ** sympy.Rational(1, 3) * sympy.cos(2 * sympy.atan2(x - y, -x - y) / 3)
    inputs = {"g": {"of": ["x", "y"], "law": "data"}}
    boundary = {"rest": {"dirichlet": {"u": "g"}}}
    problem = on_shape("-lap(u) = 0", boundary, corner, inputs=inputs)
    found, _ = order(problem, u, 2, levels=(2, 3), functions={"g": Known(u)}, graded=graded)
    assert expected[0] < found < expected[1]


number = st.floats(-1, 1).map(lambda v: round(v, 3))


@settings(max_examples=6, deadline=None, derandomize=True)
@given(
    a=st.tuples(number, number),
    u=st.tuples(number, number, number),
    kinds=st.tuples(*[st.sampled_from(KINDS)] * 3),
    sign=st.sampled_from([1, -1]),
)
def test_made_up_solutions_are_found_within_the_estimate(a, u, kinds, sign):
    truth = sympy.cos(2 * u[0] * X + 3 * u[1] * Y + u[2]) + X * Y
    diffusion = sign * sympy.exp(a[0] * sympy.sin(3 * X) + a[1] * Y)
    faces = dict(zip(("cavity", "x.min", "y.max"), kinds, strict=True))
    problem = manufactured(truth, diffusion, sign, kinds=faces)
    device = torch.device("cpu")
    request = Request((), (9, 9), 1e-4, device, Limits())
    with torch.no_grad():
        solution = ShapeSolver(Sources(problem, {}, device), request).run()
    assert bool(solution.accepted.all())
    points = solution.points[0].numpy()
    exact = torch.from_numpy(sympy.lambdify((X, Y), truth, "numpy")(*points.T))
    error = float((solution.values["u"][0] - exact).norm() / exact.norm())
    assert error <= float(solution.error_estimate) <= 1e-4


WAVES = [
    sympy.cos(2 * X + 3 * Y),
    sympy.sin(5 * X - Y),
    sympy.exp(X - 2 * Y),
    sympy.sin(4 * X) * sympy.cos(6 * Y),
    sympy.cos(9 * Y + X),
    sympy.tanh(8 * (X - Y)),
]


@pytest.mark.parametrize(
    ("tolerance", "jumps"),
    [(1e-2, False), (1e-3, False), (1e-4, False), (1e-2, True), (1e-3, True)],
)
def test_the_estimate_holds_on_99_of_100_random_solutions(tolerance, jumps):
    """Sums of waves with random shares, all from one matrix; with ``jumps`` the second slope of
    each wave has one, along a line that no side of a triangle follows."""
    waves = WAVES[:3] if jumps else WAVES
    share = [sympy.Symbol(f"c{i}", real=True) for i in range(len(waves))]
    smooth = sum(c * w for c, w in zip(share, waves, strict=True))
    z = X + Y / 3 - sympy.Rational(3, 5)
    sides = [smooth * (1 + 20 * z**2), smooth] if jumps else [smooth, smooth]
    left = [v - sympy.diff(v, X, 2) - sympy.diff(v, Y, 2) for v in sides]
    u, f = (sympy.Piecewise((v[0], z > 0), (v[1], True)) for v in (sides, left))
    text = {"u": write(u), "f": write(f)}
    problem = on_shape(
        f"-lap(u) + u = {text['f']}",
        {"rest": {"dirichlet": {"u": text["u"]}}},
        inputs={c.name: {"law": "uniform", "low": -1, "high": 1} for c in share},
    )
    functions = sample_inputs(problem, Draws(1, 0, torch.arange(200)))
    device = torch.device("cpu")
    request = Request((), (9, 9), tolerance, device, Limits())
    with torch.no_grad():
        solution = ShapeSolver(Sources(problem, functions, device), request).run()
    assert bool(solution.accepted.all())
    points = solution.points.numpy()
    parts = [functions[c.name].on_grid(()).reshape(-1, 1).numpy() for c in share]
    exact = sympy.lambdify((X, Y, *share), u, "numpy")(points[..., 0], points[..., 1], *parts)
    exact = torch.from_numpy(exact)
    error = (solution.values["u"] - exact).norm(dim=1) / exact.norm(dim=1)
    assert int((error <= solution.error_estimate).sum()) >= 198

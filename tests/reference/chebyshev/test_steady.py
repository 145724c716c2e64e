"""Steady problems between walls, linear and not, in one and two dimensions, against exact ones."""

import math

import pytest
import sympy as sp
import torch

from piop.errors import SolverError
from piop.problem import Problem
from piop.problem.capabilities import choose_method
from piop.problem.reference_methods import Chebyshev
from piop.reference import Limits, solve_reference
from piop.reference.chebyshev.equations import Equations
from piop.reference.chebyshev.solve import CollocationSolver
from piop.reference.chebyshev.system import CollocationSystem
from piop.reference.input_values import Sources
from piop.reference.levels import MEMORY, GridLevel
from piop.reference.solution import Request
from piop.sampling import Draws, sample_inputs

from .cases import T, X, Y, exact_values, manufactured, relative


def check(problem, u, tolerance, **settings):
    assert isinstance(choose_method(problem), Chebyshev)
    solution = solve_reference(problem, {}, tolerance=tolerance, **settings)
    times = solution.times.tolist() or [0.0]
    exact = exact_values(u, problem, solution.axes, times)
    error = relative(solution.values["u"][0], exact)
    assert error <= float(solution.error_estimate[0]) <= tolerance
    return solution


@pytest.mark.parametrize("name", ["poisson", "helmholtz"])
def test_double_sines_are_divided_by_their_symbol(name):
    problem = Problem.from_file(name)
    functions = sample_inputs(problem, Draws(5, 0, torch.arange(2)))
    solution = solve_reference(problem, functions, tolerance=1e-7)
    n = 32
    x = torch.arange(1, n, dtype=torch.float64) / n
    k = torch.arange(1, n, dtype=torch.float64)
    sines = torch.sin(math.pi * k[:, None] * x)  # its own inverse up to 2/n
    found = (2 / n) ** 2 * sines @ functions["f"].on_grid([x, x]) @ sines.T
    square = math.pi**2 * (k[:, None] ** 2 + k**2)
    symbol = square if name == "poisson" else 64 - square
    waves = torch.sin(math.pi * k[:, None] * solution.axes[0])
    exact = waves.T @ (found / symbol) @ waves
    for b in range(2):
        error = relative(solution.values["u"][b], exact[b])
        assert error <= float(solution.error_estimate[b]) <= 1e-7


@pytest.mark.parametrize("walls", [("dirichlet", "robin"), ("robin", "neumann")])
def test_a_nonlinear_equation_on_an_interval(walls):
    """Flux (1 + u²) u': the matrix changes with every iteration."""
    u = sp.sin(3 * X) + X**2
    left = lambda v: -sp.diff((1 + v**2) * sp.diff(v, X), X) + v**3  # noqa: E731
    problem = manufactured(u, left, "-d((1 + u**2)*dx(u), x) + u**3", {"x": walls}, time=None)
    check(problem, u, 1e-8)


@pytest.mark.parametrize(
    "conditions", [{"faces": {"x": ("neumann", "neumann")}}, {"faces": {}, "periodic": ["x"]}]
)
def test_a_reaction_without_a_slope_at_zero_leaves_a_constant_free_at_first(conditions):
    """The matrix at zero, where iterations begin, is singular up to rounding."""
    u = 2 + sp.cos(2 * sp.pi * X)
    left = lambda v: -sp.diff(v, X, 2) + v**3  # noqa: E731
    problem = manufactured(u, left, "-dxx(u) + u**3", time=None, **conditions)
    check(problem, u, 1e-8)


def test_bratu_equals_its_closed_form():
    """u'' + e^u = 0 between zero walls: u = −2 ln(cosh((x − ½)θ/2)/cosh(θ/4)), θ = √2 cosh(θ/4).

    Source: Bratu 1914; of the two solutions Newton's iteration from zero finds the lower one.
    """
    theta = 1.0
    for _ in range(200):
        theta = math.sqrt(2) * math.cosh(theta / 4)
    u = -2 * sp.log(sp.cosh((X - sp.Rational(1, 2)) * theta / 2) / math.cosh(theta / 4))
    problem = Problem(
        name="bratu",
        space={"x": [0, 1]},
        unknowns=["u"],
        equations=["dxx(u) + exp(u) = 0"],
        boundary={"x": {"dirichlet": {"u": 0}}},
        save={"x": 33},
    )
    check(problem, u, 1e-9)


KINDS = [
    {"x": ("dirichlet", "dirichlet"), "y": ("dirichlet", "dirichlet")},
    {"x": ("neumann", "dirichlet"), "y": ("robin", "neumann")},
    {"x": ("robin", "robin"), "y": ("neumann", "dirichlet")},
]


@pytest.mark.parametrize("faces", KINDS)
def test_any_walls_of_a_square_with_drift_and_cross_derivative(faces):
    u = sp.sin(2 * X + Y) + sp.exp(2 * X) * Y**2 / 4
    left = lambda v: (  # noqa: E731
        -sp.diff((2 + X * Y) * sp.diff(v, X), X)
        - sp.diff(v, Y, 2)
        + sp.diff(v, X, Y) / 4
        + sp.diff(v, Y)
        + v
    )
    text = "-d((2 + x*y)*dx(u), x) - dyy(u) + d(dx(u), y)/4 + dy(u) + u"
    problem = manufactured(u, left, text, faces, space=("x", "y"), time=None)
    check(problem, u, 1e-8)


def test_a_box_of_three_axes_with_every_kind_of_wall():
    z = sp.Symbol("z", real=True)
    u = sp.sin(X + Y) * sp.exp(z / 2) + Y * sp.cos(X - z)
    left = lambda v: (  # noqa: E731
        -sum(sp.diff(v, a, 2) for a in (X, Y, z)) + (1 + X) * sp.diff(v, z) + v
    )
    faces = {"x": ("dirichlet", "robin"), "y": ("neumann", "dirichlet"), "z": ("robin", "neumann")}
    text = "-lap(u) + (1 + x)*dz(u) + u"
    problem = manufactured(u, left, text, faces, ("x", "y", "z"), time=None)
    check(problem, u, 1e-5, shape=(5, 6, 7))


@pytest.mark.parametrize("evolving", [False, True])
def test_walls_may_have_equations_of_their_own(evolving):
    """Heat radiated at one end, ∂u/∂n + u⁴ = g; at the other a mixture of slope and value."""
    u = 1 + sp.sin(2 * X) / 4 + (sp.exp(-T) * X / 5 if evolving else 0)
    source = sp.diff(u, T) - sp.diff(u, X, 2) / 4
    radiated = (sp.diff(u, X) + u**4).subs(X, 1)
    mixed = (u * sp.diff(u, X)).subs(X, 0)
    evolution = {"time": {"t": [0, 0.5]}, "initial": {"u": str(u.subs(T, 0))}}
    problem = Problem(
        name="case",
        space={"x": [0, 1]},
        unknowns=["u"],
        equations=[f"{'dt(u)' if evolving else '0'} - dxx(u)/4 = {source}"],
        boundary={"x.min": f"u*dx(u) = {mixed}", "x.max": f"dx(u)*nx + u**4 = {radiated}"},
        save={**({"t": 3} if evolving else {}), "x": 17},
        **(evolution if evolving else {}),
    )
    check(problem, u, 1e-7)


def test_a_wall_along_one_axis_and_a_period_along_the_other():
    u = sp.sin(2 * sp.pi * X) * sp.exp(Y - T) + sp.cos(4 * sp.pi * X + T)
    left = lambda v: (  # noqa: E731
        sp.diff(v, T) - (sp.diff(v, X, 2) + sp.diff(v, Y, 2)) / 20 + sp.diff(v, X) + v**2
    )
    text = "dt(u) - lap(u)/20 + dx(u) + u**2"
    faces = {"y": ("robin", "dirichlet")}
    problem = manufactured(u, left, text, faces, ("x", "y"), time=0.25, periodic=["x"])
    check(problem, u, 1e-5, shape=(16, 17))


def test_a_membrane_with_fixed_edges():
    c = math.sqrt(5) * math.pi
    problem = Problem(
        name="membrane",
        time={"t": [0, 0.5]},
        space={"x": [0, 1], "y": [0, 1]},
        unknowns=["u"],
        equations=["d(u, t, 2) = lap(u)"],
        initial={"u": "sin(pi*x)*sin(2*pi*y)", "dt(u)": "0"},
        boundary={a: {"dirichlet": {"u": 0}} for a in "xy"},
        save={"t": 3, "x": 17, "y": 17},
    )
    u = sp.sin(sp.pi * X) * sp.sin(2 * sp.pi * Y) * sp.cos(c * T)
    solution = check(problem, u, 1e-5)
    rate = exact_values(sp.diff(u, T), problem, solution.axes, solution.times.tolist())
    assert relative(solution.time_derivatives["u"][0], rate) < 1e-4


def free(right):
    """u'' = right between walls that let nothing through."""
    return Problem(
        name="free",
        space={"x": [0, 1]},
        unknowns=["u"],
        equations=[f"dxx(u) = {right}"],
        boundary={"x": {"neumann": {"u": 0}}},
        gauge={"u": {"mean": 2}},
        save={"x": 33},
    )


def test_a_gauge_gives_the_mean_that_flat_walls_leave_free():
    check(free("cos(3*pi*x)"), 2 - sp.cos(3 * sp.pi * X) / (9 * sp.pi**2), 1e-8)


def test_sources_that_flat_walls_cannot_balance_are_refused():
    with pytest.raises(SolverError, match=r"sample 0: .* of 'u' leave .* integrals must cancel"):
        solve_reference(free("cos(3*pi*x) + 0.1"), {}, limits=Limits(levels=3))


def test_slopes_that_vanish_say_so():
    """u² = 0 at a wall has no slope where it holds."""
    problem = Problem(
        name="case",
        space={"x": [0, 1]},
        unknowns=["u"],
        equations=["dxx(u) + u**2 = 1"],
        boundary={"x.min": "0*dx(u) + u**2 = -1", "x.max": {"dirichlet": {"u": 0}}},
        save={"x": 9},
    )
    with pytest.raises(SolverError, match="sample 0: Newton's iteration found no solution"):
        solve_reference(problem, {}, limits=Limits(levels=3))


def test_linear_equations_whose_data_are_not_finite_are_not_iterated():
    problem = Problem(
        name="case",
        space={"x": [0, 1]},
        unknowns=["u"],
        equations=["-dxx(u) = log(x - 1/2)"],
        boundary={"x": {"dirichlet": {"u": 0}}},
        save={"x": 9},
    )
    with pytest.raises(SolverError, match="sample 0: its system is singular or not finite on"):
        solve_reference(problem, {}, limits=Limits(levels=3))


def test_iterations_without_a_solution_say_so():
    """u'' + 10 e^u = 0 has none between zero walls: above 3.51 both branches are gone."""
    problem = Problem(
        name="bratu",
        space={"x": [0, 1]},
        unknowns=["u"],
        equations=["dxx(u) + 10*exp(u) = 0"],
        boundary={"x": {"dirichlet": {"u": 0}}},
        save={"x": 33},
    )
    with pytest.raises(SolverError, match="sample 0: Newton's iteration found no solution"):
        solve_reference(problem, {}, limits=Limits(levels=3))


def driven():
    """A cavity whose lid slides at Reynolds number 100: velocity jumps at two corners."""
    momentum = [f"u*dx({w}) + v*dy({w}) - lap({w})/100 + d{a}(p) = 0" for w, a in ("ux", "vy")]
    return Problem(
        name="cavity",
        space={"x": [0, 1], "y": [0, 1]},
        unknowns=["u", "v", "p"],
        equations=[*momentum, "dx(u) + dy(v) = 0"],
        boundary={
            "y.max": {"dirichlet": {"u": 1, "v": 0}},
            "rest": {"dirichlet": {"u": 0, "v": 0}},
        },
        gauge={"p": {"mean": 0}},
        save={"x": 9, "y": 9},
    )


def test_corners_that_no_mesh_resolves_end_refinement_before_the_dearest_one():
    solution = solve_reference(driven(), {})
    assert solution.modes.tolist() == [[39, 39]]
    assert not bool(solution.accepted)
    assert "converges too slowly" in solution.notes[0]


def test_newtons_method_keeps_a_matrix_that_serves(monkeypatch):
    """From the solution of the mesh before, one or two matrices suffice on each finer one."""
    made = []
    jacobian = CollocationSystem.jacobian
    monkeypatch.setattr(
        CollocationSystem, "jacobian", lambda s, w, t: made.append(s.size) or jacobian(s, w, t)
    )
    solve_reference(driven(), {}, limits=Limits(levels=4))
    assert max(made.count(size) for size in sorted(set(made))[1:]) <= 2


def test_samples_of_one_matrix_are_solved_together():
    problem = Problem.from_file("poisson")
    functions = sample_inputs(problem, Draws(5, 0, torch.arange(3)))
    request = Request((), (9, 9), 1e-6, torch.device("cpu"), Limits())
    solver = CollocationSolver(Sources(problem, functions, request.device), request)
    assert solver.equations.shared
    assert solver.bytes_per_sample(GridLevel(6, (47, 47))) < MEMORY / 100
    walls, k = {"x": ("dirichlet", "dirichlet")}, {"law": "uniform", "low": 0, "high": 1}
    media = manufactured(X, lambda v: v, "u - (1 + k)*dxx(u)", walls, time=None, inputs={"k": k})
    assert not Equations(media).shared


def test_each_of_many_equations_determines_the_unknown_of_its_highest_derivative():
    """Sixteen rods in any order: an order is found by assignment, not among all 16! of them."""
    names = [f"w{i}" for i in range(16)]
    turned = [*names[5:], *names[:5]]
    problem = Problem(
        name="rods",
        space={"x": [0, 1]},
        unknowns=names,
        equations=[f"dxx({name}) = w0 - w15" for name in turned],
        boundary={"x": [{"dirichlet": {name: 0}} for name in names]},
    )
    for i, row in enumerate(Equations(problem).rows):
        assert (i, (2,)) in row.slopes.derivatives


def test_an_equation_does_not_determine_an_unknown_that_it_lacks():
    """Of u'' = −1 and v = u'' the second has the higher derivative of u too, but alone holds v."""
    problem = Problem(
        name="curvature",
        space={"x": [0, 1]},
        unknowns=["v", "u"],
        equations=["-dxx(u) = 1", "v = dxx(u)"],
        boundary={"x": {"dirichlet": {"u": 0}}},
        save={"x": 9},
    )
    solution = solve_reference(problem, {})
    x = solution.axes[0]
    torch.testing.assert_close(solution.values["u"][0], x * (1 - x) / 2, rtol=0, atol=1e-12)
    torch.testing.assert_close(solution.values["v"][0], -torch.ones_like(x), rtol=0, atol=1e-10)


@pytest.mark.parametrize("evolving", [False, True])
def test_memory_of_a_sample_is_that_of_its_matrix_or_of_vectors_where_all_share_one(evolving):
    """The matrix of two unknowns has four times the entries of one; steps have one in any case."""

    def needed(*unknowns):
        left = "dt({})" if evolving else "{}"
        words = {"time": {"t": [0, 1]}, "initial": dict.fromkeys(unknowns, 0)} if evolving else {}
        problem = Problem(
            name="walls",
            space={"x": [0, 1]},
            unknowns=list(unknowns),
            equations=[f"{left.format(name)} = dxx({name}) + 1" for name in unknowns],
            boundary={"x": [{"dirichlet": {name: 0}} for name in unknowns]},
            **words,
        )
        cpu = torch.device("cpu")
        request = Request((1.0,) if evolving else (), (9,), 1e-6, cpu, Limits())
        solver = CollocationSolver(Sources(problem, {}, cpu), request)
        assert solver.equations.shared
        return [solver.bytes_per_sample(GridLevel(1, (n,))) for n in (20, 40)]

    (one, longer), (two, _) = needed("u"), needed("u", "v")
    assert two / one == longer / one == (4 if evolving else 2)

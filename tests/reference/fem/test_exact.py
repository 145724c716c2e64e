"""Problems on shapes with known solutions: gauges, inputs, systems, Newton's method."""

import math
from collections import Counter

import numpy as np
import pytest
import sympy
import torch

from piop.domain.triangulation import triangulate
from piop.errors import SolverError
from piop.forms.weak import weak_form
from piop.problem import Problem
from piop.reference import solve_reference
from piop.reference.fem.meshes import node_count
from piop.reference.fem.solve import MeshSolver
from piop.reference.fem.system import FiniteElementSystem
from piop.reference.input_values import Sources
from piop.reference.levels import richardson_error
from piop.reference.solution import Limits, Request
from piop.sampling import Draws, sample_inputs

from .cases import CAVITY, SLANTED, X, Y, l2_error, manufactured, on_mesh, on_shape

ZERO = {"rest": {"dirichlet": {"u": 0}}}


def values(solution, name="u"):
    return solution.values[name].numpy(), solution.points.numpy()


def test_a_disk_in_torsion():
    """−Δu = 1, zero around the disk: u = (R² − r²)/4 is in the space but for the circle."""
    problem = on_shape("-lap(u) = 1", ZERO, {"disk": [0.5, 0.5, 0.5]})
    solution = solve_reference(problem, {}, tolerance=1e-6)
    found, points = values(solution)
    truth = (0.25 - ((points[0] - 0.5) ** 2).sum(-1)) / 4
    assert bool(solution.accepted.all())
    error = np.linalg.norm(found[0] - truth) / np.linalg.norm(truth)
    assert error <= float(solution.error_estimate) <= 1e-6
    assert solution.axes == ()


@pytest.mark.parametrize("degree", [1, 2])
def test_what_the_space_holds_comes_out_exactly(degree):
    """The patch test, with slanted sides and a flux that differs from side to side."""
    u = 1 + 2 * X - Y if degree == 1 else X**2 - 3 * X * Y + Y
    kinds = {"outline": "exchange"}
    problem = manufactured(u, 2 if degree == 2 else 3, kinds=kinds, domain=SLANTED)
    space, found = on_mesh(problem, {}, 0.4, degree)
    assert l2_error(space, found[:, 0], u) < 1e-12


def test_a_free_constant_is_fixed_by_the_gauge():
    """∂u/∂n of x² − y² + 3 on slanted sides; the mean over the shape is asked to be that of u."""
    u = X**2 - Y**2 + X
    boundary = {"rest": ["dx(u)*nx + dy(u)*ny = (2*x + 1)*nx - 2*y*ny"]}
    problem = on_shape("-lap(u) = 0", boundary, SLANTED, gauge={"u": {"mean": 0.25}})
    space, found = on_mesh(problem, {}, 0.3, 2)
    weights = space.volume.weights.ravel()
    mean = (space.volume.fields(found[:, 0])[0][0] * weights).sum() / weights.sum()
    assert mean == pytest.approx(0.25, abs=1e-12)
    truth = sympy.lambdify((X, Y), u)(*space.points.T)
    assert np.ptp(found[0, 0] - truth) < 1e-11


@pytest.mark.parametrize(
    ("source", "balanced"), [("1", True), ("1.01", False), ("5*where(x > 0.37, 1, 0)", False)]
)
def test_sources_that_no_flux_balances_are_refused(source, balanced):
    """1/4 leaves a disk of radius 1/2 along its circle, which is what a source of one brings."""
    boundary = {"rest": {"neumann": {"u": "-1/4"}}}
    domain = {"disk": [0.5, 0.5, 0.5]}
    problem = on_shape(f"-lap(u) = {source}", boundary, domain, gauge={"u": {"mean": 0}})
    if balanced:
        assert bool(solve_reference(problem, {}).accepted.all())
        return
    with pytest.raises(SolverError, match=r"sample 0: .* of 'u' leave .* integrals must cancel"):
        solve_reference(problem, {})


def test_one_matrix_serves_all_sources_and_each_coefficient_has_its_own():
    law = {"of": ["x", "y"], "law": "gaussian_random_field", "scale": 100, "tau": 5, "alpha": 4}
    inputs = {"f": {**law, "modes": 6}, "k": {"law": "uniform", "low": 1, "high": 3}}
    sources = on_shape("-lap(u) = k*f", ZERO, inputs=inputs)
    assert weak_form(sources.pde).shared
    media = on_shape("-div(k*grad(u)) = f", ZERO, inputs=inputs)
    assert not weak_form(media.pde).shared
    functions = sample_inputs(sources, Draws(3, 0, torch.arange(3)))
    together, apart = (solve_reference(p, functions, tolerance=1e-3) for p in (sources, media))
    k = functions["k"].on_grid(()).reshape(3, 1).numpy()
    a, b = values(together)[0], values(apart)[0]
    assert np.abs(a - k**2 * b).max() < 1e-9 * np.abs(a).max()
    alone = solve_reference(media, {n: f.take(torch.tensor([1])) for n, f in functions.items()})
    assert np.abs(values(alone)[0][0] - b[1]).max() < 1e-3 * np.abs(b[1]).max()


@pytest.mark.parametrize("name", ["c", "nx"])  # one like the normal's component in equations too
def test_boundary_data_may_be_inputs(name):
    """u = g on the square's sides with g = c·x harmonic, no flux through slits along x."""
    inputs = {name: {"law": "uniform", "low": 1, "high": 2}}
    boundary = {"x.max": {"neumann": {"u": name}}, "y": {"neumann": {"u": 0}}}
    boundary["rest"] = {"dirichlet": {"u": f"{name}*x"}}
    problem = on_shape("-lap(u) = 0", boundary, {"box": [[0, 1], [0, 1]]}, inputs=inputs)
    functions = sample_inputs(problem, Draws(3, 0, torch.arange(2)))
    solution = solve_reference(problem, functions, tolerance=1e-8)
    found, points = values(solution)
    c = functions[name].on_grid(()).reshape(2, 1).numpy()
    assert np.abs(found - c * points[..., 0]).max() < 1e-12


def test_order_of_newtons_answers_with_a_nonlinear_flux():
    """−div((1 + u²) grad u) = f around a hole through which it cools by −u³."""
    u = sympy.exp(X - Y) / 2
    ux, uy = sympy.diff(u, X), sympy.diff(u, Y)
    f = -sympy.diff((1 + u**2) * ux, X) - sympy.diff((1 + u**2) * uy, Y)
    flow = "(1 + u**2)*(dx(u)*nx + dy(u)*ny) + u**3"
    truth = f"(1 + ({u})**2)*(({ux})*nx + ({uy})*ny) + ({u})**3"
    boundary = {"cavity": [f"{flow} = {truth}"], "rest": {"dirichlet": {"u": str(u)}}}
    problem = on_shape(f"-div((1 + u**2)*grad(u)) = {f}", boundary)
    assert not weak_form(problem.pde).linear
    errors = []
    for level in (0, 1):
        space, found = on_mesh(problem, {}, 0.12, 2, level)
        errors.append(l2_error(space, found[:, 0], u))
    assert 2.8 < math.log2(errors[0] / errors[1]) < 3.4


STRESS = {
    "Fxx": "1 + dx(u)",
    "Fxy": "dy(u)",
    "Fyx": "dx(v)",
    "Fyy": "1 + dy(v)",
    "J": "Fxx*Fyy - Fxy*Fyx",
    "Pxx": "mu*(Fxx - Fyy/J) + lam*log(J)*Fyy/J",
    "Pxy": "mu*(Fxy + Fyx/J) - lam*log(J)*Fyx/J",
    "Pyx": "mu*(Fyx + Fxy/J) - lam*log(J)*Fxy/J",
    "Pyy": "mu*(Fyy - Fxx/J) + lam*log(J)*Fxx/J",
}
SOLID = {
    "unknowns": ["u", "v"],
    "definitions": STRESS,
    "parameters": {"mu": 1, "lam": 2},
}
BALANCE = ["d(Pxx, x) + d(Pxy, y) = 0", "d(Pyx, x) + d(Pyy, y) = 0"]


def test_a_hyperelastic_block_pulled_straight_is_strained_evenly():
    """Neo-Hookean, pulled by t along y, free to narrow: P_xx(a, b) = 0 and P_yy(a, b) = t."""
    boundary = {
        "x.min": [{"dirichlet": {"u": 0}}, "Pyx*nx + Pyy*ny = 0"],
        "x.max": ["Pxx*nx + Pxy*ny = 0", "Pyx*nx + Pyy*ny = 0"],
        "y.min": [{"dirichlet": {"v": 0}}, "Pxx*nx + Pxy*ny = 0"],
        "y.max": ["Pxx*nx + Pxy*ny = 0", "Pyx*nx + Pyy*ny = 0.5"],
    }
    problem = on_shape(BALANCE, boundary, {"box": [[0, 1], [0, 1]]}, **SOLID)
    a, b = sympy.symbols("a b")
    log = sympy.log(a * b)
    equations = [a - 1 / a + 2 * log / a, b - 1 / b + 2 * log / b - 0.5]
    width, height = (float(v) for v in sympy.nsolve(equations, (a, b), (0.9, 1.2)))
    solution = solve_reference(problem, {}, tolerance=1e-8)
    u, points = values(solution)
    v = values(solution, "v")[0]
    assert np.abs(u - (width - 1) * points[..., 0]).max() < 1e-9
    assert np.abs(v - (height - 1) * points[..., 1]).max() < 1e-9


def test_a_cavity_with_traction_on_a_system_is_met_with_third_order():
    """A bent block with a hole, body forces and tractions by calculus."""
    u, v = sympy.sin(X) * Y / 5, X**2 / 8 - Y / 10
    problem, truth = solid(u, v)
    errors = []
    for level in (0, 1):
        space, found = on_mesh(problem, {}, 0.15, 2, level)
        errors.append(
            l2_error(space, found[:, 0], truth[0]) + l2_error(space, found[:, 1], truth[1])
        )
    assert 2.8 < math.log2(errors[0] / errors[1]) < 3.5


def solid(u, v):
    """A hyperelastic square with a hole that moves by (u, v)."""
    fxx, fxy, fyx, fyy = 1 + u.diff(X), u.diff(Y), v.diff(X), 1 + v.diff(Y)
    j = fxx * fyy - fxy * fyx
    log = 2 * sympy.log(j)
    pxx, pxy = fxx - fyy / j + log * fyy / j, fxy + fyx / j - log * fyx / j
    pyx, pyy = fyx + fxy / j - log * fxy / j, fyy - fxx / j + log * fxx / j
    forces = [pxx.diff(X) + pxy.diff(Y), pyx.diff(X) + pyy.diff(Y)]
    inner = [
        f"Pxx*nx + Pxy*ny = ({pxx})*nx + ({pxy})*ny",
        f"Pyx*nx + Pyy*ny = ({pyx})*nx + ({pyy})*ny",
    ]
    boundary = {"cavity": inner, "rest": {"dirichlet": {"u": str(u), "v": str(v)}}}
    equations = [e.replace("= 0", f"= {f}") for e, f in zip(BALANCE, forces, strict=True)]
    return on_shape(equations, boundary, CAVITY, **SOLID), (u, v)


def test_an_equation_without_a_solution_says_so():
    """Bratu's problem far beyond its fold."""
    with pytest.raises(SolverError, match="sample 0: Newton's method does not converge"):
        solve_reference(on_shape("-lap(u) = 60*exp(u)", ZERO), {})


def test_a_tolerance_out_of_reach_is_reported():
    problem = manufactured(sympy.sin(9 * X) * sympy.exp(Y))
    limits = Limits(modes=(60, 60, 60))
    solution = solve_reference(problem, {}, tolerance=1e-9, limits=limits)
    assert not bool(solution.accepted.any())
    assert "tolerance 1.0e-09 not met; refinement ended at a mesh of" in solution.notes[0]
    found, points = values(solution)
    truth = np.sin(9 * points[0, :, 0]) * np.exp(points[0, :, 1])
    error = np.linalg.norm(found[0] - truth) / np.linalg.norm(truth)
    assert error <= float(solution.error_estimate)


def test_two_meshes_of_unknown_order_are_followed_by_a_third():
    """The second has 17,000 nodes: a fourth would be too fine, the third meets the tolerance."""
    solution = solve_reference(Problem.from_file("poisson_lshape"), {}, tolerance=1e-4)
    assert bool(solution.accepted.all())
    assert solution.modes.tolist() == [[129, 129]]


def solver_of(problem, shape=(9, 9), limits=None):
    cpu = torch.device("cpu")
    request = Request((), shape, 1e-6, cpu, limits or Limits())
    return MeshSolver(
        Sources(problem, {}, cpu), request, weak_form(problem.pde), problem.domain.outline
    )


@pytest.mark.parametrize(("observed", "credited"), [(2.0, 2.0), (6.0, 3.0), (0.1, 0.5)])
def test_the_order_that_is_credited_is_at_most_that_of_the_elements(observed, credited):
    solver = solver_of(on_shape("-lap(u) = 1", ZERO))
    last = np.ones((1, 4))
    before = last + 1e-4
    error, order = solver._estimate([last, before, before + 1e-4 * 2**observed])
    assert order == pytest.approx(credited)
    assert error == pytest.approx(richardson_error(1e-4, order))


@pytest.mark.parametrize(("meshes", "between"), [(3.5, True), (4.5, False)])
def test_points_lie_on_nodes_where_a_mesh_of_four_times_as_many_fits(meshes, between):
    problem = on_shape("-lap(u) = 1", ZERO)
    nodes = node_count(triangulate(problem.domain.outline, 1 / 8))
    most = round(math.sqrt(meshes * nodes))
    assert solver_of(problem, limits=Limits(modes=(most, most, most))).between == between


def test_a_reaction_without_a_slope_at_zero_is_solved_between_fluxes():
    """−Δu + u³ of u = 2 + x: at zero, where Newton's method begins, a constant is free."""
    problem = Problem(
        name="reaction",
        space={"x": [-1, 1], "y": [-1, 1]},
        domain={"disk": [0, 0, 1]},
        unknowns=["u"],
        equations=["-lap(u) + u**3 = (2 + x)**3"],
        boundary={"outline": "dx(u)*nx + dy(u)*ny = nx"},
        save={"x": 9, "y": 9},
    )
    solution = solve_reference(problem, {})
    exact = 2 + solution.points[..., 0]
    assert float((solution.values["u"] - exact).abs().max()) < 1e-3
    assert bool(solution.accepted.all())


def test_newtons_full_step_is_tried_first(monkeypatch):
    """Weakly nonlinear: no step is shortened, so that each has one matrix and one residual."""
    counts = Counter()

    def counted(name, usual):
        return lambda *arguments: counts.update([name]) or usual(*arguments)

    for name in ("_residual", "_factorised"):
        usual = getattr(FiniteElementSystem, name)
        monkeypatch.setattr(FiniteElementSystem, name, counted(name, usual))
    on_mesh(on_shape("-lap(u) + u**3 = 1", ZERO), {}, 0.2, 2)
    assert counts["_factorised"] > 1
    assert counts["_residual"] == 1 + counts["_factorised"]


def test_too_fine_a_grid_cannot_be_meshed():
    with pytest.raises(SolverError, match="case: more than 200000 points are needed"):
        solve_reference(on_shape("-lap(u) = 1", ZERO), {}, shape=(2001, 2001))


def test_a_charge_that_jumps_is_integrated_on_both_sides():
    """A disk of charge about the middle of an earthed disk, whose edge cuts through triangles."""
    source = "where((x - 0.5)**2 + (y - 0.5)**2 < 0.09, 1, 0)"
    problem = on_shape(f"-lap(u) = {source}", ZERO, {"disk": [0.5, 0.5, 0.5]})
    assert len(weak_form(problem.pde).jumps) == 1
    solution = solve_reference(problem, {}, shape=(13, 13), tolerance=2e-3)
    found, points = values(solution)
    r = np.linalg.norm(points[0] - 0.5, axis=-1)
    inner = (0.09 - r**2) / 4 + 0.045 * math.log(0.5 / 0.3)
    truth = np.where(r < 0.3, inner, 0.045 * np.log(0.5 / np.maximum(r, 1e-9)))
    error = np.linalg.norm(found[0] - truth) / np.linalg.norm(truth)
    assert error <= float(solution.error_estimate) <= 2e-3


SHAPES = {
    "square": {"box": [[0, 1], [0, 1]]},
    "disk": {"disk": [0.5, 0.5, 0.5]},
    "ring": {"disk": [0.5, 0.5, 0.5], "holes": {"inner": {"disk": [0.5, 0.5, 0.12]}}},
    "L": {"polygon": [[0.5, 0], [1, 0], [1, 1], [0, 1], [0, 0.5], [0.5, 0.5]]},
    "U": {"difference": [{"box": [[0, 1], [0, 1]]}, {"box": [[0.25, 0.75], [0.25, 1]]}]},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_sources_and_what_they_cause_belong_together_on_every_shape(shape):
    """Green's reciprocity: ∫ f v = ∫ g u for −Δu = f, −Δv = g that vanish around the shape."""
    pair = ["exp(-9*(x - 0.8)**2 - 9*(y - 0.7)**2)", "x*y"]
    found = []
    for source in pair:
        space, u = on_mesh(on_shape(f"-lap(u) = {source}", ZERO, SHAPES[shape]), {}, 0.1, 2)
        found.append(space.volume.fields(u[:, 0])[0][0] * space.volume.weights.ravel())
    x, y = space.volume.points.T
    sources = [np.exp(-9 * (x - 0.8) ** 2 - 9 * (y - 0.7) ** 2), x * y]
    one, other = found[0] @ sources[1], found[1] @ sources[0]
    assert one == pytest.approx(other, rel=1e-11)
    assert one > 1e-4


@pytest.mark.parametrize("coefficient", ["1", "where(x < 0.4, 1, 3)"])
def test_a_sample_whose_source_jumps_does_not_depend_on_the_others(coefficient):
    """Triangles that the edge of one source cuts are whole in the samples of the others."""
    place = {"law": "uniform", "low": 0.3, "high": 0.7}
    source = "where((x - a)**2 + (y - b)**2 < 0.02, 1, 0)"
    problem = on_shape(
        f"-div({coefficient}*grad(u)) = {source}",
        ZERO,
        {"disk": [0.5, 0.5, 0.5]},
        inputs={"a": place, "b": place},
    )
    together = sample_inputs(problem, Draws(2, 0, torch.arange(3)))
    alone = sample_inputs(problem, Draws(2, 0, torch.tensor([2])))
    both = [solve_reference(problem, f, shape=(13, 13), tolerance=5e-2) for f in (together, alone)]
    batch, single = (s.values["u"][-1] for s in both)
    torch.testing.assert_close(batch, single, rtol=1e-12, atol=1e-12 * float(single.abs().max()))

"""Solutions of steady linear problems for a source, against formulas and the equations."""

import math

import pytest
import torch
from torch import Tensor

from piop.problem import Problem
from piop.problem.constraints import decide_constraints
from piop.residual import compile_residual
from piop.training.loss.known_functions import hard_constraint_lift
from piop.training.loss.linear_inversion import LinearInversion

CPU = torch.device("cpu")
SPEC = """
piop: 1
name: example
space: {{x: [0, 1], y: [0, 2]}}
unknowns: [{unknowns}]
equations: [{equations}]
boundary: {{{boundary}}}
{gauge}
save: {{x: 17, y: 17}}
"""
D, N = "dirichlet: {u: 0}", "neumann: {u: 0}"


def example(
    *equations: str, boundary: str, unknowns: str = "u", gauge: dict[str, float] | None = None
) -> Problem:
    means = ", ".join(f"{name}: {{mean: {mean}}}" for name, mean in (gauge or {}).items())
    return Problem.from_yaml(
        SPEC.format(
            unknowns=unknowns,
            equations=", ".join(f'"{e}"' for e in equations),
            boundary=boundary,
            gauge=f"gauge: {{{means}}}" if means else "",
        )
    )


def walls(x: str, y: str) -> str:
    """Conditions on all faces, such as DN for values at the low end and slopes at the high one."""
    kinds = {"D": D, "N": N}
    faces = zip(("x.min", "x.max", "y.min", "y.max"), x + y, strict=True)
    return ", ".join(f"{face}: {{{kinds[kind]}}}" for face, kind in faces)


def solved(problem: Problem, order: tuple[int, int] = (0, 0)) -> tuple[list[Tensor], Tensor]:
    """Each channel at random points ``[1, N]``, and the points."""
    found = LinearInversion(problem)
    made = found({}, CPU)
    at = torch.rand(1, 50, 2, dtype=torch.float64) * torch.tensor([1.0, 2.0])
    return [made[item.name].derivative(at, order) for item in found.inputs], at


SHAPES = {
    "DD": lambda s, n: s * (n - s),
    "DN": lambda s, n: s * (2 * n - s),
    "ND": lambda s, n: n**2 - s**2,
    "NN": lambda s, n: torch.cos(math.pi * s / n),
}
"""Functions of s on [0, n] that meet the conditions, and do not vanish with ∂ss at the walls."""
TEXTS = {
    "DD": "({s}*({n} - {s}))",
    "DN": "({s}*(2*{n} - {s}))",
    "ND": "({n}**2 - {s}**2)",
    "NN": "cos(pi*{s}/{n})",
}


@pytest.mark.parametrize("x", [*SHAPES])
@pytest.mark.parametrize("y", [*SHAPES])
def test_walls_of_every_kind_are_met_exactly(x: str, y: str) -> None:
    """u = p(x) q(y) of the equation whose source it gives; the source is not zero at the walls."""
    p, q = TEXTS[x].format(s="x", n=1), TEXTS[y].format(s="y", n=2)
    parts = f"d({p}, x, 2)*{q} + 3*{p}*d({q}, y, 2)"
    problem = example(f"5*u - dxx(u) - 3*dyy(u) = 5*{p}*{q} - ({parts})", boundary=walls(x, y))
    (found,), at = solved(problem)
    wanted = SHAPES[x](at[..., 0], 1) * SHAPES[y](at[..., 1], 2)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("order", [(0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2)])
def test_derivatives_are_those_of_the_solution(order: tuple[int, int]) -> None:
    """u = sin(3πx) cos(πy): periodic along y, and values vanish along x."""
    problem = example(
        "lap(u) + dy(u) + 40*u = sin(3*pi*x)*((40 - 10*pi**2)*cos(pi*y) - pi*sin(pi*y))",
        boundary="x: {dirichlet: {u: 0}}, y: periodic",
    )
    (found,), at = solved(problem, order)
    along = 3 * math.pi * at[..., 0] + order[0] * math.pi / 2
    around = math.pi * at[..., 1] + order[1] * math.pi / 2
    factor = (3 * math.pi) ** order[0] * math.pi ** order[1]
    torch.testing.assert_close(
        found, factor * torch.sin(along) * torch.cos(around), rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize("boundary", ["x: periodic, y: periodic", walls("NN", "NN")])
def test_a_constant_that_is_left_takes_the_mean(boundary: str) -> None:
    problem = example("-lap(u) = 5*pi**2*cos(2*pi*x)*cos(pi*y)", boundary=boundary, gauge={"u": 3})
    (found,), at = solved(problem)
    wanted = 3 + torch.cos(2 * math.pi * at[..., 0]) * torch.cos(math.pi * at[..., 1])
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


def test_a_constant_that_the_equation_fixes_stays() -> None:
    problem = example("2*u - lap(u) = 6", boundary="x: periodic, y: periodic")
    (found,), _ = solved(problem)
    torch.testing.assert_close(found, torch.full_like(found, 3.0))


def test_a_system_is_solved_by_its_matrix() -> None:
    """Δu = v, Δv = f: a plate on simple supports, u = sin(πx) sin(πy/2)."""
    both = "dirichlet: {u: 0, v: 0}"
    problem = example(
        "lap(u) - v = 0",
        "lap(v) = (5*pi**2/4)**2*sin(pi*x)*sin(pi*y/2)",
        unknowns="u, v",
        boundary=f"x: {{{both}}}, y: {{{both}}}",
    )
    (u, v), at = solved(problem)
    wanted = torch.sin(math.pi * at[..., 0]) * torch.sin(math.pi * at[..., 1] / 2)
    torch.testing.assert_close(u, wanted, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(v, -1.25 * math.pi**2 * wanted, rtol=1e-9, atol=1e-9)


def test_a_periodic_flow_balances_its_force() -> None:
    """u = 1 + sin(πy)/π² under the force sin(πy), p = 2 − cos(2πx)/2π under sin(2πx)."""
    problem = example(
        "dx(p) - lap(u) = sin(pi*y) + sin(2*pi*x)",
        "dy(p) - lap(v) = 0",
        "dx(u) + dy(v) = 0",
        unknowns="u, v, p",
        boundary="x: periodic, y: periodic",
        gauge={"u": 1, "v": 0, "p": 2},
    )
    (u, v, p), at = solved(problem)
    x, y = at.unbind(-1)
    torch.testing.assert_close(u, 1 + torch.sin(math.pi * y) / math.pi**2)
    torch.testing.assert_close(v, torch.zeros_like(v))
    torch.testing.assert_close(p, 2 - torch.cos(2 * math.pi * x) / (2 * math.pi))


@pytest.mark.parametrize("name", ["helmholtz", "poisson"])
def test_the_lift_of_a_shipped_problem_solves_it(name: str) -> None:
    problem = Problem.from_file(name)
    known = hard_constraint_lift(problem, decide_constraints(problem), [0.0], exact=True)
    assert known is not None
    assert known.names == ("f",)
    residual = compile_residual(problem, derived=known.derived)
    lift = residual.compile_lift(known.expressions)
    functions, at = problem.sample(4), torch.rand(4, 30, 2, dtype=torch.float64)
    rows, values = lift(functions, at), residual.evaluate_inputs(functions, at)
    found = residual(lambda q: lift.attach(rows, q), at, values)
    assert found.values.abs().max() < 1e-8 * values[0].abs().max()


def test_samples_are_solved_each_for_its_own_source() -> None:
    problem = Problem.from_file("poisson")
    functions, found = problem.sample(3), LinearInversion(problem)
    (name,) = (item.name for item in found.inputs)
    together, at = found(functions, CPU)[name], torch.rand(1, 9, 2, dtype=torch.float64)
    last = {k: f.take(torch.tensor([2])) for k, f in functions.items()}
    alone = found(last, CPU)[name]
    torch.testing.assert_close(together(at)[2:], alone(at), rtol=1e-12, atol=1e-15)


def test_no_mean_of_the_data_is_added_to_the_solution() -> None:
    problem = example("2*u - lap(u) = 6", boundary=walls("NN", "NN"))
    known = hard_constraint_lift(problem, decide_constraints(problem), [7.0], exact=True)
    assert known is not None
    found = known({}, torch.rand(1, 5, 2, dtype=torch.float64))
    torch.testing.assert_close(found, torch.full_like(found, 3.0))

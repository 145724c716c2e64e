"""The exact solution of linear evolutions with coefficients that vary, against the solver."""

import logging

import pytest
import torch
from torch import Tensor

from piop.errors import NotSupportedError, UsageError
from piop.forms import varying_evolution
from piop.problem import Problem
from piop.problem.constraints import decide_constraints
from piop.reference import solve_reference
from piop.residual import compile_residual
from piop.training.build import build_model
from piop.training.choices import solves_linear_part
from piop.training.config import BudgetConfig, TrainingConfig, apply_settings
from piop.training.loss import varying_propagation
from piop.training.loss.known_functions import hard_constraint_lift
from piop.training.loss.linear_propagation import LinearPropagation
from piop.training.loss.statistics import distribution_statistics
from piop.training.loss.varying_propagation import Modes, VaryingPropagation, mode_tables
from tests.varying import example

CPU = torch.device("cpu")
SPEED = "(1 + 0.5*sin(2*pi*x))"
HEAT = example(f"2*dt(u) = dx(0.2*{SPEED}*dx(u)) + cos(2*pi*x)*u")
WAVES = example(f"d(u, t, 2) = {SPEED}**2*dxx(u)", slope="a")
DAMPED = example(f"d(u, t, 2) = {SPEED}*dxx(u) - 3*dt(u)", slope="0")
DRIFT = example(f"dt(u) = 0.05*{SPEED}*dxx(u) + dx(u)")
QUANTUM = example(
    "dt(p) = -0.1*dxx(q) + 9*cos(2*pi*x)*q",
    "dt(q) = 0.1*dxx(p) - 9*cos(2*pi*x)*p",
    unknowns="p, q",
)
PROBLEMS = {"heat": HEAT, "waves": WAVES, "damped": DAMPED, "drift": DRIFT, "quantum": QUANTUM}


def modes_of(solver: VaryingPropagation, problem: Problem, count: int, seed: int = 0) -> Modes:
    made = solver(problem.sample(count, seed=seed), CPU)["u of the linear part"]
    assert isinstance(made, Modes)
    return made


def lifted(problem: Problem, at: Tensor, order: tuple[int, ...] = (0, 0)) -> Tensor:
    """Evaluate what is added to the initial data."""
    solver = VaryingPropagation(problem)
    made = solver(problem.sample(2, seed=4), CPU)
    return torch.stack([made[item.name].derivative(at, order) for item in solver.inputs], -1)


@pytest.mark.parametrize("name", PROBLEMS)
def test_solutions_are_those_of_the_solver(name: str) -> None:
    problem = PROBLEMS[name]
    functions = problem.sample(2, seed=4)
    times = [0.5, 0.7, 1.0]
    solution = solve_reference(problem, functions, times=times, shape=(64,), tolerance=1e-9)
    truth = torch.stack([torch.as_tensor(solution.values[u]) for u in problem.unknowns], -1)
    t, x = torch.meshgrid(torch.tensor(times), torch.arange(64) / 64, indexing="ij")
    at = torch.stack([t, x], -1).double().flatten(0, 1)[None]
    start = functions["a"](at[..., 1:])[..., None]
    if name == "waves":  # (t − t0)·a is part of the lift of the initial data
        start = start * (1 + at[..., :1] - 0.5)
    found = (start + lifted(problem, at)).unflatten(1, (3, 64))
    torch.testing.assert_close(found, truth.to(found), rtol=0, atol=2e-7 * float(truth.abs().max()))


def test_a_box_of_two_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(varying_evolution, "MOST_POINTS", {2: 16})
    text = Problem.from_file("wave2d_cvit").to_yaml().replace("length: 0.1", "length: 0.6")
    problem = Problem.from_yaml(text.replace("0.5*sin", "0.2*sin"))
    functions, axis = problem.sample(2, seed=4), torch.arange(16) / 16
    solution = solve_reference(problem, functions, times=[0.3], shape=(16, 16), tolerance=1e-6)
    at = torch.cartesian_prod(torch.tensor([0.3]), axis, axis).double()[None]
    made = VaryingPropagation(problem)(functions, CPU)["u of the linear part"]
    found = functions["u0"](at[..., 1:]) + made(at)
    truth = torch.as_tensor(solution.values["u"]).flatten(1).to(found)
    start = functions["u0"](at[..., 1:])
    assert (truth - start).norm() > 0.3 * truth.norm()
    assert (found - truth).norm() < 2e-3 * truth.norm()  # 16 points resolve no more


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("order", [(1, 0), (2, 0), (0, 1), (0, 2), (1, 1)])
def test_derivatives_are_those_of_the_values(name: str, order: tuple[int, int]) -> None:
    at = torch.tensor([0.5, 0.0]) + torch.rand(1, 30, 2, dtype=torch.float64) * 0.5
    column = 0 if order[0] else 1
    step = torch.eye(2, dtype=torch.float64)[column] * 1e-5
    lower = tuple(n - (i == column) for i, n in enumerate(order))
    problem = PROBLEMS[name]
    difference = (lifted(problem, at + step, lower) - lifted(problem, at - step, lower)) / 2e-5
    found = lifted(problem, at, order)
    torch.testing.assert_close(found, difference, rtol=0, atol=1e-5 * float(found.abs().max()))


@pytest.mark.parametrize("name", ["heat", "waves"])
def test_the_lift_solves_the_equations(name: str) -> None:
    problem = PROBLEMS[name]
    known = hard_constraint_lift(problem, decide_constraints(problem), [0.0], exact=True)
    assert known is not None
    residual = compile_residual(problem, derived=known.derived)
    lift = residual.compile_lift(known.expressions)
    functions = problem.sample(2)
    at = torch.tensor([0.5, 0.0]) + torch.rand(2, 30, 2, dtype=torch.float64) * 0.5
    rows = lift(functions, at)
    found = residual(lambda q: lift.attach(rows, q), at, residual.evaluate_inputs(functions, at))
    size = lifted(problem, at[:1], (2, 0)).abs().max()
    assert found.values.abs().max() < 1e-5 * size  # modes below 1e-8 of the largest are neglected


def test_single_precision_is_that_of_double() -> None:
    at = torch.tensor([0.5, 0.0]) + torch.rand(1, 50, 2, dtype=torch.float64) * 0.5
    wanted = lifted(WAVES, at.float().double())
    found = lifted(WAVES, at.float())
    assert found.dtype == torch.float32
    torch.testing.assert_close(
        found.double(), wanted, rtol=0, atol=1e-5 * float(wanted.abs().max())
    )


def test_functions_have_points_of_their_own_or_share_them() -> None:
    made = modes_of(VaryingPropagation(WAVES), WAVES, 3)
    at = torch.rand(3, 20, 2, dtype=torch.float64)
    apart = torch.cat([made.take(torch.tensor([i]))(at[i : i + 1]) for i in range(3)])
    torch.testing.assert_close(made(at), apart, rtol=0, atol=1e-12)
    assert made(at[:1]).shape == (3, 20)
    assert (made.batch, made.dimension) == (3, 2)


@pytest.mark.parametrize("name", ["damped", "drift"])
@pytest.mark.parametrize("grid", [False, True])
def test_several_derivatives_at_once_are_those_one_by_one(name: str, grid: bool) -> None:
    made = modes_of(VaryingPropagation(PROBLEMS[name]), PROBLEMS[name], 3)
    at = torch.rand(3, 20, 2, dtype=torch.float64)
    if grid:
        at = torch.cartesian_prod(torch.linspace(0.5, 1, 4), torch.linspace(0, 0.9, 5))[None]
    orders = [(0, 0), (2, 0), (0, 2), (1, 1), (0, 0)]
    alone = [made.derivative(at, order) for order in orders]
    torch.testing.assert_close(made.derivatives(at, orders), alone, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["waves", "quantum"])
def test_on_a_grid_values_are_those_at_its_points(name: str) -> None:
    t, x = torch.linspace(0.5, 1, 4).double(), torch.rand(30).double()
    grid = torch.cartesian_prod(t, x)[None]
    one_by_one = torch.cat([lifted(PROBLEMS[name], at[None, None], (1, 2)) for at in grid[0]], 1)
    found = lifted(PROBLEMS[name], grid.flip(1), (1, 2)).flip(1)
    torch.testing.assert_close(found, one_by_one, rtol=1e-9, atol=1e-9)


def test_modes_without_data_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    solver, every = VaryingPropagation(HEAT), len(mode_tables(HEAT).rates)
    own = len(modes_of(solver, HEAT, 2).rates)
    assert own < every
    with solver.fixed_for(HEAT.sample(2)):
        assert len(modes_of(solver, HEAT, 5, seed=9).rates) == own
    assert solver.kept is None
    monkeypatch.setattr(varying_propagation, "NEGLECTED", -1.0)
    assert len(modes_of(solver, HEAT, 2).rates) == every


def config(**settings: str) -> TrainingConfig:
    return apply_settings(
        TrainingConfig(backbone="pit", budget=BudgetConfig(steps=1)), settings, {}
    )


def decided(problem: Problem, **settings: str) -> bool:
    return solves_linear_part(problem, decide_constraints(problem), config(**settings))


def test_modes_that_grow_without_bound_are_left_to_the_network(
    caplog: pytest.LogCaptureFixture,
) -> None:
    growing = example(f"dt(u) = 0.01*{SPEED}*dxx(u) + 50*u")
    with caplog.at_level(logging.WARNING):
        assert not decided(growing)
    assert "linear part is learned: a mode of the equations grows by e^" in caplog.text
    with pytest.raises(UsageError, match="linear_part: exact is not possible: a mode of the equa"):
        decided(growing, linear_part="exact")


def test_ill_conditioned_modes_are_left_to_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    mode_tables.cache_clear()
    monkeypatch.setattr(varying_propagation, "LARGEST_CONDITION", 1.0)
    with pytest.raises(NotSupportedError, match="modes of the equations are ill-conditioned"):
        VaryingPropagation(HEAT)
    assert not decided(HEAT)
    monkeypatch.undo()
    assert decided(HEAT)


def test_operators_are_built_with_it_and_older_runs_without() -> None:
    constraints = decide_constraints(HEAT)
    new, stored = config(), config().to_json()
    del stored["loss"]["varying"]
    old = TrainingConfig.from_json(stored)
    assert solves_linear_part(HEAT, constraints, new)
    assert not solves_linear_part(HEAT, constraints, old)
    statistics = distribution_statistics(HEAT, compile_residual(HEAT), 0)
    model = build_model(HEAT, statistics, new)
    assert model.known is not None
    assert isinstance(model.known.derived, VaryingPropagation)
    exact = hard_constraint_lift(HEAT, constraints, [0.0], exact=True, varying=False)
    assert exact is not None
    assert isinstance(exact.derived, LinearPropagation)


def test_modes_of_a_large_matrix_are_kept_for_later_runs(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(varying_propagation, "LARGE", 8)
    found, eig = [], torch.linalg.eig

    def counted(matrix: Tensor) -> tuple[Tensor, Tensor]:
        found.append(matrix)
        return eig(matrix)

    monkeypatch.setattr(torch.linalg, "eig", counted)
    first = mode_tables.__wrapped__(QUANTUM)
    second = mode_tables.__wrapped__(QUANTUM)
    assert len(found) == 1
    assert torch.equal(first.rates, second.rates)
    assert all(torch.equal(a, b) for a, b in zip(first.data, second.data, strict=True))
    mode_tables.__wrapped__(DRIFT)
    assert len(found) == 2

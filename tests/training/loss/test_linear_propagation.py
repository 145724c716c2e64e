"""The exact solution of a linear part, against formulas, differences and the equations."""

import math

import pytest
import torch
from torch import Tensor

from piop.errors import UsageError
from piop.fields import InputFunction
from piop.problem import Problem
from piop.problem.constraints import decide_constraints
from piop.problem.linear_part import decide_linear_part
from piop.residual import compile_residual
from piop.training.build import build_model
from piop.training.config import BudgetConfig, TrainingConfig, apply_settings
from piop.training.loss import linear_propagation
from piop.training.loss.known_functions import hard_constraint_lift
from piop.training.loss.linear_propagation import LinearPropagation
from piop.training.loss.statistics import distribution_statistics

SPEC = """
piop: 1
name: example
time: {{t: [0.5, 1.5]}}
space: {{x: [-1, 1]}}
unknowns: [{unknowns}]
inputs:{inputs}
equations: [{equations}]
initial: {{{initial}}}
boundary: {{{boundary}}}
sensors: {{{sensors}}}
save: {{t: 5, x: 32}}
"""
DIRICHLET = {"boundary": "x: {dirichlet: {u: 0}}", "walls": ", boundary: {x: dirichlet}"}
NEUMANN = {"boundary": "x: {neumann: {u: 0}}", "walls": ", boundary: {x: neumann}"}


def example(
    *equations: str,
    initial: str = "u: a",
    unknowns: str = "u",
    boundary: str = "x: periodic",
    walls: str = "",
) -> Problem:
    law = f"{{of: [x], law: gaussian_random_field, scale: 1e3, tau: 5, alpha: 4, modes: 6{walls}}}"
    names = ["a", "b"] if "b" in initial else ["a"]
    return Problem.from_yaml(
        SPEC.format(
            equations=", ".join(f'"{e}"' for e in equations),
            initial=initial,
            unknowns=unknowns,
            boundary=boundary,
            inputs="".join(f"\n  {name}: {law}" for name in names),
            sensors=", ".join(f"{name}: {{count: 32, place: grid}}" for name in names),
        )
    )


class Wave(InputFunction):
    """cos(k·(x + 1)) or sin(k·(x + 1)), for all functions of a batch of one."""

    batch, dimension = 1, 1

    def __init__(self, k: float, phase: float = 0.0) -> None:
        self.k, self.phase = k, phase

    def derivative(self, points: Tensor, order: tuple[int, ...]) -> Tensor:
        turned = self.k * (points[..., 0] + 1) + self.phase + order[0] * math.pi / 2
        return self.k ** order[0] * torch.cos(turned)

    def take(self, index: Tensor) -> "Wave":
        return self

    def to(self, device: object = None, dtype: object = None) -> "Wave":
        return self


SINE = -math.pi / 2
CPU = torch.device("cpu")


def queries() -> Tensor:
    low, high = torch.tensor([0.5, -1.0]).double(), torch.tensor([1.5, 1.0]).double()
    return low + (high - low) * torch.rand(1, 40, 2, dtype=torch.float64)


def propagated(problem: Problem, functions: dict[str, InputFunction]) -> list[InputFunction]:
    found = LinearPropagation(problem)
    made = found(functions, CPU)
    return [made[item.name] for item in found.inputs]


def test_a_wave_decays_with_the_symbol_of_the_heat_equation() -> None:
    k, at = 2 * math.pi, queries()
    (found,) = propagated(example("dt(u) = 0.05*dxx(u)"), {"a": Wave(k)})
    factor = torch.exp(-0.05 * k**2 * (at[..., 0] - 0.5))
    wanted = (factor - 1) * torch.cos(k * (at[..., 1] + 1))
    torch.testing.assert_close(found(at), wanted, rtol=1e-10, atol=1e-12)


def test_damping_is_that_of_waves_up_to_a_length() -> None:
    """exp(−ν |k|²) over a time of one, |k| ≤ 10 periods."""
    found = LinearPropagation(Problem.from_file("burgers2d_cvit")).exponents(10)
    assert found == pytest.approx((0.0, 0.01 * (2 * math.pi * 10) ** 2))


def test_the_linear_part_needs_no_factor_of_a_product() -> None:
    k, at = 2 * math.pi, queries()
    problem = Problem(
        name="burgers_of_random_speed",
        time={"t": [0.5, 1.5]},
        space={"x": [-1, 1]},
        unknowns=["u"],
        inputs={
            "a": {
                "of": ["x"],
                "law": "fourier_series",
                "terms": 1,
                "amplitude": [1, 1],
                "wavenumber": [1, 1],
            },
            "c": {"law": "uniform", "low": 1, "high": 2},
        },
        equations=["dt(u) + c*u*dx(u) = 0.05*dxx(u)"],
        initial={"u": "a"},
        boundary={"x": "periodic"},
    )
    (found,) = propagated(problem, {"a": Wave(k)})
    wanted = torch.expm1(-0.05 * k**2 * (at[..., 0] - 0.5)) * torch.cos(k * (at[..., 1] + 1))
    torch.testing.assert_close(found(at), wanted, rtol=1e-10, atol=1e-12)


def test_a_wave_moves_with_the_dispersion_relation() -> None:
    """u_t + u_x + 0.1 u_xxx = 0: a wave k moves at 1 − 0.1 k²."""
    k, at = math.pi, queries()
    (found,) = propagated(example("dt(u) + dx(u) + 0.1*dxxx(u) = 0"), {"a": Wave(k)})
    x, since = at[..., 1] + 1, at[..., 0] - 0.5
    wanted = torch.cos(k * (x - (1 - 0.1 * k**2) * since)) - torch.cos(k * x)
    torch.testing.assert_close(found(at), wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("setting", "phase"), [(DIRICHLET, SINE), (NEUMANN, 0.0)])
def test_half_waves_between_walls_oscillate(setting: dict[str, str], phase: float) -> None:
    """u = cos(c k s) times the mode, and from a slope sin(c k s)/(c k) times the mode, c = 2."""
    k, other, at = 1.5 * math.pi, 0.5 * math.pi, queries()
    problem = example("d(u, t, 2) = 4*dxx(u)", initial="u: a, dt(u): b", **setting)
    (found,) = propagated(problem, {"a": Wave(k, phase), "b": Wave(other, phase)})
    x, s = at[..., 1] + 1, at[..., 0] - 0.5
    wanted = (torch.cos(2 * k * s) - 1) * torch.cos(k * x + phase)
    gained = torch.sin(2 * other * s) / (2 * other) - s
    wanted = wanted + gained * torch.cos(other * x + phase)
    torch.testing.assert_close(found(at), wanted, rtol=1e-9, atol=1e-11)


def test_a_symbol_without_a_basis_of_eigenvectors_is_solved_too() -> None:
    """The mean of u_tt = u_xx + 2 u_x − 2 u_x is u0 + s v0: nothing is added to it."""
    problem = example("d(u, t, 2) = dxx(u)", initial="u: a, dt(u): b")
    (found,) = propagated(problem, {"a": Wave(0.0), "b": Wave(0.0)})
    assert found(queries()).abs().max() < 1e-6  # the eigenvectors are 1e-4 apart


@pytest.mark.parametrize("names", ["uvw", "wvu"])
def test_unknowns_that_drive_others_of_the_same_symbol_are_solved(names: str) -> None:
    """v and w grow as s and s²/2 times the wave that u is, whatever the order of the unknowns."""
    equations = {
        "u": "dt(u) = 0.1*dxx(u)",
        "v": "dt(v) = 0.1*dxx(v) - 0.5*u",
        "w": "dt(w) = 0.1*dxx(w) + 3*v",
    }
    problem = example(
        *(equations[name] for name in names), initial="u: a, v: 0, w: 0", unknowns=", ".join(names)
    )
    k, at = 2 * math.pi, queries()
    since, wave = at[..., 0] - 0.5, torch.cos(k * (at[..., 1] + 1))
    u = torch.exp(-0.1 * k**2 * since) * wave
    wanted = {"u": u - wave, "v": -0.5 * since * u, "w": -0.75 * since**2 * u}
    for name, found in zip(names, propagated(problem, {"a": Wave(k)}), strict=True):
        assert (found(at) - wanted[name]).abs().max() < 1e-6


@pytest.mark.parametrize("copies", [1, 2, 5, 8])
@pytest.mark.parametrize(
    ("rows", "orders"),
    [
        ([[0, 1], [0, 0]], [0, 1]),
        ([[0, 0], [-0.5, 0]], [0, 0]),
        ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [0, 0, 0]),
    ],
)
def test_any_number_of_equal_blocks_has_a_basis(
    rows: list[list[float]], orders: list[int], copies: int
) -> None:
    block = torch.tensor(rows, dtype=torch.complex128)
    matrix = torch.block_diag(*[block] * copies)
    rates, vectors = linear_propagation.eigenvectors(matrix[None], 1.0, orders * copies)
    found = (vectors[0] * rates[0].exp()) @ torch.linalg.inv(vectors[0])
    assert (found - torch.linalg.matrix_exp(matrix)).abs().max() < 1e-7


def test_unknowns_without_a_basis_of_eigenvectors_do_not_mix() -> None:
    """Means of two waves grow by themselves: nothing is added to either."""
    problem = example(
        "d(u, t, 2) = dxx(u)",
        "d(v, t, 2) = dxx(v)",
        initial="u: a, dt(u): b, v: b, dt(v): a",
        unknowns="u, v",
    )
    for found in propagated(problem, {"a": Wave(0.0), "b": Wave(0.0)}):
        assert found(queries()).abs().max() < 1e-6
        assert found.derivative(queries(), (1, 0)).abs().max() < 1e-6


def test_a_system_turns_its_unknowns_into_each_other() -> None:
    """p + iq of i h_t + h_xx/2 = 0 turns by exp(−i k² s/2)."""
    problem = example(
        "dt(p) = -0.5*dxx(q)",
        "dt(q) = 0.5*dxx(p)",
        initial="p: a, q: b",
        unknowns="p, q",
    )
    k, at = 2 * math.pi, queries()
    p, q = propagated(problem, {"a": Wave(k), "b": Wave(0.0, math.pi / 2)})  # q0 = 0
    angle, wave = 0.5 * k**2 * (at[..., 0] - 0.5), torch.cos(k * (at[..., 1] + 1))
    torch.testing.assert_close(p(at), (torch.cos(angle) - 1) * wave, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(q(at), -torch.sin(angle) * wave, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("order", [(1, 0), (2, 0), (0, 1), (0, 3), (1, 2)])
def test_derivatives_are_those_of_the_values(order: tuple[int, int]) -> None:
    """Central differences of step 1e-4 have a relative error of about (ω h)² ~ 1e-6."""
    problem = example("d(u, t, 2) = 4*dxx(u)", initial="u: a, dt(u): b", **DIRICHLET)
    functions = {"a": Wave(1.5 * math.pi, SINE), "b": Wave(0.5 * math.pi, SINE)}
    (found,) = propagated(problem, functions)
    axis = 0 if order[0] else 1
    below = tuple(n - (i == axis) for i, n in enumerate(order))
    at, step = queries(), torch.zeros(2, dtype=torch.float64)
    step[axis] = 1e-4
    difference = (found.derivative(at + step, below) - found.derivative(at - step, below)) / 2e-4
    torch.testing.assert_close(found.derivative(at, order), difference, rtol=1e-5, atol=1e-3)


def test_several_derivatives_at_once_are_those_one_by_one() -> None:
    problem = example("d(u, t, 2) = 4*dxx(u)", initial="u: a, dt(u): b")
    (found,) = propagated(problem, problem.sample(3))
    at, orders = queries(), [(0, 0), (2, 0), (0, 2), (1, 1), (0, 0)]
    alone = [found.derivative(at, order) for order in orders]
    torch.testing.assert_close(found.derivatives(at, orders), alone, rtol=1e-12, atol=1e-12)


def test_initial_values_and_slopes_stay() -> None:
    problem = example("d(u, t, 2) = 4*dxx(u)", initial="u: a, dt(u): b")
    (found,) = propagated(problem, problem.sample(3))
    at = queries()
    at[..., 0] = 0.5
    for order in ((0, 0), (1, 0), (0, 2)):
        assert found.derivative(at, order).abs().max() < 1e-9


def test_sums_in_chunks_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = example("dt(u) = 0.05*dxx(u)")
    (found,) = propagated(problem, problem.sample(3))
    at = queries()
    whole = found(at)
    monkeypatch.setattr(linear_propagation, "MOST_VALUES", 100)  # two waves at a time
    torch.testing.assert_close(found(at), whole, rtol=1e-12, atol=1e-14)


def test_data_that_vanish_stay_zero() -> None:
    problem = example("dt(u) = 0.05*dxx(u)", initial="u: 0*a")
    (found,) = propagated(problem, problem.sample(3))
    assert found(queries().expand(3, -1, -1)).tolist() == torch.zeros(3, 40).tolist()


@pytest.mark.parametrize("name", ["heat", "wave"])
def test_the_lift_of_a_linear_problem_solves_it(name: str) -> None:
    problem = Problem.from_file(name)
    constraints = decide_constraints(problem)
    known = hard_constraint_lift(problem, constraints, [0.0], exact=True)
    assert known is not None
    residual = compile_residual(problem, derived=known.derived)
    lift = residual.compile_lift(known.expressions)
    functions, at = problem.sample(4), torch.rand(4, 30, 2, dtype=torch.float64)
    rows = lift(functions, at)
    found = residual(lambda q: lift.attach(rows, q), at, residual.evaluate_inputs(functions, at))
    tolerance = 1e-5 * rows.abs().max()  # waves smaller than 1e-8 of the largest stay as they are
    assert found.values.abs().max() < tolerance


def test_stream_functions_follow_their_vorticity() -> None:
    text = Problem.from_file("navier_stokes").to_yaml().replace("alpha: 2.5", "alpha: 5")
    problem = Problem.from_yaml(text)  # smooth enough for a hard constraint
    known = hard_constraint_lift(problem, decide_constraints(problem), [0.0, 0.0], exact=True)
    assert known is not None
    residual = compile_residual(problem, derived=known.derived)
    lift = residual.compile_lift(known.expressions)
    functions, at = problem.sample(2), torch.rand(2, 30, 3, dtype=torch.float64)
    rows = lift(functions, at)
    found = residual(lambda q: lift.attach(rows, q), at, residual.evaluate_inputs(functions, at))
    assert found.values[..., 1].abs().max() < 1e-6 * rows.abs().max()  # the Poisson equation


def test_only_linear_equations_are_solved_by_default() -> None:
    heat, burgers = (Problem.from_file(name) for name in ("heat", "burgers"))
    assert decide_linear_part(heat, decide_constraints(heat)).exact
    assert not decide_linear_part(heat, decide_constraints(heat), "learned").exact
    assert not decide_linear_part(heat, decide_constraints(heat, "soft")).exact
    found = decide_linear_part(burgers, decide_constraints(burgers))
    assert str(found) == "learned, the equations are not linear"
    assert decide_linear_part(burgers, decide_constraints(burgers), "exact").exact


def test_what_cannot_be_solved_exactly_is_refused_with_the_reason() -> None:
    problem = Problem.from_file("advection_diffusion")
    config = apply_settings(TrainingConfig(BudgetConfig(steps=1)), {"linear_part": "exact"}, {})
    statistics = distribution_statistics(problem, compile_residual(problem), 0)
    with pytest.raises(UsageError, match="linear_part: exact is not possible"):
        build_model(problem, statistics, config)


def test_older_runs_learned_the_linear_part() -> None:
    config = TrainingConfig(BudgetConfig(steps=1))
    stored = config.to_json()
    assert TrainingConfig.from_json(stored).loss.linear_part == "auto"
    del stored["loss"]["linear_part"]
    assert TrainingConfig.from_json(stored).loss.linear_part == "learned"


def test_runs_of_steady_problems_before_they_were_solved_keep_their_predictions() -> None:
    problem, config = Problem.from_file("poisson"), TrainingConfig(BudgetConfig(steps=1))
    statistics = distribution_statistics(problem, compile_residual(problem), 0)
    known = build_model(problem, statistics, config).known
    assert known is not None
    assert known.derived is not None
    stored = config.to_json()
    assert TrainingConfig.from_json(stored).loss.steady
    del stored["loss"]["steady"]
    known = build_model(problem, statistics, TrainingConfig.from_json(stored)).known
    assert known is not None
    assert known.derived is None

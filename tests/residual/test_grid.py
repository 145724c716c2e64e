"""Matrices against formulas, with the order that is stated."""

import math

import pytest
import sympy
import torch

from piop.residual import GridResidual, TensorGrid, compile_residual
from piop.residual.grid import finite_differences, fourier_differences, point_weights

from .spectral import grid_residual


@pytest.mark.parametrize("count", [8, 9, 16])
@pytest.mark.parametrize("order", [0, 1, 2, 3, 4])
def test_waves_below_half_the_points_are_differentiated_exactly(count, order):
    x = torch.arange(count, dtype=torch.float64) * (2.0 / count)
    k = 3 * math.pi
    found = fourier_differences(count, 2.0, order) @ (torch.sin(k * x + 0.3) + 0.7)
    truth = k**order * torch.sin(k * x + 0.3 + order * math.pi / 2) + 0.7 * (order == 0)
    assert (found - truth).abs().max() < 1e-12 * max(1.0, k**order) * count


@pytest.mark.parametrize(("order", "size"), [(1, 0.0), (2, -16.0), (3, 0.0), (4, 256.0)])
def test_the_sawtooth_has_no_odd_derivative(order, size):
    sawtooth = torch.tensor([1.0, -1.0] * 4, dtype=torch.float64)
    found = fourier_differences(8, 2 * math.pi, order) @ sawtooth
    torch.testing.assert_close(found, size * sawtooth, rtol=1e-12, atol=1e-10)


def test_published_weights():
    """Fornberg 1988, tables 1 and 3: the fourth order slope in the middle and at an end."""
    nodes = torch.arange(5, dtype=torch.float64)
    middle = torch.tensor([1 / 12, -2 / 3, 0, 2 / 3, -1 / 12], dtype=torch.float64)
    end = torch.tensor([-25 / 12, 4, -3, 4 / 3, -1 / 4], dtype=torch.float64)
    torch.testing.assert_close(point_weights(nodes, 2.0, 1), middle, rtol=0, atol=1e-13)
    torch.testing.assert_close(point_weights(nodes, 0.0, 1), end, rtol=0, atol=1e-13)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("accuracy", [2, 4, 6])
@pytest.mark.parametrize("between", [False, True])
def test_the_error_falls_with_the_order_that_is_stated(order, accuracy, between):
    errors = []
    for count in (33, 65):
        ticks = torch.linspace(0, 1, count, dtype=torch.float64)
        at = (ticks[1:] + ticks[:-1]) / 2 if between else ticks
        found = finite_differences(ticks, order, accuracy, at) @ torch.sin(3 * ticks)
        truth = 3**order * torch.sin(3 * at + order * math.pi / 2)
        errors.append((found - truth).abs().max().item())
    measured = math.log2(errors[0] / errors[1])
    assert accuracy - 0.15 < measured < accuracy + 1.2


def test_uneven_ticks_are_as_good():
    ticks = torch.linspace(0, 1, 9, dtype=torch.float64) ** 1.5
    found = finite_differences(ticks, 1, 4) @ (ticks**4)
    torch.testing.assert_close(found, 4 * ticks**3, rtol=1e-10, atol=1e-10)


def test_too_few_values_are_refused_with_how_many_it_takes():
    with pytest.raises(
        ValueError, match=r"3 values .* order 1 with error order 4: give at least 5"
    ):
        finite_differences(torch.arange(3.0), 1, 4)


def test_two_values_are_enough_between_them():
    ticks = torch.tensor([1.0, 3.0])
    found = finite_differences(ticks, 1, 2, torch.tensor([2.0]))
    assert found.tolist() == [[-0.5, 0.5]]


TAU = 2 * math.pi
t, x, y = sympy.symbols("t x y", real=True)
u, v = (sympy.Function(n, real=True)(t, x) for n in "uv")
w, psi = (sympy.Function(n, real=True)(t, x, y) for n in ("w", "psi"))
nu = sympy.Symbol("nu", real=True)
f = sympy.Function("f", real=True)(x, t)

EQUATIONS = {
    "burgers": ("tx", ["u"], [u.diff(t) + u * u.diff(x) - 0.1 * u.diff(x, 2)], {}),
    "kdv": ("tx", ["u"], [u.diff(t) + 6 * u * u.diff(x) + u.diff(x, 3)], {}),
    "mixed": ("tx", ["u"], [u.diff(t) + u * u.diff(x, t) - u.diff(t, x, x)], {}),
    "wave": ("tx", ["u"], [u.diff(t, 2) - u.diff(x, 2) + u.diff(t) ** 2], {}),
    "system": (
        "tx",
        ["u", "v"],
        [u.diff(t) - v.diff(x) * u, v.diff(t) + u.diff(x, 2) + t * sympy.sin(x)],
        {},
    ),
    "inputs": (
        "tx",
        ["u"],
        [u.diff(t) - nu * u.diff(x, 2) - f * u - f.diff(x)],
        {"nu": "", "f": "xt"},
    ),
    "vorticity": (
        "txy",
        ["w", "psi"],
        [
            w.diff(t) + psi.diff(y) * w.diff(x) - psi.diff(x) * w.diff(y) - 0.01 * w.diff(x, 2),
            psi.diff(x, 2) + psi.diff(y, 2) + w,
        ],
        {},
    ),
}


class Formula:
    """A smooth periodic field, known at points, on grids, and in its derivatives in time."""

    def __init__(self, channels, in_time):
        self.channels, self.in_time = channels, in_time

    def of(self, *places, in_time=None):
        time, *space = places
        factor = (in_time or self.in_time)(time)
        phase = sum((i + 1) * s for i, s in enumerate(space))
        return [
            torch.sin(phase + c) * factor + torch.cos(space[0]) * 0.5 for c in range(self.channels)
        ]

    def __call__(self, queries):
        columns = [queries[..., i : i + 1] for i in range(queries.shape[-1])]
        return torch.cat(self.of(*columns), -1)

    def on_grid(self, axes):
        return torch.stack(self.of(*torch.meshgrid(*axes, indexing="ij")), -1)[None]


class Cubic(Formula):
    """Of degree three in time, which differences of fourth order take exactly."""

    def __init__(self, channels):
        super().__init__(channels, lambda time: 1 + time - time * time * time)


class Decaying(Formula):
    def __init__(self, channels):
        super().__init__(channels, lambda time: torch.exp(-1.5 * time))


def build(make_problem, symbolic_function, name):
    names, channels, residuals, inputs = EQUATIONS[name]
    problem = make_problem(names, channels, residuals, inputs)
    for axis in problem.space:
        axis.high = TAU
    functions = {
        "nu": symbolic_function(sympy.Rational(1, 2), (), 2),
        "f": symbolic_function(sympy.cos(x) * t, (x, t), 2),
    }
    return problem, {n: functions[n] for n in inputs}


def grid_of(problem, times, **scheme):
    counts = {1: [16], 2: [12, 15]}[len(problem.space)]
    ticks = [torch.arange(n, dtype=torch.float64) * TAU / n for n in counts]
    return TensorGrid((torch.linspace(0, 1, times, dtype=torch.float64), *ticks), **scheme)


def by_grid(problem, functions, field, grid):
    residual = GridResidual(problem, grid)
    values = residual.evaluate_inputs(functions, residual.points)
    return residual, residual(field, residual.points, values)


def by_streams(problem, functions, field, queries):
    residual = compile_residual(problem)
    return residual(field, queries, residual.evaluate_inputs(functions, queries))


@pytest.mark.parametrize("name", EQUATIONS)
def test_what_is_of_low_degree_in_time_agrees_with_streams(make_problem, symbolic_function, name):
    """Both the time and the few waves of space are then differentiated without error."""
    problem, functions = build(make_problem, symbolic_function, name)
    field = Cubic(len(problem.channels))
    residual, found = by_grid(problem, functions, field, grid_of(problem, 7))
    truth = by_streams(problem, functions, field, residual.points)
    scale = truth.values.abs().max()
    assert found.values.shape == truth.values.shape
    assert (found.values - truth.values).abs().max() < 1e-10 * scale
    shared = set(found.derivatives) & set(truth.derivatives)
    assert shared >= {(problem.channels[0], (0,) * len(problem.coordinates))}
    for key in shared:
        assert (found.derivatives[key] - truth.derivatives[key]).abs().max() < 1e-10 * scale, key


def test_space_agrees_with_spectra(make_problem, symbolic_function):
    """On rough values, where every wave counts: the matrices are what transforms are."""
    problem, _ = build(make_problem, symbolic_function, "vorticity")
    grid = grid_of(problem, 7)
    values = torch.randn(2, *grid.shape, 2, generator=torch.Generator().manual_seed(0)).double()
    rough = type("Rough", (), {"on_grid": lambda self, axes: values})()
    _, found = by_grid(problem, {}, rough, grid)
    slopes = values[..., 0].movedim(1, -1) @ grid.time_differences(1).mT
    truth = grid_residual(
        problem,
        {"w": values[..., 0], "psi": values[..., 1]},
        {"w": slopes.movedim(-1, 1)},
        times=grid.ticks[0],
    )
    stacked = torch.stack([truth[0], truth[1]], -1).flatten(1, -2)
    assert (found.values - stacked).abs().max() < 1e-10 * stacked.abs().max()


@pytest.mark.parametrize("accuracy", [4, 6])
@pytest.mark.parametrize("name", ["burgers", "wave", "mixed", "vorticity"])
def test_the_error_in_time_falls_with_the_stated_order(
    make_problem, symbolic_function, name, accuracy
):
    problem, functions = build(make_problem, symbolic_function, name)
    field, errors = Decaying(len(problem.channels)), []
    for times in (17, 33):
        grid = grid_of(problem, times, accuracy=accuracy)
        residual, found = by_grid(problem, functions, field, grid)
        truth = by_streams(problem, functions, field, residual.points)
        errors.append((found.values - truth.values).abs().max().item())
    assert accuracy - 0.4 < math.log2(errors[0] / errors[1]) < accuracy + 1.2


@pytest.mark.parametrize("name", EQUATIONS)
def test_a_step_is_of_second_order(make_problem, symbolic_function, name):
    """It approaches the mean of the residual at both ends; without time derivatives it is that."""
    problem, functions = build(make_problem, symbolic_function, name)
    field, errors = Decaying(len(problem.channels)), []
    algebraic = EQUATIONS[name][2][-1].has(sympy.Derivative) and name == "vorticity"
    for times in (17, 33):
        residual, found = by_grid(problem, functions, field, grid_of(problem, times, steps=True))
        truth = by_streams(problem, functions, field, residual.points).values
        begin, end = truth.chunk(2, 1)
        mean = ((begin + end) / 2).repeat(1, 2, 1)
        if algebraic:
            assert (found.values[..., 1] - truth[..., 1]).abs().max() < 1e-11
        errors.append((found.values - mean)[..., 0].abs().max().item())
    assert 1.8 < math.log2(errors[0] / errors[1]) < 2.4


def test_a_step_is_the_trapezoidal_rule(make_problem, symbolic_function):
    """Written out for a field of three times: (u₁ - u₀)/Δt and the mean of the rest."""
    problem, _ = build(make_problem, symbolic_function, "burgers")
    grid = TensorGrid(
        (torch.tensor([0.0, 0.25, 1.0], dtype=torch.float64), grid_of(problem, 2).ticks[1]),
        steps=True,
    )
    field = Decaying(1)
    _, found = by_grid(problem, {}, field, grid)
    values = field.on_grid(grid.ticks)[0, ..., 0]
    place = grid.ticks[1]
    rest = []
    for n, time in enumerate(grid.ticks[0]):
        slope = math.exp(-1.5 * time) * torch.cos(place) - 0.5 * torch.sin(place)
        bend = -math.exp(-1.5 * time) * torch.sin(place) - 0.5 * torch.cos(place)
        rest.append(values[n] * slope - 0.1 * bend)
    steps = [
        (values[n + 1] - values[n]) / (grid.ticks[0][n + 1] - grid.ticks[0][n])
        + (rest[n] + rest[n + 1]) / 2
        for n in range(2)
    ]
    truth = torch.cat([*steps, *steps])
    assert (found.values[0, :, 0] - truth).abs().max() < 1e-12


def test_the_start_alone_is_asked_for_initial_data(make_problem, symbolic_function):
    problem, _ = build(make_problem, symbolic_function, "burgers")
    grid = grid_of(problem, 9).start()
    residual = GridResidual(problem, grid, [u.diff(t) - u, u - sympy.sin(x)])
    found = residual(Cubic(1)).values
    place = grid.ticks[1]
    assert torch.equal(residual.points[0, :, 0], torch.zeros(16, dtype=torch.float64))
    assert (found[0, :, 0] + 0.5 * torch.cos(place)).abs().max() < 1e-12  # u_t(0) = sin x
    assert (found[0, :, 1] - 0.5 * torch.cos(place)).abs().max() < 1e-12


def test_steady_problems_have_no_time(make_problem):
    p = sympy.Function("p", real=True)(x, y)
    problem = make_problem("xy", ["p"], [p.diff(x, 2) + p.diff(y, 2) + 5 * p])
    for axis in problem.space:
        axis.high = TAU
    ticks = tuple(torch.arange(n, dtype=torch.float64) * TAU / n for n in (8, 9))
    residual = GridResidual(problem, TensorGrid(ticks, time=None))
    field = type("Field", (), {})()
    field.on_grid = lambda axes: torch.stack(
        [torch.sin(axes[0])[:, None] * torch.cos(2 * axes[1])], -1
    )[None]
    assert residual(field).values.shape == (1, 72, 1)
    assert residual(field).values.abs().max() < 1e-12


def test_axes_that_end_take_finite_differences(make_problem):
    problem = make_problem("tx", ["u"], [u.diff(x, 2) - u.diff(t)])
    problem.space[0].periodic = False
    ticks = (torch.linspace(0, 1, 6).double(), torch.linspace(0, 1, 9).double())
    field = type("Field", (), {})()
    field.on_grid = lambda axes: (axes[0][:, None] ** 2 + axes[1] ** 4)[None, ..., None]
    found = GridResidual(problem, TensorGrid(ticks))(field).values[0, :, 0].reshape(6, 9)
    truth = 12 * ticks[1] ** 2 - 2 * ticks[0][:, None]
    assert (found - truth).abs().max() < 1e-9


def test_a_lift_is_known_on_the_grid(make_problem, symbolic_function):
    problem, functions = build(make_problem, symbolic_function, "inputs")
    residual = GridResidual(problem, grid_of(problem, 5))
    lift = residual.compile_lift([f * nu + t])
    rows = lift(functions, residual.points)
    mesh = torch.meshgrid(*residual.axes, indexing="ij")
    assert rows.shape == (1, 2, 5, 16, 1)
    truth = 0.5 * torch.cos(mesh[1]) * mesh[0] + mesh[0]
    assert (lift.attach(rows, None)[1, ..., 0] - truth).abs().max() < 1e-14
    still = residual.compile_lift([sympy.Float(2.0)])
    assert still(functions, residual.points).shape == (1, 1, 1, 1, 1), "one number for all"


def test_gradients_reach_the_field(make_problem, symbolic_function):
    problem, _ = build(make_problem, symbolic_function, "burgers")
    residual = GridResidual(problem, grid_of(problem, 5))
    values = Decaying(1).on_grid(residual.axes).requires_grad_()
    field = type("Field", (), {"on_grid": lambda self, axes: values})()
    assert torch.autograd.gradcheck(lambda v: residual(field).values[:, ::17], (values,))


def test_values_of_another_shape_are_refused(make_problem, symbolic_function):
    problem, _ = build(make_problem, symbolic_function, "burgers")
    field = type("Field", (), {"on_grid": lambda self, axes: torch.zeros(1, 5, 15, 1)})()
    with pytest.raises(ValueError, match=r"\(5, 15, 1\) per function; expected \(5, 16, 1\)"):
        GridResidual(problem, grid_of(problem, 5))(field)

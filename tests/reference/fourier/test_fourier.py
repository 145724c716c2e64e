"""Grids and spectra against direct sums, and products against exact convolution."""

import math

import pytest
import sympy
import torch

from piop.problem import Coordinate, Problem
from piop.reference import solve_reference
from piop.reference.fourier.grid import (
    Multiplier,
    PeriodicGrid,
    embed,
    evaluate_on,
    mode_gaps,
    power,
    tail,
)

from ..cases import Waves, evolve, periodic


def box(sizes, *ends):
    """A grid of a box with these ends of its axes."""
    symbols = sympy.symbols("x y z", real=True)[: len(ends)]
    space = [Coordinate(s.name, s, *own, True) for s, own in zip(symbols, ends, strict=True)]
    return PeriodicGrid(tuple(space), sizes, torch.device("cpu"))


GRIDS = {
    "1d": box((16,), (-1.0, 2.0)),
    "2d": box((12, 18), (0.0, 1.0), (1.0, 3.0)),
    "3d": box((8, 10, 12), (0.0, 1.0), (0.0, 2.0), (0.0, 4.0)),
}


def wave(grid, order=None):
    """A product of low waves that is no product of axes, and a derivative of it."""
    rank = len(grid.sizes)
    vectors = torch.tensor([[[2.0, -3.0, 1.0][:rank], [1.0, 1.0, -2.0][:rank]]])
    lows, lengths = [c.low for c in grid.space], [c.length for c in grid.space]
    waves = Waves([[1.0, 0.4]], vectors, [[0.3, 1.1]], lows, lengths, mean=0.7)
    return waves.on_grid(grid.axes(), order or (0,) * rank)[0]


@pytest.mark.parametrize("name", GRIDS)
def test_derivatives_are_exact_on_waves(name):
    grid = GRIDS[name]
    rank = len(grid.sizes)
    orders = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (2, 1, 0), (3, 0, 1)]
    for order in {o[:rank] for o in orders}:
        found = grid.backward(grid.forward(wave(grid)) * grid.derivative(order))
        exact = wave(grid, order)
        assert torch.allclose(found, exact, rtol=0, atol=1e-11 * (1 + float(exact.abs().max())))


@pytest.mark.parametrize("name", GRIDS)
def test_nyquist_is_left_out(name):
    grid = GRIDS[name]
    alternate = torch.ones(grid.sizes, dtype=torch.float64)
    alternate[..., 1::2] = -1
    assert float((grid.forward(alternate) * grid.interior()).abs().max()) == 0.0
    assert torch.allclose(grid.forward(wave(grid)) * grid.interior(), grid.forward(wave(grid)))


@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.parametrize("factor", [0.75, 1.0, 1.5, 2.0])
def test_values_on_another_grid_are_those_of_the_function(name, factor):
    grid = GRIDS[name]
    shape = [max(1, round(n * factor)) for n in grid.sizes]
    found = evaluate_on(grid.forward(wave(grid)), grid, shape)
    assert torch.allclose(found, wave(grid.with_sizes(shape)), rtol=0, atol=1e-13)


def test_coarser_points_are_a_subset_and_nothing_is_filtered():
    grid = GRIDS["1d"]
    values = torch.randn(16, generator=torch.Generator().manual_seed(0)).double()
    spectrum = grid.forward(values) * grid.interior()
    assert torch.allclose(evaluate_on(spectrum, grid, (4,)), grid.backward(spectrum)[::4])


def test_embedding_there_and_back_changes_nothing():
    grid = GRIDS["3d"]
    spectrum = grid.forward(torch.randn(2, *grid.sizes).double()) * grid.interior()
    finer = grid.with_sizes((12, 15, 20))
    assert torch.equal(embed(embed(spectrum, grid, finer), finer, grid), spectrum)


@pytest.mark.parametrize("name", GRIDS)
def test_power_sums_to_the_mean_square(name):
    grid = GRIDS[name]
    found = power(grid.forward(wave(grid)), grid)
    assert float(found) == pytest.approx(float(wave(grid).square().mean()), rel=1e-13)


def test_tail_sees_only_its_band():
    grid = box((40,), (0.0, 1.0))
    x = grid.axes()[0]
    waves = torch.sin(2 * math.pi * 19 * x) + torch.sin(2 * math.pi * 9 * x)
    spectrum = grid.forward(waves)
    assert float(tail(spectrum, grid)[0]) == pytest.approx(0.5)
    assert float(tail(spectrum, grid, 0.4, 0.5)[0]) == pytest.approx(0.5)
    assert float(tail(spectrum, grid, 0.5, 0.9)[0]) < 1e-25


def test_tail_is_taken_along_each_axis():
    grid = box((40, 20), (0.0, 1.0), (0.0, 1.0))
    x, y = (a[:, None] if i == 0 else a for i, a in enumerate(grid.axes()))
    both = torch.sin(2 * math.pi * (19 * x + 3 * y)) + torch.sin(2 * math.pi * (2 * x - 9 * y))
    assert tail(grid.forward(both), grid).tolist() == pytest.approx([0.5, 0.5])
    low = grid.forward(torch.sin(2 * math.pi * (5 * x + 2 * y)))
    assert max(tail(low, grid).tolist()) < 1e-25


def test_multiplier_sums_over_columns():
    x = torch.randn(2, 3, 5, dtype=torch.complex128)
    a, b = torch.randn(1, 5, dtype=torch.complex128), torch.randn(2, 5, dtype=torch.complex128)
    found = Multiplier({(0, 2): a, (1, 0): b, (0, 0): b}, 2, 3)(x)
    expected = torch.stack([a * x[:, 2] + b * x[:, 0], b * x[:, 0]], 1)
    assert torch.allclose(found, expected)


@pytest.mark.parametrize(("equation", "degree"), [("u**2", 2), ("u**3", 3)])
def test_padding_removes_aliasing_of_a_polynomial(equation, degree):
    """One step of a product whose alias would land on a mode that is kept."""
    problem = periodic(f"dt(u) = {equation}", time=1e-3, initial={"u": f"cos(2*pi*{6}*x)"})
    padded, _ = evolve(problem, {}, (16,), 1, padded=True)
    plain, _ = evolve(problem, {}, (16,), 1, padded=False)
    alias = 16 - degree * 6
    assert float(padded[0, 0, 0, abs(alias)].abs()) < 1e-15
    assert float(plain[0, 0, 0, abs(alias)].abs()) > 1e-5


def test_bands_of_a_tail_are_as_wide_as_the_gaps_of_a_symmetric_spectrum():
    """Modes 2, 6, 10 and 14 along y; all modes along x."""
    grid = box((16, 32), (0.0, 1.0), (0.0, 1.0))
    values = torch.zeros(1, 16, 32, dtype=torch.float64)
    x, y = (2 * math.pi / n * torch.arange(n, dtype=torch.float64) for n in (16, 32))
    for k in (2, 6, 10, 14):
        for m in range(1, 5):
            values += 0.3**k * torch.outer(torch.cos(m * x), torch.cos(k * y))
    spectrum = grid.forward(values[None])
    gaps = mode_gaps(spectrum, grid)
    assert gaps == [0, 8]
    assert float(tail(spectrum, grid)[0, 0, -1]) < 1e-30
    held = tail(spectrum, grid, widths=gaps)[0, 0, -1]
    beyond = sum(0.3 ** (2 * k) for k in (10, 14))
    assert float(held) == pytest.approx(4 * beyond / 4, rel=1e-6)


@pytest.mark.parametrize("axes", ["xy", "yx"])
def test_a_symmetric_solution_is_resolved_along_both_axes(axes):
    """Fronts along both: every fourth mode of one of them is zero."""
    first, second = axes
    problem = Problem(
        name="fronts",
        time={"t": [0, 1]},
        space={"x": [0, 1], "y": [0, 1]},
        unknowns=["u"],
        equations=["dt(u) = 0.005*lap(u) + 5*(u - u**3)"],
        initial={"u": f"sin(2*pi*{first})*cos(4*pi*{second})"},
        boundary={"x": "periodic", "y": "periodic"},
        save={"t": 2, "x": 32, "y": 32},
    )
    coarse, fine = (solve_reference(problem, {}, tolerance=own) for own in (1e-4, 1e-7))
    gap = coarse.values["u"] - fine.values["u"]
    assert float(gap.norm() / fine.values["u"].norm()) < float(coarse.error_estimate[0])
    assert int(coarse.modes.min()) > 48


def test_the_start_alone_is_the_initial_data():
    problem = Problem.from_file("burgers")
    functions = problem.sample(2)
    found = problem.solve_reference(functions, times=[0.0], shape=[32])
    start = functions["u0"](found.axes[0][None, :, None])
    torch.testing.assert_close(found.values["u"][:, 0], start, rtol=0, atol=1e-9)

"""What every shipped problem owes: residual and reference, derived apart, agree on solutions."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from piop.errors import NotSupportedError
from piop.problem import Problem
from piop.problem.capabilities import choose_method
from piop.problem.describe import to_json
from piop.problem.inputs import history_of
from piop.problem.reference_methods import Chebyshev, Fourier
from piop.reference import solve_reference
from piop.residual import GridResidual, TensorGrid, compile_residual
from piop.sampling import Draws, collocation, sample_inputs

SPECS = sorted(
    path
    for path in (Path(__file__).parents[1] / "pdes").glob("*.yaml")
    if Problem.from_file(path).residuals  # tests/run/test_data_alone.py has the others
)
FOURIER = [
    path
    for path in SPECS
    if isinstance(choose_method(Problem.from_file(path)), Fourier)
    and not history_of(Problem.from_file(path))  # those of navier_stokes: tests/run/test_history.py
]
WALLED = [
    path
    for path in SPECS
    if isinstance(choose_method(Problem.from_file(path)), Chebyshev)
    and path.stem not in {"stokes_channel", "cavity_cvit"}
]  # without those: corners and layers that no polynomial of the test holds
DEGREES = {1: 64, 2: 28}  # of polynomials between walls, by the number of space axes
DEGREE = 8  # of the polynomial in time through the reference


def waves(problem, shape):
    """Wave vectors ``[K, d]`` of a grid, the Nyquist ones left out, the last axis halved."""
    axes = []
    for n, axis in zip(shape, problem.space, strict=True):
        axes.append(torch.fft.fftfreq(n, 1 / n).double() * (2 * torch.pi / axis.length))
    axes[-1] = axes[-1][: shape[-1] // 2]
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(shape))


def wave_along_all_axes(problem, queries):
    """A wave ``[B, N, 1]`` across the space: an equation may lack derivatives along an axis."""
    first = 0 if problem.time is None else 1
    turns = [2 * torch.pi / axis.length for axis in problem.space]
    return torch.sin(queries[..., first:] @ queries.new_tensor(turns)[:, None])


def polynomials(x, count):
    """T_0 … T_(count − 1) at x in [−1, 1], along a new last axis."""
    found = [torch.ones_like(x), x]
    while len(found) < count:
        found.append(2 * x * found[-1] - found[-2])
    return torch.stack(found, -1)


def between_walls(problem, solution, middle, reach):
    """Make a field of the reference: polynomials in space, fitted to all points, and in time.

    A fit of degree well below the square root of twice the number of even points is stable.
    """
    coefficients = torch.stack([solution.values[name] for name in problem.channels], -1)
    for i, axis in enumerate(problem.space):
        points = 2 * (solution.axes[i] - axis.low) / axis.length - 1
        fit = torch.linalg.pinv(polynomials(points, DEGREES[len(problem.space)]))
        dim = i + 1 + (problem.time is not None)
        coefficients = torch.movedim(torch.tensordot(coefficients, fit, dims=([dim], [1])), -1, dim)
    if problem.time is None:
        coefficients = coefficients.unsqueeze(1)
        powers = torch.ones(1, 1, dtype=torch.float64)
    else:
        phase = (solution.times - middle) / reach
        powers = torch.stack([phase**p for p in range(DEGREE + 1)], -1)
    coefficients = torch.tensordot(torch.linalg.inv(powers), coefficients, dims=([1], [1]))
    coefficients = coefficients.flatten(2, -2)  # [P, B, K, C]
    first = 0 if problem.time is None else 1

    def field(queries, bend=0.0):
        basis = None
        for i, axis in enumerate(problem.space):
            points = 2 * (queries[..., first + i] - axis.low) / axis.length - 1
            own = polynomials(points, DEGREES[len(problem.space)])
            basis = own if basis is None else (basis[..., None] * own[..., None, :]).flatten(-2)
        total = 0.0
        for part in reversed(coefficients):
            value = basis @ part
            total = value if problem.time is None else total * phase_of(queries) + value
        return total * (1 + bend * wave_along_all_axes(problem, queries))

    def phase_of(queries):
        return (queries[..., :1] - middle) / reach

    return field


def interpolate(problem, solution, middle, reach):
    """Make a field of the reference: trigonometric in space, a polynomial in time."""
    if not problem.pde.periodic:
        return between_walls(problem, solution, middle, reach)
    values = torch.stack([solution.values[name] for name in problem.channels], -1)
    shape = values.shape[2:-1]
    dims = tuple(range(2, values.ndim - 1))
    spectrum = torch.fft.rfftn(values, dim=dims, norm="forward").narrow(dims[-1], 0, shape[-1] // 2)
    twice = torch.full((shape[-1] // 2, 1), 2.0, dtype=torch.float64)
    twice[0] = 1
    spectrum = (spectrum * twice).flatten(2, -2)
    phase = (solution.times - middle) / reach
    powers = torch.stack([phase**p for p in range(DEGREE + 1)], -1)
    spectrum = torch.einsum("pt,btkc->bpkc", torch.linalg.inv(powers).to(spectrum), spectrum)
    cosines, sines = spectrum.real, -spectrum.imag
    vectors = waves(problem, shape)
    low = torch.tensor([axis.low for axis in problem.space], dtype=torch.float64)

    def field(queries, bend=0.0):
        angle = (queries[..., 1:] - low) @ vectors.T
        basis = torch.cat([torch.cos(angle), torch.sin(angle)], -1)
        phase = (queries[..., :1] - middle) / reach
        total = 0.0
        for p in reversed(range(DEGREE + 1)):
            total = total * phase + basis @ torch.cat([cosines[:, p], sines[:, p]], 1)
        return total * (1 + bend * wave_along_all_axes(problem, queries))

    return field


@pytest.mark.parametrize("path", [*FOURIER, *WALLED], ids=lambda path: path.stem)
def test_reference_put_through_the_compiled_residual_vanishes(path):
    """The slope in time is that of saved values: the solver cannot vouch for its own right side.

    The scale is the residual of the same field bent by a tenth: a wrong solution stands out by six
    digits (the tolerance of the reference, less what derivatives cost).
    """
    check_residual(path)


def check_residual(path):
    """See that the residual of a spec vanishes on its reference; of those of the guide too."""
    problem = Problem.from_file(path).at()
    functions = sample_inputs(problem, Draws(7, 0, torch.arange(2)))
    time = problem.time
    if time is None:
        check_steady_residual(problem, functions)
        return
    middle, reach = time.low + 0.1 * time.length, 2e-3 * time.length
    nodes = torch.cos(torch.pi * torch.arange(DEGREE, -1, -1, dtype=torch.float64) / DEGREE)
    shape = {1: (1024,), 2: (64, 64), 3: (16, 16, 16)}[len(problem.space)]
    shape = max(shape, RESOLVED.get(path.stem, shape))
    if not problem.pde.periodic:
        shape = {1: (4097,), 2: (401, 401)}[len(problem.space)]
    tolerance = COARSER.get(path.stem, 1e-9)
    solution = solve_reference(
        problem, functions, times=middle + reach * nodes, shape=shape, tolerance=tolerance
    )
    field = interpolate(problem, solution, middle, reach)
    residual = compile_residual(problem)
    queries = collocation(problem, Draws(8, 0, torch.arange(2)), 50)
    queries[..., 0] = middle + 0.5 * reach * (2 * queries[..., 0] / time.length - 1)
    known = residual.evaluate_inputs(functions, queries)
    right = residual(field, queries, known).values
    wrong = residual(lambda q: field(q, bend=0.1), queries, known).values
    assert residual.fallback is None
    assert (right.square().mean((0, 1)) < 1e-12 * wrong.square().mean((0, 1))).all()


def check_steady_residual(problem, functions):
    shape = {1: (4097,), 2: (401, 401)}[len(problem.space)]
    solution = solve_reference(problem, functions, shape=shape, tolerance=1e-9)
    field = interpolate(problem, solution, 0.0, 1.0)
    residual = compile_residual(problem)
    queries = collocation(problem, Draws(8, 0, torch.arange(2)), 50)
    known = residual.evaluate_inputs(functions, queries)
    right = residual(field, queries, known).values
    wrong = residual(lambda q: field(q, bend=0.1), queries, known).values
    assert (right.square().mean((0, 1)) < 1e-12 * wrong.square().mean((0, 1))).all()


RESOLVED = {
    "burgers": (1024,),
    "burgers_galerkin": (1024,),
    "navier_stokes": (64, 64),
    "burgers2d": (96, 96),
    "cahn_hilliard": (64, 64),
    "gray_scott": (96, 96),
    "burgers2d_cvit": (128, 128),
    "melting_cvit": (192, 192),
    "shallow_water_cvit": (64, 64),
    "wave2d_cvit": (96, 96),
}
"""Points per axis at which a solution has no waves left out, where not 128, 32 or 16."""
END = {"cahn_hilliard": 0.15, "gray_scott": 0.3}
"""Shares of the time at which slow solutions are looked at last, where others are at 0.12."""
COARSER = {"gray_scott": 1e-7, "melting_cvit": 1e-7}
"""Tolerances of references that would take minutes at 1e-9."""


@pytest.mark.parametrize("path", FOURIER, ids=lambda path: path.stem)
@pytest.mark.parametrize(("steps", "order"), [(False, 4), (True, 2)], ids=["times", "steps"])
def test_reference_on_a_grid_vanishes_with_the_order_of_the_scheme(path, steps, order):
    problem = Problem.from_file(path).at()
    functions = sample_inputs(problem, Draws(7, 0, torch.arange(2)))
    shape = RESOLVED.get(path.stem, {1: (128,), 2: (32, 32), 3: (16,) * 3}[len(problem.space)])
    time = problem.time
    assert time is not None
    end = END.get(path.stem, 0.12)
    count = 1 + 8 * max(problem.pde.time_order.values())
    times = time.low + time.length * torch.linspace(0.1, end, count, dtype=torch.float64)
    tolerance = COARSER.get(path.stem, 1e-9)
    solution = solve_reference(problem, functions, times=times, shape=shape, tolerance=tolerance)
    values = torch.stack([solution.values[name] for name in problem.channels], -1)
    space = [
        a.low + a.length * torch.arange(n, dtype=torch.float64) / n
        for a, n in zip(problem.space, shape, strict=True)
    ]
    sizes = []
    for stride in (2, 1):
        residual = GridResidual(problem, TensorGrid((times[::stride], *space), steps=steps))
        field = SimpleNamespace(on_grid=lambda axes, s=stride: values[:, ::s])
        known = residual.evaluate_inputs(functions, residual.points)
        found = residual(field, residual.points, known).values[..., 0]
        sizes.append(found.square().mean().sqrt().item())
    assert order - 0.2 < math.log2(sizes[0] / sizes[1]) < order + 0.7


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_problem_has_a_reference_and_says_what_it_cannot_be_trained_on(path):
    problem = Problem.from_file(path)
    found = to_json(problem)
    assert found["notes"] == []  # no wall contradicts initial data, no input is observed twice
    assert found["solver"]["name"] == choose_method(problem).name
    if found["supported"] is True:
        problem.capabilities.equations.require()
        return
    with pytest.raises(NotSupportedError, match=r"not supported yet: .* because "):
        problem.capabilities.equations.require()
    if problem.learn is None:
        problem.capabilities.data.require()
        assert "trained on solutions alone: --data FILE --no-physics" in found["supported"]

"""What every shipped problem's inputs owe: a new spec inherits these tests."""

from pathlib import Path

import pytest
import torch

from piop.problem import Problem
from piop.sampling import Draws, observe, reconstruct, sample_inputs
from piop.sampling.distributions import input_axes, input_sampler
from piop.spec.distributions import History


def is_drawn(problem):
    """Whether its inputs come from laws, and not from data."""
    return problem.residuals and not any(
        isinstance(i.distribution, History) for i in problem.inputs
    )


SPECS = sorted(
    path
    for path in (Path(__file__).parents[2] / "pdes").glob("*.yaml")
    if is_drawn(Problem.from_file(path))
)


@pytest.fixture(params=SPECS, ids=lambda path: path.stem, scope="module")
def problem(request):
    return Problem.from_file(request.param)


def draws(*index, step=0):
    return Draws(0, step, torch.tensor(index))


def random_points(problem, item, batch, count):
    u = torch.rand(batch, count, len(item.of), generator=torch.Generator().manual_seed(0)).double()
    axes = input_axes(problem, item)
    low = torch.tensor([a.low for a in axes], dtype=torch.float64)
    high = torch.tensor([a.high for a in axes], dtype=torch.float64)
    return low + (high - low) * u


def see(problem, functions, batch):
    """See inputs; those seen at the points of solutions anywhere, since none is solved here."""
    box = torch.rand(batch.batch, 250, len(problem.coordinates), dtype=torch.float64)
    low, length = ([getattr(c, k) for c in problem.coordinates] for k in ("low", "length"))
    return observe(functions, problem, batch, points=torch.tensor(low) + torch.tensor(length) * box)


def test_a_sample_is_the_same_alone_and_in_a_batch(problem):
    whole, alone = sample_inputs(problem, draws(0, 1, 5)), sample_inputs(problem, draws(5))
    for item in problem.inputs:
        points = random_points(problem, item, 1, 9)
        torch.testing.assert_close(whole[item.name](points)[2:], alone[item.name](points))


def test_another_step_gives_another_sample(problem):
    first, second = (sample_inputs(problem, draws(0, step=s)) for s in (0, 1))
    for item in problem.visible_inputs:
        points = random_points(problem, item, 1, 400)  # a source may be small
        assert not torch.equal(first[item.name](points), second[item.name](points))


def test_first_derivatives_equal_autograd(problem):
    functions = sample_inputs(problem, draws(0, 1))
    for item in (i for i in problem.inputs if i.smooth):
        points = random_points(problem, item, 2, 5).requires_grad_()
        values = functions[item.name](points)
        if not item.of:
            continue
        (slopes,) = torch.autograd.grad(values.sum(), points)
        for axis in range(len(item.of)):
            order = [int(i == axis) for i in range(len(item.of))]
            ours = functions[item.name].derivative(points, order)
            torch.testing.assert_close(ours, slopes[..., axis], atol=1e-8, rtol=1e-8)


def test_values_on_a_grid_equal_those_at_its_points(problem):
    functions = sample_inputs(problem, draws(0, 1))
    for item in problem.inputs:
        axes = [torch.linspace(a.low, a.high, 5).double() for a in input_axes(problem, item)]
        mesh = (
            torch.cartesian_prod(*axes).reshape(1, -1, len(axes)) if axes else torch.zeros(1, 1, 0)
        )
        ours = functions[item.name].on_grid(axes).reshape(2, -1)
        torch.testing.assert_close(ours, functions[item.name](mesh))


def test_inputs_are_periodic_where_the_domain_is(problem):
    functions = sample_inputs(problem, draws(0, 1))
    for item in problem.inputs:
        for i, axis in enumerate(input_axes(problem, item)):
            if axis.periodic:
                left = random_points(problem, item, 1, 5)
                right = left.clone()
                left[..., i], right[..., i] = axis.low, axis.high
                f = functions[item.name]
                torch.testing.assert_close(f(left), f(right), atol=1e-9, rtol=1e-9)


def test_statistics_normalise_what_sensors_see(problem):
    many = draws(*range(200))
    seen = see(problem, sample_inputs(problem, many), many)
    for item in problem.inputs:
        if (name := item.name) in seen:
            mean, std = input_sampler(problem, item).moments()
            values = (seen[name].values - mean) / std
            per_sample = values.mean((1, 2))
            assert abs(float(values.mean())) < 5 * float(per_sample.std()) / 200**0.5 + 1e-9
            assert 0.8 < float(values.std()) < 1.2


def test_sensors_determine_each_input_to_a_tenth(problem):
    """Smooth ones: between sensors nobody knows where an input jumps."""
    batch = draws(0, 1, 2)
    functions = sample_inputs(problem, batch)
    seen = see(problem, functions, batch)
    for item in (i for i in problem.visible_inputs if i.of and i.smooth):
        points = random_points(problem, item, 3, 100)
        exact = functions[item.name](points)
        error = reconstruct(problem, item, seen[item.name])(points) - exact
        assert float((error.norm(dim=1) / exact.norm(dim=1)).mean()) < 0.1

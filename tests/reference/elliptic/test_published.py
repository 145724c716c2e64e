"""neuraloperator's Darcy solutions beside ours: how far apart, and why (docs/datasets.md)."""

from pathlib import Path

import pytest
import torch

from piop.fields import InputFunction
from piop.problem import Problem
from piop.reference import Limits, solve_reference
from piop.sampling import Draws, sample_inputs

DATA = Path(__file__).parents[4] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.exists(), reason=f"third-party data not at {DATA}")
FIRST = 1 / 1024  # position of the first point along both axes


class Nearest(InputFunction):
    """The permeability of the nearest point of the data."""

    batch, dimension = 0, 2

    def __init__(self, high):
        self.high, self.batch = high, len(high)

    def derivative(self, points, order):
        raise NotImplementedError

    def on_grid(self, axes, order=None):
        n = self.high.shape[1]
        rows, columns = (((a - FIRST) * n).round().long().clamp(0, n - 1) for a in axes)
        return torch.where(self.high[:, rows][:, :, columns], 0.36, 0.02).double()

    def take(self, index):
        return Nearest(self.high[index])

    def to(self, device=None, dtype=None):
        return self


def load(*names):
    stored = [torch.load(DATA / f"neuralop_darcy_{n}.pt", weights_only=True) for n in names]
    return torch.cat([s["x"] for s in stored]), torch.cat([s["y"] for s in stored]).double()


def misfit(name, samples):
    """Median over samples of ‖ours − theirs‖ / ‖theirs‖ at their points."""
    high, theirs = (part[:samples] for part in load(name))
    n = high.shape[1]
    limits = Limits(modes=(8192, 128, 64))
    solution = solve_reference(
        Problem.from_file("darcy"), {"a": Nearest(high)}, shape=(1025, 1025), limits=limits
    )
    places = torch.arange(n) * (1024 // n) + 1
    gap = solution.values["u"][:, places][:, :, places] - theirs
    return float((gap.flatten(1).norm(dim=1) / theirs.flatten(1).norm(dim=1)).median())


@needs_data
def test_solutions_differ_by_what_is_not_known_of_the_interfaces():
    """2 % where the permeability is known at 32² points, twice that at 16² of the same samples.

    It halves with the distance of the points that say where interfaces run; both solvers err by
    an order of magnitude less.
    """
    fine, coarse = misfit("test_32", 3), misfit("test_16", 3)
    assert fine < 0.03
    assert 1.6 < coarse / fine < 3


@pytest.mark.slow
@needs_data
def test_solutions_of_the_spec_are_distributed_as_theirs():
    """Where nothing is unknown: means over samples of the law, of four figures of a solution.

    Theirs of 1050 samples, ours of 96; bounds are three standard deviations of the difference.
    """
    _, theirs = load("train_16", "test_16")
    problem = Problem.from_file("darcy")
    functions = sample_inputs(problem, Draws(11, 0, torch.arange(96)))
    limits = Limits(modes=(8192, 128, 64))
    u = solve_reference(problem, functions, shape=(129, 129), limits=limits).values["u"]
    left = torch.arange(16) * 8  # their points lie an eighth of our distance beyond these
    u = 0.875 * u[:, left] + 0.125 * u[:, left + 1]
    u = 0.875 * u[:, :, left] + 0.125 * u[:, :, left + 1]
    figures = {
        "mean": lambda v: v.flatten(1).mean(1),
        "root mean square": lambda v: v.flatten(1).square().mean(1).sqrt(),
        "middle": lambda v: v[:, 8, 8],
        "largest": lambda v: v.flatten(1).amax(1),
    }
    for name, figure in figures.items():
        a, b = figure(u), figure(theirs)
        deviation = (a.var() / len(a) + b.var() / len(b)).sqrt()
        assert abs(a.mean() - b.mean()) < 3 * deviation, name
        assert deviation < 0.05 * b.mean(), name

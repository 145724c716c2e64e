import pytest
import torch

from piop.sampling import Draws
from piop.sampling.collocation import choose_by_density, residual_density
from piop.training.config import PointsConfig, SamplingConfig

POINTS = PointsConfig(functions=3, queries=6, boundary=4, method="residual_adaptive")
ALL = PointsConfig(functions=3, queries=24, boundary=4)


def test_adaptive_points_are_candidates_chosen_by_their_residual(heat, builder):
    """The candidates are the uniform points of a step with as many; the rest is done by hand."""
    sampling = SamplingConfig(candidates=4, power=2.0, floor=0.1)
    built = builder(heat, points=POINTS, sampling=sampling)
    plain = builder(heat, points=ALL)
    found, every = built.draw(2, 0.0), plain.draw(2, 0.0)
    assert torch.equal(found.size, every.size)
    sizes = built.loss.misfits(every, every.equations).squares.sqrt().detach()
    density = residual_density(sizes, 2.0, 0.1)
    chosen = choose_by_density(Draws(0, 3, torch.arange(3)), "collocation/chosen", density, 6)
    for b in range(3):
        own = every.equations
        assert torch.equal(found.equations.queries[b], own.queries[b, chosen[b]])
        assert torch.equal(found.equations.lift[:, b], own.lift[:, b, chosen[b]])
    assert not found.equations.queries.requires_grad


def test_adaptive_points_have_a_larger_residual_than_their_candidates(heat, builder):
    sampling = SamplingConfig(candidates=8, power=2.0, floor=0.0)
    adaptive = builder(heat, points=POINTS, sampling=sampling)
    uniform = builder(heat, points=ALL)
    mine = [adaptive.loss(adaptive.draw(i, 0.0))[0]["residual"].item() for i in range(5)]
    theirs = [uniform.loss(uniform.draw(i, 0.0))[0]["residual"].item() for i in range(5)]
    assert sum(mine) > 1.5 * sum(theirs)


def test_adaptive_points_follow_the_weights_of_the_operator(heat, builder):
    built = builder(heat, points=POINTS)
    before, again = built.draw(0, 0.0), built.draw(0, 0.0)
    assert torch.equal(before.equations.queries, again.equations.queries)
    with torch.no_grad():
        for p in built.loss.parameters():
            p.mul_(3.0)
    after = built.draw(0, 0.0)
    assert not torch.equal(before.equations.queries, after.equations.queries)


@pytest.mark.parametrize("method", ["uniform", "sobol", "latin_hypercube"])
def test_other_methods_do_not_ask_the_network(heat, builder, method):
    built = builder(heat, points=PointsConfig(functions=3, queries=6, method=method))
    before = built.draw(0, 0.0).equations.queries
    with torch.no_grad():
        for p in built.loss.parameters():
            p.zero_()
    assert torch.equal(before, built.draw(0, 0.0).equations.queries)

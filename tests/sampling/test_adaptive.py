import itertools
import math

import pytest
import torch

from piop.sampling import Draws
from piop.sampling.collocation import choose_by_density, residual_density

SIZES = torch.tensor([[0.0, 0.5, 1.0, 2.5]], dtype=torch.float64)


@pytest.mark.parametrize(("power", "floor"), [(1.0, 1.0), (2.0, 0.0), (0.0, 1.0), (3.0, 0.5)])
def test_the_density_follows_the_formula_by_hand(power, floor):
    sizes = SIZES[0].tolist()
    raised = [s**power for s in sizes]
    mean = sum(raised) / 4
    weights = [r / mean + floor for r in raised]
    expected = [w / sum(weights) for w in weights]
    assert residual_density(SIZES, power, floor)[0].tolist() == pytest.approx(expected)


def test_without_any_residual_all_candidates_are_alike():
    assert residual_density(torch.zeros(1, 5), 1.0, 0.0).tolist() == [[0.2] * 5]


def test_pairs_are_drawn_with_the_probabilities_of_draws_without_replacement():
    samples = 20000
    p = residual_density(SIZES, 1.0, 1.0)[0]
    draws = Draws(3, 7, torch.arange(samples))
    pairs = choose_by_density(draws, "test", p.expand(samples, -1), 2)
    statistic = 0.0
    for i, j in itertools.permutations(range(4), 2):
        expected = samples * (p[i] * p[j] / (1 - p[i])).item()
        found = int(((pairs[:, 0] == i) & (pairs[:, 1] == j)).sum())
        statistic += (found - expected) ** 2 / expected
    assert statistic < 31.3  # chi-square with 11 degrees of freedom is above that once in a 1000


def test_a_candidate_is_chosen_once_and_its_draw_is_its_own():
    density = torch.full((6, 9), 1 / 9)
    draws = Draws(0, 1, torch.arange(6))
    chosen = choose_by_density(draws, "test", density, 9)
    assert (chosen.sort(-1).values == torch.arange(9)).all()
    last = choose_by_density(Draws(0, 1, torch.tensor([5])), "test", density[5:], 9)
    assert torch.equal(last[0], chosen[5])
    assert math.isclose(len({tuple(row) for row in chosen.tolist()}), 6)

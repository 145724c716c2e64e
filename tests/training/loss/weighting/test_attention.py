import math
from types import SimpleNamespace

import pytest
import torch

from piop.training.config import AdaptiveConfig
from piop.training.loss.weighting.base import Bins, Cells
from piop.training.loss.weighting.points import ResidualAttention

LIKE = torch.empty(0, dtype=torch.float64)
CELLS = Cells([Bins(0, 0.0, 1.0, 3), Bins(1, 0.0, 1.0, 2)])


def attention(decay, rate):
    chosen = AdaptiveConfig(attention_decay=decay, attention_rate=rate)
    config, problem = SimpleNamespace(adaptive=chosen), SimpleNamespace(space=())
    return ResidualAttention(
        SimpleNamespace(config=config, problem=problem, cells=lambda axes: CELLS, like=LIKE)
    )


def test_multipliers_follow_the_formula_by_loops():
    decay, rate = 0.9, 0.2
    weighting = attention(decay, rate)
    generator = torch.Generator().manual_seed(1)
    by_hand = [1.0] * 6
    for _ in range(30):
        queries = torch.rand(2, 4, 2, generator=generator, dtype=torch.float64) ** 2
        squares = torch.rand(2, 4, generator=generator, dtype=torch.float64) * 9
        weights = weighting.of_points(weighting.entering(None), queries)
        sizes = [[] for _ in range(6)]
        for b in range(2):
            for n in range(4):
                t, x = queries[b, n].tolist()
                cell = int(t * 3) * 2 + int(x * 2)
                assert weights[b, n].item() == pytest.approx(by_hand[cell] ** 2, rel=1e-12)
                sizes[cell].append(math.sqrt(squares[b, n]))
        most = max(sum(s) / len(s) for s in sizes if s)
        for cell, own in enumerate(sizes):
            if own:
                grown = rate * sum(own) / len(own) / most
                by_hand[cell] = decay * by_hand[cell] + grown
        weighting.update(weighting.observe(squares, queries))


def test_multipliers_stay_below_rate_over_one_minus_decay():
    weighting = attention(0.5, 1.0)
    queries = torch.rand(2, 50, 2, generator=torch.Generator().manual_seed(2)).double()
    for _ in range(60):
        weighting.update(weighting.observe(queries[..., 0] ** 4, queries))
    found = weighting.entering(None)["attention"]
    assert found.max().item() == pytest.approx(2.0)
    assert found.min() < 0.5


def test_a_residual_that_vanishes_gives_no_nan():
    weighting = attention(0.5, 1.0)
    queries = torch.rand(1, 9, 2).double()
    weighting.update(weighting.observe(torch.zeros(1, 9).double(), queries))
    assert weighting.entering(None)["attention"].isfinite().all()

import math
from types import SimpleNamespace

import pytest
import torch

from piop.training.config import AdaptiveConfig
from piop.training.loss.weighting.base import Bins, Cells
from piop.training.loss.weighting.points import CausalWeighting

LIKE = torch.empty(0, dtype=torch.float64)


def causal(bins=4, strength=0.5, memory=0.75):
    config = SimpleNamespace(adaptive=AdaptiveConfig(causal=strength, memory=memory))
    cells = Cells([Bins(column=0, low=1.0, length=2.0, count=bins)])
    return CausalWeighting(SimpleNamespace(config=config, cells=lambda: cells, like=LIKE))


def batches(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        draws = torch.rand(3, 7, 3, generator=generator, dtype=torch.float64)
        times = 1.0 + 2.0 * draws[..., 0] ** 3  # few late points, so that some bins stay empty
        yield draws[..., 1], torch.stack([times, draws[..., 2]], -1)


def test_weights_follow_the_formula_by_loops():
    weighting, bins, strength, memory = causal(), 4, 0.5, 0.75
    mean = [None] * bins
    for squares, queries in batches(20):
        weights = weighting.entering(None)
        found = weighting.of_points(weights, queries)
        for b in range(3):
            for n in range(7):
                own = min(int((queries[b, n, 0] - 1) / 2 * bins), bins - 1)
                before = sum(mean[k] or 0.0 for k in range(own))
                assert found[b, n].item() == pytest.approx(math.exp(-strength * before), rel=1e-12)
        weighting.update(weighting.observe(squares, queries))
        for k in range(bins):
            own = [
                squares[b, n].item()
                for b in range(3)
                for n in range(7)
                if min(int((queries[b, n, 0] - 1) / 2 * bins), bins - 1) == k
            ]
            if own:
                new = sum(own) / len(own)
                mean[k] = new if mean[k] is None else memory * mean[k] + (1 - memory) * new


def test_statistics_of_parts_of_a_batch_add_up_to_those_of_the_whole():
    weighting = causal()
    squares, queries = next(batches(1))
    whole = weighting.observe(squares, queries)
    first, rest = (weighting.observe(squares[s], queries[s]) for s in (slice(1), slice(1, 3)))
    for name, value in whole.items():
        assert torch.allclose(value, first[name] + rest[name], rtol=1e-14), name


def test_an_empty_time_bin_counts_as_solved():
    weighting = causal()
    late = torch.tensor([[[2.9, 0.0]]], dtype=torch.float64)
    weighting.update(weighting.observe(torch.full((1, 1), 7.0, dtype=torch.float64), late))
    assert weighting.of_points(weighting.entering(None), late).item() == 1.0


def test_a_state_taken_up_gives_the_same_weights():
    first, second = causal(), causal()
    steps = list(batches(6))
    for squares, queries in steps[:3]:
        first.update(first.observe(squares, queries))
    second.load_state_dict(first.state_dict())
    for weighting in (first, second):
        for squares, queries in steps[3:]:
            weighting.update(weighting.observe(squares, queries))
    assert torch.equal(first.entering(None)["causal"], second.entering(None)["causal"])

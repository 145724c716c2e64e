"""Bounds of the next score: ranks, and how often they hold."""

import numpy as np
import pytest
import torch

from piop.errors import UsageError
from piop.run.error_bounds.conformal import (
    bounding_score,
    check_confidence,
    coverage,
    fewest_scores,
    rank,
)


@pytest.mark.parametrize(
    ("count", "confidence", "expected"),
    [(9, 0.9, 9), (99, 0.9, 90), (100, 0.9, 91), (19, 0.95, 19)],
)
def test_the_rank_is_the_next_above_its_share(count, confidence, expected):
    assert rank(count, confidence) == expected


def test_too_few_scores_promise_nothing():
    assert [fewest_scores(c) for c in (0.5, 0.8, 0.9, 0.95, 0.99)] == [1, 4, 9, 19, 99]
    for confidence in (0.5, 0.8, 0.9, 0.95, 0.99):
        fewest = fewest_scores(confidence)
        assert rank(fewest, confidence) == fewest
        with pytest.raises(UsageError, match=f"at least {fewest} inputs; there are {fewest - 1}"):
            rank(fewest - 1, confidence)


def test_the_bound_holds_as_often_as_stated():
    """20,000 calibrations of 30 scores, of a distribution with a heavy tail."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.empty(20_000, 31, dtype=torch.float64).exponential_(generator=generator).exp()
    held = [float(row[-1]) <= bounding_score(row[:-1], 0.8) for row in drawn]
    expected, _ = coverage(30, 0.8)
    assert expected == 25 / 31
    assert sum(held) / len(held) == pytest.approx(expected, abs=0.01)


def test_the_coverage_of_one_calibration_is_spread_as_stated():
    """Uniform scores: the bound itself is the coverage."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.rand(5000, 50, dtype=torch.float64, generator=generator)
    bounds = torch.tensor([bounding_score(row, 0.9) for row in drawn], dtype=torch.float64)
    expected, low = coverage(50, 0.9)
    assert float(bounds.mean()) == pytest.approx(expected, abs=0.003)
    assert float(bounds.quantile(0.05)) == pytest.approx(low, abs=0.006)


@pytest.mark.parametrize("wrong", [0, 1, 1.5, -0.1, "0.9", True, float("nan")])
def test_a_confidence_is_between_zero_and_one(wrong):
    with pytest.raises(UsageError, match=r"confidence: .* between 0 and 1"):
        check_confidence(wrong)


def test_a_confidence_may_be_a_number_of_numpy():
    assert check_confidence(np.float32(0.5)) == 0.5

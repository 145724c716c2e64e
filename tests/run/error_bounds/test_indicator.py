"""What residuals and differences from coarse solutions say of errors."""

import json

import pytest
import torch

from piop.run.error_bounds.coarse_solution import CoarseLevels
from piop.run.error_bounds.indicator import Indicator, Measurement


def drawn(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, generator=generator, dtype=torch.float64)


def test_an_indicator_follows_the_power_of_the_residual():
    residuals = drawn(200).exp()[:, None] * torch.tensor([2.0, 4.0])
    errors = 0.03 * residuals[:, 0] ** 0.7 * (0.1 * drawn(200, 1)).exp()
    indicator = Indicator.choose([Measurement(residuals)], errors)
    assert indicator.power == pytest.approx(0.7, abs=0.03)
    found = indicator(residuals, 200)
    assert float((found / errors).log().std()) == pytest.approx(0.1, abs=0.02)
    assert float((found / errors).log().mean()) == pytest.approx(0, abs=0.01)
    again = Indicator.from_json(json.loads(json.dumps(indicator.to_json())))
    assert again == indicator


@pytest.mark.parametrize(
    "measured", [[], [Measurement(drawn(100).exp()[:, None])]], ids=["none", "unrelated"]
)
def test_without_a_residual_that_tells_the_error_all_inputs_are_alike(measured):
    errors = drawn(100, 5).exp()
    indicator = Indicator.choose(measured, errors)
    assert indicator.is_constant
    assert indicator.sizes_among(measured) is None
    assert indicator(None, 3).tolist() == [pytest.approx(float(errors.log().mean().exp()))] * 3


def test_a_vanishing_residual_is_no_proof():
    residuals = (1 + drawn(100).abs())[:, None]
    indicator = Indicator.choose([Measurement(residuals)], residuals[:, 0])
    tiny, least = indicator(torch.tensor([[1e-9], [0.5]], dtype=torch.float64), 2).tolist()
    assert tiny == pytest.approx(least, rel=0.05)


@pytest.mark.parametrize("better", ["residual", "coarse_difference"])
def test_what_follows_the_errors_best_is_taken(better):
    errors = drawn(60).exp()
    close, far = ((errors * (n * drawn(60, 7)).exp())[:, None] for n in (0.1, 0.5))
    coarse = CoarseLevels(2, 0.03)
    residual = Measurement(close if better == "residual" else far)
    difference = Measurement(far if better == "residual" else close, coarse=coarse)
    indicator = Indicator.choose([residual, difference], errors)
    assert indicator.variable == better
    assert torch.equal(indicator.sizes_among([residual, difference]), close)
    assert indicator.coarse == (None if better == "residual" else coarse)
    again = Indicator.from_json(json.loads(json.dumps(indicator.to_json())))
    assert again == indicator


def test_differences_are_relative_errors_and_residuals_have_units():
    errors = drawn(60).exp()
    sizes = errors[:, None] * torch.tensor([2.0, 4.0])
    assert Measurement(sizes).fit(errors).units == pytest.approx(
        tuple(sizes.square().mean(0).sqrt().tolist())
    )
    assert Measurement(sizes, coarse=CoarseLevels(1, 0.1)).fit(errors).units == (1, 1)
    assert Measurement(sizes, lattice=(4, 4)).fit(errors).units == (1, 1)


def test_calibrations_from_before_coarse_solutions_are_read():
    errors = drawn(60).exp()
    indicator = Measurement(errors[:, None], lattice=(4, 8)).fit(errors)
    older = indicator.to_json()
    del older["coarse"]
    assert Indicator.from_json(older) == indicator

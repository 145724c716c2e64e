"""What residuals say of errors."""

import json

import pytest
import torch

from piop.run.error_bounds.residual_indicator import Indicator


def drawn(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, generator=generator, dtype=torch.float64)


def test_an_indicator_follows_the_power_of_the_residual():
    residuals = drawn(200).exp()[:, None] * torch.tensor([2.0, 4.0])
    errors = 0.03 * residuals[:, 0] ** 0.7 * (0.1 * drawn(200, 1)).exp()
    indicator = Indicator.choose(residuals, errors)
    assert indicator.power == pytest.approx(0.7, abs=0.03)
    found = indicator(residuals, 200)
    assert float((found / errors).log().std()) == pytest.approx(0.1, abs=0.02)
    assert float((found / errors).log().mean()) == pytest.approx(0, abs=0.01)
    again = Indicator.from_json(json.loads(json.dumps(indicator.to_json())))
    assert again == indicator


@pytest.mark.parametrize("residuals", [None, drawn(100).exp()[:, None]], ids=["none", "unrelated"])
def test_without_a_residual_that_tells_the_error_all_inputs_are_alike(residuals):
    errors = drawn(100, 5).exp()
    indicator = Indicator.choose(residuals, errors)
    assert not indicator.needs_residual
    assert indicator(residuals, 3).tolist() == [pytest.approx(float(errors.log().mean().exp()))] * 3


def test_a_vanishing_residual_is_no_proof():
    residuals = (1 + drawn(100).abs())[:, None]
    indicator = Indicator.choose(residuals, residuals[:, 0])
    tiny, least = indicator(torch.tensor([[1e-9], [0.5]], dtype=torch.float64), 2).tolist()
    assert tiny == pytest.approx(least, rel=0.05)

"""Bounds hold as often as promised, and a tolerance keeps its promise."""

import torch

from piop.run.error_bounds.indicator import Measurement


def test_figures_of_a_pool(load, monkeypatch):
    """Errors that a measurement tells up to a factor, which the bounds have to pay for."""
    script = load("trust")
    monkeypatch.setattr(script, "SPLITS", 40)
    generator = torch.Generator().manual_seed(3)
    told, hidden = torch.randn(2, 600, dtype=torch.float64, generator=generator)
    errors = {"u": (told + 0.3 * hidden).exp()}
    found = script.measure(errors, [Measurement(told.exp()[:, None])])
    for confidence, promised in found["promised"].items():
        assert abs(found["coverage"][confidence] - promised) < 0.02
        assert 0 < found["beyond_tolerance"][confidence] <= 1 - promised
    assert found["bound_over_error"] < 0.6 * found["without_residual"]
    assert found["correlation"] > 0.9
    # some of the bounds that are too low lie between the tolerance and the error
    few, many = found["beyond_tolerance"]["0.95"], found["beyond_tolerance"]["0.8"]
    assert few < many < 1 - found["coverage"]["0.8"]

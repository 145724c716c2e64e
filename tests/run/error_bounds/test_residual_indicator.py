"""What residuals say of errors."""

import json

import pytest
import torch

from piop.problem import Problem
from piop.run import fit
from piop.run.error_bounds.linearised_error import choose_lattice
from piop.run.error_bounds.residual_indicator import Indicator, ResidualSize
from piop.run.prediction import predict_values

SIZES = {"amplitude": [0.2, 1], "wavenumber": [1, 2]}


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


@pytest.mark.parametrize("windows", [1, 2])
def test_on_one_axis_it_is_the_error_to_first_order(tmp_path, windows):
    """Of a linear problem it is the error itself, in its rms over time and space."""
    problem = Problem(
        name="transport",
        time={"t": [0, 2]},
        space={"x": [0, 1]},
        unknowns=["u"],
        inputs={"u0": {"of": ["x"], "law": "fourier_series", "terms": 2, **SIZES}},
        equations=["dt(u) + 0.3*dx(u) = 0.01*dxx(u) - 0.5*u"],
        initial={"u": "u0"},
        boundary={"x": "periodic"},
        save={"t": 21, "x": 32},
    )
    run = fit(problem, steps=20, out=tmp_path / "run", samples=0, windows=windows, calibrate=0)
    held_out = run.held_out(20, seed=3)
    lattice = choose_lattice(problem, run.model, run.config, 0.1, held_out)
    assert len(lattice) == 2
    found = ResidualSize(problem, run.model, run.config, lattice)(held_out.inputs)[:, 0]
    predicted = predict_values(problem, run.model, held_out.inputs, held_out.queries)
    error = (predicted - held_out.truth["u"].flatten(1)[..., None]).square().mean((1, 2)).sqrt()
    size = held_out.truth["u"].square().flatten(1).mean(1).sqrt()
    ratio = found * size / error
    assert error.max() > 1.5 * error.min()
    torch.testing.assert_close(ratio, torch.ones_like(ratio), rtol=0.15, atol=0)


def test_at_points_each_input_has_its_own_residual(trained):
    own = trained.solved, trained.model, trained.config
    inputs = trained.held_out(7, seed=3).inputs
    measure = ResidualSize(*own)
    together = measure(inputs)
    alone = [
        measure({n: s.take(row) for n, s in inputs.items()}) for row in torch.arange(7).split(1)
    ]
    torch.testing.assert_close(together, torch.cat(alone))
    assert together.shape == (7, 1)
    assert together.max() > 1.2 * together.min() > 0

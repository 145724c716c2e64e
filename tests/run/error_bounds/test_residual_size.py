"""Sizes of residuals."""

import pytest
import torch

from piop.problem import Problem
from piop.run import fit
from piop.run.error_bounds.linearised_error import choose_lattice
from piop.run.error_bounds.residual_size import ResidualSize
from piop.run.prediction import predict_values

SIZES = {"amplitude": [0.2, 1], "wavenumber": [1, 2]}


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
    settings = {"samples": 0, "windows": windows, "calibrate": 0, "seed": 2}
    settings |= {"precision": "float64"}  # in float32 the steps of SOAP differ among processors
    # Few steps, so that the error is well above that of the lattice.
    run = fit(problem, steps=12, out=tmp_path / "run", **settings)
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

"""Steady problems on boxes are trained on the error that their residuals cause."""

import warnings

import pytest
import torch

from piop.problem import Problem
from piop.run import fit
from piop.training.loop.gradients import CompiledGradients
from tests.run.test_integral_form import parts_of


def errors_of(problem, folder, steps, **settings):
    plain = {"samples": 0, "calibrate": 0, "compile": False}
    run = fit(problem, steps=steps, out=folder, settings=settings, **plain)
    found = run.evaluate(16, write=False)
    return run, found["per_channel"]


def test_a_flow_is_learned_in_few_steps(creeping_flow, tmp_path):
    run, errors = errors_of(creeping_flow, tmp_path / "run", 40)
    assert len(run.statistics.lattice) == 3
    truth = creeping_flow.solve_reference(creeping_flow.sample(8, seed=3)).values
    for name, size in zip(creeping_flow.channels, run.statistics.channel_scale, strict=True):
        assert size == pytest.approx(float(truth[name].std()), rel=0.5)
    assert errors["u"] < 0.15
    assert errors["p"] < 0.2


@pytest.mark.slow
def test_a_flow_is_learned_in_steps_in_which_random_points_learn_nothing(creeping_flow, tmp_path):
    _, linearised = errors_of(creeping_flow, tmp_path / "a", 100)
    run, strong = errors_of(creeping_flow, tmp_path / "b", 100, form="strong", root=False)
    assert run.statistics.lattice == ()
    for name in ("u", "p"):
        assert linearised[name] < strong[name] / 3
        assert linearised[name] < 0.15


@pytest.mark.parametrize("axes", ["x", "xy"])
def test_periodic_boxes_are_trained(axes, tmp_path):
    wave = {"law": "gaussian_random_field", "tau": 3, "alpha": 4, "modes": 2, "scale": 1e3}
    problem = Problem(
        name="periodic",
        space={name: [0, 1] for name in axes},
        unknowns=["u"],
        inputs={"f": {"of": list(axes), **wave}},
        equations=["u - 0.01*lap(u) + u**3 = f"],
        boundary=dict.fromkeys(axes, "periodic"),
        sensors={"f": {"count": [8] * len(axes), "place": "grid"}},
        save=dict.fromkeys(axes, 16),
    )
    run = fit(problem, steps=2, out=tmp_path / "run", samples=2, calibrate=0)
    assert len(run.statistics.lattice) == 1 + len(axes)
    assert run.metrics[-1]["step"] == 2


def test_a_step_is_traced_to_be_compiled(creeping_flow, tmp_path):
    plain = {"samples": 0, "calibrate": 0, "seed": 1, "compile": False}
    run = fit(creeping_flow, steps=2, out=tmp_path / "run", **plain)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # that a step stays eager
        loss, batch = parts_of(run)
        compiled = CompiledGradients(loss)
        assert compiled.foresee(batch) is not None


def test_a_steady_run_goes_on_as_an_unbroken_one(creeping_flow, tmp_path):
    from piop.run import resume

    plain = {"samples": 0, "calibrate": 0, "seed": 1, "compile": False}
    settings = {"checkpoint": 1e-9}
    whole = fit(creeping_flow, steps=6, out=tmp_path / "whole", settings=settings, **plain)

    def stop(row):
        if row["step"] == 3:
            raise KeyboardInterrupt

    part = fit(
        creeping_flow, steps=6, out=tmp_path / "part", settings=settings, progress=stop, **plain
    )
    assert part.metrics[-1]["step"] < 6
    resumed = resume(part.path, samples=0)
    for name, value in whole.model.operator.state_dict().items():
        torch.testing.assert_close(resumed.model.operator.state_dict()[name], value, rtol=0, atol=0)

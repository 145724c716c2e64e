"""Callbacks follow training without changing it; one that fails ends it, and is named."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from piop.errors import TrainingError, UsageError
from piop.training.config import BudgetConfig, MachineConfig, MonitoringConfig, OptimiserConfig
from piop.training.loop.callbacks import Callbacks, TrainingEvent, on_rows
from piop.training.loop.checkpoint import read_metrics
from piop.training.loop.compilation import StepGradients
from piop.training.loop.run_files import RunFiles
from piop.training.loop.trainer import Trainer


def trainer_of(
    builder, heat, folder, *called, steps=25, held_out=None, every=10, average=0.0, **loss
):
    built = builder(heat, **loss)
    config = replace(
        built.config,
        budget=BudgetConfig(steps=steps),
        machine=MachineConfig(precision="float64"),
        optimiser=OptimiserConfig(average=average),
        monitoring=MonitoringConfig(held_out_every=every),
    )
    (folder / "state").mkdir(parents=True, exist_ok=True)
    gradients = StepGradients(built.loss, compiled=False)
    own = config, folder, Callbacks(called)
    return Trainer(built.loss, built.draw, gradients, *own, held_out=held_out)


def rows(folder):
    return read_metrics(RunFiles(folder))


def weights(folder):
    return (folder / "model.safetensors").read_bytes()


def test_events_hold_the_rows_of_the_metrics(builder, heat, tmp_path):
    seen = []
    trainer_of(builder, heat, tmp_path, seen.append).run()
    assert [event.metrics for event in seen] == rows(tmp_path)
    assert [event.step for event in seen] == [*range(1, 11), 20, 25]
    assert {event.path for event in seen} == {tmp_path}
    assert all(event.run is None for event in seen)


def disturb(event):
    """Change all of torch's state that a program may."""
    torch.manual_seed(event.step)
    torch.rand(7)
    torch.set_default_dtype(torch.float32 if event.step % 2 else torch.float64)
    torch.set_num_threads(2)
    torch.set_grad_enabled(False)
    with pytest.raises(TypeError):
        event.metrics["loss"] = 0.0  # pyright: ignore


def test_a_callback_and_held_out_errors_change_no_number(builder, heat, tmp_path):
    trainer_of(builder, heat, tmp_path / "alone", average=0.9).run()
    torch.manual_seed(5)
    before = torch.get_rng_state(), torch.get_default_dtype(), torch.get_num_threads()
    followed = trainer_of(
        *(builder, heat, tmp_path / "followed", disturb),
        held_out=lambda: 0.5,
        average=0.9,
    )
    followed.run()
    after = torch.get_rng_state(), torch.get_default_dtype(), torch.get_num_threads()
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]
    assert torch.is_grad_enabled()
    assert weights(tmp_path / "followed") == weights(tmp_path / "alone")


def test_held_out_errors_are_of_the_weights_that_predict_and_come_at_intervals(
    builder, heat, tmp_path
):
    seen = []

    def judge():
        own = trainer.operator.state_dict()
        seen.append(all(torch.equal(own[n], v) for n, v in trainer.phase.weights().items()))
        assert trainer.phase.average.count > 0
        return float(len(seen))

    trainer = trainer_of(builder, heat, tmp_path, held_out=judge, average=0.9)
    trainer.run()
    found = {row["step"]: row["held_out"] for row in rows(tmp_path) if "held_out" in row}
    assert found == {10: 1.0, 20: 2.0}
    assert seen == [True, True]


def test_a_held_out_error_that_is_none_is_left_out(builder, heat, tmp_path):
    trainer_of(builder, heat, tmp_path, held_out=lambda: float("nan")).run()
    assert not any("held_out" in row for row in rows(tmp_path))


def test_a_resumed_run_measures_at_the_steps_of_a_whole_one(builder, heat, tmp_path):
    def stop(row):
        if row["step"] == 30:
            raise KeyboardInterrupt

    options = {"held_out": lambda: 0.5, "every": 15, "steps": 40}
    trainer_of(builder, heat, tmp_path / "whole", **options).run()
    trainer_of(builder, heat, tmp_path / "parts", on_rows(stop), **options).run()
    again = trainer_of(builder, heat, tmp_path / "parts", **options)
    again.resume(torch.device("cpu"))
    again.run()
    own = [[r["step"] for r in rows(tmp_path / n) if "held_out" in r] for n in ("parts", "whole")]
    assert own == [[20, 30], [20, 30]]


def test_time_spent_in_callbacks_does_not_count(builder, heat, tmp_path):
    trainer = trainer_of(
        *(builder, heat, tmp_path, lambda event: time.sleep(0.3)),
        steps=4,
        every=1,
        held_out=lambda: time.sleep(0.3) or 0.5,
    )
    trainer.run()
    assert trainer.elapsed < 0.5  # of 2.4 s


class Broken:
    """Fails at a step."""

    def __call__(self, event):
        if event.step == 3:
            raise ValueError("no disk")


def test_a_callback_that_fails_ends_training_with_the_run_saved(builder, heat, tmp_path):
    after = []
    trainer = trainer_of(builder, heat, tmp_path / "parts", Broken(), after.append)
    with pytest.raises(TrainingError) as caught:
        trainer.run()
    assert str(caught.value) == (
        "callback Broken failed at step 3 (ValueError: no disk); the checkpoint of step 3 is kept "
        f"in {tmp_path / 'parts'}. Go on without it: piop resume {tmp_path / 'parts'}"
    )
    assert isinstance(caught.value.__cause__, ValueError)
    assert [event.step for event in after] == [1, 2], "those after it are not called"
    trainer_of(builder, heat, tmp_path / "whole").run()
    again = trainer_of(builder, heat, tmp_path / "parts")
    again.resume(torch.device("cpu"))
    again.run()
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (print, "is not a list; give such as callbacks=[function]"),
        ("log", "callbacks: 'log' is not a list"),
        ([print, 3], "callbacks: 3 is not a function of one event; see piop.Callback"),
        ([Broken], "is not a function of one event"),
    ],
)
def test_what_cannot_be_called_is_refused(given, message):
    with pytest.raises(UsageError) as caught:
        Callbacks.of(given)
    assert message in str(caught.value)


def test_functions_of_rows_are_not_called_with_the_last_event():
    seen = []
    take = on_rows(seen.append)
    take(TrainingEvent(Path("run"), 3, {"loss": 0.5}))
    take(TrainingEvent(Path("run"), 3))
    assert seen == [{"loss": 0.5}]
    seen[0]["loss"] = 1.0  # a copy of its own


@pytest.mark.parametrize(
    ("loss", "names"),
    [
        ({}, set()),
        ({"causal": 2.0, "bins": 4}, {"causal_min", "causal_max"}),
        (
            {"weighting": "residual_attention"},
            {"residual_attention_min", "residual_attention_max"},
        ),
        ({"weighting": "gradient_norm", "constraints": "soft"}, {"residual", "initial"}),
        ({"weighting": "ntk", "constraints": "soft"}, {"residual", "initial"}),
        (
            {"weighting": "ntk_local", "constraints": "soft"},
            {"ntk_local_min", "ntk_local_max", "residual", "initial"},
        ),
    ],
)
def test_adaptive_weights_are_in_the_metrics(builder, heat, tmp_path, loss, names):
    trainer = trainer_of(builder, heat, tmp_path, steps=3, weight_every=2, **loss)
    trainer.run()
    found = {n.removeprefix("weight/"): v for n, v in rows(tmp_path)[-1].items() if "/" in n}
    assert set(found) - {"boundary"} == names
    assert all(value > 0 for value in found.values())

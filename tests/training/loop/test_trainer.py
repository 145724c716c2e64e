import json
import math
import os
import signal
from dataclasses import replace

import pytest
import torch

from piop.errors import TrainingError
from piop.training.config import (
    BudgetConfig,
    MachineConfig,
    OptimiserConfig,
    PointsConfig,
    SamplingConfig,
)
from piop.training.loop.callbacks import Callbacks, on_rows
from piop.training.loop.checkpoint import CHECKPOINT, read_metrics
from piop.training.loop.compilation import StepGradients
from piop.training.loop.run_files import RunFiles
from piop.training.loop.trainer import Trainer

FOLLOWING = {
    "points": PointsConfig(functions=3, queries=10, method="residual_adaptive"),
    "sampling": SamplingConfig(candidates=2, horizon=0.5, horizon_until=0.5),
}
"""Points that depend on the weights of the network and on the share of the budget."""


def trainer_of(
    builder, heat, folder, steps=12, progress=None, optimiser=None, loss=None, **machine
):
    built = builder(heat, **(loss or {}))
    config = replace(
        built.config,
        budget=BudgetConfig(steps=steps),
        machine=MachineConfig(precision="float64", **machine),
        optimiser=optimiser or OptimiserConfig(),
    )
    (folder / "state").mkdir(parents=True, exist_ok=True)
    gradients = StepGradients(built.loss, compiled=False)
    called = Callbacks([] if progress is None else [on_rows(progress)])
    return Trainer(built.loss, built.draw, gradients, config, folder, called)


def numbers(folder):
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows(folder)]


def rows(folder):
    return read_metrics(RunFiles(folder))


def test_training_brings_the_loss_down(builder, heat, tmp_path):
    trainer_of(builder, heat, tmp_path, steps=60).run()
    assert rows(tmp_path)[-1]["loss"] < 0.5 * rows(tmp_path)[0]["loss"]


def test_the_first_ten_steps_every_tenth_and_the_last_are_noted(builder, heat, tmp_path):
    trainer_of(builder, heat, tmp_path, steps=25).run()
    assert [row["step"] for row in rows(tmp_path)] == [*range(1, 11), 20, 25]


def test_progress_sees_what_is_noted(builder, heat, tmp_path):
    seen = []
    trainer_of(builder, heat, tmp_path, steps=5, progress=seen.append).run()
    assert seen == rows(tmp_path)


def test_a_budget_in_time_ends_by_the_clock(builder, heat, tmp_path):
    trainer = trainer_of(builder, heat, tmp_path)
    trainer.config = replace(trainer.config, budget=BudgetConfig(time=0.3))
    trainer.run()
    assert 0.3 <= trainer.elapsed < 1.5
    assert trainer.first_step > 0


@pytest.mark.parametrize(
    ("optimiser", "loss"),
    [
        (OptimiserConfig(), {"weighting": "ntk", "constraints": "soft", "weight_every": 4}),
        (OptimiserConfig(optimiser="adamw", average=0.9), {"causal": 5.0}),
        (OptimiserConfig(optimiser="muon", learning_rate=1e-3), {}),
        (OptimiserConfig(lbfgs=0.7, average=0.5), {"causal": 5.0, **FOLLOWING}),
    ],
    ids=["soap", "adamw with average", "muon", "lbfgs"],
)
@pytest.mark.parametrize("stop", [3, 100])
def test_a_stopped_run_goes_on_to_the_same_numbers(builder, heat, tmp_path, optimiser, loss, stop):
    steps = 160 if optimiser.lbfgs else 14  # two optimiser steps of L-BFGS
    choices = {"optimiser": optimiser, "loss": loss}
    whole = trainer_of(builder, heat, tmp_path / "whole", steps, **choices)
    whole.run()

    def interrupt(row):
        if row["step"] >= stop:
            raise KeyboardInterrupt

    first = trainer_of(builder, heat, tmp_path / "parts", steps, progress=interrupt, **choices)
    first.run()
    assert first.interrupted == (stop < steps)
    second = trainer_of(builder, heat, tmp_path / "parts", steps, **choices)
    second.resume(torch.device("cpu"))
    assert second.step == first.step
    second.run()
    assert numbers(tmp_path / "parts") == numbers(tmp_path / "whole")
    for name, value in whole.phase.weights().items():
        assert torch.equal(value, second.phase.weights()[name]), name
    assert (tmp_path / "parts" / "model.safetensors").read_bytes() == (
        tmp_path / "whole" / "model.safetensors"
    ).read_bytes()


def test_lbfgs_gets_its_share_and_lowers_the_loss(builder, heat, tmp_path):
    optimiser = OptimiserConfig(lbfgs=0.5)
    trainer_of(builder, heat, tmp_path, steps=200, optimiser=optimiser).run()
    finish = [row for row in rows(tmp_path) if "learning_rate" not in row]
    assert finish[0]["step"] > 100
    assert finish[-1]["loss"] < finish[0]["loss"]


def test_lbfgs_keeps_to_a_small_budget(builder, heat, tmp_path):
    trainer = trainer_of(builder, heat, tmp_path, steps=20, optimiser=OptimiserConfig(lbfgs=0.3))
    trainer.run()
    finish = [row for row in rows(tmp_path) if "learning_rate" not in row]
    assert finish, "it has its share all the same"
    assert trainer.step <= 20 + 3, "one batch of the finish, evaluated once more at most"


def test_a_larger_budget_goes_on_with_new_batches_and_ends_in_lbfgs(builder, heat, tmp_path):
    optimiser = OptimiserConfig(lbfgs=0.3)
    trainer_of(builder, heat, tmp_path, steps=60, optimiser=optimiser).run()
    before = len(rows(tmp_path))
    second = trainer_of(builder, heat, tmp_path, steps=200, optimiser=optimiser)
    second.resume(torch.device("cpu"))
    second.run()
    kinds = ["learning_rate" in row for row in rows(tmp_path)[before:]]
    assert kinds[:5] == [True] * 5
    assert not kinds[-1]


def test_ctrl_c_saves_after_the_present_step(builder, heat, tmp_path):
    def press(row):
        if row["step"] == 4:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    trainer = trainer_of(builder, heat, tmp_path, progress=press)
    trainer.run()
    assert trainer.interrupted
    assert trainer.step == 4
    assert (trainer.folder / CHECKPOINT).exists()
    assert signal.getsignal(signal.SIGINT) is before


def test_a_loss_that_is_not_finite_is_told_and_the_checkpoint_kept(builder, heat, tmp_path):
    first = trainer_of(builder, heat, tmp_path, steps=5)
    first.run()
    kept = (first.folder / CHECKPOINT).read_bytes()
    weights = (tmp_path / "model.safetensors").read_bytes()
    second = trainer_of(builder, heat, tmp_path, steps=20)
    second.resume(torch.device("cpu"))
    good = second.phase.task.gradients

    def broken(batch):
        parts, statistics = good(batch)
        return {name: value * math.nan for name, value in parts.items()}, statistics

    second.phase.task = replace(second.phase.task, gradients=broken)
    with pytest.raises(
        TrainingError,
        match=r"loss is nan through its residual at step 6; the "
        "checkpoint of step 5.*piop resume .* --set learning_rate=0.002",
    ):
        second.run()
    assert (second.folder / CHECKPOINT).read_bytes() == kept
    assert (tmp_path / "model.safetensors").read_bytes() == weights


def test_a_loss_that_is_not_finite_at_once_says_what_to_try(builder, heat, tmp_path):
    trainer = trainer_of(builder, heat, tmp_path)
    trainer.phase.task = replace(
        trainer.phase.task, gradients=lambda batch: ({"loss": torch.tensor(math.inf)}, {})
    )
    with pytest.raises(TrainingError, match=r"at step 1; no checkpoint.*too large. Write.* near 1"):
        trainer.run()


@pytest.mark.parametrize("name", ["soap", "muon", "adamw"])
def test_weights_that_are_not_finite_are_never_saved(builder, heat, tmp_path, name):
    optimiser = OptimiserConfig(optimiser=name)
    trainer = trainer_of(builder, heat, tmp_path, steps=1, optimiser=optimiser)
    good = trainer.phase.task.gradients

    def poison(batch):
        outcome = good(batch)
        trainer.phase.parameters[0].grad.fill_(math.nan)
        return outcome

    trainer.phase.task = replace(trainer.phase.task, gradients=poison)
    with pytest.raises(TrainingError, match="not finite, though the loss is at step 1;"):
        trainer.run()
    assert not (trainer.folder / CHECKPOINT).exists()


def test_a_full_disk_ends_training_with_the_last_checkpoint(builder, heat, tmp_path, monkeypatch):
    trainer = trainer_of(builder, heat, tmp_path, steps=6, checkpoint=0.0)
    good = os.fsync
    count = 0

    def fills_up(handle):
        nonlocal count
        count += 1
        if count > 12:  # one for the metrics, five for each checkpoint
            raise OSError(28, "No space left on device")
        good(handle)

    monkeypatch.setattr(os, "fsync", fills_up)
    with pytest.raises(TrainingError, match="No space left"):
        trainer.run()
    monkeypatch.undo()
    again = trainer_of(builder, heat, tmp_path, steps=6)
    again.resume(torch.device("cpu"))
    assert again.step >= 2
    again.run()
    whole = trainer_of(builder, heat, tmp_path / "whole", steps=6)
    whole.run()
    assert numbers(tmp_path) == numbers(tmp_path / "whole")


def test_a_checkpoint_of_another_network_is_refused(builder, heat, tmp_path):
    first = trainer_of(builder, heat, tmp_path, steps=2)
    first.run()
    second = trainer_of(builder, heat, tmp_path, steps=4)
    second.operator.backbone = torch.nn.Linear(1, 1)
    with pytest.raises(TrainingError, match="does not fit this run"):
        second.resume(torch.device("cpu"))


def test_without_a_checkpoint_a_run_starts_anew(builder, heat, tmp_path):
    trainer = trainer_of(builder, heat, tmp_path)
    trainer.resume(torch.device("cpu"))
    assert trainer.step == 0


def test_metrics_hold_plain_json(builder, heat, tmp_path):
    trainer_of(builder, heat, tmp_path, steps=2).run()
    first = json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[0])
    assert set(first) == {"step", "loss", "residual", "gradient", "learning_rate", "seconds"}


@pytest.mark.parametrize(
    "settings",
    [
        {"causal": 5.0, "weighting": "residual_attention"},
        pytest.param(
            {"weighting": "ntk_local", "constraints": "soft", "bins": 3, "weight_every": 2},
            marks=pytest.mark.slow,
        ),
    ],
    ids=["causal and attention", "ntk"],
)
def test_compiled_and_eager_gradients_agree_as_weights_change(builder, heat, settings):
    built = builder(heat, **settings), builder(heat, **settings)
    steps = [StepGradients(b.loss, compiled=k == 1) for k, b in enumerate(built)]
    losses = []
    for index in range(3):
        outcomes = []
        for own, gradients in zip(built, steps, strict=True):
            parameters = list(own.loss.parameters())
            weightings = own.loss.weightings
            batch = weightings.prepare(own.draw(0, 0.0), index, gradients, parameters)
            parts, statistics = gradients(batch)
            weightings.update(statistics)
            outcomes.append({**parts, **statistics})
        one, two = outcomes
        assert one.keys() == two.keys()
        for name, value in one.items():
            assert torch.allclose(value, two[name], rtol=1e-9), name
        for p, q in zip(*(b.loss.parameters() for b in built), strict=True):
            assert torch.allclose(p.grad, q.grad, rtol=1e-7, atol=1e-9)
        losses.append(one["loss"].item())
    assert losses[2] != losses[0]


def failing_from(trainer, step, change):
    """Let the outcome of every gradient from a step on be changed; its index counts from 1."""
    good, count = trainer.phase.task.gradients, 0

    def gradients(batch):
        nonlocal count
        count += 1
        parts, statistics = good(batch)
        return change(parts, statistics) if count >= step else (parts, statistics)

    trainer.phase.task = replace(trainer.phase.task, gradients=gradients)


def test_the_first_step_that_failed_is_told_though_the_tenth_is_noted(builder, heat, tmp_path):
    trainer = trainer_of(builder, heat, tmp_path, steps=40)
    failing_from(trainer, 14, lambda p, s: ({k: v * math.nan for k, v in p.items()}, s))
    with pytest.raises(TrainingError, match="nan through its residual at step 14;"):
        trainer.run()


def test_an_explosion_stops_at_the_last_sound_checkpoint(builder, heat, tmp_path):
    trainer = trainer_of(builder, heat, tmp_path, steps=200, checkpoint=0.0)
    saved = {}

    def explode(parts, statistics):
        saved.setdefault("weights", (tmp_path / "model.safetensors").read_bytes())
        return {k: v * 1e12 for k, v in parts.items()}, {"equations": torch.tensor([1.0, 2e12])}

    failing_from(trainer, 21, explode)
    trainer.monitor.equations = ["dt(u) = v", "dt(v) = u"]
    with pytest.raises(
        TrainingError,
        match=r"exploded: its residual .* in equation 2, dt\(v\) = u at step 70; the checkpoint of "
        "step 20 is kept",
    ):
        trainer.run()
    assert (tmp_path / "model.safetensors").read_bytes() == saved["weights"]


def test_a_budget_that_ends_amid_an_explosion_saves_nothing(builder, heat, tmp_path):
    trainer = trainer_of(builder, heat, tmp_path, steps=12)
    failing_from(trainer, 11, lambda p, s: ({k: v * 1e12 for k, v in p.items()}, s))
    with pytest.raises(TrainingError, match="exploded"):
        trainer.run()
    assert not (trainer.folder / CHECKPOINT).exists()


def test_an_absurd_rate_is_answered_with_the_usual_one(builder, heat, tmp_path):
    optimiser = OptimiserConfig(optimiser="adamw", learning_rate=1e200, warmup=0.0)
    trainer = trainer_of(builder, heat, tmp_path, steps=20, optimiser=optimiser)
    with pytest.raises(TrainingError, match=r"Try --set learning_rate=0.001$"):
        trainer.run()


def test_weights_that_the_first_update_spoils_are_a_matter_of_the_rate(builder, heat, tmp_path):
    optimiser = OptimiserConfig(optimiser="adamw", learning_rate=1e308, warmup=0.0)
    trainer = trainer_of(builder, heat, tmp_path, steps=1, optimiser=optimiser)
    with pytest.raises(TrainingError, match=r"weights are not finite at.*learning_rate=0.001$"):
        trainer.run()


def test_a_loss_that_is_not_finite_where_the_finish_starts_is_that_of_the_network(
    builder, heat, tmp_path
):
    trainer = trainer_of(builder, heat, tmp_path, steps=16, optimiser=OptimiserConfig(lbfgs=1.0))
    failing_from(trainer, 0, lambda p, s: ({k: v * math.nan for k, v in p.items()}, s))
    trainer.task = trainer.phase.task
    with pytest.raises(TrainingError, match=r"loss is nan.*No step was taken before"):
        trainer.run()

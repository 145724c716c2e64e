"""Callbacks, held-out errors during training and TensorBoard, in whole runs."""

from __future__ import annotations

import json

import pytest

from piop.errors import NotSupportedError, TrainingError, UsageError
from piop.run import Run, resume
from piop.run.tensorboard import TensorBoard, tag_of

FEW = {"device": "cpu", "precision": "float64", "samples": 4, "calibrate": 0, "threads": 1}


def rows(path):
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


def scalars(path, tag):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = accumulator.EventAccumulator(str(path / "tensorboard"))
    found.Reload()
    return [(event.step, event.value) for event in found.Scalars(tag)]


def test_the_last_event_has_the_evaluated_run(heat, tmp_path):
    seen = []
    run = heat.fit(steps=12, out=tmp_path / "r", callbacks=[seen.append], **FEW)
    *before, last = seen
    assert [event.metrics for event in before] == rows(run.path)
    assert (last.run, last.step, last.metrics) == (run, 12, {})
    assert last.run.is_evaluated


def test_the_last_held_out_error_is_that_of_the_evaluation(heat, tmp_path):
    options = {"held_out_every": 10, "held_out_inputs": 4}
    run = heat.fit(steps=20, out=tmp_path / "r", **options, **FEW)
    found = [row["held_out"] for row in rows(run.path) if "held_out" in row]
    assert len(found) == 2
    assert found[-1] == pytest.approx(run.evaluate(4)["relative_l2"]["mean"], rel=2e-3)
    plain = heat.fit(steps=20, out=tmp_path / "plain", **FEW)
    assert not any("held_out" in row for row in rows(plain.path))
    both = [(r.path / "model.safetensors").read_bytes() for r in (run, plain)]
    assert both[0] == both[1]


def test_without_references_training_goes_on_and_says_so(heat, tmp_path, monkeypatch, caplog):
    def refuse(*_a, **_k):
        raise NotSupportedError("no solver covers it")

    monkeypatch.setattr("piop.run.drawn_inputs.DrawnInputs.judging", refuse)
    caplog.set_level("INFO", "piop")
    run = heat.fit(steps=10, out=tmp_path / "r", held_out_every=10, **FEW)
    assert not any("held_out" in row for row in rows(run.path))
    assert "no error on held-out inputs during training: no solver covers it" in caplog.text


def test_a_number_of_inputs_without_an_interval_is_refused(heat, tmp_path):
    with pytest.raises(UsageError, match=r"held_out_inputs: does nothing here.*held_out_every"):
        heat.fit(steps=1, out=tmp_path / "r", held_out_inputs=4, **FEW)


def test_ctrl_c_in_a_callback_leaves_a_usable_run(heat, tmp_path):
    seen = []

    def stop(event):
        seen.append(event)
        if event.step == 5:
            raise KeyboardInterrupt

    run = heat.fit(steps=50, out=tmp_path / "r", callbacks=[stop], **FEW)
    assert run.interrupted
    assert rows(run.path)[-1]["step"] == 5
    assert seen[-1].run is run
    loaded = Run.load(run.path)
    prediction = loaded.predict(heat.sample(2), {"t": [1.5], "x": [0.3]})
    assert prediction.u.shape == (2, 1, 1)
    assert resume(run.path, samples=0).metrics[-1]["step"] == 50


def test_a_callback_that_fails_at_the_end_leaves_the_whole_run(heat, tmp_path):
    def publish(event):
        if event.run is not None:
            raise OSError("offline")

    with pytest.raises(TrainingError, match=r"publish failed at step 2 \(OSError: offline\); the "):
        heat.fit(steps=2, out=tmp_path / "r", callbacks=[publish], **FEW)
    assert Run.load(tmp_path / "r").is_evaluated


def test_wrong_callbacks_begin_nothing(heat, tmp_path):
    with pytest.raises(UsageError, match="callbacks: 'log' is not a list"):
        heat.fit(steps=2, out=tmp_path / "r", callbacks="log", **FEW)
    with pytest.raises(UsageError, match="tensorboard: 'yes' is neither True nor False"):
        heat.fit(steps=2, out=tmp_path / "r", tensorboard="yes", **FEW)
    assert not (tmp_path / "r").exists()


def test_without_tensorboard_its_command_is_given_before_anything_begins(
    heat, tmp_path, monkeypatch
):
    monkeypatch.setattr("piop.extras.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"needs tensorboard; .* 'piop\[tensorboard\]'"):
        heat.fit(steps=2, out=tmp_path / "r", tensorboard=True, **FEW)
    assert not (tmp_path / "r").exists()


def test_tensorboard_shows_metrics_errors_and_figures_without_steps_twice(heat, tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    path = tmp_path / "r"

    class Killed(BaseException):
        pass

    def kill(event):
        if event.step == 100 + 10:
            raise Killed

    with pytest.raises(Killed):  # rows up to 110 are written, the checkpoint is of step 3
        heat.fit(steps=120, out=path, tensorboard=True, callbacks=[kill], checkpoint=1e9, **FEW)
    run = resume(path, samples=4, calibrate=0, tensorboard=True)
    expected = rows(path)
    assert scalars(path, "loss/total") == [
        (row["step"], pytest.approx(row["loss"])) for row in expected
    ]
    assert scalars(path, "optimiser/learning_rate")[-1][0] == 120
    held_out = [(row["step"], row["held_out"]) for row in expected if "held_out" in row]
    assert [step for step, _ in held_out] == [100]
    assert scalars(path, "error/held_out") == [(100, pytest.approx(held_out[0][1]))]
    mean = json.loads((path / "evaluation.json").read_text())["relative_l2"]["mean"]
    assert scalars(path, "error/evaluation") == [(120, pytest.approx(mean))]
    found = accumulator.EventAccumulator(str(path / "tensorboard"))
    found.Reload()
    assert set(found.Tags()["images"]) == {"fields", "error_over_time", "residual"}
    assert run.config.monitoring.held_out_every == 100
    heat.fit(steps=1, out=path, force=True, **FEW)
    assert not (path / "tensorboard").exists(), "a new run takes the events of the old one away"


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        ("loss", "loss/total"),
        ("initial", "loss/initial"),
        ("weight/initial", "weight/initial"),
        ("gradient", "optimiser/gradient"),
        ("held_out", "error/held_out"),
    ],
)
def test_metrics_have_tags_by_kind(name, tag):
    assert tag_of(name) == tag


def test_an_interrupted_run_closes_its_events(heat, tmp_path):
    pytest.importorskip("tensorboard")
    board = TensorBoard()

    def stop(event):
        if event.step == 2:
            raise KeyboardInterrupt

    heat.fit(steps=9, out=tmp_path / "r", callbacks=[board, stop], **FEW)
    assert board._writer is None
    assert [step for step, _ in scalars(tmp_path / "r", "loss/total")] == [1, 2]

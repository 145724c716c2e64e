"""A step is eager at first, and compiled where compiling takes less time than it saves."""

import signal
import time
from dataclasses import replace

import pytest
import torch

from piop.training.batches.batch import BatchSource
from piop.training.config import BudgetConfig, MachineConfig, PointsConfig
from piop.training.loop.callbacks import Callbacks
from piop.training.loop.checkpoint import read_metrics
from piop.training.loop.compilation import (
    EAGER_STEPS,
    GAIN,
    LEAST,
    LONGEST,
    TRACING,
    StepGradients,
)
from piop.training.loop.gradients import CompiledGradients
from piop.training.loop.run_files import RunFiles
from piop.training.loop.trainer import Trainer

FORESEEN = 2 * LEAST
"""Seconds of compiling."""


class Compiler:
    """In place of tracing and compiling: takes the seconds it is told to, and runs eager."""

    def __init__(self, monkeypatch, foreseen, seconds=0.0, works=True) -> None:
        self.calls: list[str] = []
        self.closed = False
        self.in_background, self.under_way, self.may_use_background = True, False, True
        self.traced = True  # once it began in the background
        self.limits: list[float] = []

        def foresee(_own, _batch):
            self.calls.append("foresee")
            return foreseen

        def prepare(_own, _batch):
            self.calls.append("prepare")
            time.sleep(seconds)
            return works

        def start_background(_own, _batch, limit):
            self.calls.append("start_background")
            self.under_way = self.in_background
            self.limits.append(limit)
            return self.in_background

        def close(_own):
            self.under_way, self.closed = False, True

        def step(own, batch):
            self.calls.append("compiled")
            parts, statistics = own.loss(batch)
            gradients = torch.autograd.grad(parts["loss"], own.parameters, materialize_grads=True)
            return ({name: value.detach() for name, value in parts.items()}, statistics), gradients

        monkeypatch.setattr(CompiledGradients, "foresee", foresee)
        monkeypatch.setattr(CompiledGradients, "prepare", prepare)
        monkeypatch.setattr(CompiledGradients, "start_background", start_background)
        monkeypatch.setattr(CompiledGradients, "close", close)
        monkeypatch.setattr(CompiledGradients, "background_runs", lambda _: self.under_way)
        monkeypatch.setattr(
            CompiledGradients, "extend_background", lambda _, limit: self.limits.append(limit)
        )
        of_background = {"background_foresees": lambda _: foreseen if self.traced else None}
        of_background["may_use_background"] = lambda _: self.may_use_background
        for name, value in of_background.items():
            monkeypatch.setattr(CompiledGradients, name, property(value))
        monkeypatch.setattr(CompiledGradients, "compute", step)


@pytest.fixture
def built(builder, heat):
    return builder(heat)


def steps_worth(gradients, seconds):
    """So many steps that compiling them saves so many seconds."""
    return seconds / (GAIN * gradients._fastest)


@pytest.mark.parametrize(
    ("foreseen", "calls"),
    [(LEAST * 3, ["foresee"]), (LEAST, ["foresee", "prepare", "compiled"]), (None, ["foresee"])],
)
def test_compiled_where_it_takes_less_than_it_saves(built, monkeypatch, foreseen, calls):
    compiler = Compiler(monkeypatch, foreseen)
    gradients = StepGradients(built.loss, None)
    gradients(built.draw(0, 0.0))
    assert gradients.compiled is None
    gradients.decide(steps_worth(gradients, 2 * LEAST))
    gradients(built.draw(1, 0.0))
    assert compiler.calls[: len(calls)] == calls
    assert gradients.compiled is ("prepare" in calls)


def test_a_few_steps_are_not_even_traced(built, monkeypatch):
    compiler = Compiler(monkeypatch, 0.0)
    gradients = StepGradients(built.loss, None)
    gradients(built.draw(0, 0.0))
    gradients.decide(steps_worth(gradients, 0.9 * LEAST))
    gradients(built.draw(1, 0.0))
    assert gradients.compiled is False
    assert not compiler.calls


@pytest.mark.parametrize(("share", "foreseen", "compiled"), [(1.0, 0.6, True), (0.5, 0.6, False)])
def test_time_holds_more_compiled_steps(built, monkeypatch, share, foreseen, compiled):
    Compiler(monkeypatch, foreseen * LEAST * 3)
    gradients = StepGradients(built.loss, None)
    gradients(built.draw(0, 0.0))
    seconds = LEAST * 3
    gradients.decide(share * seconds / gradients._fastest, seconds)
    gradients(built.draw(1, 0.0))
    # compiled steps take 0.6 of the time, of half a step 0.8 of it: 1.67 and 1.25 times as many
    assert gradients.compiled is compiled


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(
    ("foreseen", "background", "possible", "calls"),
    [
        (0.62, True, True, ["start_background", "foresee", "prepare"]),
        (0.70, True, True, ["start_background", "foresee"]),
        (0.62, False, True, ["foresee"]),
        (0.62, True, False, ["foresee"]),
    ],
)
def test_compiling_may_take_longer_in_the_background(
    built, monkeypatch, foreseen, background, possible, calls
):
    seconds = LEAST * 3
    compiler = Compiler(monkeypatch, foreseen * seconds)
    compiler.in_background, compiler.may_use_background = False, possible
    gradients = StepGradients(built.loss, None)
    gradients(built.draw(0, 0.0))
    gradients.decide(0.8 * seconds / gradients._fastest, seconds, background)
    gradients(built.draw(1, 0.0))
    # compiled steps take 0.68 of the time of these: 0.47 of the seconds are saved, a half of
    # compiling is no training, and steps in the other half save nothing: 0.47 / (1 + 0.47) · 2
    assert [call for call in compiler.calls if call != "compiled"] == calls


@pytest.mark.parametrize(("foreseen", "compiled"), [(0.9, True), (1.1, False)])
def test_compiling_takes_no_longer_than_training(built, monkeypatch, foreseen, compiled):
    Compiler(monkeypatch, foreseen * LEAST * 3)
    gradients = StepGradients(built.loss, None)
    gradients._gain = 0.9  # nine times as many steps more
    gradients(built.draw(0, 0.0))
    seconds = LEAST * 3
    gradients.decide(seconds / gradients._fastest, seconds)
    gradients(built.draw(1, 0.0))
    assert gradients.compiled is compiled


def test_what_does_not_compile_goes_on_as_it_was(built, monkeypatch):
    Compiler(monkeypatch, 0.0, works=False)
    gradients = StepGradients(built.loss, True)
    parts, _ = gradients(built.draw(0, 0.0))
    assert gradients.compiled is False
    torch.testing.assert_close(parts["loss"], built.loss(built.draw(0, 0.0))[0]["loss"].detach())


def test_who_asks_for_a_compiled_step_has_no_eager_one(built, monkeypatch):
    compiler = Compiler(monkeypatch, 1e9)
    gradients = StepGradients(built.loss, True)
    gradients(built.draw(0, 0.0))
    assert compiler.calls[:3] == ["foresee", "prepare", "compiled"]
    assert list(gradients.phases.seconds) == ["compiling", "training"]


def going_on(gradients, built):
    """Decide for steps worth compiling in the background, and take the first of them."""
    gradients(built.draw(0, 0.0))
    gradients.decide(1e9, background=True)
    gradients(built.draw(1, 0.0))


@pytest.mark.usefixtures("two_threads")
def test_eager_steps_go_on_with_the_other_threads_until_it_is_compiled(built, monkeypatch):
    compiler = Compiler(monkeypatch, FORESEEN)
    gradients = StepGradients(built.loss, None)
    going_on(gradients, built)
    gradients(built.draw(2, 0.0))
    assert compiler.calls == ["start_background"]
    assert compiler.limits == [TRACING, LONGEST * FORESEEN]
    assert (gradients.compiled, torch.get_num_threads()) == (None, 1)
    gradients.decide(1.0)  # is decided
    compiler.under_way = False
    gradients(built.draw(3, 0.0))
    assert compiler.calls[1:3] == ["prepare", "compiled"]
    assert compiler.closed, "a process that was given up may still run"
    assert (gradients.compiled, torch.get_num_threads()) == (True, 2)


@pytest.mark.usefixtures("two_threads")
def test_eager_steps_while_it_is_compiled_count_for_their_part_of_the_threads(built, monkeypatch):
    Compiler(monkeypatch, FORESEEN)
    gradients = StepGradients(built.loss, None)
    eager = gradients._eager
    gradients._eager = lambda batch: (time.sleep(0.5), eager(batch))[1]
    going_on(gradients, built)
    before = gradients.pause
    gradients(built.draw(2, 0.0))
    assert 0.25 <= gradients.pause - before < 0.5


@pytest.mark.usefixtures("two_threads")
def test_what_the_background_did_not_compile_is_tried_here(built, monkeypatch):
    compiler = Compiler(monkeypatch, FORESEEN, works=False)
    gradients = StepGradients(built.loss, None)
    going_on(gradients, built)
    compiler.under_way = False
    gradients(built.draw(2, 0.0))
    assert compiler.calls == ["start_background", "prepare"]
    assert (gradients.compiled, torch.get_num_threads()) == (False, 2)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("background", [True, False])
def test_training_waits_where_nothing_can_go_on_meanwhile(built, monkeypatch, background):
    compiler = Compiler(monkeypatch, FORESEEN)
    compiler.in_background = False
    gradients = StepGradients(built.loss, None)
    gradients(built.draw(0, 0.0))
    gradients.decide(1e9, background=background)
    gradients(built.draw(1, 0.0))
    assert ("start_background" in compiler.calls) is background
    assert "prepare" in compiler.calls
    assert gradients.compiled
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_what_takes_longer_in_the_background_than_it_saves_is_given_up(built, monkeypatch):
    compiler = Compiler(monkeypatch, FORESEEN)
    compiler.traced = False
    gradients = StepGradients(built.loss, None)
    gradients(built.draw(0, 0.0))
    gradients.decide(steps_worth(gradients, 0.9 * FORESEEN), background=True)
    for step in range(1, 4):
        gradients(built.draw(step, 0.0))
    assert (gradients.compiled, compiler.under_way) == (None, True), "nothing is known yet"
    compiler.traced = True
    gradients(built.draw(4, 0.0))
    assert (gradients.compiled, compiler.under_way, compiler.closed) == (False, False, True)
    assert compiler.calls == ["start_background"]
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("share", [0.9, 1.1])
def test_what_the_background_did_not_even_trace_is_decided_here(built, monkeypatch, share):
    compiler = Compiler(monkeypatch, FORESEEN)
    compiler.traced = False
    gradients = StepGradients(built.loss, None)
    gradients(built.draw(0, 0.0))
    gradients.decide(steps_worth(gradients, share * FORESEEN), background=True)
    gradients(built.draw(1, 0.0))
    compiler.under_way = False
    gradients(built.draw(2, 0.0))
    assert compiler.calls[:2] == ["start_background", "foresee"]
    assert gradients.compiled is ("prepare" in compiler.calls) is (share > 1)
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("one_thread")
def test_training_waits_on_one_thread(built, monkeypatch):
    compiler = Compiler(monkeypatch, FORESEEN)
    gradients = StepGradients(built.loss, None)
    going_on(gradients, built)
    assert compiler.calls[:3] == ["foresee", "prepare", "compiled"]


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(("steps", "seconds"), [(None, 1e6), (10**6, None)])
def test_only_a_budget_in_time_goes_on_while_it_is_compiled(
    built, tmp_path, monkeypatch, steps, seconds
):
    compiler = Compiler(monkeypatch, FORESEEN)
    monkeypatch.setattr("piop.training.loop.compilation.LEAST", 0.0)
    trainer = trainer_of(built, tmp_path, steps, seconds=seconds)
    saved, eager = [], EAGER_STEPS + 4

    def follow(event):
        compiler.under_way &= event.step < eager
        if event.step == eager + 2:
            trainer._interrupt()

    trainer.callbacks = Callbacks([follow])
    save = trainer._save
    monkeypatch.setattr(trainer, "_save", lambda m: (saved.append(trainer.step), save(m)))
    trainer.run()
    assert ("start_background" in compiler.calls) is (seconds is not None)
    assert compiler.calls.count("prepare") == 1
    change = eager if seconds else EAGER_STEPS
    assert saved == [change + 1, eager + 2], "the checkpoint follows the first compiled step"
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_the_end_of_training_ends_compiling_in_the_background(built, tmp_path, monkeypatch):
    compiler = Compiler(monkeypatch, FORESEEN)
    monkeypatch.setattr("piop.training.loop.compilation.LEAST", 0.0)
    trainer = trainer_of(built, tmp_path, None, seconds=1e6)
    trainer.callbacks = Callbacks([lambda e: e.step < 6 or trainer._interrupt()])
    trainer.run()
    assert "start_background" in compiler.calls
    assert not compiler.under_way
    assert trainer.state_dict()["compiled"] is None, "a resume decides again"
    assert torch.get_num_threads() == 2


def trainer_of(built, folder, steps, compile=None, seconds=None):
    machine = MachineConfig(precision="float64", compile=compile)
    config = replace(built.config, budget=BudgetConfig(steps, seconds), machine=machine)
    (folder / "state").mkdir(parents=True, exist_ok=True)
    gradients = StepGradients(built.loss, compile)
    return Trainer(built.loss, built.draw, gradients, config, folder)


@pytest.mark.usefixtures("two_threads")
def test_torch_has_its_threads_again_after_training(builder, heat, tmp_path, monkeypatch):
    Compiler(monkeypatch, 0.0)
    built = builder(heat, points=PointsConfig(functions=4, queries=20, boundary=6))
    monkeypatch.setattr(CompiledGradients, "concurrent", True)
    monkeypatch.setattr("piop.training.loop.microbatches.LEAST_ROWS", 1)
    trainer = trainer_of(built, tmp_path, 3, compile=True)
    seen = []
    trainer.callbacks = lambda _event: seen.append(torch.get_num_threads())
    trainer.run()
    assert seen[-1] == 1
    assert torch.get_num_threads() == 2


def test_the_decision_falls_after_a_few_steps_and_is_kept(
    built, builder, heat, tmp_path, monkeypatch
):
    compiler = Compiler(monkeypatch, 0.0)
    monkeypatch.setattr("piop.training.loop.compilation.LEAST", 0.0)
    trainer = trainer_of(built, tmp_path, 10**6)
    saved = []
    monkeypatch.setattr(
        trainer, "_save", lambda metrics: (saved.append(trainer.step), trainer._interrupt())
    )
    trainer.run()
    assert saved[0] == EAGER_STEPS + 1, "the checkpoint follows the first compiled step"
    assert compiler.calls[:2] == ["foresee", "prepare"]
    assert compiler.calls.count("compiled") >= 1
    assert trainer.state_dict()["compiled"] is True


def test_seconds_of_compiling_are_no_training(built, tmp_path, monkeypatch):
    Compiler(monkeypatch, 0.0, seconds=1.5)
    monkeypatch.setattr("piop.training.loop.compilation.LEAST", 0.0)
    trainer = trainer_of(built, tmp_path, 8)
    trainer.run()
    assert trainer.gradients.compiled
    assert trainer.gradients.pause >= 1.5
    assert trainer.elapsed < 1.5


def test_a_resume_compiles_where_the_run_was_compiled(builder, heat, tmp_path, monkeypatch):
    compiler = Compiler(monkeypatch, 0.0)
    monkeypatch.setattr("piop.training.loop.compilation.LEAST", 0.0)
    trainer_of(builder(heat), tmp_path, 6).run()
    monkeypatch.setattr("piop.training.loop.compilation.LEAST", 1e9)  # would decide otherwise now
    again = trainer_of(builder(heat), tmp_path, 8)
    again.resume(torch.device("cpu"))
    before = len(compiler.calls)
    again.run()
    assert compiler.calls[before:][:3] == ["foresee", "prepare", "compiled"]


def test_a_resume_that_is_undecided_takes_eager_steps_of_its_own_first(
    builder, heat, tmp_path, monkeypatch
):
    compiler = Compiler(monkeypatch, 0.0)
    stopped = trainer_of(builder(heat), tmp_path, 20)
    stopped.callbacks = Callbacks(
        [lambda event: stopped._interrupt() if event.step == EAGER_STEPS else None]
    )
    stopped.run()
    assert stopped.gradients.compiled is None
    again = trainer_of(builder(heat), tmp_path, 20)
    again.resume(torch.device("cpu"))
    again.run()
    assert again.gradients.compiled is False, "17 steps are not worth compiling"
    assert not compiler.calls


@pytest.mark.parametrize("compile", [None, True])
def test_ctrl_c_ends_compiling_and_a_resume_compiles_again(
    builder, heat, tmp_path, monkeypatch, compile
):
    monkeypatch.setattr("piop.training.loop.compilation.LEAST", 0.0)
    before = signal.getsignal(signal.SIGINT)
    compiler = Compiler(monkeypatch, 0.0)
    stopped = trainer_of(builder(heat), tmp_path, 8, compile)
    step = stopped.gradients._traced._step

    def interrupted(_own, _batch):
        step._attempt(lambda: signal.raise_signal(signal.SIGINT))
        pytest.fail("goes on compiling")

    handlers, save = [], stopped._save

    def saving(metrics):
        handlers.append(signal.getsignal(signal.SIGINT))
        save(metrics)

    with monkeypatch.context() as patch:
        patch.setattr(CompiledGradients, "prepare", interrupted)
        patch.setattr(stopped, "_save", saving)
        stopped.run()
    assert handlers == [before], "a second Ctrl-C ends at once"
    assert stopped.interrupted
    assert stopped.saved_at == stopped.step == (0 if compile else EAGER_STEPS)
    assert signal.getsignal(signal.SIGINT) is before
    again = trainer_of(builder(heat), tmp_path, 8, compile)
    again.resume(torch.device("cpu"))
    again.run()
    assert (again.step, again.gradients.compiled) == (8, True)
    assert compiler.calls.count("prepare") == 1


def test_one_of_several_processes_goes_on_compiling(built, tmp_path, monkeypatch):
    trainer = trainer_of(built, tmp_path, 8)
    trainer.shared = object()
    trainer.gradients._traced._step._compiling = True
    trainer._interrupt()
    assert trainer.interrupted


def test_a_resume_foresees_the_steps_of_the_time_left_from_its_own_speed(
    builder, heat, tmp_path, monkeypatch
):
    foreseen, least = [], 0.05

    def decide(own, steps, _seconds, _background):
        foreseen.append(steps)
        own.compiled = False

    monkeypatch.setattr(StepGradients, "decide", decide)
    built = builder(heat)
    draw = built.draw

    class SlowSource(BatchSource):
        def __call__(self, step, fraction):
            time.sleep(least)
            return draw(step, fraction)

    built.draw = SlowSource()
    stopped = trainer_of(built, tmp_path, None, seconds=1000.0)
    stopped.elapsed = 600.0  # of slower steps
    stopped.callbacks = Callbacks([lambda _: stopped._interrupt()])
    stopped.run()
    again = trainer_of(built, tmp_path, None, seconds=1000.0)
    again.resume(torch.device("cpu"))
    again.callbacks = Callbacks(
        [lambda event: again._interrupt() if event.step > 2 * EAGER_STEPS else None]
    )
    again.run()
    (steps,) = foreseen
    assert 400 / (20 * least) < steps < 400 / least


@pytest.mark.slow
def test_a_run_that_is_compiled_on_the_way_resumes_to_the_same_numbers(
    builder, heat, tmp_path, monkeypatch
):
    monkeypatch.setattr("piop.training.loop.compilation.LEAST", 0.0)
    monkeypatch.setattr(
        "piop.training.loop.compilation.StepGradients.decide",
        lambda own, *_: setattr(own, "_saving", 1e9),
    )

    def rows(folder):
        found = read_metrics(RunFiles(folder))
        return [{k: v for k, v in row.items() if k != "seconds"} for row in found]

    trainer_of(builder(heat), tmp_path / "whole", 9).run()
    stopped = trainer_of(builder(heat), tmp_path / "parts", 9)
    save = stopped._save
    monkeypatch.setattr(stopped, "_save", lambda metrics: (save(metrics), stopped._interrupt()))
    stopped.run()
    assert stopped.step == EAGER_STEPS + 1
    again = trainer_of(builder(heat), tmp_path / "parts", 9)
    again.resume(torch.device("cpu"))
    again.run()
    assert again.gradients.compiled
    assert rows(tmp_path / "parts") == rows(tmp_path / "whole")

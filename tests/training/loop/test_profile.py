import json

import pytest
import torch

from piop.run import fit
from piop.training.batches.batch import Batch, CollocationPoints, Observations
from piop.training.distributed import SingleProcess
from piop.training.loop import profile as module
from piop.training.loop.compilation import StepGradients
from piop.training.loop.gradients import profile_eager
from piop.training.loop.profile import DRAW, Profile, count_points
from piop.training.loop.trainer import Trainer


@pytest.fixture
def tick(monkeypatch):
    """A clock that moves only when told to."""
    now = 0.0

    def move(seconds):
        nonlocal now
        now += seconds

    monkeypatch.setattr(module.time, "perf_counter", lambda: now)
    return move


def test_a_part_has_its_own_time_without_that_of_parts_within_it(tick):
    profile = Profile(on=True)
    with profile.part("outer"):
        tick(1.0)
        with profile.part("inner"):
            tick(2.0)
            with profile.part("innermost"):
                tick(4.0)
        tick(8.0)
        with profile.part("inner"):
            tick(16.0)
    assert profile.seconds == {"outer": 9.0, "inner": 18.0, "innermost": 4.0}


def test_the_report_gives_times_per_step_and_shares(tick):
    profile = Profile(on=True)
    draw = profile.timed_draw(lambda: Batch(equations=CollocationPoints(torch.zeros(2, 5, 1))))
    for seconds in (1.0, 3.0):
        draw()
        with profile.part("step"):
            tick(seconds)
    found = profile.report(steps=2)
    assert found["parts"]["step"] == {"seconds": 2.0, "share": 1.0}
    assert found["seconds_per_step"] == 2.0
    assert (found["points_per_step"], found["points_per_second"]) == (10, 5.0)
    assert list(found["parts"]) == ["step", DRAW]


def test_a_part_that_fails_is_counted_and_leaves_the_others_right(tick):
    profile = Profile(on=True)
    with profile.part("outer"):
        with pytest.raises(ValueError, match="oops"), profile.part("inner"):
            tick(1.0)
            raise ValueError("oops")
        tick(2.0)
    assert profile.seconds == {"inner": 1.0, "outer": 2.0}


def test_switched_off_nothing_is_measured(tick):
    profile = Profile()
    draw = list
    assert profile.timed("draw", draw) is draw
    with profile.part("step"):
        tick(1.0)
    assert profile.seconds == {}


def test_points_count_over_functions_and_terms():
    one = torch.zeros(3, 10, 2)
    seen = Observations(
        {}, one[:1, :4], None, torch.zeros(5, 4, 1), torch.zeros(5, 1), torch.tensor(20)
    )
    shared = Batch(
        size=torch.zeros(3),
        equations=CollocationPoints(one[:1]),
        conditions={"u": CollocationPoints(one[:, :2])},
    )
    assert count_points(shared) == 3 * 10 + 3 * 2
    assert count_points(Batch(observations=seen)) == 20


def test_eager_gradients_are_the_same_when_timed(builder, heat):
    plain, timed = builder(heat), builder(heat)
    profile = Profile(on=True)
    StepGradients(plain.loss, False)(plain.draw(0, 0.0))
    StepGradients(timed.loss, False, profile)(timed.draw(0, 0.0))
    for p, q in zip(plain.loss.parameters(), timed.loss.parameters(), strict=True):
        assert torch.equal(p.grad, q.grad)
    assert set(profile.seconds) == {"network", "loss", "backward"}
    assert not timed.loss.operator.backbone._forward_hooks


def test_what_processes_tell_each_other_is_not_counted_under_the_optimiser(
    tick, builder, heat, tmp_path
):
    class SlowTwo(SingleProcess.__base__):
        rank, count = 0, 2
        collect = None

        def add(self, tensors):
            tick(2.0)
            return list(tensors)

        def agree(self, value):
            return True

        def lead(self, action):
            return action()

    (tmp_path / "state").mkdir()
    built, profile = builder(heat), Profile(on=True)
    gradients = StepGradients(built.loss, compiled=False, profile=profile)
    Trainer(
        built.loss, built.draw, gradients, built.config, tmp_path,
        profile=profile, processes=SlowTwo(),
    ).run()  # fmt: skip
    assert built.config.budget.steps == 4
    assert profile.seconds["processes"] == 3 * 2.0  # without the first step
    assert profile.seconds["optimiser"] == 0.0


def test_a_compiled_step_is_split_by_eager_ones_without_a_trace(builder, heat):
    built = builder(heat)
    before = [p.clone() for p in built.loss.parameters()]
    found = profile_eager(built.loss, lambda i: built.draw(i, 0.0), "cpu", steps=2)
    assert set(found["parts"]) == {"functions and points", "network", "loss", "backward"}
    assert found["steps"] == 2
    assert found["points_per_step"] == 60
    assert all(p.grad is None for p in built.loss.parameters())
    assert all(torch.equal(p, q) for p, q in zip(built.loss.parameters(), before, strict=True))


def test_a_run_says_where_its_time_went(heat, tmp_path):
    settings = {"width": 8, "blocks": 1, "heads": 2, "functions": 3, "queries": 16}
    run = fit(
        heat, steps=30, out=tmp_path / "run", device="cpu", compile=False, samples=0,
        profile=True, settings=settings,
    )  # fmt: skip
    found = json.loads((run.path / "profile.json").read_text())
    assert found["device"] == "cpu"
    assert found["precision"] == "float32"
    assert found["compiled"] is False
    assert found["steps"] == 29
    assert found["points_per_step"] == 48
    parts = found["parts"]
    assert set(parts) == {
        "functions and points", "network", "loss", "backward", "optimiser", "metrics",
    }  # fmt: skip
    assert sum(part["share"] for part in parts.values()) == pytest.approx(1.0)
    total = 29 * sum(part["seconds"] for part in parts.values())
    assert total == pytest.approx(29 * found["seconds_per_step"])
    # the trainer's own clock has the same steps, and what little lies between the parts
    assert 0.5 * run.metrics[-1]["seconds"] < total <= 1.05 * run.metrics[-1]["seconds"] + 0.05


def test_without_being_asked_nothing_is_written(heat, tmp_path):
    run = fit(heat, steps=1, out=tmp_path / "run", device="cpu", samples=0)
    assert not (run.path / "profile.json").exists()

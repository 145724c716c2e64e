"""A batch in pieces gives what the whole batch gives."""

from dataclasses import replace
from threading import Barrier, current_thread

import pytest
import torch

from piop.training.batches.split import split_batch
from piop.training.config import PointsConfig
from piop.training.loop.gradients import CompiledGradients, eager_gradients
from piop.training.loop.microbatches import (
    ConcurrentMicrobatches,
    concurrent_count,
    microbatch_count,
    microbatched,
)
from piop.training.loop.profile import Profile

POINTS = PointsConfig(functions=6, queries=20, boundary=6)


@pytest.mark.parametrize(
    "loss",
    [{}, {"causal": 5.0}, {"constraints": "soft"}, {"constraints": "soft", "weighting": "ntk"}],
)
def test_pieces_give_the_loss_statistics_and_gradients_of_the_whole(builder, heat, loss) -> None:
    built = builder(heat, points=POINTS, **loss)
    batch = built.loss.weightings.attach(built.draw(0, 0.0))
    for member in built.loss.weightings.members:
        if member.name == "ntk":
            batch = replace(batch, weights={**batch.weights, **member.probes.signs(batch, 0)})
    parameters = list(built.loss.parameters())
    whole = eager_gradients(built.loss, Profile())
    streams = built.loss.residual.plan.count
    rows = 2 * streams * POINTS.queries
    cut = microbatched(whole, parameters, streams, rows)
    found = []
    for gradients in (whole, cut):
        for p in parameters:
            p.grad = torch.ones_like(p)  # what is there already stays
        parts, statistics = gradients(batch)
        found.append([*parts.values(), *statistics.values(), *(p.grad for p in parameters)])
    assert microbatch_count(batch, streams, rows) == 3
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-12)
    assert bool(statistics) == ("causal" in loss)


@pytest.mark.slow
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.usefixtures("two_threads")
def test_compiled_pieces_give_what_the_eager_whole_gives(builder, heat, together, monkeypatch):
    monkeypatch.setattr("piop.training.loop.microbatches.LEAST_ROWS", 1)
    built = builder(heat, points=POINTS, causal=5.0)
    parameters = list(built.loss.parameters())
    streams = built.loss.residual.plan.count
    rows = 2 * streams * POINTS.queries
    cut = ConcurrentMicrobatches(CompiledGradients(built.loss), streams, rows)
    if not together:
        monkeypatch.setattr("piop.training.loop.microbatches.concurrent_count", lambda *_: None)
    whole = eager_gradients(built.loss, Profile())
    for step in range(2):  # the second batch finds a compiled step
        batch = built.loss.weightings.attach(built.draw(step, 0.0))
        cut.use_threads(batch)
        found = []
        for gradients in (whole, cut):
            for p in parameters:
                p.grad = torch.ones_like(p)  # what is there already stays
            parts, statistics = gradients(batch)
            found.append([*parts.values(), *statistics.values(), *(p.grad for p in parameters)])
        assert statistics
        for one, two in zip(*found, strict=True):
            torch.testing.assert_close(two, one, rtol=1e-10, atol=1e-10)
        assert torch.get_num_threads() == (1 if together else 2)
    cut.close()
    assert torch.get_num_threads() == 2


class Step:
    """In place of a compiled step: notes its threads."""

    def __init__(self, concurrent: bool) -> None:
        self.concurrent, self.seen, self.threads = concurrent, set(), None
        self.meet = Barrier(2, timeout=60) if concurrent else None

    def use_threads(self, threads: int) -> None:
        self.threads = threads

    def prepare(self, batch) -> bool:
        return True

    def compute(self, batch):
        if self.meet is not None:
            self.meet.wait()  # passes where two are in here at a time
        self.seen.add(current_thread().name)
        value = batch.equations.queries.mean()
        return ({"loss": value}, {}), [value, torch.tensor(3.0)]

    def add(self, gradients) -> None:
        self.added = gradients


@pytest.mark.parametrize("concurrent", [True, False])
@pytest.mark.usefixtures("two_threads")
def test_threads_take_a_microbatch_each_unless_the_step_cannot(
    builder, heat, monkeypatch, concurrent
) -> None:
    monkeypatch.setattr("piop.training.loop.microbatches.LEAST_ROWS", 1)
    batch, step = builder(heat, points=POINTS).draw(0, 0.0), Step(concurrent)
    gradients = ConcurrentMicrobatches(step, 3, 120)
    gradients.use_threads(batch)
    assert step.threads == 1
    parts, _ = gradients(batch)
    torch.testing.assert_close(parts["loss"], batch.equations.queries.mean())
    torch.testing.assert_close(step.added, [parts["loss"], torch.tensor(3.0)])
    assert len(step.seen) == (2 if concurrent else 1)
    gradients.close()
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(
    ("functions", "queries", "threads", "count"),
    [
        (8, 400, 1, None),
        (8, 400, 2, 8),  # 1200 rows each: 4 of 2400 would be too many
        (2, 2000, 2, 2),  # more than 1920, but a function cannot be split
        (3, 400, 2, None),  # one of two threads would wait for half of the time
        (6, 210, 2, 2),  # 1890 rows, where three microbatches of 1260 leave a thread idle
        (8, 400, 16, 8),  # two threads each
        (8, 60, 2, None),  # 720 rows each
    ],
)
def test_threads_take_microbatches_that_are_worth_it(
    builder, heat, functions, queries, threads, count
) -> None:
    points = PointsConfig(functions=functions, queries=queries, boundary=6)
    batch = builder(heat, points=points).draw(0, 0.0)
    assert concurrent_count(batch, 3, threads) == count


@pytest.mark.parametrize(("rows", "count"), [(10**6, 1), (2 * 60, 3), (5 * 60, 2), (1, 6)])
def test_pieces_are_equal_and_fit(builder, heat, rows, count) -> None:
    batch = builder(heat, points=POINTS).draw(0, 0.0)
    assert microbatch_count(batch, 3, rows) == count
    parts = split_batch(batch, count)
    assert len(parts) == count
    assert {len(p.equations.queries) for p in parts} == {6 // count}
    joined = torch.cat([p.equations.lift for p in parts], 1)
    torch.testing.assert_close(joined, batch.equations.lift, rtol=0, atol=0)


def test_shared_points_stay_whole(builder, heat) -> None:
    shared = PointsConfig(functions=6, queries=20, boundary=6, shared=True)
    assert microbatch_count(builder(heat, points=shared).draw(0, 0.0), 3, 1) == 1

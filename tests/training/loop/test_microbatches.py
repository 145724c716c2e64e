"""A batch in pieces gives what the whole batch gives."""

from dataclasses import replace

import pytest
import torch

from piop.training.config import PointsConfig
from piop.training.loop.gradients import (
    CompiledGradients,
    eager_gradients,
    microbatch_count,
    microbatched,
    split_batch,
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
def test_compiled_pieces_give_what_the_eager_whole_gives(builder, heat) -> None:
    built = builder(heat, points=POINTS, causal=5.0)
    parameters = list(built.loss.parameters())
    streams = built.loss.residual.plan.count
    rows = 2 * streams * POINTS.queries
    cut = microbatched(CompiledGradients(built.loss), parameters, streams, rows)
    whole = eager_gradients(built.loss, Profile())
    for step in range(2):  # the second batch finds a compiled step
        batch = built.loss.weightings.attach(built.draw(step, 0.0))
        assert microbatch_count(batch, streams, rows) == 3
        found = []
        for gradients in (whole, cut):
            for p in parameters:
                p.grad = torch.ones_like(p)  # what is there already stays
            parts, statistics = gradients(batch)
            found.append([*parts.values(), *statistics.values(), *(p.grad for p in parameters)])
        assert statistics
        for one, two in zip(*found, strict=True):
            torch.testing.assert_close(two, one, rtol=1e-10, atol=1e-10)


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

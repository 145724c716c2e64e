"""Points that all functions of a step share."""

from dataclasses import replace

import pytest
import torch

from piop.run.configuration import configure
from piop.training.batches.batch import CollocationPoints
from piop.training.config import BudgetConfig, PointsConfig, TrainingConfig

POINTS = PointsConfig(functions=3, queries=20, boundary=6, shared=True)


@pytest.mark.parametrize("constraints", ["hard", "soft"])
def test_the_loss_on_shared_points_is_that_on_each_functions_copy(heat, builder, constraints):
    built = builder(heat, points=POINTS, constraints=constraints, causal=1.0)
    batch = built.draw(0, 0.0)

    def copied(points):
        lift = points.lift
        lift = None if lift is None else lift.expand(-1, 3, -1, -1)
        values = tuple(v.expand(3, -1) for v in points.input_values)
        return CollocationPoints(points.queries.expand(3, -1, -1), values, lift)

    terms = {name: copied(points) for name, points in batch.conditions.items()}
    each = replace(batch, equations=copied(batch.equations), conditions=terms)
    found, statistics = built.loss(batch)
    expected, counted = built.loss(each)
    assert found.keys() == expected.keys()
    for name, value in found.items():
        assert value.item() == pytest.approx(expected[name].item(), rel=1e-12)
    assert statistics.keys() == counted.keys()
    for name, value in statistics.items():
        assert (value - counted[name]).abs().max() < 1e-12 * (1 + value.abs().max())


def test_shared_points_are_one_set_per_step_and_new_at_the_next(heat, builder):
    built = builder(heat, points=POINTS, constraints="soft")
    first, second = built.draw(0, 0.0), built.draw(1, 0.0)
    assert first.equations.queries.shape == (1, 20, 2)
    assert all(len(points.queries) == 1 for points in first.conditions.values())
    assert not torch.equal(first.equations.queries, second.equations.queries)
    apart = builder(heat, constraints="soft").draw(0, 0.0)
    assert torch.equal(first.equations.queries[0], apart.equations.queries[0])
    same = first.inputs["u0"].values, apart.inputs["u0"].values
    torch.testing.assert_close(*same, rtol=0, atol=1e-14)


def test_shared_is_a_setting(heat):
    start = TrainingConfig(BudgetConfig(steps=1))
    assert not configure(heat, start, None, {}).points.shared
    assert configure(heat, start, None, {"shared": "true"}).points.shared

import pytest
import torch

from piop.errors import UsageError
from piop.training.batches.equations import horizon, within_horizon
from piop.training.config import (
    BudgetConfig,
    PointsConfig,
    SamplingConfig,
    TrainingConfig,
    apply_settings,
)
from piop.training.requirements import require_choices

CURRICULUM = SamplingConfig(horizon=0.2, horizon_until=0.6)


@pytest.mark.parametrize(
    ("share", "part"), [(0.0, 0.2), (0.15, 0.4), (0.3, 0.6), (0.6, 1.0), (0.9, 1.0)]
)
def test_the_horizon_grows_in_proportion_to_the_budget(share, part):
    assert horizon(share, CURRICULUM) == pytest.approx(part)


def test_without_a_curriculum_all_of_time_is_in_use():
    assert horizon(0.0, SamplingConfig()) == 1.0


def test_times_shrink_in_proportion_and_places_stay(heat):
    queries = torch.tensor([[[1.0, 0.3], [1.5, 0.7], [2.0, 1.9]]], dtype=torch.float64)
    expected = torch.tensor([[[1.0, 0.3], [1.2, 0.7], [1.4, 1.9]]], dtype=torch.float64)
    assert torch.allclose(within_horizon(heat, queries, 0.4), expected)
    assert within_horizon(heat, queries, 1.0) is queries


def test_no_term_has_points_beyond_the_horizon(heat, builder):
    built = builder(heat, constraints="soft", sampling=CURRICULUM)
    whole = builder(heat, constraints="soft")
    batch, later, all_of_it = built.draw(0, 0.3), built.draw(0, 0.7), whole.draw(0, 0.3)
    for points in (batch.equations, *batch.conditions.values()):
        assert points.queries[..., 0].min() >= 1.0
        assert points.queries[..., 0].max() <= 1.6
    assert batch.equations.queries[..., 0].max() > 1.5
    assert torch.equal(later.equations.queries, all_of_it.equations.queries)


def test_lifts_belong_to_the_points_as_they_are_moved(heat, builder):
    built = builder(heat, sampling=CURRICULUM)
    points = built.draw(0, 0.0).equations
    again = built.loss.lifts["equations"]
    assert points.lift.shape[1:3] == points.queries.shape[:2]
    assert again is not None
    assert built.loss(built.draw(0, 0.0))[0]["loss"].isfinite()


@pytest.mark.parametrize("value", [0, 1.2, -0.5])
def test_a_horizon_outside_the_axis_is_refused(value):
    start = TrainingConfig(BudgetConfig(steps=1))
    with pytest.raises(UsageError, match=r"horizon: .* must be above zero and at most 1"):
        apply_settings(start, {"horizon": value}, {})


def test_what_has_nothing_to_do_is_refused(heat):
    budget = BudgetConfig(steps=1)
    shared = PointsConfig(method="residual_adaptive", shared=True)
    with pytest.raises(UsageError, match="other points for each function"):
        require_choices(heat, TrainingConfig(budget, points=shared), data=False)
    blind = TrainingConfig(budget, sampling=CURRICULUM, physics=False)
    with pytest.raises(UsageError, match=r"horizon: 0.2 places points of the equations"):
        require_choices(heat, blind, data=True)
    alone = PointsConfig(method="residual_adaptive")
    with pytest.raises(UsageError, match="residual_adaptive' places points of the equations"):
        require_choices(heat, TrainingConfig(budget, points=alone, physics=False), data=True)
    common = PointsConfig(shared=True)
    with pytest.raises(UsageError, match="shared: True is for points of the equations"):
        require_choices(heat, TrainingConfig(budget, points=common, physics=False), data=True)
    require_choices(heat, TrainingConfig(budget, points=alone, sampling=CURRICULUM), data=False)

"""A network that couples queries is refused before it is trained on equations at points."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from piop.errors import UsageError
from piop.models.core.base import Preset
from piop.training.build import build_model, build_objective
from piop.training.config import BudgetConfig, MachineConfig, TrainingConfig
from piop.training.loss.statistics import find_statistics
from piop.training.query_independence import find_coupling
from tests.testing.faulty import Fault, Pooled

NET = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
QUERIES = torch.rand(3, 7, 2)


def test_a_network_of_single_queries_is_pointwise() -> None:
    assert find_coupling(NET, QUERIES) is None
    assert find_coupling(NET.double(), QUERIES.double()) is None
    NET.float()


@pytest.mark.parametrize(
    "field",
    [
        lambda q: NET(q) + 1e-3 * NET(q).mean(1, keepdim=True),
        lambda q: torch.softmax(q @ q.mT, -1) @ q[..., :1],
        lambda q: nn.functional.layer_norm(q, q.shape[1:])[..., :1],
        lambda q: torch.cumsum(q, 1),
    ],
)
def test_a_network_that_couples_queries_is_not(field) -> None:
    assert find_coupling(field, QUERIES) is not None


def test_the_output_that_moved_most_is_named() -> None:
    weight = torch.zeros(7, 2)
    weight[5, 1], weight[6, 0] = 2.0, 1.0
    found = find_coupling(lambda q: q + q[:, 3:4, :1] * weight, QUERIES)
    assert (found.moved, found.query, found.channel) == (3, 5, 1)
    assert 0 < found.change < 1


def test_coincident_queries_are_moved_too() -> None:
    assert find_coupling(NET, torch.ones(1, 4, 2)) is None
    assert find_coupling(lambda q: q.mean(1, keepdim=True) + q, torch.ones(1, 4, 2)) is not None


def test_one_query_is_refused() -> None:
    with pytest.raises(ValueError, match="give two"):
        find_coupling(NET, QUERIES[:, :1])


class ZeroHead(Pooled):
    """A network whose last layer starts at zero, which hides what couples before it."""

    def __init__(self, signature, config):
        super().__init__(signature, config)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)


class Normalised(Pooled):
    """A network that normalises over all queries of a batch while it trains."""

    def __init__(self, signature, config):
        super().__init__(signature, config)
        self.norm = nn.BatchNorm1d(signature.channels)

    def forward(self, inputs, queries):
        return self.norm(super().forward(inputs, queries).mT).mT


class Dropping(Pooled):
    """A network with dropout, which couples nothing."""

    def forward(self, inputs, queries):
        return nn.functional.dropout(super().forward(inputs, queries), 0.5, self.training)


@pytest.fixture
def objective(heat, monkeypatch):
    """Build the objective of a small problem with a network of another package."""

    def build(network, kind="none", physics=True):
        preset = Preset(network, Fault(kind))
        monkeypatch.setattr("piop.models.registry.find_presets", lambda name: {"default": preset})
        config = TrainingConfig(
            BudgetConfig(steps=2), machine=MachineConfig(precision="float64"), backbone="theirs"
        )
        config = replace(config, physics=physics)
        statistics = find_statistics(heat, None, 0)
        model = build_model(heat, statistics, config)
        before = [p.clone() for p in model.operator.parameters()]
        state = torch.random.get_rng_state()
        loss = build_objective(model, statistics, config, data=not physics)
        assert torch.equal(state, torch.random.get_rng_state())
        for old, new in zip(before, model.operator.parameters(), strict=True):
            assert torch.equal(old, new), "the check changes a copy alone"
        return loss

    return build


@pytest.mark.parametrize(
    ("network", "kind"), [(Pooled, "queries"), (ZeroHead, "queries"), (Normalised, "none")]
)
def test_a_backbone_that_couples_queries_is_refused_with_a_remedy(objective, network, kind) -> None:
    message = r"backbone 'theirs' couples queries: moving query 4 of 8 changes output 0 at query"
    with pytest.raises(UsageError, match=message) as caught:
        objective(network, kind)
    assert "wrong derivatives" in str(caught.value)
    assert "field = GRID_FIELD, of piop.models.core.base" in str(caught.value)


@pytest.mark.parametrize("network", [Pooled, ZeroHead, Dropping])
def test_a_backbone_of_independent_queries_is_accepted(objective, network) -> None:
    assert objective(network).residual is not None


def test_without_equations_queries_may_be_coupled(objective) -> None:
    assert objective(Pooled, "queries", physics=False).residual is None

"""Whether a field couples its queries."""

import pytest
import torch
from torch import nn

from piop.residual.pointwise import is_pointwise

NET = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
QUERIES = torch.rand(3, 7, 2)


def test_a_network_of_single_queries_is_pointwise() -> None:
    assert is_pointwise(NET, QUERIES)
    assert is_pointwise(NET.double(), QUERIES.double())
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
    assert not is_pointwise(field, QUERIES)


def test_coincident_queries_are_moved_too() -> None:
    assert is_pointwise(NET, torch.ones(1, 4, 2))
    assert not is_pointwise(lambda q: q.mean(1, keepdim=True) + q, torch.ones(1, 4, 2))


def test_one_query_is_refused() -> None:
    with pytest.raises(ValueError, match="give two"):
        is_pointwise(NET, QUERIES[:, :1])

"""Derivatives as other codes take them are those of nested reverse mode."""

import pytest
import torch
from torch import nn

from piop.residual.reverse import nested_derivatives


def test_forward_over_reverse_agrees_with_nested_reverse_mode(load):
    network = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    queries = torch.rand(2, 5, 3, dtype=torch.float64)
    indices = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 2, 0), (0, 0, 2), (1, 1, 0)]
    wanted = [(channel, index) for channel in (0, 1) for index in indices]
    found = load("steps.cvit").forward_over_reverse(network, queries, wanted)
    expected = nested_derivatives(network, queries, wanted)
    for key in wanted:
        torch.testing.assert_close(found[key], expected[key])
    with pytest.raises(ValueError, match="order two at most"):
        load("steps.cvit").forward_over_reverse(network, queries, [(0, (3, 0, 0))])

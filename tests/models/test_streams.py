"""Backbones keep to operations that have a stream rule, and the rules agree with reverse mode."""

from __future__ import annotations

import warnings

import pytest
import torch

from piop.fields import FunctionSamples
from piop.models import BACKBONES, AxisSignature, InputSignature, Signature, build_backbone
from piop.problem import Problem
from piop.residual import compile_residual

NETWORKS = [(name, preset) for name, presets in BACKBONES.items() for preset in presets]


@pytest.mark.parametrize("network", NETWORKS, ids="-".join)
@pytest.mark.parametrize("spec", ["burgers", "kuramoto_sivashinsky", "navier_stokes"])
def test_streams_pass_through_and_agree_with_reverse_mode(network, spec):
    problem = Problem.from_file(spec)
    signature = Signature(
        tuple(AxisSignature(c.name, c.low, c.high, c.periodic) for c in problem.coordinates),
        tuple(InputSignature(i.name, i.of) for i in problem.visible_inputs),
        len(problem.channels),
        0,
        tuple(c.name for c in problem.space),
    )
    torch.manual_seed(0)
    model = build_backbone(network[0], signature, network[1], width=16).double()
    if model.field != "point":
        pytest.skip("derivatives along the axes of a grid")
    size = torch.tensor([c.high - c.low for c in problem.coordinates], dtype=torch.float64)
    queries = torch.rand(2, 4, len(size), dtype=torch.float64) * size
    inputs = {
        entry.name: FunctionSamples(
            torch.rand(2, 40, len(entry.of), dtype=torch.float64) * size[1:],
            torch.randn(2, 40, 1, dtype=torch.float64),
        )
        for entry in problem.visible_inputs
    }
    residual = compile_residual(problem)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        fast = residual(lambda q: model(inputs, q), queries).values
    assert residual.fallback is None
    slow = residual.reverse(lambda q: model(inputs, q), queries).values
    assert (fast - slow).abs().max() < 1e-9 * (1 + slow.abs().max())

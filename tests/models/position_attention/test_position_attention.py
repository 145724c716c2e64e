"""The point field of position-attention: what it promises beyond the contract."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from piop.errors import UsageError
from piop.fields import FunctionSamples
from piop.models import AxisSignature, InputSignature, Signature, build_backbone
from piop.models.position_attention.smooth_kernels import PositionAttentionConfig
from piop.testing import SIGNATURES, queries_for, samples_for

TIME = AxisSignature("t", 0.0, 1.0)
RING = AxisSignature("x", 0.0, 2 * math.pi, periodic=True)
MOVED = Signature((TIME, RING), (InputSignature("u0", ("x",), waves=6),), 1, 0, ("x",))


def test_shifting_the_input_by_steps_of_the_latent_mesh_shifts_the_answer():
    torch.manual_seed(0)
    model = build_backbone("position_attention", MOVED).double()
    step = 2 * math.pi / model.latent.shape[1]
    at = torch.rand(2, 40, 1, dtype=torch.float64) * 2 * math.pi
    values = torch.sin(2 * at) + torch.cos(3 * at + 1)
    queries = torch.rand(2, 9, 2, dtype=torch.float64)
    here = model({"u0": FunctionSamples(at, values)}, queries)
    shift = torch.tensor([0.0, 5 * step], dtype=torch.float64)
    there = model({"u0": FunctionSamples(at + 5 * step, values)}, queries + shift)
    assert (here - there).abs().max() < 1e-6, "single-precision latent mesh"
    other = model({"u0": FunctionSamples(at, values)}, queries + shift)
    assert (here - other).abs().max() > 1e-3


def test_the_latent_mesh_holds_the_waves_of_the_law():
    fine = dataclasses.replace(MOVED.inputs[0], waves=24, bulk=20)
    wide = dataclasses.replace(MOVED, inputs=(fine,))
    assert build_backbone("position_attention", MOVED).latent.shape == (1, 32, 1)
    assert build_backbone("position_attention", wide).latent.shape == (1, 60, 1)


@pytest.mark.parametrize("change", [{"window": 0.3}, {"content": True}, {"sharpness": "tangent"}])
def test_every_choice_answers_otherwise_and_point_by_point(change):
    signature = SIGNATURES["plane"]
    inputs, queries = samples_for(signature), queries_for(signature)
    answers = []
    for settings in ({}, change):
        torch.manual_seed(0)
        model = build_backbone("position_attention", signature, width=16, **settings).double()
        answers.append(model(inputs, queries))
        alone = model(inputs, queries[:, 2:3])
        assert (alone - answers[-1][:, 2:3]).abs().max() < 1e-12
    same = (answers[0] - answers[1]).abs().max()
    assert same < 1e-5 if "sharpness" in change else same > 1e-6  # the maps start alike


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sharpness": "cube"}, "sharpness = 'cube': one of square, tangent, sine_tangent"),
        ({"window": 0.0}, "window = 0.0: a quantile lies in (0, 1]"),
        ({"heads": 5}, "width = 64: give a multiple of heads = 5"),
    ],
)
def test_choices_that_are_none_are_refused(change, message):
    with pytest.raises(UsageError) as error:
        PositionAttentionConfig(**change)
    assert message in str(error.value)

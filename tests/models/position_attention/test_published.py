"""The published PiT against its equations, written out again in numpy."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from scipy.special import erf

from piop.errors import UsageError
from piop.fields import FunctionSamples
from piop.models import AxisSignature, InputSignature, Signature, build_backbone
from piop.models.core.base import GRID_FIELD
from piop.models.position_attention import PRESETS
from piop.models.position_attention.published import MeshPositionAttention, MeshPositionConfig

RING = AxisSignature("x", 0.0, 1.0, periodic=True)
LINE = Signature((AxisSignature("t", 0.0, 0.1), RING), (InputSignature("u0", ("x",)),), 1, 0)
SMALL = MeshPositionConfig(6, 2, 2, (5,), local=(0.2, 0.4), sharpness="square", ends="block")


def gelu(x):
    return x * (1 + erf(x / math.sqrt(2))) / 2


def linear(layer, x):
    out = x @ layer.weight.detach().numpy().T
    return out if layer.bias is None else out + layer.bias.detach().numpy()


def position_attention(layer, state, to, of, quantile):
    """Eq. 10 and 22 with the radius read off numpy's percentile, for 1-D places on a ring."""
    apart = np.abs(to[:, None] - of[None])
    squares = np.minimum(apart, 1 - apart) ** 2 / 0.25
    heads = []
    for r, weight in zip(layer.r, layer.value.weight.chunk(layer.heads), strict=True):
        exponent = np.exp(-(r.item() ** 2) * squares)
        bound = np.percentile(squares, 100 * quantile, axis=-1, keepdims=True)
        exponent = np.where(squares <= bound + 1e-12, exponent, 0)
        rows = exponent / exponent.sum(-1, keepdims=True)
        heads.append(rows @ state @ weight.detach().numpy().T)
    return np.concatenate(heads, -1)


def module(layer, state, places, quantile):
    found = gelu(position_attention(layer.attention, state, places, places, quantile))
    hidden = gelu(linear(layer.perceptron[0], found))
    return gelu(linear(layer.perceptron[2], hidden) + linear(layer.skip, state))


def test_the_network_is_that_of_section_2_3_and_table_9():
    torch.manual_seed(0)
    model = MeshPositionAttention(LINE, SMALL).double()
    sensors = torch.linspace(0, 1, 41, dtype=torch.float64)[:-1, None]
    values = torch.sin(2 * math.pi * sensors) + 0.3
    queries = torch.rand(1, 9, 2, dtype=torch.float64)
    out = model({"u0": FunctionSamples(sensors[None], values[None])}, queries)[0]

    at, latent, answer = sensors[:, 0].numpy(), (np.arange(5) + 0.5) / 5, queries[0, :, 1].numpy()
    state = gelu(linear(model.lifts["u0"], np.concatenate([sensors, values], -1)))
    state = gelu(position_attention(model.downs["u0"], state, latent, at, 0.2))
    for layer in model.processor:
        state = module(layer, state, latent, 1.0)
    state = gelu(position_attention(model.out, state, answer, latent, 0.4))
    state = module(model.last, state, answer, 0.4)
    truth = linear(model.decoder[2], gelu(linear(model.decoder[0], state)))
    assert np.abs(out.detach().numpy() - truth).max() < 1e-12


def test_residual_ends_are_modules_on_the_mesh_of_the_answer():
    signature = Signature((RING,), (InputSignature("shape", (), channels=3),), 1)
    torch.manual_seed(0)
    config = dataclasses.replace(SMALL, ends="residual")
    model = MeshPositionAttention(signature, config).double()
    shape, queries = torch.randn(1, 1, 3).double(), torch.rand(1, 20, 1, dtype=torch.float64)
    out = model({"shape": FunctionSamples(torch.zeros(1, 1, 0).double(), shape)}, queries)[0]

    places = queries[0, :, 0].numpy()
    columns = np.concatenate([queries[0], shape[0].expand(20, -1)], -1)
    state = module(model.into, linear(model.lift, columns), places, 0.2)
    for layer in model.processor:
        state = module(layer, state, places, 1.0)
    state = module(model.out, state, places, 0.4)
    truth = linear(model.decoder[2], gelu(linear(model.decoder[0], state)))
    assert np.abs(out.detach().numpy() - truth).max() < 1e-12


@pytest.mark.parametrize("placement", ["sampling", "farthest"])
def test_padding_changes_no_latent_mesh(placement):
    config = dataclasses.replace(SMALL, placement=placement, latent=(30,))
    torch.manual_seed(0)
    model = MeshPositionAttention(LINE, config).double()
    at = torch.rand(2, 20, 1, dtype=torch.float64)
    values, queries = torch.randn_like(at), torch.rand(2, 9, 2, dtype=torch.float64)
    plain = model({"u0": FunctionSamples(at, values)}, queries)
    nothing = torch.full((2, 4, 1), torch.nan, dtype=torch.float64)
    mask = torch.arange(24).expand(2, -1) < 20
    padded = FunctionSamples(torch.cat([at, nothing], 1), torch.cat([values, nothing], 1), mask)
    assert (model({"u0": padded}, queries) - plain).abs().max() < 1e-12


def test_a_finer_mesh_of_sensors_moves_the_answer_ever_less():
    torch.manual_seed(0)
    config = dataclasses.replace(SMALL, local=(1.0, 1.0), latent=(16,))
    model = MeshPositionAttention(LINE, config).double()
    queries = torch.rand(1, 9, 2, dtype=torch.float64)

    def answer(count):
        at = torch.arange(count, dtype=torch.float64)[None, :, None] / count
        return model({"u0": FunctionSamples(at, torch.exp(torch.sin(6 * at)))}, queries)

    finest = answer(4096)
    errors = [(answer(n) - finest).abs().max().item() for n in (16, 64, 256)]
    assert errors[0] > 2 * errors[1] > 4 * errors[2], errors


def test_the_time_of_a_query_is_not_heard():
    model = MeshPositionAttention(LINE, SMALL).double()
    at = torch.rand(1, 20, 1, dtype=torch.float64)
    queries = torch.rand(1, 9, 2, dtype=torch.float64)
    inputs = {"u0": FunctionSamples(at, at)}
    later = queries + torch.tensor([0.05, 0.0])
    assert torch.equal(model(inputs, queries), model(inputs, later))
    assert model.end_only
    assert model.field is GRID_FIELD


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"placement": "poling"}, "placement = 'poling': one of pooling, sampling, farthest"),
        ({"sharpness": "tan"}, "sharpness = 'tan': one of square, tangent, sine_tangent"),
        ({"ends": "none"}, "ends = 'none': one of plain, block, residual"),
        ({"local": (0.0, 1.0)}, "local = (0.0, 1.0): give two quantiles in (0, 1]"),
        ({"local": (0.5,)}, "local = (0.5,): give two quantiles in (0, 1]"),
        ({"heads": 5}, "width = 6: give a multiple of heads = 5"),
    ],
)
def test_choices_that_are_none_are_refused(change, message):
    with pytest.raises(UsageError) as error:
        dataclasses.replace(SMALL, **change)
    assert message in str(error.value)


def test_problems_without_space_are_refused():
    signature = Signature((AxisSignature("t", 0.0, 1.0),), (InputSignature("k", ()),), 1, 0)
    with pytest.raises(UsageError, match="the problem has no axis of space"):
        build_backbone("position_attention", signature, "paper_darcy")


def test_text_and_code_differ_in_the_sharpness_of_three_columns_alone():
    for column, differs in {"burgers": 1, "sod": 0, "darcy": 1, "vorticity": 1, "naca": 0}.items():
        paper, code = PRESETS[f"paper_{column}"], PRESETS[f"code_{column}"]
        assert (paper is not code) == differs
        assert dataclasses.replace(paper.config, sharpness="square") == dataclasses.replace(
            code.config, sharpness="square"
        )

"""The form of the package neuraloperator, held against that package with the same weights."""

from __future__ import annotations

import warnings

import pytest
import torch

from piop.fields import FunctionSamples
from piop.models import AxisSignature, InputSignature, Signature, build_backbone

warnings.filterwarnings("ignore", message=".*", module="neuralop.*")
neuralop = pytest.importorskip("neuralop.models", reason="the package neuraloperator is not here")

NAMES = ("x", "y", "z")


@pytest.fixture(autouse=True)
def exact(monkeypatch):
    """Their layers name float32's complex type; here they get float64's."""
    monkeypatch.setattr(torch, "cfloat", torch.complex128)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def pair(modes, width, channels=3):
    """Ours and theirs, two channels in, each with weights of its own, float64."""
    names = NAMES[: len(modes)]
    signature = Signature(
        tuple(AxisSignature(name, 0.0, 1.0, periodic=True) for name in names),
        (InputSignature("a", names, channels=2, smooth=False, gridded=True),),
        channels,
    )
    torch.manual_seed(0)
    ours = build_backbone(
        "fno", signature, "neuralop_darcy", modes=modes[0] // 2, width=width, projection=2 * width
    )
    theirs = neuralop.FNO(
        n_modes=modes, in_channels=2, out_channels=channels, hidden_channels=width
    )
    return ours, theirs


@pytest.mark.parametrize(
    ("modes", "width"), [((16,), 64), ((16, 16), 32), ((8, 8), 24), ((6, 6, 6), 10)]
)
def test_as_many_parameters_as_theirs(modes, width):
    ours, theirs = pair(modes, width)
    count = sum(p.numel() * (1 + p.is_complex()) for p in theirs.parameters())
    assert sum(p.numel() for p in ours.parameters()) == count


def copied(ours, theirs):
    """Their weights in ours: complex ones as pairs, the convolution's bias in the linear skip."""
    weights = theirs.state_dict()
    new = {}
    for part in ("lifting", "projection"):
        for i in range(2):
            new[f"{part}.layers.{i}.weight"] = weights[f"{part}.fcs.{i}.weight"].squeeze(-1)
            new[f"{part}.layers.{i}.bias"] = weights[f"{part}.fcs.{i}.bias"]
    for i in range(4):
        spectral = theirs.fno_blocks.convs[i].weight.to_tensor().detach()
        pairs = torch.view_as_real(spectral).movedim((0, 1, -1), (-2, -1, 0))
        new[f"blocks.{i}.convolution.weight"] = pairs
        new[f"blocks.{i}.skip.weight"] = weights[f"fno_blocks.fno_skips.{i}.conv.weight"].squeeze(
            -1
        )
        new[f"blocks.{i}.skip.bias"] = weights[f"fno_blocks.convs.{i}.bias"].flatten()
        new[f"blocks.{i}.gate"] = weights[f"fno_blocks.channel_mlp_skips.{i}.weight"].flatten()
        for j in range(2):
            key = f"fno_blocks.channel_mlp.{i}.fcs.{j}"
            new[f"blocks.{i}.mixing.layers.{j}.weight"] = weights[f"{key}.weight"].squeeze(-1)
            new[f"blocks.{i}.mixing.layers.{j}.bias"] = weights[f"{key}.bias"]
    ours.load_state_dict(new)


@pytest.mark.parametrize(
    ("modes", "grid"),
    [((8,), (20,)), ((8,), (13,)), ((8, 8), (16, 12)), ((8, 8), (8, 8)), ((4, 4, 4), (6, 8, 5))],
)
def test_their_weights_give_their_answer(modes, grid):
    ours, theirs = pair(modes, 12)
    copied(ours, theirs)
    axes = [torch.arange(n, dtype=torch.float64) / n for n in grid]
    values = torch.randn(3, *grid, 2, dtype=torch.float64)
    mesh = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).reshape(1, -1, len(grid))
    samples = FunctionSamples(mesh.expand(3, -1, -1), values.flatten(1, -2))
    with torch.no_grad():
        found = ours.on_grid({"a": samples}, axes)
        expected = theirs(values.movedim(-1, 1)).movedim(1, -1)
    assert expected.std() > 1e-3
    assert (found - expected).abs().max() < 1e-12

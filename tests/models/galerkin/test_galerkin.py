"""The Galerkin transformer as a whole: grids, decoders, walls, and an operator it must learn."""

from __future__ import annotations

import math
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import pairwise

import pytest
import torch
from torch.nn import functional

from piop.errors import UsageError
from piop.fields import FunctionSamples
from piop.models import AxisSignature, InputSignature, Signature, build_backbone
from piop.models.core.interpolation import even_ticks
from piop.models.core.spectral_convolution import FourierTransform, TransformAxis
from piop.models.galerkin.attention import GalerkinConfig, GalerkinForm
from piop.models.galerkin.layers import TokenDecoder
from piop.models.galerkin.network import FinalGalerkinTransformer, GalerkinTransformer
from piop.models.registry import find_preset

EXACT = 1e-12

TIME = AxisSignature("t", 0.0, 2.0)
RING = AxisSignature("x", 0.0, 2 * math.pi, periodic=True)
WALLED = AxisSignature("y", -1.0, 1.0)

EVOLUTION = Signature((TIME, RING), (InputSignature("u0", ("x",), waves=3),), 2, 0, ("x",))
STEADY = Signature((replace(WALLED, name="x"), WALLED), (InputSignature("f", ("x", "y"), waves=2),))

SMALL = GalerkinConfig(width=12, blocks=2, heads=2, modes=4, form=GalerkinForm(frequencies=2))


def network(signature=EVOLUTION, build=GalerkinTransformer, form=None, **changes):
    """A small network whose attention weighs as much as its perceptrons."""
    torch.manual_seed(0)
    config = replace(SMALL, form=replace(SMALL.form, **(form or {})), **changes)
    model = build(signature, config).double()
    for layer in model.layers:
        for part in (layer.attention.query, layer.attention.key, layer.attention.value):
            torch.nn.init.normal_(part.weight, std=0.4)
    return model


def waves(signature=EVOLUTION, seed=0):
    """A function of few harmonics on the sensors of each input."""
    generator = torch.Generator().manual_seed(seed)
    out = {}
    for entry in signature.functions:
        axes = [signature.coordinates[signature.axis(name)] for name in entry.of]
        ticks = [even_ticks(axis, 16, torch.zeros((), dtype=torch.float64)) for axis in axes]
        points = torch.stack(torch.meshgrid(*ticks, indexing="ij"), -1).reshape(1, -1, len(axes))
        angle = sum((points[..., i : i + 1] for i in range(len(axes))), torch.zeros(()))
        size = torch.randn(3, 2, 1, 1, generator=generator, dtype=torch.float64)
        values = size[:, 0] * angle.sin() + size[:, 1] * (2 * angle).cos()
        out[entry.name] = FunctionSamples(points.expand(3, -1, -1), values)
    return out


def ticks(model, *counts):
    like = torch.zeros((), dtype=torch.float64)
    return [
        even_ticks(a, n, like) for a, n in zip(model.signature.coordinates, counts, strict=True)
    ]


def test_the_spectral_decoder_is_the_fast_transform_s():
    torch.manual_seed(0)
    layer = TokenDecoder(6, 4, 2, (6, 3), 5, 2).double()
    state = torch.randn(2, 8, 10, 6, dtype=torch.float64)
    places = torch.rand(1, 8, 10, 2, dtype=torch.float64)
    axes = [TransformAxis.along(RING, torch.arange(n), 0.0) for n in (8, 10)]
    transform = FourierTransform(axes, (6, 3), state)
    found = layer.entry(torch.cat([places.expand(2, -1, -1, -1), state], -1))
    for part in layer.layers:
        spectrum = torch.fft.rfft2(found, dim=(1, 2))
        weight = torch.complex(*part.convolution.weight)
        kept = torch.zeros(*spectrum.shape[:-1], 4, dtype=spectrum.dtype)
        for row, wave in enumerate(range(-3, 3)):
            kept[:, wave, :3] = torch.einsum("bkc,kcd->bkd", spectrum[:, wave, :3], weight[row])
        smooth = torch.fft.irfft2(kept, s=(8, 10), dim=(1, 2))
        found = functional.silu(smooth + part.skip(found))
    expected = layer.out(functional.silu(layer.hidden(found)))
    assert (layer(state, places, transform) - expected).abs().max() < EXACT


@pytest.mark.parametrize("attention", ["galerkin", "fourier", "linear", "softmax"])
def test_a_finer_grid_gives_the_same_function(attention):
    """Round the period to rounding, along the time at the trapezium rule's second order."""
    model = network(attention=attention)
    answers = [model.on_grid(waves(), ticks(model, n, 16)) for n in (9, 17, 33, 65)]
    common = [part[:, :: 2**i] for i, part in enumerate(answers)]
    steps = [(b - a).abs().max().item() for a, b in pairwise(common)]
    assert steps[0] < 0.05 * answers[0].std()
    assert math.log2(steps[1] / steps[2]) == pytest.approx(2, abs=0.2)
    wide = model.on_grid(waves(), ticks(model, 9, 128))[:, :, ::2]
    assert (wide - model.on_grid(waves(), ticks(model, 9, 64))).abs().max() < 1e-4


def test_the_grid_as_published_gives_another_function_on_every_grid():
    model = network(form={"raw": True})
    answers = [model.on_grid(waves(), ticks(model, n, 16)) for n in (9, 17, 33, 65)]
    steps = [(b[:, -1] - a[:, -1]).abs().max().item() for a, b in pairwise(answers)]
    assert math.log2(steps[1] / steps[2]) == pytest.approx(1, abs=0.2)


def test_periodic_axes_have_periodic_answers():
    model = network(decoder="pointwise")
    queries = torch.rand(1, 6, 2, dtype=torch.float64)
    moved = queries + torch.tensor([0.0, 2 * math.pi], dtype=torch.float64)
    assert (model(waves(), moved) - model(waves(), queries)).abs().max() < EXACT


def test_without_convolution_the_queries_are_the_tokens():
    """On the points of a period the set of queries is the grid, in whatever order."""
    signature = replace(EVOLUTION, coordinates=(RING,), time=None)
    model = network(signature, decoder="pointwise")
    assert model.scattered
    line = ticks(model, 12)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    found = model(waves(signature), line[0][None, order, None])
    assert (found - model.on_grid(waves(signature), line)[:, order]).abs().max() < EXACT


def test_with_convolution_queries_are_read_off_the_network_s_own_grid():
    model = network()
    assert not model.scattered
    own = [model.own_ticks(i, torch.zeros((), dtype=torch.float64)) for i in range(2)]
    grid = model.on_grid(waves(), own)
    chosen = torch.tensor([[0, 0], [3, 31], [32, 5], [17, 16]])
    queries = torch.stack([own[0][chosen[:, 0]], own[1][chosen[:, 1]]], -1)[None]
    found = model(waves(), queries)
    assert (found - grid[:, chosen[:, 0], chosen[:, 1]]).abs().max() < 1e-10


def test_a_grid_too_coarse_for_the_harmonics_is_read_off_a_finer_one():
    model = network()
    coarse = model.on_grid(waves(), ticks(model, 9, 8))
    fine = model.on_grid(waves(), ticks(model, 9, 32))
    assert (coarse - fine[:, :, ::4]).abs().max() < 1e-10


def test_the_spectral_decoder_takes_each_time_for_itself():
    """With attention and coordinates out of the way, a time does not know of others."""
    model = network(blocks=1, form={"places": "heads"})
    for layer in model.layers:
        torch.nn.init.zeros_(layer.attention.out.weight)
    found = model.on_grid(waves(), ticks(model, 9, 16))
    assert (found - found[:, :1]).abs().max() < EXACT
    assert (found[:, 0, 1:] - found[:, 0, :1]).abs().max() > 1e-3


def test_walls_of_dirichlet_are_zero_and_nothing_else_is():
    model = network(STEADY, form={"dirichlet": True}, coarse=5, fine=9)
    found = model.on_grid(waves(STEADY), ticks(model, 9, 9))[..., 0]
    edge = torch.ones(9, 9, dtype=torch.bool)
    edge[1:-1, 1:-1] = False
    assert not found[:, edge].any()
    assert found[:, ~edge].abs().min() > 0
    free = network(STEADY, coarse=5, fine=9).on_grid(waves(STEADY), ticks(model, 9, 9))[..., 0]
    assert free[:, edge].abs().min() > 0
    assert (free - found)[:, ~edge].abs().max() < 1e-10


@pytest.mark.parametrize("decoder", ["spectral", "pointwise"])
def test_behind_a_cnn_what_is_asked_for_is_a_reading_of_one_grid(decoder):
    """On n_f points with the spectral decoder, on n_c with the point-wise one (example 3)."""
    model = network(STEADY, decoder=decoder, coarse=5, fine=9)
    count = 9 if decoder == "spectral" else 5
    own = [model.own_ticks(i, torch.zeros((), dtype=torch.float64)) for i in range(2)]
    assert [len(part) for part in own] == [count, count]
    found = model.on_grid(waves(STEADY), own)
    again = model.on_grid(waves(STEADY), ticks(model, 2 * count - 1, 3 * count - 2))
    assert (again[:, ::2, ::3] - found).abs().max() < 1e-10
    mesh = torch.stack(torch.meshgrid(*own, indexing="ij"), -1).reshape(1, -1, 2)
    assert (model(waves(STEADY), mesh) - found.flatten(1, 2)).abs().max() < 1e-10


def test_a_network_of_the_end_answers_it_at_every_time():
    model = network(build=FinalGalerkinTransformer)
    found = model.on_grid(waves(), ticks(model, 3, 16))
    assert found.shape == (3, 3, 16, 2)
    assert torch.equal(found[:, 0], found[:, 2])
    late = model(waves(), torch.tensor([[[0.3, 1.0], [2.0, 1.0]]], dtype=torch.float64))
    assert (late[:, 0] - late[:, 1]).abs().max() < EXACT


def test_what_cannot_be_served_is_said():
    rough = InputSignature("a", ("x",), smooth=False)
    refused = GalerkinTransformer.refusal(replace(EVOLUTION, inputs=(rough,)), SMALL)
    assert refused == "input 'a' has jumps and its sensors are not on an even grid"
    gridded = replace(EVOLUTION, inputs=(replace(rough, gridded=True),))
    assert GalerkinTransformer.refusal(gridded, SMALL) is None
    source = replace(EVOLUTION, inputs=(InputSignature("f", ("t", "x")),))
    assert GalerkinTransformer.refusal(source, SMALL) is None
    refused = FinalGalerkinTransformer.refusal(source, SMALL)
    assert refused == "input 'f' depends on t, which its grid does not have"
    clock = Signature((TIME,), (), time=0)
    assert FinalGalerkinTransformer.refusal(clock, SMALL) == (
        "its grid is that of space, and the problem has the time alone"
    )
    many = Signature(tuple(replace(WALLED, name=name) for name in "wxyz"))
    assert GalerkinTransformer.refusal(many, replace(SMALL, coarse=5)) == (
        "its CNN has up to 3 axes, not 4"
    )
    blind = replace(SMALL, form=replace(SMALL.form, places="heads"))
    assert GalerkinTransformer.refusal(Signature((RING,)), blind) == (
        "its tokens are inputs alone, and the problem has none"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention": "cosine"}, "'cosine': one of galerkin, fourier, linear, softmax"),
        ({"norm": "batch"}, "'batch': one of heads, tokens, tokens_eq7"),
        ({"decoder": "ifft"}, "'ifft': one of spectral, pointwise"),
        ({"heads": 5}, "heads = 5: give a divisor of width = 48"),
        ({"coarse": 40}, "coarse = 40: give 0 for no CNN, or 4 to fine = 33"),
    ],
)
def test_bad_choices_are_refused(changes, message):
    with pytest.raises(UsageError, match=message):
        build_backbone("galerkin", EVOLUTION, **changes)


@pytest.mark.parametrize("attention", ["galerkin", "fourier", "linear", "softmax"])
@pytest.mark.parametrize("norm", ["heads", "tokens"])
def test_every_attention_and_norm_of_table_two_has_the_same_count(attention, norm):
    """530,305; the "523k" of Table 5's range is met by none of the published networks."""
    preset = find_preset("galerkin", "paper_burgers")
    model = preset.build(preset.signature, replace(preset.config, attention=attention, norm=norm))
    assert sum(p.numel() for p in model.parameters()) == 530_305


@pytest.mark.parametrize("attention", ["galerkin", "fourier", "linear", "softmax"])
@pytest.mark.parametrize("norm", ["heads", "tokens", "tokens_eq7"])
def test_only_what_a_softmax_takes_out_stays_without_gradient(attention, norm):
    model = network(attention=attention, norm=norm)
    model.on_grid(waves(), ticks(model, 9, 16)).square().sum().backward()
    sizes = {name: p.grad.abs().max().item() for name, p in model.named_parameters()}
    resting = {name for name, size in sizes.items() if size < 1e-12}
    named = {
        name for name in sizes if any(fnmatchcase(name, key) for key in model.unused_parameters())
    }
    assert resting == named
    assert bool(named) == (attention in ("linear", "softmax"))

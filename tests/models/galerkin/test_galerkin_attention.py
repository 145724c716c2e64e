"""Attentions of the Galerkin transformer against the integrals and formulas they stand for."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

from piop.models.core.base import AxisSignature
from piop.models.galerkin import attention
from piop.models.galerkin.attention import (
    KINDS,
    EncoderLayer,
    GalerkinConfig,
    GalerkinForm,
    SimpleAttention,
)
from piop.models.galerkin.layers import quadrature_weights

EXACT = 1e-12  # float64: reordered sums alone
LINEAR = ("galerkin", "linear")


def simple(width, heads, coordinates, kind, **form):
    """Make an attention whose heads are normalised."""
    config = GalerkinConfig(width=width, heads=heads, attention=kind, form=GalerkinForm(**form))
    return SimpleAttention(config, coordinates)


def same(weights):
    return weights


def heads(tokens=9, size=5, seed=0):
    """Q, K, V of two functions and three heads, and shares that differ."""
    generator = torch.Generator().manual_seed(seed)
    parts = torch.randn(3, 2, 3, tokens, size, generator=generator, dtype=torch.float64)
    share = torch.rand(tokens, generator=generator, dtype=torch.float64) + 0.1
    return *parts, share / share.sum()


def test_galerkin_attention_is_associative():
    """Q (Kᵀ V) costs O(n), (Q Kᵀ) V costs O(n²), and they are the same."""
    query, key, value, share = heads()
    slow = ((query @ key.mT) * share) @ value
    assert (KINDS["galerkin"](query, key, value, share, same) - slow).abs().max() < EXACT


def test_linear_attention_is_a_mean_of_values_twice_weighted():
    query, key, value, share = heads()
    over_tokens = key.exp() * share[:, None]
    over_tokens = over_tokens / over_tokens.sum(-2, keepdim=True)
    over_features = query.exp() / query.exp().sum(-1, keepdim=True)
    weights = over_features @ over_tokens.mT
    assert (weights.sum(-1) - 1).abs().max() < EXACT
    found = KINDS["linear"](query, key, value, share, same)
    assert (found - weights @ value).abs().max() < EXACT
    constant = torch.full_like(value, 0.7)
    kept = KINDS["linear"](query, key, constant, share, same)
    assert (kept - 0.7).abs().max() < EXACT


def test_softmax_attention_weighs_tokens_by_their_share():
    query, key, value, share = heads()
    weights = (query @ key.mT / math.sqrt(5)).exp() * share
    slow = weights / weights.sum(-1, keepdim=True) @ value
    assert (KINDS["softmax"](query, key, value, share, same) - slow).abs().max() < EXACT


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_split_in_two_halves_changes_nothing(kind):
    """What makes attention an integral: it sees how much of the domain a token is, not how many."""
    query, key, value, share = heads()
    whole = KINDS[kind](query, key, value, share, same)
    again = [torch.cat([part, part[..., 4:5, :]], -2) for part in (query, key, value)]
    halved = torch.cat([share, share[4:5] / 2])
    halved[4] /= 2
    assert (KINDS[kind](*again, halved, same)[..., :9, :] - whole).abs().max() < EXACT


@pytest.mark.parametrize("kind", ["fourier", "softmax"])
def test_scores_in_pieces_are_the_whole(kind, monkeypatch):
    whole = KINDS[kind](*heads(), same)
    monkeypatch.setattr(attention, "MOST_SCORES", 2 * 2 * 3 * 9)  # two queries at once
    assert (KINDS[kind](*heads(), same) - whole).abs().max() < EXACT


def fredholm(ticks, axis, alike):
    """Fourier attention with ζ(x) = (1, x), φ(ξ) = (e^ξ, ξ), ψ(ξ) = ξ² at the tokens."""
    query = torch.stack([torch.ones_like(ticks), ticks], -1)
    key = torch.stack([ticks.exp(), ticks], -1)
    value = (ticks**2)[:, None]
    share = quadrature_weights([ticks], [axis], alike)
    parts = [part[None, None] for part in (query, key, value)]
    return KINDS["fourier"](*parts, share, same)[0, 0, :, 0] * math.sqrt(2)


@pytest.mark.parametrize(("alike", "order"), [(False, 2), (True, 1)])
def test_fourier_attention_is_the_quadrature_of_an_integral_operator(alike, order):
    """Eq. 8: z(x) = ∫_0^1 ζ(x)·φ(ξ) ψ(ξ) dξ = (e − 2) + x/4, at the order of the weights."""
    errors = []
    for count in (17, 33, 65):
        ticks = torch.linspace(0, 1, count, dtype=torch.float64)
        found = fredholm(ticks, AxisSignature("x", 0.0, 1.0), alike)
        errors.append((found - (math.e - 2) - ticks / 4).abs().max().item())
    rates = [math.log2(a / b) for a, b in pairwise(errors)]
    assert all(abs(rate - order) < 0.1 for rate in rates), rates


def test_round_a_period_the_quadrature_is_exact_for_what_the_grid_resolves():
    """∫ cos(x − ξ) sin ξ dξ / 2π = sin(x)/2."""
    axis = AxisSignature("x", 0.0, 2 * math.pi, periodic=True)
    ticks = torch.arange(8, dtype=torch.float64) * (math.pi / 4)
    turned = torch.stack([ticks.cos(), ticks.sin()], -1)[None, None]
    value = ticks.sin()[None, None, :, None]
    share = quadrature_weights([ticks], [axis], False)
    found = KINDS["fourier"](turned, turned, value, share, same)[0, 0, :, 0] * math.sqrt(2)
    assert (found - ticks.sin() / 2).abs().max() < EXACT


def test_shares_of_a_grid_are_those_of_its_cells():
    axes = [AxisSignature("t", 0.0, 2.0), AxisSignature("x", 0.0, 1.0, periodic=True)]
    ticks = [torch.tensor([0.0, 0.5, 2.0]), torch.tensor([0.0, 0.5])]
    expected = torch.tensor([0.125, 0.5, 0.375])[:, None] * torch.tensor([0.5, 0.5])
    assert torch.equal(quadrature_weights(ticks, axes, False), expected.flatten())
    assert torch.equal(quadrature_weights(ticks, axes, True), torch.full((6,), 1 / 3) * 0.5)


def test_projections_start_diagonal_dominant():
    """Eq. 17: η U + δ I with η = δ = 0.01 and U uniform within √(3/d), on the full d × d."""
    torch.manual_seed(0)
    layer = simple(96, 4, 2, "galerkin")
    for part in (layer.query, layer.key, layer.value):
        rest = part.weight.detach() - 0.01 * torch.eye(96)
        bound = 0.01 * math.sqrt(3 / 96)
        assert rest.abs().max() <= bound * (1 + 1e-4)
        assert rest.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)
        assert not part.bias.any()
        assert part.weight.diagonal().min() > 4 * part.weight.std()


def normal(rows):
    """Layer norm without scale and shift, written out."""
    centred = rows - rows.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()


def tokens(width, count=7):
    generator = torch.Generator().manual_seed(1)
    state = torch.randn(2, count, width, generator=generator, dtype=torch.float64)
    places = torch.rand(1, count, 2, generator=generator, dtype=torch.float64)
    return state, places, torch.full((count,), 1 / count, dtype=torch.float64)


def strong(module):
    """Weights of order one, so that nothing of the layer is too small to be seen."""
    generator = torch.Generator().manual_seed(2)
    for parameter in module.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 2
    return module


@pytest.mark.parametrize("kind", KINDS)
def test_heads_are_normalised_before_the_product_and_coordinates_join_after(kind):
    """Eq. 5 and 6 head by head: K̃, Ṽ for the linear kinds, Q̃, K̃ for the others."""
    layer = strong(simple(6, 2, 2, kind).double())
    state, places, share = tokens(6)
    normed = ("key", "value") if kind in LINEAR else ("query", "key")
    found = []
    for head in range(2):
        columns = []
        for name in ("query", "key", "value"):
            rows = getattr(layer, name)(state)[..., 3 * head : 3 * head + 3]
            if name in normed:
                norm = layer.norms[name]
                rows = normal(rows) * norm.weight[head] + norm.bias[head]
            columns.append(torch.cat([places.expand(2, -1, -1), rows], -1))
        found.append(KINDS[kind](*columns, share, same))
    expected = layer.out(torch.cat(found, -1))
    assert (layer(state, places, share) - expected).abs().max() < EXACT


@pytest.mark.parametrize("kind", ["fourier", "galerkin"])
def test_the_paper_s_norms_let_a_scale_through(kind):
    """Remark 4.1: the sizes of V (Fourier) and of Q (Galerkin) reach the answer."""
    layer = strong(simple(6, 1, 0, kind).double())
    state, _, share = tokens(6)
    places = torch.zeros(1, 7, 0, dtype=torch.float64)
    free = layer.value if kind == "fourier" else layer.query
    layer.out.bias.data.zero_()
    once = layer(state, places, share)
    free.weight.data *= 3
    free.bias.data *= 3
    assert (layer(state, places, share) - 3 * once).abs().max() < EXACT * once.abs().max() * 10


@pytest.mark.parametrize("norm", ["heads", "tokens", "tokens_eq7"])
def test_layer_norms_stand_where_the_scheme_has_them(norm):
    form = GalerkinForm(activation="relu")
    config = GalerkinConfig(width=6, heads=2, norm=norm, form=form)
    layer = strong(EncoderLayer(config, 2).double())
    state, places, share = tokens(6)

    def perceptron(rows):
        return layer.back(layer.wide(rows).clamp(min=0))

    def normed(rows, i):
        return normal(rows) * layer.norms[i].weight + layer.norms[i].bias

    summed = state + layer.attention(state, places, share)
    if norm == "heads":
        expected = summed + perceptron(summed)
    else:
        first = normed(summed, 0)
        skip = first if norm == "tokens" else summed
        expected = normed(skip + perceptron(first), 1)
    assert (layer(state, places, share) - expected).abs().max() < EXACT


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_dropped_in_evaluation_unless_faults_are_asked_for(kind):
    state, places, share = tokens(6)
    layer = strong(simple(6, 2, 2, kind, dropout=0.4).double())
    assert (layer(state, places, share) - layer(state, places, share)).abs().max() > 1e-3
    layer.eval()
    assert torch.equal(layer(state, places, share), layer(state, places, share))
    layer.faults = True
    assert (layer(state, places, share) - layer(state, places, share)).abs().max() > 1e-3


def test_half_of_the_weights_fall_with_faults_and_the_mean_stays():
    layer = simple(6, 2, 2, "galerkin", faults=True).eval()
    torch.manual_seed(0)
    thinned = layer._dropped(torch.ones(100_000))
    assert (thinned == 0).float().mean().item() == pytest.approx(0.5, abs=0.01)
    assert thinned.mean().item() == pytest.approx(1.0, abs=0.02)


def test_linear_attention_is_divided_by_n_twice_with_faults_alone(monkeypatch):
    monkeypatch.setattr(attention, "PUBLISHED_DROPOUT", 0.0)
    state, places, share = tokens(6)
    layer = strong(simple(6, 2, 2, "linear").double())
    layer.out.bias.data.zero_()
    sound = layer(state, places, share)
    layer.faults = True
    assert (7 * layer(state, places, share) - sound).abs().max() < EXACT

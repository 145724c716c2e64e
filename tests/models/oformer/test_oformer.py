"""OFormer against its formulas: linear attention, rotary position, random features, the march."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import layer_norm

from piop.errors import DataError, UsageError
from piop.fields import FunctionSamples
from piop.models import BACKBONES, AxisSignature, build_backbone
from piop.models.core.attention import AttentionContext, RotaryEmbedding, RotaryEmbeddings
from piop.models.oformer.network import (
    CoordinateFeatures,
    FeedForward,
    LinearAttention,
    OFormerConfig,
    RandomFourierFeatures,
    SelfAttention,
    rotary_embeddings,
)

from ..cases import SIGNATURES, queries_for, samples_for

EXACT = 1e-12  # float64: reordered sums alone


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def unrotated(
    tokens: torch.Tensor, size: int, keep: torch.Tensor | None = None
) -> AttentionContext:
    """Tokens without a position: no pair of the entries of a head rotates."""
    rotary = RotaryEmbeddings([RotaryEmbedding(torch.empty(0, 1), size)]).double()
    nowhere = rotary(torch.zeros(1, 1, 1, dtype=torch.float64))
    return AttentionContext(tokens, nowhere, nowhere, keep)


@pytest.mark.parametrize("kind", ["galerkin", "fourier", "plain"])
def test_keys_and_values_may_be_summed_before_any_query_is_known(kind):
    """Q (KᵀV)/M is (Q Kᵀ) V/M, with the norms of the kind taken per token and head."""
    attention = LinearAttention(6, 3, 4, kind).double()
    state, tokens = drawn(2, 7, 6), drawn(2, 9, 6, seed=1)
    heads = {}
    for name, given in (("query", state), ("key", tokens), ("value", tokens)):
        weight = getattr(attention, name).weight.reshape(3, 4, -1)
        heads[name] = torch.einsum("bnf,hsf->bhns", given, weight)
    normed = {"galerkin": "key value", "fourier": "query key", "plain": ""}[kind].split()
    heads |= {name: layer_norm(heads[name], (4,)) for name in normed}
    scores = torch.einsum("bhns,bhms->bhnm", heads["query"], heads["key"])
    found = torch.einsum("bhnm,bhms->bnhs", scores, heads["value"]).flatten(2) / 9
    expected = attention.out(found)
    assert (attention(state, unrotated(tokens, 4)) - expected).abs().max() < EXACT


def test_a_token_that_is_not_there_is_not_counted():
    attention = LinearAttention(6, 2, 4, "galerkin").double()
    state, tokens = drawn(2, 3, 6), drawn(2, 5, 6, seed=1)
    keep = torch.ones(2, 8, 1, dtype=torch.float64)
    keep[:, 5:] = 0
    padded = torch.cat([tokens, drawn(2, 3, 6, seed=2)], 1)
    masked = attention(state, unrotated(padded, 4, keep))
    assert (masked - attention(state, unrotated(tokens, 4))).abs().max() < EXACT


def test_one_head_as_wide_as_the_features_needs_no_map_of_its_answer():
    assert LinearAttention(6, 1, 6, "fourier").out is None
    assert LinearAttention(6, 2, 6, "fourier").out is not None
    with pytest.raises(UsageError, match="'softmax': one of galerkin, fourier, plain"):
        OFormerConfig(attention="softmax")


@pytest.mark.parametrize(("kind", "free"), [("galerkin", "query"), ("fourier", "value")])
def test_the_map_without_a_norm_starts_near_the_identity(kind, free):
    """(W − I/d) d is orthogonal in each head (eq. 17 with σ = δ = 1/d); the others stay."""
    attention = LinearAttention(5, 2, 5, kind).double()
    before = {n: getattr(attention, n).weight.clone() for n in ("query", "key", "value")}
    attention.start_near_identity()
    for name, weight in before.items():
        now = getattr(attention, name).weight
        if name != free:
            assert torch.equal(now, weight)
            continue
        for head in now.split(5):
            rotation = 5 * head - torch.eye(5, dtype=torch.float64)
            assert (rotation @ rotation.T - torch.eye(5)).abs().max() < 1e-6


def test_the_normalised_state_is_what_a_layer_of_the_encoder_adds_to():
    attention, feed = LinearAttention(4, 1, 4, "galerkin"), FeedForward(4, 3)
    layer = SelfAttention(attention, feed, 4, normed=True).double()
    tokens = drawn(2, 6, 4)
    once = layer_norm(tokens, (4,))
    twice = layer_norm(once + attention(once, unrotated(once, 4)), (4,))
    hidden = twice @ feed.first.weight.T + feed.first.bias
    gated = torch.nn.functional.gelu(hidden[..., :3]) * hidden[..., 3:]
    expected = twice + gated @ feed.last.weight.T + feed.last.bias
    assert (layer(tokens, unrotated(tokens, 4).at_tokens) - expected).abs().max() < EXACT


@pytest.mark.parametrize("dimension", [1, 2])
def test_rotary_position_is_the_block_rotation_of_the_paper(dimension):
    """Eq. 9 to 11, with each part split in halves: entry l turns with entry l + d'/2."""
    size, rate = 8, 5.0
    part = size // dimension
    place, entries = drawn(dimension, seed=3), drawn(size, seed=4)
    (turn,) = rotary_embeddings(size, dimension, rate).double()(place[None, None])
    found = turn(entries[None, None, None])[0, 0, 0]
    expected = entries.clone()
    for axis in range(dimension):
        for pair in range(part // 2):
            phase = place[axis] * rate * 10000 ** (-2 * pair / part)
            slots = [axis * part + pair, axis * part + pair + part // 2]
            matrix = torch.tensor(
                [[phase.cos(), -phase.sin()], [phase.sin(), phase.cos()]], dtype=torch.float64
            )
            expected[slots] = matrix @ entries[slots]
    assert (found - expected).abs().max() < 1e-6  # the ladder is laid in single precision


@pytest.mark.parametrize("dimension", [1, 2])
def test_scores_depend_on_the_difference_of_places_alone(dimension):
    rotary = rotary_embeddings(8, dimension, 7.0).double()
    query, key = drawn(1, 1, 1, 8), drawn(1, 1, 1, 8, seed=1)
    here, there = drawn(1, 1, dimension, seed=2), drawn(1, 1, dimension, seed=3)

    def score(x, y):
        (turn_query,), (turn_key,) = rotary(x), rotary(y)
        return (turn_query(query) * turn_key(key)).sum()

    shift = drawn(1, 1, dimension, seed=4)
    assert (score(here + shift, there + shift) - score(here, there)).abs() < EXACT
    (turn,) = rotary(there - here)
    assert (score(here, there) - (query * turn(key)).sum()).abs() < EXACT
    assert (turn.inverse()(turn(key)) - key).abs().max() < EXACT
    assert (score(here + shift, there) - score(here, there)).abs() > 1e-2


def test_entries_beyond_the_pairs_do_not_turn():
    rotary = rotary_embeddings(10, 2, 7.0).double()  # two parts of five: two pairs each
    entries = drawn(1, 3, 2, 10)
    (turn,) = rotary(drawn(1, 3, 2, seed=1))
    found = turn(entries)
    assert torch.equal(found[..., 8:], entries[..., 8:])
    assert (found[..., :8] - entries[..., :8]).abs().max() > 0.1


@pytest.mark.parametrize("sigma", [0.3, 1.0])
def test_random_features_give_a_gaussian_kernel(sigma):
    """γ(x)·γ(y)/F tends to exp(−2π²σ²|x − y|²); F pairs err by less than 5/√(2F)."""
    torch.manual_seed(0)
    axes = [AxisSignature("y", -1.0, 1.0), AxisSignature("z", 0.0, 4.0)]
    pairs = 40_000
    features = RandomFourierFeatures(axes, pairs, sigma).double()
    points = torch.tensor([[[0.2, 1.0], [0.5, 0.4]]], dtype=torch.float64)
    first, second = features(points)[0]
    square = (0.3 / 2) ** 2 + (0.6 / 4) ** 2
    expected = math.exp(-2 * math.pi**2 * sigma**2 * square)
    assert 0.3 < expected < 0.95
    assert abs(first @ second / pairs - expected) < 5 / math.sqrt(2 * pairs)


def test_directions_are_frozen_and_kept_with_the_weights():
    features = RandomFourierFeatures([AxisSignature("z", 0.0, 2.0)], 5, 1.0)
    assert not list(features.parameters())
    assert list(features.state_dict()) == ["directions"]


def test_periodic_axes_get_whole_harmonics_and_the_others_random_ones():
    axes = [AxisSignature("t", 0.0, 2.0), AxisSignature("x", -1.0, 2.0, periodic=True)]
    features = CoordinateFeatures(axes, (0, 1), 3, 1.0).double()
    points = drawn(1, 5, 2)
    around = points + torch.tensor([0.0, 3.0], dtype=torch.float64)
    later = points + torch.tensor([3.0, 0.0], dtype=torch.float64)
    assert features(points).shape[-1] == features.features == 1 + 2 * 3 + 2 * 3
    assert (features(around) - features(points)).abs().max() < 1e-12
    assert (features(later) - features(points)).abs().max() > 0.1


def test_shifting_inputs_shifts_the_answer_along_homogeneous_axes():
    signature = SIGNATURES["evolution"]
    torch.manual_seed(0)
    model = build_backbone("oformer", signature).double()
    inputs, queries = samples_for(signature), queries_for(signature)
    step = 5 * 2 * math.pi / 24  # whole steps of the lattice that the input is read on
    samples = inputs["u0"]
    moved = {"u0": FunctionSamples((samples.points + step) % (2 * math.pi), samples.values)}
    there = queries + torch.tensor([0.0, step], dtype=torch.float64)
    before = model(inputs, queries)
    assert (model(moved, there) - before).abs().max() < 1e-9
    assert (model(moved, queries) - before).abs().max() > 1e-2 * before.std()


@pytest.mark.parametrize("preset", ["march", "code_navier_stokes", "code_airfoil"])
def test_the_nth_answer_of_a_march_is_the_propagator_applied_n_times(preset):
    signature = SIGNATURES["plane"]
    torch.manual_seed(0)
    small = {**BACKBONES["oformer"][preset].small, "steps": 3}
    model = build_backbone("oformer", signature, preset, **small).double()
    inputs = samples_for(signature)
    times = torch.tensor(model.fixed_times(), dtype=torch.float64)
    assert times.tolist() == pytest.approx([0.0, 0.825, 1.65, 2.475])
    space = [
        axis.low + (axis.high - axis.low) * torch.arange(n).double() / n
        for axis, n in zip(signature.coordinates[1:], (4, 3), strict=True)
    ]
    values = model.on_grid(inputs, [times, *space])
    assert values.shape == (2, 4, 4, 3, 2)
    mesh = torch.cartesian_prod(times[:1], *space)[None]
    state, known = model.begin(inputs, mesh)
    for n in range(4):
        assert (model.decode(state, known) - values[:, n].flatten(1, 2)).abs().max() < EXACT
        state = model.advance(state, known)
    assert (values[:, 3] - values[:, 2]).abs().max() > 1e-6
    short = model.on_grid(inputs, [times[:2], *space])
    assert (short - values[:, :2]).abs().max() < EXACT, "a shorter rollout is the start of a longer"
    with pytest.raises(DataError, match="5 times are requested; the rollout has 4"):
        model.on_grid(inputs, [torch.arange(5.0), *space])


def test_between_its_steps_a_march_is_linear_in_time():
    signature = SIGNATURES["evolution"]
    torch.manual_seed(0)
    model = build_backbone("oformer", signature, "march", steps=4).double()
    inputs, queries = samples_for(signature), queries_for(signature)
    step = 2.475 / 4
    ends = []
    for n in (2.0, 3.0):
        queries[..., 0] = n * step
        ends.append(model(inputs, queries))
    queries[..., 0] = 2.25 * step
    assert (model(inputs, queries) - 0.75 * ends[0] - 0.25 * ends[1]).abs().max() < EXACT
    axes = [torch.tensor(model.fixed_times(), dtype=torch.float64), queries[0, :, 1]]
    assert (model.on_grid(inputs, axes)[0, 2] - ends[0][0]).abs().max() < EXACT


def test_nodes_of_a_mesh_know_the_kind_of_the_nearest_sensor_and_each_other():
    signature = SIGNATURES["several"]  # its last input has jumps, so it marks places
    preset = BACKBONES["oformer"]["code_electrostatics"]
    torch.manual_seed(0)
    model = build_backbone("oformer", signature, "code_electrostatics", **preset.small).double()
    inputs, queries = samples_for(signature), queries_for(signature)
    points, values = inputs["k"].points[..., 0], inputs["k"].values
    round_trip = (queries[:, :, None, 1] - points[:, None] + math.pi) % (2 * math.pi) - math.pi
    nearest = round_trip.abs().argmin(-1)
    expected = torch.take_along_dim(values, nearest[..., None], 1)
    assert torch.equal(model.reader.labels_at(inputs, queries), expected)
    other = queries.clone()
    other[:, 0, 0] += 0.5
    moved = (model(inputs, other) - model(inputs, queries)).abs()
    assert moved[:, 1:].max() > 1e-9


@pytest.mark.parametrize(
    ("preset", "case", "reason"),
    [
        ("march", "steady", "it advances in time, and the problem is steady"),
        ("code_airfoil", "steady", "it advances in time, and the problem is steady"),
        ("paper_darcy", "none", "it encodes a function, and no input is one"),
        ("paper_burgers", "scalar alone", "it encodes a function, and no input is one"),
    ],
)
def test_what_cannot_be_served_is_refused(preset, case, reason):
    with pytest.raises(UsageError, match=reason):
        build_backbone("oformer", SIGNATURES[case], preset)

"""The paper's IPOT against its equations written out, its code's faults, and its cost."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from piop.errors import DataError, UsageError
from piop.fields import FunctionSamples
from piop.models import AxisSignature, InputSignature, Signature, find_preset
from piop.models.ipot.published import (
    FourierFeatures,
    PaperIPOT,
    PaperIPOTConfig,
    PaperIPOTRollout,
    PaperIPOTRolloutConfig,
)

from ..cases import SIGNATURES, queries_for, samples_for

SMALL = PaperIPOTConfig(
    width=12, points=5, depth=3, heads=3, cross_heads=2, cross_size=8, bands=3, resolutions=(8,)
)
MARCH = PaperIPOTRolloutConfig(**vars(SMALL), steps=4)
UNIT = AxisSignature("x", 0.0, 1.0)
STEADY = Signature((UNIT,), (InputSignature("a", ("x",)),), 1)


def build(signature: Signature = STEADY, config: PaperIPOTConfig = SMALL) -> PaperIPOT:
    torch.manual_seed(0)
    return PaperIPOT(signature, config).double()


def normal(row: Tensor, layer: torch.nn.LayerNorm) -> Tensor:
    spread = torch.sqrt(((row - row.mean()) ** 2).mean() + layer.eps)
    return (row - row.mean()) / spread * layer.weight + layer.bias


def test_the_encoder_is_equation_12_written_out():
    model, inputs = build(), samples_for(STEADY)
    part = model.latents
    encoder, tokens = part.encoder, part.sensors["a"]
    samples, out = inputs["a"], torch.zeros(2, 5, 12, dtype=torch.float64)
    for b in range(2):
        for i, latent in enumerate(part.latents[0]):
            query = encoder.query.weight @ normal(latent, encoder.norm)
            heads = []
            for head in (slice(0, 4), slice(4, 8)):
                weight, total = 0.0, torch.zeros(4, dtype=torch.float64)
                for (x,), value in zip(samples.points[b], samples.values[b], strict=True):
                    phases = math.pi * x * torch.tensor([1.0, 2.5, 4.0], dtype=torch.float64)
                    row = torch.cat([value, x[None], phases.sin(), phases.cos()])
                    row = normal(row, tokens.norm)
                    key, content = tokens.key.weight @ row, tokens.value.weight @ row
                    share = torch.exp(query[head] @ key[head] / math.sqrt(4))
                    weight, total = weight + share, total + share * content[head]
                heads.append(total / weight)
            state = latent + encoder.out.weight @ torch.cat(heads) + encoder.out.bias
            feed = part.encoder_feed_forward
            hidden = feed.into.weight @ normal(state, feed.norm) + feed.into.bias
            gate = hidden[48:] * 0.5 * (1 + torch.erf(hidden[48:] / math.sqrt(2)))
            out[b, i] = state + feed.out.weight @ (hidden[:48] * gate) + feed.out.bias
    assert (part.encode(inputs) - out).abs().max() < 1e-12


def test_the_processor_is_one_block_applied_depth_times():
    deep, once = build(), build(config=replace(SMALL, depth=1))
    assert [p.shape for p in deep.parameters()] == [p.shape for p in once.parameters()]
    once.load_state_dict(deep.state_dict())
    state = deep.latents.encode(samples_for(STEADY))
    step = once.latents.process
    assert torch.equal(deep.latents.process(state), step(step(step(state))))
    assert (step(state) - state).abs().max() > 1e-2


def test_inducing_points_are_a_set():
    """Permuting them changes no answer: nothing but their vectors tells them apart."""
    model, inputs, queries = build(), samples_for(STEADY), queries_for(STEADY)
    before = model(inputs, queries)
    order = torch.tensor([3, 1, 4, 0, 2])
    with torch.no_grad():
        model.latents.latents.copy_(model.latents.latents[:, order])
    assert (model(inputs, queries) - before).abs().max() < 1e-12


def test_as_published_the_answer_is_a_tenth_with_a_constant_added():
    """One channel through a layer norm leaves its bias: the feed-forward adds a constant."""
    clean, published = build(), build(config=replace(SMALL, as_published=True))
    part = published.latents.answer_feed_forward
    with torch.no_grad():
        part.norm.bias.fill_(0.7)  # type: ignore[union-attr]
    inputs, queries = samples_for(STEADY), queries_for(STEADY)
    state = published.latents.process(published.latents.encode(inputs))
    clean.load_state_dict(published.state_dict(), strict=False)
    extra = 10 * published(inputs, queries) - clean.latents.decode(state, queries)
    assert (extra - extra[0, 0]).abs().max() < 1e-12
    assert extra[0, 0].abs() > 1e-3


def test_as_published_the_encoder_feed_forward_is_dead_and_keys_are_raw():
    published = build(config=replace(SMALL, as_published=True))
    inputs, queries = samples_for(STEADY), queries_for(STEADY)
    before = published(inputs, queries)
    with torch.no_grad():
        for parameter in published.latents.encoder_feed_forward.parameters():
            parameter.add_(1.0)
    assert torch.equal(published(inputs, queries), before)
    state = 3 * published.latents.encode(inputs)
    raw, clean = published.latents.processor, build().latents.processor
    clean.load_state_dict(raw.state_dict())
    tokens = raw.tokens(state)
    by_hand = state + raw.attend(state, *tokens)
    assert torch.equal(raw(state), by_hand + raw.feed_forward(by_hand))
    assert (clean(state) - raw(state)).abs().max() > 1e-3


def test_rates_run_from_one_half_wave_to_nyquist_and_whole_turns_round_a_period():
    walled, ring = AxisSignature("z", 1.0, 3.0), AxisSignature("x", 0.0, 5.0, periodic=True)
    features = FourierFeatures([walled, ring], 4, (10, 12))
    assert features.features == 1 + 2 * 4 + 2 * 3
    # With 10 points a half wave may change sign 5 times over the axis, with 12 a turn 3 times.
    assert features.rates[0] == pytest.approx([math.pi * f for f in (1, 7 / 3, 11 / 3, 5)])
    assert features.rates[1] == pytest.approx([2 * math.pi * k for k in (1, 2, 3)])
    points = torch.tensor([[[1.5, 1.2], [2.5, 3.3]]], dtype=torch.float64)
    out = features(points)
    assert out[0, :, 0].tolist() == [0.25, 0.75]
    assert (features(points + torch.tensor([0.0, 5.0])) - out).abs().max() < 1e-12
    angle = 2 * math.pi * 1.2 / 5
    assert out[0, 0, -3:].tolist() == pytest.approx([math.cos(k * angle) for k in (1, 2, 3)])


def flops(sensors: int, queries: int, depth: int = 3) -> int:
    model = build(config=replace(SMALL, depth=depth))
    inputs, asked = samples_for(STEADY, 1, sensors), queries_for(STEADY, 1, queries)
    with FlopCounterMode(display=False) as counter:
        model(inputs, asked)
    return counter.get_total_flops()


def test_cost_is_linear_in_sensors_and_in_queries_and_depth_adds_to_neither():
    """n_x n_z + L n_z² + n_z n_y of the text, in counted operations."""
    base = flops(10, 10)
    per_sensor = flops(20, 10) - base
    per_query = flops(10, 20) - base
    assert flops(30, 10) - base == 2 * per_sensor > 0
    assert flops(10, 30) - base == 2 * per_query > 0
    assert flops(20, 20) - base == per_sensor + per_query
    deeper = flops(10, 10, depth=4) - base
    assert flops(70, 90, depth=4) - flops(70, 90) == deeper > 0


def march(case: str = "evolution") -> PaperIPOTRollout:
    torch.manual_seed(0)
    return PaperIPOTRollout(SIGNATURES[case], MARCH).double()


def test_a_rollout_composes_steps_of_one_processor():
    """The answer at t_n is decode(step^n(encode)), and the grid holds all of them."""
    model = march("plane")
    inputs, signature = samples_for(SIGNATURES["plane"]), SIGNATURES["plane"]
    x, y = (torch.linspace(a.low, a.high, 4).double()[:3] for a in signature.coordinates[1:])
    times = torch.tensor(model.fixed_times(), dtype=torch.float64)
    assert times.tolist() == pytest.approx([2.475 * n / 4 for n in range(5)])
    grid = model.on_grid(inputs, [times, x, y])
    queries = torch.cartesian_prod(times[:1], x, y)[None]
    state = model.latents.encode(inputs)
    for n in range(5):
        assert torch.equal(grid[:, n].flatten(1, 2), model.latents.decode(state, queries))
        state = model.latents.process(state)


def test_steps_of_a_rollout_do_not_depend_on_the_time():
    """Two steps from the latents of step 2 give those of step 4."""
    model = march()
    places = torch.tensor([[[0.0, 0.3], [0.0, 4.0]]]).double()
    state, known = model.begin(samples_for(SIGNATURES["evolution"]), places)
    states = [state]
    for _ in range(4):
        states.append(model.advance(states[-1], known))
    assert torch.equal(model.advance(model.advance(states[2], known), known), states[4])
    times = torch.tensor(model.fixed_times(), dtype=torch.float64)
    grid = model.on_grid(samples_for(SIGNATURES["evolution"]), [times, places[0, :, 1]])
    for n, state in enumerate(states):
        assert torch.equal(model.decode(state, known), grid[:, n])


def test_between_steps_a_rollout_is_linear_in_time():
    model, inputs = march(), samples_for(SIGNATURES["evolution"])
    times, x = (
        torch.tensor(model.fixed_times(), dtype=torch.float64),
        torch.tensor([0.3, 4.0]).double(),
    )
    grid = model.on_grid(inputs, [times, x])

    def at(t: float) -> Tensor:
        queries = torch.stack([torch.full_like(x, t), x], -1)[None]
        return model(inputs, queries)

    assert (at(float(times[2])) - grid[:, 2]).abs().max() < 1e-12
    between = 0.75 * grid[:, 3] + 0.25 * grid[:, 4]
    assert (at(float(0.75 * times[3] + 0.25 * times[4])) - between).abs().max() < 1e-12


def test_a_march_refuses_other_times_and_problems_without():
    model, inputs = march(), samples_for(SIGNATURES["evolution"])
    with pytest.raises(DataError, match=r"the rollout has 5: give the first of fixed_times\(\)"):
        model.on_grid(inputs, [torch.zeros(6).double(), torch.zeros(2).double()])
    with pytest.raises(DataError, match="1 columns; give one each for t, x"):
        model.on_grid(inputs, [torch.zeros(5).double()])
    refusal = PaperIPOTRollout.refusal
    assert refusal(SIGNATURES["evolution"], MARCH) is None
    assert "the problem is steady" in str(refusal(SIGNATURES["steady"], MARCH))
    alone = Signature((AxisSignature("t", 0.0, 1.0),), (), 1, 0)
    assert "the problem has no space" in str(refusal(alone, MARCH))


def test_several_functions_share_one_softmax():
    """A second function far below in score is as good as not there."""
    signature = SIGNATURES["several"]
    model, inputs = build(signature), samples_for(signature)
    gone = {
        name: FunctionSamples(s.points, s.values, torch.zeros(2, 40, dtype=torch.bool))
        if name in ("f", "k")
        else s
        for name, s in inputs.items()
    }
    other = dict(gone) | {"f": replace(gone["f"], values=gone["f"].values + 1)}
    first, second = (model.latents.encode(each) for each in (gone, other))
    assert torch.equal(first, second)
    assert (model.latents.encode(inputs) - first).abs().max() > 1e-4


def test_heads_that_do_not_divide_are_refused():
    with pytest.raises(UsageError, match="width = 12 and cross_size = 8: give multiples of"):
        replace(SMALL, heads=5)


def count(name: str, **changes: object) -> int:
    found = find_preset("ipot", name)
    model = found.build(found.signature, replace(found.config, **changes))
    return sum(parameter.numel() for parameter in model.parameters())


def test_counts_the_code_does_not_meet_are_explained():
    """The paper prints 0.12 million for both; see tests/models/test_parameter_counts.py."""
    dead = count("code_elasticity") - 122_482
    part = build(config=find_preset("ipot", "code_elasticity").config)
    assert dead == sum(p.numel() for p in part.latents.encoder_feed_forward.parameters()) == 49_856
    assert count("code_navier_stokes", width=64, points=128) == 127_530

"""What every backbone owes: a new one in the table inherits these tests."""

from __future__ import annotations

import dataclasses
from fnmatch import fnmatchcase

import pytest
import torch
from torch.func import jacrev

from piop.errors import DataError
from piop.fields import FunctionSamples
from piop.models import BACKBONES, Backbone, build_backbone

from .cases import SIGNATURES, queries_for, samples_for

NETWORKS = [(name, preset) for name, presets in BACKBONES.items() for preset in presets]
EXACT = 1e-12  # float64: reordered sums alone


@pytest.fixture(params=NETWORKS, ids=lambda p: "-".join(p))
def network(request):
    def build(case: str) -> Backbone:
        torch.manual_seed(0)
        name, preset = request.param
        small = BACKBONES[name][preset].small
        return build_backbone(name, SIGNATURES[case], preset, **small).double()

    return build


@pytest.fixture(params=SIGNATURES)
def case(request):
    return request.param


def test_answers_every_query_with_every_channel_in_the_dtype_given(network, case):
    signature = SIGNATURES[case]
    inputs, queries = samples_for(signature), queries_for(signature)
    out = network(case)(inputs, queries)
    assert out.shape == (2, 7, signature.channels)
    assert out.dtype == torch.float64
    assert 1e-4 < out.std() < 10, "of order one, and not constant"
    single = network(case).float()
    fewer = {k: s.to(torch.float32) for k, s in inputs.items()}
    assert (single(fewer, queries.float()).double() - out).abs().max() < 1e-4


def test_order_of_sensors_does_not_matter(network, case):
    signature = SIGNATURES[case]
    inputs, queries, model = samples_for(signature), queries_for(signature), network(case)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(3))
    shuffled = {
        e.name: FunctionSamples(inputs[e.name].points[:, order], inputs[e.name].values[:, order])
        if e.of
        else inputs[e.name]
        for e in signature.inputs
    }
    assert (model(shuffled, queries) - model(inputs, queries)).abs().max() < 1e-9


def test_functions_of_a_batch_do_not_meet(network, case):
    signature = SIGNATURES[case]
    inputs, queries, model = samples_for(signature), queries_for(signature), network(case)
    alone = {k: FunctionSamples(s.points[1:], s.values[1:]) for k, s in inputs.items()}
    assert (model(alone, queries[1:]) - model(inputs, queries)[1:]).abs().max() < EXACT


def test_queries_do_not_meet(network, case):
    signature = SIGNATURES[case]
    inputs, queries, model = samples_for(signature), queries_for(signature), network(case)
    if model.field != "point":
        pytest.skip("answers on a grid")
    slopes = jacrev(lambda q: model(inputs, q).sum(-1)[0])(queries)[:, 0].norm(dim=-1)
    across = slopes - torch.diag(slopes.diag())
    assert across.abs().max() < EXACT
    assert slopes.diag().min() > 1e-6, "and each answer follows its own query"


def test_every_input_matters(network, case):
    signature = SIGNATURES[case]
    inputs, queries, model = samples_for(signature), queries_for(signature), network(case)
    for name, samples in inputs.items():
        other = FunctionSamples(samples.points, samples.values + 1)
        moved = (model({**inputs, name: other}, queries) - model(inputs, queries)).abs()
        assert moved.max() > 1e-6, name


def test_masked_sensors_are_as_good_as_absent(network, case):
    signature = SIGNATURES[case]
    model, queries = network(case), queries_for(signature)
    inputs = samples_for(signature)
    padded = dict(inputs)
    for entry in signature.functions:
        points, values = inputs[entry.name].points, inputs[entry.name].values
        mask = torch.ones(2, 45, dtype=torch.bool)
        mask[:, 40:] = False
        nothing = torch.full((2, 5, 1), torch.nan, dtype=torch.float64)
        padded[entry.name] = FunctionSamples(
            torch.cat([points, nothing.expand(-1, -1, points.shape[-1])], 1),
            torch.cat([values, nothing.expand(-1, -1, values.shape[-1])], 1),
            mask,
        )
    assert (model(padded, queries) - model(inputs, queries)).abs().max() < 1e-10


def test_any_number_of_sensors_will_do(network, case):
    signature = SIGNATURES[case]
    model, queries = network(case), queries_for(signature)
    for count in (1, 3, 300):
        assert model(samples_for(signature, sensors=count), queries).isfinite().all()


def test_every_parameter_learns(network, case):
    signature = SIGNATURES[case]
    model = network(case)
    model(samples_for(signature), queries_for(signature)).square().sum().backward()
    dead = {n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()}
    assert not {n for n in dead if not any(fnmatchcase(n, p) for p in model.idle())}


def test_saved_and_loaded_it_answers_the_same(network, case):
    signature = SIGNATURES[case]
    inputs, queries, model = samples_for(signature), queries_for(signature), network(case)
    torch.manual_seed(5)
    other = type(model)(signature, model.config).double()
    assert (other(inputs, queries) - model(inputs, queries)).abs().max() > 1e-6
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(inputs, queries), model(inputs, queries))


def test_what_a_query_meets_grows_only_with_sensors_that_are_not_read_first(network, case):
    signature, model = SIGNATURES[case], network(case)
    few, many = (
        model.meets({e.name: count if e.of else 1 for e in signature.inputs})
        for count in (10, 1000)
    )
    attends = "PIT" in type(model).__name__
    whole = "Paper" in type(model).__name__
    expected = [e for e in signature.functions if attends and (whole or not e.smooth)]
    assert many - few == 990 * len(expected)


def test_a_config_is_frozen_and_short(network):
    config = network("evolution").config
    assert len(dataclasses.fields(config)) <= 10
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.width = 3


def test_inputs_that_do_not_fit_are_refused(network):
    signature = SIGNATURES["evolution"]
    inputs, queries, model = samples_for(signature), queries_for(signature), network("evolution")
    good = inputs["u0"]
    with pytest.raises(DataError, match="'u0' is missing; given: 'v0'"):
        model({"v0": good}, queries)
    with pytest.raises(DataError, match="2 channels; this network was built for 1"):
        model({"u0": FunctionSamples(good.points, good.values.repeat(1, 1, 2))}, queries)
    with pytest.raises(DataError, match=r"2 coordinates; it depends on 1 \(x\)"):
        model({"u0": FunctionSamples(good.points.repeat(1, 1, 2), good.values)}, queries)
    with pytest.raises(DataError, match="3 columns; give one each for t, x"):
        model(inputs, torch.zeros(2, 7, 3))

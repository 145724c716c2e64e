from __future__ import annotations

import math

import pytest
import torch

from piop.fields import FunctionSamples
from piop.models import AxisSignature, InputSignature, Signature, build_backbone
from piop.models.core.interpolation import nearest_values
from piop.models.deeponet.network import FixedSensors, branch_trunk_product

from ..cases import SIGNATURES, queries_for, samples_for

RING = AxisSignature("x", 0.0, 2 * math.pi, periodic=True)
NETWORKS = [
    ("deeponet", "default"),
    ("deeponet", "paper"),
    ("modified_deeponet", "default"),
    ("modified_deeponet", "paper"),
    ("modified_deeponet", "separate"),
    ("shift_deeponet", "default"),
    ("shift_deeponet", "paper"),
]


@pytest.fixture(params=NETWORKS, ids="-".join)
def network(request):
    def build(signature: Signature, **sizes: int):
        torch.manual_seed(0)
        return build_backbone(request.param[0], signature, request.param[1], **sizes).double()

    return build


def test_the_formula_of_the_deeponet_by_hand():
    signature = SIGNATURES["several"]  # three channels
    model = build_backbone("deeponet", signature, width=8, latent=5, layers=3).double()
    torch.nn.init.normal_(model.bias)
    inputs, queries = samples_for(signature), queries_for(signature)
    read, placed = model.sensors(inputs, queries), model.coordinates(queries)
    b1, b2, b3 = model.branch
    t1, t2, t3 = model.trunk
    branch = b3(torch.tanh(b2(torch.tanh(b1(read)))))
    trunk = torch.tanh(t3(torch.tanh(t2(torch.tanh(t1(placed))))))
    out = model(inputs, queries)
    for b in range(2):
        for c in range(3):
            latent = slice(5 * c, 5 * c + 5)
            by_hand = trunk[b, :, latent] @ branch[b, latent] + model.bias[c]
            assert (out[b, :, c] - by_hand).abs().max() < 1e-12


def test_the_formula_of_the_modified_deeponet_by_hand():
    signature = SIGNATURES["evolution"]
    model = build_backbone("modified_deeponet", signature, width=8, latent=5, layers=3).double()
    inputs, queries = samples_for(signature), queries_for(signature)
    read, placed = model.sensors(inputs, queries), model.coordinates(queries)
    for b in range(2):
        for n in range(7):
            a, y = read[b], placed[b, n]
            u, v = torch.tanh(model.input_gate(a)), torch.tanh(model.query_gate(y))
            for on_branch, on_trunk in zip(model.branch[:-1], model.trunk[:-1], strict=True):
                big_b, big_t = torch.tanh(on_branch(a)), torch.tanh(on_trunk(y))
                a, y = (1 - big_b) * v + big_b * u, (1 - big_t) * v + big_t * u
            by_hand = model.branch[-1](a) @ model.trunk[-1](y)
            assert abs(model(inputs, queries)[b, n, 0] - by_hand) < 1e-12


def test_the_formula_of_separate_gates_by_hand():
    signature = SIGNATURES["evolution"]
    model = build_backbone("modified_deeponet", signature, "separate", width=8, layers=3).double()
    inputs, queries = samples_for(signature), queries_for(signature)

    def perceptron(part, x):
        u, v = torch.tanh(part.first_gate(x)), torch.tanh(part.second_gate(x))
        for layer in part.layers[:-1]:
            h = torch.tanh(layer(x))
            x = h * u + (1 - h) * v
        return part.layers[-1](x)

    branch = perceptron(model.branch, model.sensors(inputs, queries))
    trunk = perceptron(model.trunk, model.coordinates(queries))
    by_hand = (branch[:, None] * trunk).sum(-1, keepdim=True)
    assert (model(inputs, queries) - by_hand).abs().max() < 1e-12


def test_layers_of_the_paper_are_the_published_ones():
    model = build_backbone("deeponet", SIGNATURES["evolution"], "paper")
    for part in (model.branch, model.trunk):
        assert [layer.out_features for layer in part] == [100] * 7
        assert not any(layer.bias.any() for layer in part)


def test_what_is_read_does_not_depend_on_where_the_sensors_are():
    signature = Signature((RING,), (InputSignature("u0", ("x",)),))
    sensors = FixedSensors(signature).double()

    def wave(x):
        return 0.4 + torch.cos(2 * x) - 0.5 * torch.sin(3 * x)

    def read(points):
        return sensors({"u0": FunctionSamples(points, wave(points))}, points)

    generator = torch.Generator().manual_seed(0)
    even = 2 * math.pi * torch.arange(64, dtype=torch.float64)[None, :, None] / 64
    scattered = 2 * math.pi * torch.rand(1, 80, 1, dtype=torch.float64, generator=generator)
    lattice = sensors.fits["u0"].token_grid(even)
    assert sensors.features == lattice.shape[1] == 24
    assert (read(even) - wave(lattice)[..., 0]).abs().max() < 1e-3  # the ridge of the fit
    assert (read(scattered) - wave(lattice)[..., 0]).abs().max() < 1e-2


def test_an_input_with_jumps_is_read_at_the_nearest_sensor(monkeypatch):
    axes = (RING, AxisSignature("z", 0.0, 2.0))
    generator = torch.Generator().manual_seed(0)
    size = torch.tensor([2 * math.pi, 2.0], dtype=torch.float64)
    points = size * torch.rand(2, 50, 2, dtype=torch.float64, generator=generator)
    values = torch.randn(2, 50, 3, dtype=torch.float64, generator=generator)
    mask = torch.rand(2, 50, generator=generator) < 0.7
    at = size * torch.rand(1, 20, 2, dtype=torch.float64, generator=generator)
    entry = InputSignature("a", ("x", "z"), 3, smooth=False)
    found = nearest_values(entry, FunctionSamples(points, values, mask), at, axes)
    for b in range(2):
        for i in range(20):
            best = None
            for m in range(50):
                across = abs(at[0, i, 0] - points[b, m, 0]) / (2 * math.pi)
                across = min(across, 1 - across)
                distance = across**2 + ((at[0, i, 1] - points[b, m, 1]) / 2) ** 2
                if mask[b, m] and (best is None or distance < best[0]):
                    best = (distance, m)
            assert torch.equal(found[b, i], values[b, best[1]])
    monkeypatch.setattr("piop.fields.MAX_PAIRS", 250)  # three places at a time
    assert torch.equal(
        nearest_values(entry, FunctionSamples(points, values, mask), at, axes), found
    )


def test_periodic_axes_are_periodic_with_all_derivatives(network):
    signature = SIGNATURES["plane"]
    model = network(signature)
    inputs, queries = samples_for(signature), queries_for(signature)
    for i, axis in enumerate(signature.coordinates[1:], start=1):
        ends = []
        for end in (axis.low, axis.high):
            at = queries.clone()
            at[..., i] = end
            at.requires_grad_()
            value = model(inputs, at).sum()
            (slope,) = torch.autograd.grad(value, at, create_graph=True)
            (bend,) = torch.autograd.grad(slope[..., i].sum(), at)
            ends.append(torch.cat([value[None], slope.flatten(), bend.flatten()]))
        assert (ends[0] - ends[1]).abs().max() < 1e-10


def test_an_axis_with_walls_is_not_periodic(network):
    signature = SIGNATURES["walls"]
    model = network(signature)
    inputs, queries = samples_for(signature), queries_for(signature)
    left, right = queries.clone(), queries.clone()
    left[..., 1], right[..., 1] = 0.0, 2.0
    assert (model(inputs, left) - model(inputs, right)).abs().max() > 1e-2


def test_queries_shared_by_all_functions_give_the_same_answers(network):
    for case in ("evolution", "several", "none"):
        signature = SIGNATURES[case]
        model = network(signature)
        inputs, queries = samples_for(signature, batch=3), queries_for(signature, batch=1)
        shared, each = model(inputs, queries), model(inputs, queries.expand(3, -1, -1))
        assert (shared - each).abs().max() < 1e-12


def test_one_branch_without_inputs_serves_any_batch_of_queries():
    trunk, branch = torch.randn(3, 7, 8), torch.randn(1, 8)
    assert branch_trunk_product(trunk, branch, 2).shape == (3, 7, 2)


@pytest.mark.parametrize("network", [NETWORKS[0], NETWORKS[2]], ids="-".join)
def test_it_learns_the_heat_operator(network):
    """u_t = u_xx/10 on a circle: a linear operator, from its solutions, on functions not seen."""
    signature = Signature(
        (AxisSignature("t", 0.0, 1.0), RING), (InputSignature("u0", ("x",), waves=3),), 1, 0
    )
    torch.manual_seed(0)
    model = build_backbone(network[0], signature, network[1], width=64, latent=48, layers=3)
    sensors = 2 * math.pi * torch.arange(24.0)[None, :, None] / 24

    def draw(batch: int, count: int):
        k = torch.arange(1.0, 4.0)
        a, b = torch.randn(2, batch, 1, 3) / k
        queries = torch.rand(1, count, 2) * torch.tensor([1.0, 2 * math.pi])

        def solution(t, x):
            waves = a * torch.cos(k * x) + b * torch.sin(k * x)
            return (waves * torch.exp(-(k**2) * t / 10)).sum(-1, keepdim=True)

        points = sensors.expand(batch, -1, -1)
        inputs = {"u0": FunctionSamples(points, solution(torch.zeros(1), points))}
        return inputs, queries, solution(queries[..., :1], queries[..., 1:])

    steps = 600
    optimiser = torch.optim.AdamW(model.parameters(), 3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in range(steps):
        inputs, queries, truth = draw(32, 48)
        optimiser.zero_grad()
        (model(inputs, queries) - truth).square().mean().backward()
        optimiser.step()
        schedule.step()
    inputs, queries, truth = draw(64, 200)
    with torch.no_grad():
        error = (model(inputs, queries) - truth).square().mean() / truth.square().mean()
    assert error.sqrt() < 0.1

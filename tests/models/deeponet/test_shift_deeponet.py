from __future__ import annotations

import math

import pytest
import torch

from piop.errors import UsageError
from piop.models import build_backbone

from ..cases import SIGNATURES, queries_for, samples_for


def network(case, **sizes):
    torch.manual_seed(0)
    sizes = {"width": 8, "latent": 6, "layers": 3, "frames": 3, "frequencies": 2, **sizes}
    model = build_backbone("shift_deeponet", SIGNATURES[case], **sizes).double()
    torch.nn.init.normal_(model.bias)
    return model


@pytest.mark.parametrize("case", ["evolution", "plane", "walls", "several"])
@pytest.mark.parametrize("frames", [1, 3, 6])
def test_without_shift_and_scale_it_is_the_deeponet(case, frames):
    model = network(case, frames=frames)
    for part in (model.scale, model.shift):
        torch.nn.init.zeros_(part[-1].weight)
        torch.nn.init.zeros_(part[-1].bias)
    plain = build_backbone(
        "deeponet", SIGNATURES[case], width=8, latent=6, layers=3, frequencies=2
    ).double()
    own = {k: v for k, v in model.state_dict().items() if k.split(".")[0] not in ("scale", "shift")}
    plain.load_state_dict(own)
    inputs, queries = samples_for(SIGNATURES[case]), queries_for(SIGNATURES[case])
    assert (model(inputs, queries) - plain(inputs, queries)).abs().max() < 1e-12


def test_the_formula_by_hand():
    """Two channels, time straight, x and y round: every frame moves the trunk's coordinates."""
    signature = SIGNATURES["plane"]
    model = network("plane")
    inputs, queries = samples_for(signature), queries_for(signature)
    read = model.sensors(inputs, queries)

    def perceptron(layers, state):
        for layer in layers[:-1]:
            state = torch.tanh(layer(state))
        return layers[-1](state)

    scale, shift = perceptron(model.scale, read), perceptron(model.shift, read)
    mixing, steep = scale[:, :9].reshape(2, 3, 3), scale[:, 9:].reshape(2, 3, 2)
    shift, branch = shift.reshape(2, 3, 3), perceptron(model.branch, read).reshape(2, 2, 3, 2)
    out = model(inputs, queries)
    for b in range(2):
        for n in range(7):
            t = 2 * queries[b, n, 0] / 2.475 - 1
            x, y = queries[b, n, 1], math.pi * (queries[b, n, 2] + 1)
            total = model.bias.clone()
            for f in range(3):
                moved = torch.stack([t, x, y]) + mixing[b, :, f] * t + shift[b, :, f]
                features = [moved[:1]]
                for i in range(2):
                    phase = torch.tensor([1.0, 2.0]).double() * moved[1 + i]
                    features += [(1 + steep[b, f, i]) * g(phase) for g in (torch.cos, torch.sin)]
                trunk = torch.tanh(perceptron(model.trunk, torch.cat(features))).reshape(2, 3, 2)
                total = total + (trunk[:, f] * branch[b, :, f]).sum(-1)
            assert (out[b, n] - total).abs().max() < 1e-12


def test_a_steady_shift_moves_the_answer():
    """γ alone, the same for every product: G(θ) becomes G(θ + γ)."""
    signature = SIGNATURES["evolution"]
    model = network("evolution", frames=1)
    for layer in (model.scale[-1], model.shift[-1]):
        torch.nn.init.zeros_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
    inputs, queries = samples_for(signature), queries_for(signature)
    moved = queries + torch.tensor([0.0, 0.7], dtype=torch.float64)
    expected = model(inputs, moved)
    with torch.no_grad():
        model.shift[-1].bias[1] = 0.7
    assert (model(inputs, queries) - expected).abs().max() < 1e-12


def test_frames_that_do_not_share_the_products_evenly_are_refused():
    with pytest.raises(UsageError, match="frames = 5: give a divisor of latent = 64"):
        build_backbone("shift_deeponet", SIGNATURES["evolution"], frames=5)

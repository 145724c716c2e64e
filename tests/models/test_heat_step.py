"""Each backbone learns a linear operator that it must be able to learn: one step of heat."""

from __future__ import annotations

import math

import pytest
import torch

from piop.fields import FunctionSamples
from piop.models import AxisSignature, InputSignature, Signature, build_backbone

SIGNATURE = Signature(
    (AxisSignature("x", 0.0, 2 * math.pi, periodic=True),),
    (InputSignature("u0", ("x",), std=0.6, waves=3),),
    homogeneous=("x",),
)
SMALL = {"width": 32, "latent": 16, "layers": 2, "frequencies": 3}
OFORMER = {"width": 32, "blocks": 1, "rounds": 1, "heads": 2, "harmonics": 4, "content": 4}

CASES = [
    pytest.param("deeponet", "default", SMALL, id="deeponet"),
    pytest.param(
        "modified_deeponet", "default", SMALL, id="modified_deeponet", marks=pytest.mark.slow
    ),
    pytest.param("modified_deeponet", "separate", SMALL, id="separate gates"),
    pytest.param("shift_deeponet", "default", SMALL, id="shift_deeponet", marks=pytest.mark.slow),
    pytest.param("fno", "default", {"width": 8, "modes": 3, "blocks": 2}, id="fno"),
    pytest.param("oformer", "default", OFORMER, id="oformer", marks=pytest.mark.slow),
    pytest.param(
        "position_attention",
        "default",
        {"width": 12, "heads": 3, "blocks": 1, "reads": 1},
        id="position_attention",
        marks=pytest.mark.slow,
    ),
    pytest.param(
        "position_attention",
        "code_darcy",
        {"width": 16, "blocks": 2, "latent": (16,), "local": (1.0, 1.0)},
        id="position_attention, published",
        marks=pytest.mark.slow,
    ),
    pytest.param(
        "galerkin",
        "default",
        {"width": 16, "blocks": 1, "modes": 4},
        id="galerkin",
        marks=pytest.mark.slow,
    ),
]


def draw(batch: int, count: int, generator: torch.Generator):
    """Functions of three waves at 16 sensors, and u_t = u_xx at t = 0.1 on a grid: exact."""
    k = torch.arange(1.0, 4.0)
    a, b = torch.randn(2, batch, 1, 3, generator=generator) * 0.5 / k

    def solution(time: float, x):
        waves = a * torch.cos(k * x) + b * torch.sin(k * x)
        return (waves * torch.exp(-time * k**2)).sum(-1, keepdim=True)

    sensors = (2 * math.pi * torch.arange(16.0) / 16)[None, :, None].expand(batch, -1, -1)
    grid = 2 * math.pi * torch.arange(float(count)) / count
    inputs = {"u0": FunctionSamples(sensors, solution(0.0, sensors))}
    return inputs, [grid], solution(0.1, grid[None, :, None])


@pytest.mark.parametrize(("name", "preset", "sizes"), CASES)
def test_it_learns_one_step_of_heat_to_a_hundredth(name, preset, sizes):
    """On functions not seen, and on another grid than the one trained on."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    model = build_backbone(name, SIGNATURE, preset, **sizes)
    inputs, axes, truth = draw(512, 24, generator)
    optimiser = torch.optim.LBFGS(
        model.parameters(), max_iter=400, history_size=50, line_search_fn="strong_wolfe"
    )

    def loss():
        optimiser.zero_grad()
        error = (model.on_grid(inputs, axes) - truth).square().mean()
        error.backward()
        return error

    optimiser.step(loss)
    inputs, axes, truth = draw(64, 40, generator)
    with torch.no_grad():
        wrong = (model.on_grid(inputs, axes) - truth).flatten(1).norm(dim=1)
    assert (wrong / truth.flatten(1).norm(dim=1)).mean() < 0.01

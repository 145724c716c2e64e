"""The smooth position-attention of the point field, against its formula and its derivatives."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from piop.models import AxisSignature
from piop.models.core.coordinates import cell_grid, squared_chords
from piop.models.position_attention.attention import window_square
from piop.models.position_attention.smooth_kernels import (
    KernelCrossAttention,
    KernelPoints,
    PositionAttentionConfig,
    kernel_coordinates,
)

RING = AxisSignature("x", 0.0, 2.0, periodic=True)
WALLED = AxisSignature("z", 1.0, 4.0)
AXES = (RING, WALLED)
SIZES = PositionAttentionConfig(width=8, heads=2)


def reading(axes=AXES, **options) -> KernelCrossAttention:
    torch.manual_seed(0)
    return KernelCrossAttention(SIZES, axes, finest=6.0, **options).double()


def mesh(axes=AXES, counts=(6, 5)):
    return cell_grid(axes, counts, torch.zeros((), dtype=torch.float64))


def places(count=4, batch=2):
    unit = torch.rand(batch, count, 2, dtype=torch.float64)
    return unit * torch.tensor([2.0, 3.0]) + torch.tensor([0.0, 1.0])


@pytest.mark.parametrize("window", [None, 0.5])
def test_a_reading_is_position_attention_with_first_moments(window):
    points, queries = mesh(), places()
    reach = None
    if window is not None:
        reach = window_square(squared_chords(points, points, AXES), window)
    layer, tokens = reading(window=reach), torch.randn(2, 30, 8, dtype=torch.float64)
    out = layer(tokens, KernelPoints.of(points, AXES), kernel_coordinates(queries, AXES))
    squares = squared_chords(queries, points, AXES)
    apart = queries[:, :, None] - points[:, None]
    moments = (torch.sin(math.pi * apart[..., 0]), apart[..., 1] / 3.0)
    values = layer.value(tokens).reshape(2, 30, 2, 6)
    heads = []
    for h in range(2):
        scores = -(layer.r[h] ** 2) * squares
        if reach is not None:
            scores = scores - (squares / reach) ** 4
        rows = torch.softmax(scores, -1)
        heads.append(rows @ values[:, :, h, :4])
        for i, moment in enumerate(moments):
            heads.append((rows * moment) @ values[:, :, h, 4 + i : 5 + i])
    truth = layer.out(torch.cat(heads, -1))
    assert (out - truth).abs().max() < 1e-12


def test_a_control_widens_and_shifts_the_kernel():
    layer, points = reading((RING,), control=1), mesh((RING,), (40,))
    with torch.no_grad():
        layer.control.weight.zero_()
        layer.control.bias.copy_(torch.tensor([math.log(4.0), 0.5, 0.0, 0.0], dtype=torch.float64))
    tokens, at = torch.randn(1, 40, 8, dtype=torch.float64), torch.rand(1, 5, 1).double()
    still = reading((RING,))
    still.load_state_dict({k: v for k, v in layer.state_dict().items() if "control" not in k})
    with torch.no_grad():
        still.r[0] *= 2
        still.out.weight[:, 5:] = 0  # the first head alone
        layer.out.weight[:, 5:] = 0
    moved = layer(
        tokens,
        KernelPoints.of(points, (RING,)),
        kernel_coordinates(at, (RING,)),
        torch.ones(1, 5, 1).double(),
    )
    shifted = kernel_coordinates(at, (RING,)) + 0.5
    assert (still(tokens, KernelPoints.of(points, (RING,)), shifted) - moved).abs().max() < 1e-12


def test_answers_are_smooth_and_the_same_on_either_side_of_the_seam():
    """Second derivatives beside finite differences of the formula, at and across the seam."""
    layer, points = reading((RING,)), mesh((RING,), (24,))
    tokens = torch.randn(1, 24, 8, dtype=torch.float64)

    def answer(at):
        return layer(
            tokens, KernelPoints.of(points, (RING,)), kernel_coordinates(at[None, :, None], (RING,))
        ).sum()

    for place in (-1e-3, 0.0, 1e-3, 1.0, 2.0):
        at = torch.tensor([place], dtype=torch.float64, requires_grad=True)
        slope = torch.autograd.grad(answer(at), at, create_graph=True)[0]
        curvature = torch.autograd.grad(slope.sum(), at)[0].item()
        h = 1e-4
        with torch.no_grad():
            left, middle, right = (answer(at + d).item() for d in (-h, 0.0, h))
            around = answer(at + 2.0).item()
        assert curvature == pytest.approx((left - 2 * middle + right) / h**2, rel=1e-5, abs=1e-5)
        assert around == pytest.approx(middle, abs=1e-12)


def test_shifting_latent_values_and_query_together_changes_nothing():
    layer, points = reading((RING,)), mesh((RING,), (24,))
    tokens, at = torch.randn(1, 24, 8, dtype=torch.float64), torch.rand(1, 5, 1).double()
    here = layer(tokens, KernelPoints.of(points, (RING,)), kernel_coordinates(at, (RING,)))
    there = layer(
        tokens.roll(7, 1),
        KernelPoints.of(points, (RING,)),
        kernel_coordinates(at + 7 * 2.0 / 24, (RING,)),
    )
    assert (here - there).abs().max() < 1e-12


def test_contents_add_the_scores_of_equation_12():
    layer, points = reading((RING,), content=5), mesh((RING,), (7,))
    tokens, state = torch.randn(1, 7, 8).double(), torch.randn(1, 4, 5).double()
    at = torch.rand(1, 4, 1).double()
    with torch.no_grad():  # heads as they are, as many as fit
        layer.out.weight.copy_(torch.eye(8, 10))
        layer.out.bias.zero_()
    out = layer(
        tokens, KernelPoints.of(points, (RING,)), kernel_coordinates(at, (RING,)), state=state
    )
    squares = squared_chords(at, points, (RING,))
    values = layer.value(tokens)[0]
    for n, h in itertools.product(range(4), range(2)):
        part = slice(4 * h, 4 * h + 4)
        query = layer.query.weight[part] @ state[0, n]
        scores = [
            (query @ (layer.key.weight[part] @ tokens[0, m]) / 2 - layer.r[h] ** 2 * d).item()
            for m, d in enumerate(squares[0, n])
        ]
        weight = torch.tensor(scores, dtype=torch.float64).exp()
        truth = (weight / weight.sum()) @ values[:, 5 * h : 5 * h + 4]
        assert torch.allclose(out[0, n, 5 * h : 5 * h + 4][: 8 - 5 * h], truth[: 8 - 5 * h])


@pytest.mark.parametrize("count", [4, 6])
def test_padding_and_functions_without_a_shared_axis(count):
    layer = reading(())
    tokens = torch.randn(2, 6, 8).double()
    there = torch.tensor([[True] * 4 + [False] * 2]) if count < 6 else None  # None: no padding
    nowhere = torch.zeros(1, 6, 0, dtype=torch.float64)
    at = torch.zeros(1, 3, 0, dtype=torch.float64)
    out = layer(tokens, KernelPoints.of(nowhere, (), there), at)
    truth = layer.out(layer.value(tokens)[:, :count].mean(1, keepdim=True)).expand(-1, 3, -1)
    assert (out - truth).abs().max() < 1e-12

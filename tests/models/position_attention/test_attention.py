"""Position-attention against its formulas, written out by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad

from piop.models import AxisSignature
from piop.models.core.coordinates import (
    cell_grid,
    largest_squared_distance,
    squared_chords,
    squared_distances,
)
from piop.models.position_attention.attention import (
    PositionAttention,
    sine_tangent,
    smooth_window,
    square,
    tangent,
    window_square,
    within_quantile,
)
from piop.models.position_attention.published import farthest_points, random_points

RING = AxisSignature("x", 0.0, 2.0, periodic=True)
OTHER = AxisSignature("y", -1.0, 1.0, periodic=True)
WALLED = AxisSignature("z", 1.0, 4.0)


def points(count: int, *axes: AxisSignature, batch: int = 1, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    unit = torch.rand(batch, count, len(axes), generator=generator, dtype=torch.float64)
    low = torch.tensor([a.low for a in axes], dtype=torch.float64)
    return low + unit * torch.tensor([a.high - a.low for a in axes], dtype=torch.float64)


def layer(features=3, width=4, heads=2, sharpness="square", content=False):
    torch.manual_seed(1)
    return PositionAttention(features, width, heads, sharpness, content).double()


def test_distances_take_the_nearest_of_all_images_diagonal_ones_too():
    to, of = points(30, RING, OTHER), points(40, RING, OTHER, seed=1)
    images = torch.tensor(list(itertools.product((-2.0, 0.0, 2.0), repeat=2)))
    apart = (to[0, :, None, None] - of[0, None, :, None] + images) / 2.0
    truth = (apart**2).sum(-1).amin(-1)
    assert (squared_distances(to, of, (RING, OTHER))[0] - truth).abs().max() < 1e-14
    corners = torch.tensor([[[0.0, -1.0], [1.9, 0.9], [0.1, 0.9]]], dtype=torch.float64)
    corner = torch.tensor([[[0.1, -0.9]]], dtype=torch.float64)
    found = squared_distances(corners, corner, (RING, OTHER))[0, :, 0]
    assert torch.allclose(found, torch.tensor([0.005, 0.02, 0.01], dtype=torch.float64))


def test_distances_count_walls_as_they_are_and_know_their_largest():
    to = torch.tensor([[[0.0, 1.0]]], dtype=torch.float64)
    of = torch.tensor([[[1.0, 4.0]]], dtype=torch.float64)
    assert squared_distances(to, of, (RING, WALLED)).item() == 1.25
    assert largest_squared_distance((RING, WALLED)) == 1.25
    assert largest_squared_distance((RING,)) == 0.25
    assert largest_squared_distance((WALLED, WALLED)) == 2.0


def test_chords_are_smooth_across_the_seam_and_half_a_period_away():
    at = torch.tensor([0.3, 1.3, 0.3 + 1e-9, 1.9999, 2.0001, -0.4], dtype=torch.float64)
    at.requires_grad_()
    of = torch.tensor([[[0.3]]], dtype=torch.float64)
    value = squared_chords(at[None, :, None], of, (RING,))[0, :, 0]
    slope = torch.autograd.grad(value.sum(), at, create_graph=True)[0]
    curvature = torch.autograd.grad(slope.sum(), at)[0]
    phase = math.pi * (at.detach() - 0.3)  # half a turn is 1 long
    assert torch.allclose(value.detach(), torch.sin(phase / 2) ** 2 / math.pi**2, atol=1e-15)
    assert torch.allclose(slope.detach(), torch.sin(phase) / (2 * math.pi), atol=1e-14)
    assert torch.allclose(curvature, torch.cos(phase) / 2, atol=1e-13)


def test_chords_of_near_points_are_their_distances():
    of = points(1, RING, WALLED)
    to = of + torch.tensor([1e-4, 2e-4], dtype=torch.float64)
    arc = squared_distances(to, of, (RING, WALLED))
    assert (squared_chords(to, of, (RING, WALLED)) / arc - 1).abs().item() < 1e-8


def test_sharpness_follows_its_formulas():
    r = torch.tensor([-1.0, 0.0, 0.5, math.pi / 4, 3.0], dtype=torch.float64)
    assert torch.equal(square(r), r**2)
    expected = torch.tensor([0.0, 0.0, math.tan(0.5), 1.0, 1e6], dtype=torch.float64)
    assert torch.allclose(tangent(r), expected, rtol=1e-9)
    bent = [math.tan(math.pi / 4 * (1 - 1e-7) * (1 + math.sin(x))) for x in r]
    assert torch.allclose(sine_tangent(r), torch.tensor(bent, dtype=torch.float64), rtol=1e-12)
    top = sine_tangent(torch.tensor([math.pi / 2]))
    assert top.item() == pytest.approx(2e7 / math.pi, rel=1e-4), "capped, in single precision too"


def test_a_sharpness_below_zero_finds_its_way_back():
    r = torch.tensor([-0.2], dtype=torch.float64, requires_grad=True)
    tangent(r).sum().backward()
    assert r.grad is not None
    assert r.grad.item() == 1.0


def test_attention_is_the_sum_of_equations_9_and_22():
    attention, state = layer(), torch.randn(2, 5, 3, dtype=torch.float64)
    squares = squared_distances(points(4, WALLED), points(5, WALLED, seed=1), (WALLED,))
    out = attention(state, squares)
    for b, i, h in itertools.product(range(2), range(4), range(2)):
        weight = [math.exp(-(attention.r[h].item() ** 2) * d) for d in squares[0, i].tolist()]
        matrix = attention.value.weight[2 * h : 2 * h + 2]
        rows = [w / sum(weight) * (matrix @ state[b, k]) for k, w in enumerate(weight)]
        assert torch.allclose(out[b, i, 2 * h : 2 * h + 2], sum(rows), atol=1e-14)


def test_the_self_variant_is_equation_12():
    attention, state = layer(content=True), torch.randn(2, 5, 3, dtype=torch.float64)
    squares = squared_distances(points(5, WALLED), points(5, WALLED), (WALLED,))
    out = attention(state, squares)
    for b, i, h in itertools.product(range(2), range(5), range(2)):
        part = slice(2 * h, 2 * h + 2)
        query = attention.query.weight[part] @ state[b, i]
        scores = [
            (query @ (attention.key.weight[part] @ state[b, k])).item() / math.sqrt(2)
            - attention.r[h].item() ** 2 * squares[0, i, k].item()
            for k in range(5)
        ]
        weight = [math.exp(s) for s in scores]
        values = [attention.value.weight[part] @ state[b, k] for k in range(5)]
        truth = sum(w / sum(weight) * v for w, v in zip(weight, values, strict=True))
        assert torch.allclose(out[b, i, part], truth, atol=1e-14)


def test_rows_sum_to_one_globally_locally_and_with_content():
    squares = squared_distances(points(7, RING), points(40, RING, seed=1), (RING,))
    for kept in (None, within_quantile(squares, 0.1)):
        rows = layer(sharpness="sine_tangent").weights(squares, kept)
        assert (rows.sum(-1) - 1).abs().max() < 1e-14
        assert rows.shape == (1, 2, 7, 40)
    assert ((rows > 0).sum(-1) == 4).all(), "⌊0.1 · 39⌋ + 1 of 40"


def test_meshes_of_each_function_give_what_a_shared_mesh_gives():
    attention, state = layer(), torch.randn(3, 6, 3, dtype=torch.float64)
    squares = squared_distances(points(4, RING), points(6, RING, seed=1), (RING,))
    kept = within_quantile(squares, 0.5)
    each = attention(state, squares.expand(3, -1, -1), kept.expand(3, -1, -1))
    assert (attention(state, squares, kept) - each).abs().max() < 1e-14


def test_converges_to_its_integral_at_the_monte_carlo_rate():
    """Theorem 2.1: the error of n random sensors falls as n^(−1/2); slope over 64 draws of each."""
    attention = layer(1, 1, 1)
    with torch.no_grad():
        attention.r.fill_(4.0)  # λ = 16: most of the weight within 1/4
        attention.value.weight.fill_(1.0)
    axis = AxisSignature("x", 0.0, 1.0)
    to = torch.tensor([[[0.1], [0.4], [0.77]]], dtype=torch.float64)

    def kernel(y: float, x: float) -> float:
        return math.exp(-16 * (x - y) ** 2)

    def field(y: float) -> float:
        return math.sin(7 * y) + y**2

    truth = torch.tensor(
        [
            quad(lambda y, x=x: kernel(y, x) * field(y), 0, 1)[0] / quad(kernel, 0, 1, (x,))[0]
            for x in (0.1, 0.4, 0.77)
        ],
        dtype=torch.float64,
    )
    counts, errors = (64, 256, 1024, 4096), []
    for count in counts:
        of = points(count, axis, batch=64, seed=count)
        values = torch.sin(7 * of) + of**2
        out = attention(values, squared_distances(to, of, (axis,)))[..., 0]
        errors.append((out - truth).square().mean().sqrt().item())
    slope = np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert -0.55 < slope < -0.45, errors
    assert errors[-1] < 0.02


@pytest.mark.parametrize(
    ("count", "quantile", "kept"),
    [(1849, 0.02, 37), (256, 0.02, 6), (11271, 0.005, 57), (101, 0.29, 30), (5, 1.0, 5)],
)
def test_masks_keep_the_quantile_exactly(count, quantile, kept):
    squares = torch.rand(1, 8, count, generator=torch.Generator().manual_seed(0)).double()
    near = within_quantile(squares, quantile)
    assert (near.sum(-1) == kept).all()
    if quantile != 0.29:  # numpy's own product 0.29 · 100 rounds below 29
        bound = np.percentile(squares.numpy(), 100 * quantile, axis=-1, keepdims=True)
        assert (near.numpy() == (squares.numpy() <= bound)).all()


def test_masks_of_padded_meshes_are_those_of_the_points_that_are_there():
    squares = torch.rand(2, 3, 50, generator=torch.Generator().manual_seed(0)).double()
    there = torch.ones(2, 50, dtype=torch.bool)
    there[0, 30:] = False
    near = within_quantile(squares, 0.1, there)
    assert torch.equal(near[:1, :, :30], within_quantile(squares[:1, :, :30], 0.1))
    assert not near[0, :, 30:].any()
    assert torch.equal(near[1:], within_quantile(squares[1:], 0.1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_masks_on_an_even_ring_are_the_same_from_every_point(dtype):
    ring = torch.arange(96, dtype=dtype)[None, :, None] * (2.0 / 96)
    near = within_quantile(squared_distances(ring, ring, (RING,)), 0.05)[0]
    first = near[0]
    assert first.sum() == 5, "⌊0.05 · 95⌋ + 1, two on either side"
    assert all(torch.equal(row.roll(-i), first) for i, row in enumerate(near))


def test_the_smooth_window_has_the_slopes_it_should():
    squares = torch.tensor([0.0, 0.01, 0.04, 0.0801], dtype=torch.float64, requires_grad=True)
    logs = smooth_window(squares, 0.04)
    truth = torch.tensor([0.0, -(0.25**4), -1.0, -(2.0025**4)], dtype=torch.float64)
    assert torch.allclose(logs.detach(), truth)
    slope = torch.autograd.grad(logs.sum(), squares)[0]
    assert torch.allclose(slope, -4 * squares.detach() ** 3 / 0.04**4)
    assert math.exp(truth[-1]) < 2e-7


def test_the_window_of_an_even_ring_reaches_its_quantile():
    ring = cell_grid((RING,), (100,), torch.zeros((), dtype=torch.float64))
    assert window_square(squared_distances(ring, ring, (RING,)), 0.1) == pytest.approx(0.05**2)


def test_pooled_meshes_are_the_means_of_fine_ones():
    fine = cell_grid((RING, WALLED), (12, 20), torch.zeros((), dtype=torch.float64))
    coarse = cell_grid((RING, WALLED), (4, 5), torch.zeros((), dtype=torch.float64))
    means = fine.reshape(4, 3, 5, 4, 2).mean((1, 3)).reshape(1, 20, 2)
    assert torch.allclose(coarse, means)


def test_sampled_meshes_fill_the_box_evenly():
    torch.manual_seed(0)
    drawn = random_points((RING, WALLED), 4000, torch.zeros((), dtype=torch.float64))[0]
    low, high = torch.tensor([0.0, 1.0]), torch.tensor([2.0, 4.0])
    assert ((drawn >= low) & (drawn <= high)).all()
    spread = torch.tensor([2.0, 3.0]) / math.sqrt(12)
    assert ((drawn.mean(0) - (low + high) / 2).abs() < 4 * spread / math.sqrt(4000)).all()


def test_farthest_points_are_chosen_greedily_round_the_seam():
    cloud = points(30, RING, WALLED, batch=2)
    found = farthest_points(cloud, 6, (RING, WALLED))
    for b in range(2):
        middle = torch.tensor([[[1.0, 2.5]]], dtype=torch.float64)
        first = squared_distances(middle, cloud[b : b + 1], (RING, WALLED))[0, 0].argmin()
        chosen = [int(first)]
        apart = squared_distances(cloud[b : b + 1], cloud[b : b + 1], (RING, WALLED))[0]
        while len(chosen) < 6:
            chosen.append(int(apart[:, chosen].amin(-1).argmax()))
        assert torch.equal(found[b], cloud[b, chosen])
    shuffled = cloud[:, torch.randperm(30)]
    assert torch.equal(farthest_points(shuffled, 6, (RING, WALLED)), found)
    assert farthest_points(cloud, 99, (RING, WALLED)).shape == (2, 30, 2)

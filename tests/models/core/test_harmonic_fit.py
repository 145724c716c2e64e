from __future__ import annotations

import math
import time

import numpy as np
import pytest
import torch

from piop.fields import FunctionSamples
from piop.models import AxisSignature, InputSignature
from piop.models.core.base import Signature
from piop.models.core.coordinates import angles, harmonics, shortest_waves, wave_vectors
from piop.models.core.harmonic_fit import (
    RIDGE,
    HarmonicCrossAttention,
    HarmonicFit,
    harmonic_sum,
)
from piop.models.core.sensor_encoder import SensorEncoder, encode_sensors
from piop.models.pit.network import PITConfig
from piop.models.pit.published import sinusoids

X = AxisSignature("x", -1.0, 3.0, periodic=True)
Y = AxisSignature("y", 0.0, 2.0, periodic=True)
Z = AxisSignature("z", 0.0, 2.0)


def grid(*counts: int) -> torch.Tensor:
    axes = [X, Y][: len(counts)]
    ticks = [
        a.low + (a.high - a.low) * torch.arange(n, dtype=torch.float64) / n
        for a, n in zip(axes, counts, strict=True)
    ]
    return torch.cartesian_prod(*ticks).reshape(1, -1, len(counts))


def wave(points: torch.Tensor) -> torch.Tensor:
    t = 2 * math.pi * (points[..., 0] + 1) / 4
    return 0.4 + 1.5 * torch.cos(2 * t) - 0.5 * torch.sin(3 * t)


def test_coefficients_of_known_harmonics_come_back():
    spectrum = HarmonicFit(InputSignature("u0", ("x",)), [X]).double()
    points = grid(32)
    found = spectrum(FunctionSamples(points, wave(points)[..., None]))[0, :, 0]
    expected = torch.zeros(17, dtype=torch.float64)
    expected[0], expected[2], expected[8 + 3] = 0.4, 1.5, -0.5
    assert (found - expected).abs().max() < 3e-4  # the ridge's bias, 1e-6 (1 + k²)²


def test_random_sensors_give_the_same_coefficients():
    spectrum = HarmonicFit(InputSignature("u0", ("x",)), [X]).double()
    points = -1 + 4 * torch.rand(5, 64, 1, dtype=torch.float64)
    regular = grid(64).expand(5, -1, -1)
    a = spectrum(FunctionSamples(points, wave(points)[..., None]))
    b = spectrum(FunctionSamples(regular, wave(regular)[..., None]))
    assert (a - b).abs().max() < 5e-3


def test_fewer_sensors_than_harmonics_give_the_smoothest_interpolant():
    """Least squares with a row √(RIDGE·M)·(1 + k²) for each coefficient, solved by NumPy."""
    fit = HarmonicFit(InputSignature("u0", ("x",)), [X]).double()
    points = -1 + 4 * torch.rand(1, 6, 1, dtype=torch.float64)
    values = wave(points)
    found = fit(FunctionSamples(points, values[..., None]))[0, :, 0]
    angle, k = math.pi / 2 * (points[0, :, 0] + 1), torch.arange(1.0, 9.0, dtype=torch.float64)
    basis = torch.cat(
        [torch.ones(6, 1), torch.cos(angle[:, None] * k), torch.sin(angle[:, None] * k)], 1
    )
    penalty = math.sqrt(RIDGE * 6) * torch.cat([torch.ones(1), 1 + k**2, 1 + k**2]).diag()
    rows = torch.cat([basis, penalty]).numpy()
    right = torch.cat([values[0], torch.zeros(17)]).numpy()
    expected = torch.from_numpy(np.linalg.lstsq(rows, right, rcond=None)[0])
    assert torch.allclose(found, expected, atol=1e-8)


def test_values_are_standardised_by_the_law():
    plain = HarmonicFit(InputSignature("u0", ("x",)), [X]).double()
    scaled = HarmonicFit(InputSignature("u0", ("x",), mean=0.4, std=2.0), [X]).double()
    points = grid(32)
    samples = FunctionSamples(points, wave(points)[..., None])
    a, b = plain(samples), scaled(samples)
    assert abs(b[0, 0, 0]) < 1e-9
    assert (b[0, 1:] * 2 - a[0, 1:]).abs().max() < 1e-9


def test_slope_and_antiderivative_of_the_fit():
    spectrum = HarmonicFit(InputSignature("u0", ("x",)), [X]).double()
    points = grid(32)
    coefficients = spectrum(FunctionSamples(points, wave(points)[..., None]))
    t = 2 * math.pi * (points[..., 0] + 1) / 4
    slope, antiderivative = spectrum.features(coefficients, points).unbind(-1)
    assert (slope - 0.5 * (-3 * torch.sin(2 * t) - 1.5 * torch.cos(3 * t))).abs().max() < 2e-3
    exact = 0.75 * torch.sin(2 * t) + 0.5 / 3 * torch.cos(3 * t)
    assert (antiderivative - exact).abs().max() < 2e-3


def test_inverse_gradient_in_the_plane_undoes_the_laplacian():
    spectrum = HarmonicFit(InputSignature("w", ("x", "y")), [X, Y]).double()
    points = grid(16, 16)
    a, b = angles(points, [X, Y]).unbind(-1)
    vorticity = torch.cos(a + 2 * b)  # Δ⁻¹ w = −w/5 per radian squared
    coefficients = spectrum(FunctionSamples(points, vorticity[..., None]))
    columns = spectrum.features(coefficients, points)
    assert (columns[..., 1] - torch.sin(a + 2 * b) / 5).abs().max() < 1e-3
    assert (columns[..., 3] - 2 * torch.sin(a + 2 * b) / 5).abs().max() < 1e-3


def test_lattice_resolves_the_shortest_harmonic_and_keeps_off_walls():
    ring = HarmonicFit(InputSignature("u0", ("x",)), [X]).token_grid(torch.zeros(1))
    assert ring.shape == (1, 24, 1)
    assert ring[0, 0, 0] == -1.0
    assert ring[0, -1, 0] == pytest.approx(3 - 4 / 24)
    walled = HarmonicFit(InputSignature("u0", ("z",)), [Z]).token_grid(torch.zeros(1))
    assert 0 < walled.min() < 0.1
    assert 1.9 < walled.max() < 2


def test_largest_wave_number_of_the_law_is_used():
    fine = HarmonicFit(InputSignature("u0", ("x",), waves=20), [X])
    assert len(fine.waves) == 20
    assert fine.token_grid(torch.zeros(1)).shape == (1, 60, 1)
    coarse = HarmonicFit(InputSignature("u0", ("x",), waves=3), [X])
    assert len(coarse.waves) == 3
    assert coarse.token_grid(torch.zeros(1)).shape == (1, 24, 1)


def test_lattice_is_laid_for_the_bulk_and_harmonics_for_all():
    found = HarmonicFit(InputSignature("u0", ("x",), waves=20, bulk=10), [X])
    assert len(found.waves) == 20
    assert found.token_grid(torch.zeros(1)).shape == (1, 30, 1)


def test_sensors_that_all_functions_share_give_the_same_coefficients():
    fit = HarmonicFit(InputSignature("u0", ("x", "y"), waves=3), [X, Y]).double()
    shared = grid(12, 9).expand(3, -1, -1)
    values = torch.randn(3, 108, 2, dtype=torch.float64)
    found = fit(FunctionSamples(shared, values))
    apart = fit(FunctionSamples(shared.contiguous(), values))
    torch.testing.assert_close(found, apart, rtol=0, atol=1e-12)
    assert FunctionSamples(shared, values).distinct_points.shape == (1, 108, 2)
    assert FunctionSamples(shared.contiguous(), values).distinct_points.shape == (3, 108, 2)


def test_views_of_several_inputs_add_up():
    """Those of a and b are in the same harmonics, and evaluated together; that of c is not."""
    torch.manual_seed(0)
    waves = {"a": 4, "b": 4, "c": 6}
    inputs = tuple(InputSignature(name, ("x",), waves=k) for name, k in waves.items())
    signature = Signature((X,), inputs, 1, None, ("x",))
    encoders = torch.nn.ModuleDict(
        {e.name: SensorEncoder(signature, e, PITConfig()).double() for e in inputs}
    )
    queries = grid(7)
    seen = {name: FunctionSamples(grid(32), torch.randn(1, 32, 1).double()) for name in waves}
    contexts, found = encode_sensors(encoders, seen, queries, None)
    assert list(contexts) == ["a", "b", "c"]
    expected = 0.0
    for name, encode in encoders.items():
        at_queries = harmonics(encode.angles(queries), encode.spectrum.waves)
        expected = expected + harmonic_sum(encode.view(encode.spectrum(seen[name])), *at_queries)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_view_moves_with_the_input():
    torch.manual_seed(0)
    view = HarmonicCrossAttention(3, 1, 5).double()
    a, b = torch.randn(2, 3, dtype=torch.float64)
    k = torch.arange(1.0, 4.0, dtype=torch.float64)
    by = 0.7  # u(x − by): a cos kx + b sin kx turns by k·by
    shifted = (
        a * torch.cos(k * by) - b * torch.sin(k * by),
        b * torch.cos(k * by) + a * torch.sin(k * by),
    )
    mean = torch.ones(1, dtype=torch.float64)

    def look(cos, sin, x):
        coefficients = torch.cat([mean, cos, sin])[None, :, None]
        cos, sin = torch.cos(k * x)[None, None], torch.sin(k * x)[None, None]
        return harmonic_sum(view(coefficients), cos, sin)

    assert (look(*shifted, 1.1 + by) - look(a, b, 1.1)).abs().max() < 1e-12
    assert (look(*shifted, 1.1) - look(a, b, 1.1)).abs().max() > 1e-2


@pytest.mark.parametrize(("dimension", "radius", "count"), [(1, 8, 8), (2, 5, 40), (3, 3, 61)])
def test_wave_vectors_are_half_of_the_ball_shortest_first(dimension, radius, count):
    found = [tuple(wave) for wave in wave_vectors(dimension, radius).tolist()]
    assert len(found) == count  # (lattice points of the ball − 1)/2
    sizes = [sum(i * i for i in k) for k in found]
    assert sizes == sorted(sizes)
    assert not {tuple(-i for i in k) for k in found} & set(found)


def test_shortest_waves_start_with_the_axes():
    assert {tuple(wave) for wave in shortest_waves(2, 2).tolist()} == {(0, 1), (1, 0)}
    assert len(shortest_waves(3, 6)) == 6


def test_walls_turn_by_half():
    ends = torch.tensor([[[0.0], [2.0]]])
    assert angles(ends, [Z])[0, :, 0].tolist() == pytest.approx([0.0, math.pi])
    assert angles(ends, [Y])[0, :, 0].tolist() == pytest.approx([0.0, 2 * math.pi])


def test_sinusoids_are_equation_five():
    points = torch.tensor([[[0.3, -2.0]]], dtype=torch.float64)
    found = sinusoids(points, 12)[0, 0]
    expected = []
    for v in (0.3, -2.0):
        rates = [10000 ** (-2 * (j // 2) / 12) for j in range(12)]
        expected += [math.sin(rates[j] * v) for j in range(0, 12, 2)]
        expected += [math.cos(rates[j] * v) for j in range(1, 12, 2)]
    assert found.tolist() == pytest.approx(expected, abs=1e-12)
    assert found.shape == (24,)


def test_many_waves_take_no_longer_than_their_number():
    start = time.process_time()
    assert shortest_waves(1, 10**5)[-1] == 10**5
    assert time.process_time() - start < 1

from __future__ import annotations

import math

import pytest
import torch

from piop.models.core.base import AxisSignature
from piop.models.core.spectral_convolution import (
    FourierTransform,
    SpectralConvolution,
    TransformAxis,
)

EXACT = 1e-12


def by_fft(values, weight):
    """The layer as published: torch.fft, complex weights, coefficients copied by wave number."""
    grid, modes = values.shape[1:-1], weight.shape[1:-2]
    axes = tuple(range(1, len(grid) + 1))
    spectrum = torch.fft.rfftn(values, dim=axes)
    complex_weight = torch.complex(weight[0], weight[1])
    out = torch.zeros(*spectrum.shape[:-1], weight.shape[-1], dtype=spectrum.dtype)
    kept = [min(k, n) for k, n in zip(modes, grid, strict=True)]
    ranges = [range(-(k // 2), k - k // 2) for k in kept]
    ranges[-1] = range(min(modes[-1], grid[-1] // 2 + 1))
    for wave in torch.cartesian_prod(*[torch.tensor(list(r)) for r in ranges]).reshape(
        -1, len(grid)
    ):
        place = [k + m // 2 for k, m in zip(wave[:-1], modes[:-1], strict=True)] + [wave[-1]]
        at = (slice(None), *wave)
        out[at] = spectrum[at] @ complex_weight[tuple(place)]
    return torch.fft.irfftn(out, s=grid, dim=axes)


def convolve(layer, values):
    """Apply a layer to functions with a period in every direction."""
    ring = AxisSignature("x", 0.0, 1.0, periodic=True)
    axes = [TransformAxis.along(ring, torch.arange(n), 0.0) for n in values.shape[1:-1]]
    return layer(values, FourierTransform(axes, layer.modes, values))


@pytest.mark.parametrize(
    ("grid", "modes"),
    [
        ((16,), (5,)),
        ((15,), (8,)),  # all wave numbers of an odd grid
        ((16,), (9,)),  # Nyquist's among them
        ((8,), (12,)),  # more modes than the grid has
        ((12, 10), (6, 4)),
        ((9, 8), (5, 5)),
        ((6, 7), (8, 12)),
        ((8, 8), (8, 5)),
        ((6, 5, 8), (4, 3, 5)),
    ],
)
def test_the_convolution_is_that_of_the_fast_transform(grid, modes):
    torch.manual_seed(0)
    layer = SpectralConvolution(3, 2, modes).double()
    values = torch.randn(4, *grid, 3, dtype=torch.float64)
    assert (convolve(layer, values) - by_fft(values, layer.weight)).abs().max() < EXACT


def test_gradients_are_those_of_the_fast_transform():
    torch.manual_seed(0)
    layer = SpectralConvolution(2, 2, (4, 3)).double()
    values = torch.randn(2, 6, 8, 2, dtype=torch.float64, requires_grad=True)
    seed = torch.randn(2, 6, 8, 2, dtype=torch.float64)
    leaves = (values, layer.weight)
    ours = torch.autograd.grad((convolve(layer, values) * seed).sum(), leaves)
    theirs = torch.autograd.grad((by_fft(values, layer.weight) * seed).sum(), leaves)
    assert all((a - b).abs().max() < EXACT for a, b in zip(ours, theirs, strict=True))


def test_a_shift_of_the_input_shifts_the_output():
    torch.manual_seed(0)
    layer = SpectralConvolution(2, 3, (9, 5)).double()  # Nyquist's wave number among them
    values = torch.randn(2, 8, 8, 2, dtype=torch.float64)
    rolled = convolve(layer, values.roll((3, 5), (1, 2)))
    assert (rolled - convolve(layer, values).roll((3, 5), (1, 2))).abs().max() < EXACT


def wave(*counts):
    """A band-limited function of two angles on a grid: wave numbers up to 3."""
    x, y = torch.meshgrid(
        *(2 * math.pi * torch.arange(n).double() / n for n in counts), indexing="ij"
    )
    return (torch.cos(2 * x - y) + 0.3 * torch.sin(3 * y + x) - 0.5)[None, ..., None]


def test_a_function_that_the_grid_resolves_gives_the_same_on_every_grid():
    torch.manual_seed(0)
    layer = SpectralConvolution(1, 2, (8, 6)).double()
    coarse, fine = convolve(layer, wave(8, 9)), convolve(layer, wave(24, 36))
    assert (coarse - fine[:, ::3, ::4]).abs().max() < EXACT


def test_the_wave_of_nyquist_keeps_its_cosine_alone():
    """cos(4 x) on eight points comes back as Re(w) cos(4 x): its sine cannot be seen there."""
    layer = SpectralConvolution(1, 1, (5,)).double()
    with torch.no_grad():
        layer.weight[:, 4] = torch.tensor([0.7, 0.4], dtype=torch.float64)[:, None, None]
    values = torch.cos(math.pi * torch.arange(8.0, dtype=torch.float64))[None, :, None]
    assert (convolve(layer, values) - 0.7 * values).abs().max() < EXACT
    fine = torch.cos(4 * 2 * math.pi * torch.arange(32.0, dtype=torch.float64) / 32)[None, :, None]
    quarter = torch.sin(4 * 2 * math.pi * torch.arange(32.0, dtype=torch.float64) / 32)
    assert (convolve(layer, fine) - 0.7 * fine + 0.4 * quarter[None, :, None]).abs().max() < EXACT


def test_coefficients_of_a_padded_axis_converge_at_second_order():
    """∫_1^3 exp(s) exp(−i k π (s − 1)/2.5 · …) ds/period, by parts, is what they tend to."""
    errors = []
    for count in (21, 41, 81):
        at = torch.linspace(1.0, 3.0, count, dtype=torch.float64)
        ticks = TransformAxis.padded(at, 1.0, 3.0, 0.25)
        like = torch.zeros((), dtype=torch.float64)
        found = FourierTransform([ticks], (4,), like).forward(at.exp()[None, :, None])[0, ..., 0]
        rate = 1 - 1j * 2 * math.pi * torch.arange(4).double() / 2.5
        exact = ((rate * 2).exp() - 1) / rate * math.e / 2.5
        errors.append((torch.complex(found[:, 0], found[:, 1]) - exact).abs().max())
    assert 1.9 < math.log2(errors[0] / errors[1]) < 2.1
    assert 1.9 < math.log2(errors[1] / errors[2]) < 2.1


def test_cell_centres_share_the_interval_evenly():
    ticks = TransformAxis.padded(torch.tensor([0.25, 0.75, 1.25, 1.75]), 0.0, 2.0, 1.0)
    assert torch.equal(ticks.weight, torch.full((4,), 0.125, dtype=torch.float64))

from __future__ import annotations

import math

import pytest
import torch

from piop.fields import FunctionSamples
from piop.models import AxisSignature, InputSignature, Signature
from piop.models.core.grid import GridInputs
from piop.models.core.interpolation import nearest_on_grid, nearest_values
from piop.models.fno.network import FinalFNO, FNOConfig

TIME = AxisSignature("t", 0.0, 2.0)
RING = AxisSignature("x", 0.0, 2 * math.pi, periodic=True)
WALLED = AxisSignature("z", -1.0, 1.0)
TICKS = [
    torch.linspace(0.0, 2.0, 5, dtype=torch.float64),
    2 * math.pi * torch.arange(7, dtype=torch.float64) / 7,
    torch.linspace(-1.0, 1.0, 4, dtype=torch.float64),
]


def scattered(count, axes, generator):
    unit = torch.rand(2, count, len(axes), generator=generator, dtype=torch.float64)
    low = torch.tensor([a.low for a in axes], dtype=torch.float64)
    length = torch.tensor([a.high - a.low for a in axes], dtype=torch.float64)
    return low + unit * length


def test_every_input_is_laid_along_the_coordinates_it_depends_on():
    """A scalar, a function of (z, x) in this order, and one of time, from scattered sensors."""
    signature = Signature(
        (TIME, RING, WALLED),
        (
            InputSignature("nu", (), mean=1.0, std=2.0),
            InputSignature("a", ("z", "x"), waves=2),
            InputSignature("f", ("t",), waves=2),
        ),
        time=0,
    )
    generator = torch.Generator().manual_seed(0)
    at = scattered(200, (WALLED, RING), generator)
    when = scattered(60, (TIME,), generator)

    def wave(z, x):
        return torch.cos(math.pi * (z + 1) / 2) * torch.sin(x)

    def pulse(t):
        return torch.sin(math.pi * t / 2)

    inputs = {
        "nu": FunctionSamples(
            torch.zeros(2, 1, 0, dtype=torch.float64),
            torch.tensor([[[3.0]], [[5.0]]], dtype=torch.float64),
        ),
        "a": FunctionSamples(at, wave(at[..., :1], at[..., 1:])),
        "f": FunctionSamples(when, pulse(when)),
    }
    found = GridInputs(signature, (0, 1, 2))(inputs, TICKS)
    t, x, z = torch.meshgrid(*TICKS, indexing="ij")
    assert found.shape == (2, 5, 7, 4, 3)
    assert (found[0, ..., 0] - 1.0).abs().max() < 1e-12
    assert (found[1, ..., 0] - 2.0).abs().max() < 1e-12
    assert (found[..., 1] - wave(z, x)).abs().max() < 1e-3  # the ridge of the fit
    assert (found[..., 2] - pulse(t)).abs().max() < 1e-3


@pytest.mark.parametrize("shape", [(5, 6), (12, 3), (1, 4)])
def test_counting_lines_finds_the_nearest_sensor_whatever_their_order(shape):
    axes = (RING, WALLED)
    lines = [
        0.1 + 2 * math.pi * torch.arange(shape[0], dtype=torch.float64) / shape[0],
        -1 + 2 * (torch.arange(shape[1], dtype=torch.float64) + 0.5) / shape[1],
    ]
    points = torch.cartesian_prod(*lines)
    points = points[torch.randperm(len(points), generator=torch.Generator().manual_seed(1))]
    ticks = [TICKS[1] + 0.01, TICKS[2] * 0.99]
    mesh = torch.cartesian_prod(*ticks)[None]
    values = torch.arange(len(points), dtype=torch.float64)[None, :, None]
    entry, samples = InputSignature("a", ("x", "z")), FunctionSamples(points[None], values)
    searched = nearest_values(entry, samples, mesh, axes)
    assert torch.equal(nearest_on_grid(points, ticks, axes).double(), searched[0, :, 0])


def test_large_grids_are_counted_and_small_ones_searched_to_the_same_values(monkeypatch):
    signature = Signature(
        (RING, WALLED), (InputSignature("a", ("x", "z"), 2, smooth=False, gridded=True),)
    )
    points = torch.cartesian_prod(*TICKS[1:])
    values = torch.randn(3, len(points), 2, dtype=torch.float64)
    inputs = {"a": FunctionSamples(points.expand(3, -1, -1), values)}
    read = GridInputs(signature, (0, 1))
    searched = read(inputs, TICKS[1:])
    assert torch.equal(searched, values.reshape(3, 7, 4, 2)), "values where the sensors are"
    monkeypatch.setattr("piop.models.core.grid.MAX_PAIRS", 0)
    assert torch.equal(read(inputs, TICKS[1:]), searched)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (InputSignature("a", ("x",)), None),
        (InputSignature("a", ("x",), smooth=False, gridded=True), None),
        (
            InputSignature("a", ("x",), smooth=False),
            "input 'a' has jumps and its sensors are not on an even grid",
        ),
        (InputSignature("f", ("t", "x")), "input 'f' depends on t, which its grid does not have"),
        (InputSignature("nu", ()), None),
    ],
)
def test_what_cannot_be_laid_on_the_grid_is_named(entry, reason):
    assert FinalFNO.refusal(Signature((TIME, RING), (entry,), time=0), FNOConfig()) == reason

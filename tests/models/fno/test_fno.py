from __future__ import annotations

import math

import pytest
import torch

from piop.errors import DataError, UsageError
from piop.fields import FunctionSamples
from piop.models import AxisSignature, InputSignature, Signature, build_backbone, find_preset
from piop.models.fno.network import FNO, FinalFNO

TIME = AxisSignature("t", 0.0, 2.0)
RING = AxisSignature("x", 0.0, 2 * math.pi, periodic=True)
WALLED = AxisSignature("z", -1.0, 1.0)
EVOLUTION = Signature((TIME, RING), (InputSignature("u0", ("x",), waves=3),), 2, 0, ("x",))
SMALL = {"width": 8, "modes": 4, "time_modes": 2, "blocks": 3, "projection": 8}


def network(signature=EVOLUTION, preset="default", **sizes):
    torch.manual_seed(0)
    return build_backbone("fno", signature, preset, **{**SMALL, **sizes}).double()


def wave(shift=0.0):
    """Three harmonics at 24 sensors, moved to the right."""
    x = 2 * math.pi * torch.arange(24, dtype=torch.float64)[None, :, None] / 24
    values = torch.cos(x - shift) + 0.5 * torch.sin(3 * (x - shift))
    return {"u0": FunctionSamples(x, values)}


def ticks(times, places):
    return [
        torch.linspace(0.0, 2.0, times, dtype=torch.float64),
        2 * math.pi * torch.arange(places, dtype=torch.float64) / places,
    ]


def test_a_shift_by_steps_of_the_grid_shifts_the_answer():
    model = network()
    axes = ticks(17, 24)
    moved = model.on_grid(wave(5 * 2 * math.pi / 24), axes)
    here = model.on_grid(wave(), axes)
    assert here.std(2).min() > 1e-4
    assert (moved - here.roll(5, 2)).abs().max() < 1e-11


def test_where_position_matters_a_shift_does_not_shift_the_answer():
    signature = Signature((TIME, RING), EVOLUTION.inputs, 1, 0)
    model, axes = network(signature), ticks(17, 24)
    moved = model.on_grid(wave(5 * 2 * math.pi / 24), axes)
    assert (moved - model.on_grid(wave(), axes).roll(5, 2)).abs().max() > 1e-3


def test_the_same_weights_answer_alike_on_finer_grids():
    """Second order in time, by the trapezium rule; in space beyond all orders."""
    model = network()
    exact = model.on_grid(wave(), ticks(257, 96))
    errors = [
        (model.on_grid(wave(), ticks(n, 48)) - exact[:, :: 256 // (n - 1), ::2]).abs().max().item()
        for n in (17, 33, 65)
    ]
    assert errors[0] < 0.02 * exact.abs().max()
    assert 1.8 < math.log2(errors[0] / errors[1]) < 2.3
    in_space = model.on_grid(wave(), ticks(257, 48)) - exact[:, :, ::2]
    assert in_space.abs().max() < 1e-6 * exact.abs().max()


def test_without_padding_every_grid_is_a_period_of_its_own():
    """As published: the same weights are another operator on each grid, off by one step of it."""
    model = network(padding=0.0)
    exact = model.on_grid(wave(), ticks(1025, 24))
    errors = [
        (model.on_grid(wave(), ticks(n, 24)) - exact[:, :: 1024 // (n - 1)]).abs().max().item()
        for n in (17, 33, 65)
    ]
    assert 0.7 < math.log2(errors[0] / errors[1]) < 1.3
    assert 0.7 < math.log2(errors[1] / errors[2]) < 1.3


@pytest.mark.parametrize("times", [[1.3], [0.1, 0.4, 2.0]])
def test_few_times_are_read_off_the_networks_own_grid(times):
    model = network()
    own = model.on_grid(wave(), ticks(17, 24))
    at = torch.tensor(times, dtype=torch.float64)
    found = model.on_grid(wave(), [at, ticks(17, 24)[1]])
    place = 8 * at  # sixteen steps to t = 2
    for i, s in enumerate(place.tolist()):
        first = min(max(math.floor(s) - 1, 0), 13)
        by_hand = torch.zeros_like(own[:, 0])
        for j in range(first, first + 4):
            weight = math.prod((s - k) / (j - k) for k in range(first, first + 4) if k != j)
            by_hand = by_hand + weight * own[:, j]
        assert (found[:, i] - by_hand).abs().max() < 1e-12


def test_scattered_queries_get_the_values_of_the_grid(monkeypatch):
    model = network()
    axes = ticks(17, 16)  # its own
    mesh = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).reshape(1, -1, 2)
    expected = model.on_grid(wave(), axes).reshape(1, -1, 2)
    assert (model(wave(), mesh) - expected).abs().max() < 1e-12
    monkeypatch.setattr("piop.models.core.grid.MOST_VALUES", 600)  # a few queries at a time
    assert (model(wave(), mesh) - expected).abs().max() < 1e-12
    around = mesh + torch.tensor([0.0, 2 * math.pi], dtype=torch.float64)
    assert (model(wave(), around) - expected).abs().max() < 1e-10


def test_the_final_state_does_not_know_the_time():
    model = network(preset="paper_burgers")
    assert isinstance(model, FinalFNO)
    assert model.end_only
    end, place = torch.tensor([2.0], dtype=torch.float64), ticks(2, 24)[1]
    found = model.on_grid(wave(), [end, place])
    assert found.shape == (1, 1, 24, 2)
    queries = torch.stack([torch.full((24,), 2.0, dtype=torch.float64), place], -1)[None]
    native = model.on_grid(wave(), [end, 2 * math.pi * torch.arange(16).double() / 16])
    every = torch.arange(0, 24, 3)  # the places that both grids have
    assert (model(wave(), queries)[:, every] - native[:, 0, ::2]).abs().max() < 1e-12


def test_a_steady_problem_with_walls_in_two_dimensions():
    """Jumps at sensors of an even grid; the answer follows the coefficient where it is."""
    signature = Signature(
        (RING, WALLED), (InputSignature("a", ("x", "z"), smooth=False, gridded=True),), 1, None
    )
    model = network(signature)
    axes = [ticks(2, 16)[1], torch.linspace(-1.0, 1.0, 17, dtype=torch.float64)]
    points = torch.cartesian_prod(*axes).expand(2, -1, -1)
    values = (torch.rand(2, 16 * 17, 1, dtype=torch.float64) > 0.5).double()
    found = model.on_grid({"a": FunctionSamples(points, values)}, axes)
    assert found.shape == (2, 16, 17, 1)
    values[0, 100] = 1 - values[0, 100]
    moved = model.on_grid({"a": FunctionSamples(points, values)}, axes) - found
    assert moved[0].flatten().abs().argmax() == 100, "its linear skips act at the point"
    assert not moved[1].any()


def test_batch_norms_that_published_code_never_applies_rest():
    model = network(
        preset="paper_vorticity", signature=find_preset("fno", "paper_vorticity").signature
    )
    resting = [n for n, _ in model.named_parameters() if n.startswith("norms.")]
    assert len(resting) == 6
    assert list(model.unused_parameters()) == ["norms.*"]
    assert network().unused_parameters() == {}


@pytest.mark.parametrize(
    ("column", "count"),
    [("inviscid_burgers", 90_593), ("sod", 41_505)],
)
def test_the_pit_papers_counts_take_a_complex_weight_for_one(column, count):
    preset = find_preset("fno", f"paper_{column}")
    model = preset.build(preset.signature, preset.config)
    pairs = sum(b.convolution.weight.numel() for b in model.blocks)
    assert sum(p.numel() for p in model.parameters()) - pairs // 2 == count


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"form": "inwards"}, "form = 'inwards': one of plain, inner, outer"),
        ({"activation": "sine"}, "activation = 'sine': one of gelu, relu, tanh"),
        ({"padding": -0.5}, "padding = -0.5: give a fraction of the axis, 0 or more"),
    ],
)
def test_choices_that_do_not_exist_are_refused(setting, message):
    with pytest.raises(UsageError, match=message):
        build_backbone("fno", EVOLUTION, **setting)


def test_a_grid_with_an_axis_too_few_is_refused():
    with pytest.raises(DataError, match="1 columns; give one each for t, x"):
        network().on_grid(wave(), ticks(17, 24)[:1])


def test_presets_of_several_times_and_of_the_last():
    assert find_preset("fno").build is FNO
    assert find_preset("fno", "paper_vorticity").build is FinalFNO
    assert find_preset("fno", "code_darcy") is find_preset("fno", "paper_darcy")

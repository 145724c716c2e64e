"""Data narrower than steps or grids are met or refused, never stepped over."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import erf

from piop.problem import Problem
from piop.reference import solve_reference
from piop.reference.features import Features
from piop.reference.fourier.aliasing import aliased_part
from piop.reference.input_values import Sources
from piop.sampling import Draws, sample_inputs


def solved(count, source="0", initial="0", *, low=1e-5, high=1e-2):
    problem = Problem(
        name="case",
        time={"t": [0, 1]},
        space={"x": [0, 1]},
        unknowns=["u"],
        inputs={
            "c": {"law": "uniform", "low": 0.1, "high": 0.9},
            "w": {"law": "log_uniform", "low": low, "high": high},
        },
        equations=[f"dt(u) = 0.01*dxx(u) + {source}"],
        initial={"u": initial},
        boundary={"x": "periodic"},
        save={"t": 9, "x": 32},
    )
    functions = sample_inputs(problem, Draws(0, 0, torch.arange(count)))
    numbers = [functions[n].on_grid(()).numpy()[:, None] for n in "cw"]
    return solve_reference(problem, functions), *numbers


def test_a_pulse_in_time_is_not_stepped_over():
    """sin 2πx times ∫ e^{−λ(t − s)} e^{−((s − c)/w)²} ds / w, λ = 0.01 (2π)²."""
    solution, c, w = solved(6, "exp(-((t - c)/w)**2)/w*sin(2*pi*x)")
    t, x, rate = solution.times.numpy(), solution.axes[0].numpy(), 0.01 * (2 * math.pi) ** 2
    shift = rate * w / 2
    gained = erf((t - c) / w - shift) - erf(-c / w - shift)
    growth = np.exp(-rate * (t - c) + shift**2) * math.sqrt(math.pi) / 2 * gained
    exact = growth[..., None] * np.sin(2 * math.pi * x)
    difference = np.linalg.norm(solution.values["u"].numpy() - exact, axis=(1, 2))
    error = difference / np.linalg.norm(exact, axis=(1, 2))
    assert (error < solution.error_estimate.numpy() + 1e-12).all()
    assert (error < 1e-9).all()
    assert bool(solution.accepted.all())


def test_aliases_of_a_kink_in_a_source_are_an_error():
    """|sin π(x − c)| is −2/π Σ e^{2πik(x − c)}/(4k² − 1); mode k gains ∫ e^{−0.01 (2πk)² s} ds."""
    solution, c, _ = solved(12, "abs(sin(pi*(x - c))) + 0*w", low=1e-3)
    x, t = solution.axes[0].numpy(), solution.times.numpy()[:, None]
    k = np.arange(1, 2**14)
    rate = 0.01 * (2 * math.pi * k) ** 2
    gained = -4 / math.pi / (4 * k**2 - 1) * -np.expm1(-rate * t) / rate
    waves = np.cos(2 * math.pi * k * (x - c)[..., None])
    exact = 2 / math.pi * t + np.einsum("tk,bxk->btx", gained, waves)
    difference = np.linalg.norm(solution.values["u"].numpy() - exact, axis=(1, 2))
    error = difference / np.linalg.norm(exact, axis=(1, 2))
    assert (error < solution.error_estimate.numpy()).all()
    assert bool(solution.accepted.all())


@pytest.mark.parametrize("where", ["source", "initial"])
def test_a_spike_between_the_points_is_refused(where):
    spike: dict[str, Any] = {where: "1 + 100*exp(-((x - c)/w)**2)"}
    solution, _, _ = solved(4, **spike, high=1e-4)
    assert not bool(solution.accepted.any())


def test_aliases_of_a_kink_are_no_larger_than_the_shortest_waves_tell():
    """Of |sin π(x − c)|, whose coefficient of e^{2πikx} is −2/π e^{−2πikc}/(4k² − 1)."""
    problem = Problem(
        name="case",
        time={"t": [0, 1]},
        space={"x": [0, 1]},
        unknowns=["u"],
        inputs={"c": {"law": "uniform", "low": 0, "high": 1}},
        equations=["dt(u) = dxx(u) + abs(sin(pi*(x - c))) + 3*sin(2*pi*x)"],
        initial={"u": "abs(sin(3*pi*x))"},  # which is left out
        boundary={"x": "periodic"},
    )
    functions = sample_inputs(problem, Draws(0, 0, torch.arange(40)))
    features = Features(Sources(problem, functions, torch.device("cpu")))
    c, k = functions["c"].on_grid(()).numpy()[:, None], np.arange(-4, 5)
    exact = -2 / math.pi / (4 * k**2 - 1) * np.exp(-2j * math.pi * k * c)
    exact = exact - 1.5j * (k == 1) + 1.5j * (k == -1)
    for n in (30, 64):
        x = np.arange(n) / n
        data = np.abs(np.sin(math.pi * (x - c))) + 3 * np.sin(2 * math.pi * x)
        found = np.fft.fft(data, norm="forward")[:, k]
        aliased = np.abs(found - exact).max(1) / np.sqrt((data**2).mean(1))
        bound = aliased_part(features, {"x": torch.from_numpy(x)}).numpy()
        assert (aliased < bound).all()
        assert (bound < 6 * aliased.max()).all()


def test_the_shortest_waves_of_smooth_data_tell_nothing():
    problem = Problem(
        name="case",
        time={"t": [0, 1]},
        space={"x": [0, 1], "y": [0, 1]},
        unknowns=["u"],
        equations=["dt(u) = lap(u) + sin(2*pi*(x - t))*cos(4*pi*y)"],
        initial={"u": "0"},
        boundary={"x": "periodic", "y": "periodic"},
    )
    features = Features(Sources(problem, {}, torch.device("cpu")))
    for count, least, most in ((16, 0, 0), (4, 0.1, 1)):  # y has two waves
        nodes = torch.arange(count, dtype=torch.float64) / count
        assert least <= float(aliased_part(features, {"x": nodes, "y": nodes})) <= most


def test_errors_are_relative_to_what_the_points_of_the_output_show():
    """Of a narrow wave, which mostly lies between two of them, after a pulse of its source."""
    source = "exp(-(sin(pi*(x - 0.7868))/(pi*0.001156))**2)/0.001156"
    problem = Problem(
        name="case",
        time={"t": [0, 1]},
        space={"x": [0, 1]},
        unknowns=["u"],
        equations=[f"dt(u) + 0.7*dx(u) = 0.4026*exp(-((t - 0.89385)/8.8e-4)**2)/8.8e-4*{source}"],
        initial={"u": "sin(2*pi*x) + 0.5*cos(4*pi*x)"},
        boundary={"x": "periodic"},
        save={"t": 4, "x": 256},
    )
    times = [1 / 3, 2 / 3, 1.0]
    coarse, fine = (
        solve_reference(problem, {}, times=times, tolerance=own) for own in (1e-5, 1e-9)
    )
    truth = fine.values["u"][0]
    error = (coarse.values["u"][0] - truth).square().mean(1).sqrt().max()
    assert float(error / truth.square().mean().sqrt()) < float(coarse.error_estimate[0])


def test_a_wave_whose_zeros_are_the_points_of_the_output_is_accepted():
    problem = Problem(
        name="case",
        time={"t": [0, 1]},
        space={"x": [0, 1]},
        unknowns=["u"],
        equations=["dt(u) = 0.001*dxx(u) + u - u**3"],
        initial={"u": "sin(16*pi*x)"},
        boundary={"x": "periodic"},
        save={"t": 3, "x": 16},
    )
    seen, unseen = (solve_reference(problem, {}, shape=[n]) for n in (64, 16))
    assert bool(unseen.accepted[0])
    assert float(unseen.error_estimate[0]) == pytest.approx(float(seen.error_estimate[0]), rel=0.5)
    assert float(unseen.values["u"].abs().max()) < 1e-9

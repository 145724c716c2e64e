"""Reference solutions against exact ones and against integrators that share no code with piop."""

import math

import numpy as np
import pytest
import torch

from piop.problem import Problem
from piop.reference import solve_reference
from tests.oracles import (
    burgers_cole_hopf,
    fourier_rhs_1d,
    integrate,
    kdv_soliton,
    kdv_two_solitons,
    sine_series,
)

from .cases import Scalars, Waves, periodic, random_waves, relative

TAU = {"x": [0, "2*pi"]}


def one_wave(amplitude=1.0, number=1, phase=0.0, low=0.0, length=1.0):
    return Waves([[amplitude]], [[[number]]], [[phase]], [low], [length])


def test_heat_modes_decay_exactly():
    problem = periodic("dt(u) = 0.05*dxx(u) - 2*dx(u)", space={"x": [-1, 3]}, time=2.0)
    functions = random_waves(3, [(-1, 3)], seed=1)
    solution = solve_reference(problem, {"u0": functions})
    t = solution.times[None, :, None, None]
    x = solution.axes[0][None, None, None, :]
    k = (2 * math.pi * functions.wavevectors / 4)[:, None, :, :]  # [B, 1, K, 1]
    decay = functions.amplitudes[:, None, :, None] * torch.exp(-0.05 * k**2 * t)
    exact = (decay * torch.sin(k * (x - 2 * t + 1) + functions.phases[:, None, :, None])).sum(2)
    assert float((solution.values["u"] - exact).abs().max()) < 1e-12
    assert bool(solution.accepted.all())


def test_burgers_equals_cole_hopf_where_the_estimate_says_so():
    problem = periodic("dt(u) + u*dx(u) = 0.02*dxx(u)", space=TAU, time=2.0)
    waves = random_waves(2, [(0, 2 * math.pi)], seed=4)
    solution = solve_reference(problem, {"u0": waves}, times=[0.5, 1.0, 2.0], tolerance=1e-7)
    assert bool((solution.error_estimate <= 1e-7).all())
    for b in range(2):
        arguments = (
            v[b].numpy() for v in (waves.amplitudes, waves.wavevectors[..., 0], waves.phases)
        )
        _, antiderivative = sine_series(*arguments, 2 * np.pi)
        x = solution.axes[0].numpy()
        exact = [burgers_cole_hopf(antiderivative, 0.02, x, t) for t in (0.5, 1.0, 2.0)]
        error = relative(solution.values["u"][b], np.array(exact))
        assert error <= 1e-7
        assert error <= float(solution.error_estimate[b])


def test_kdv_soliton_keeps_its_shape():
    problem = periodic(
        "dt(u) + 6*u*dx(u) + dxxx(u) = 0",
        space={"x": [0, 40]},
        time=2.0,
        initial={"u": "2*(2/(exp(x - 15) + exp(15 - x)))**2"},
    )
    solution = solve_reference(problem, {})
    exact = [
        kdv_soliton(solution.axes[0].numpy(), t, 4.0, 15.0, 40.0) for t in solution.times.tolist()
    ]
    assert (
        relative(solution.values["u"][0], np.array(exact))
        <= float(solution.error_estimate[0])
        < 1e-6
    )


def test_two_solitons_pass_through_each_other():
    # Faster one starts behind; at t = 3 it is in front.
    start = (
        "2*(a**2*p + b**2*q + 2*(a - b)**2*p*q + c*p*q*(b**2*p + a**2*q))/(1 + p + q + c*p*q)**2"
    )
    problem = periodic(
        "dt(u) + 6*u*dx(u) + dxxx(u) = 0",
        space={"x": [-30, 50]},
        time=3.0,
        parameters={"a": 1.6, "b": 1.0, "c": (0.6 / 2.6) ** 2},
        definitions={"p": "exp(1.6*(x + 3))", "q": "exp(x)"},
        initial={"u": start},
    )
    solution = solve_reference(problem, {}, tolerance=1e-7)
    x = solution.axes[0].numpy()
    exact = [kdv_two_solitons(x, t, 1.6, 1.0, -3.0, 0.0) for t in solution.times.tolist()]
    # The exact solution lives on the line: tails of e^{-27} wrap round.
    assert relative(solution.values["u"][0], np.array(exact)) < 1e-7
    assert x[solution.values["u"][0, -1].argmax()] > 3.0


def test_taylor_green_vortex_decays_exactly():
    problem = periodic(
        "dt(w) + dy(psi)*dx(w) - dx(psi)*dy(w) = 0.05*lap(w)",
        ("w",),
        {"x": [0, "2*pi"], "y": [0, "2*pi"]},
        auxiliary={"psi": {"equation": "-lap(psi) = w", "mean": 0}},
        initial={"w": "2*cos(x)*cos(y) + cos(2*x)*0"},
    )
    solution = solve_reference(problem, {}, shape=(16, 16))
    x, y = solution.axes
    shape = 2 * torch.cos(x)[:, None] * torch.cos(y)
    exact = torch.exp(-0.1 * solution.times)[:, None, None] * shape
    assert float((solution.values["w"][0] - exact).abs().max()) < 1e-12
    assert float((solution.values["psi"][0] - exact / 2).abs().max()) < 1e-12
    # Rounding of the coefficients times the largest symbol.
    assert float((solution.time_derivatives["w"][0] + 0.1 * exact).abs().max()) < 1e-10


def test_vorticity_stays_where_a_force_balances_it():
    # ψ = cos x + cos 2y: what its flow and viscosity do to w = −Δψ is taken back by the force.
    problem = periodic(
        "dt(w) + dy(psi)*dx(w) - dx(psi)*dy(w) = 0.5*lap(w) + f",
        ("w",),
        {"x": [0, "2*pi"], "y": [0, "2*pi"]},
        auxiliary={"psi": {"equation": "-lap(psi) = w", "mean": 0}},
        definitions={"f": "0.5*(cos(x) + 16*cos(2*y)) - 6*sin(x)*sin(2*y)"},
        initial={"w": "cos(x) + 4*cos(2*y)"},
    )
    solution = solve_reference(problem, {}, shape=(16, 16), tolerance=1e-8)
    x, y = solution.axes
    exact = torch.cos(x)[:, None] + 4 * torch.cos(2 * y)
    assert float((solution.values["w"][0] - exact).abs().max()) < 1e-8
    assert float(solution.time_derivatives["w"][0].abs().max()) < 1e-8


def test_vorticity_is_carried_the_right_way():
    # The sign of psi: w = cos x + a small wave, moved by psi = cos x, that is v = −ψ_x = sin x.
    problem = periodic(
        "dt(w) + dy(psi)*dx(w) - dx(psi)*dy(w) = 0",
        ("w",),
        {"x": [0, "2*pi"], "y": [0, "2*pi"]},
        0.5,
        auxiliary={"psi": {"equation": "-lap(psi) = w", "mean": 0}},
        initial={"w": "cos(x) + 1e-6*cos(3*y)"},
    )
    solution = solve_reference(problem, {}, shape=(32, 32), tolerance=1e-9)
    # Linearised, w' = e^{3iy} f(x): f_t + 3i sin(x) (f − g) = 0 with Δg = −f; the start's slope.
    x, y = solution.axes
    slope = (solution.time_derivatives["w"][0, 0]) / 1e-6
    exact = 3 * torch.sin(x)[:, None] * torch.sin(3 * y) * (1 - 1 / 9)
    assert float((slope - exact).abs().max()) < 1e-5


def test_wave_equation_second_order_in_time():
    problem = periodic(
        "d(u, t, 2) = 4*dxx(u)",
        time=1.3,
        initial={"u": "sin(2*pi*x)", "dt(u)": "cos(4*pi*x) + 0.5"},
    )
    solution = solve_reference(problem, {})
    t, x = solution.times[:, None], solution.axes[0]
    tau = 2 * math.pi
    exact = torch.cos(2 * tau * t) * torch.sin(tau * x) + 0.5 * t
    exact = exact + torch.sin(4 * tau * t) / (4 * tau) * torch.cos(2 * tau * x)
    speed = -2 * tau * torch.sin(2 * tau * t) * torch.sin(tau * x) + 0.5
    speed = speed + torch.cos(4 * tau * t) * torch.cos(2 * tau * x)
    assert float((solution.values["u"][0] - exact).abs().max()) < 1e-11
    assert float((solution.time_derivatives["u"][0] - speed).abs().max()) < 1e-10


def test_waves_whose_speed_varies_in_space_equal_a_manufactured_solution():
    problem = periodic(
        "d(u, t, 2) = (1 + sin(2*pi*x)/2)**2*dxx(u) + f",
        definitions={
            "f": "((2*pi)**2*(1 + sin(2*pi*x)/2)**2 - 25)*cos(5*t)*cos(2*pi*x)",
        },
        initial={"u": "cos(2*pi*x)", "dt(u)": 0},
    )
    solution = solve_reference(problem, {})
    t, x = solution.times[:, None], solution.axes[0]
    exact = torch.cos(5 * t) * torch.cos(2 * math.pi * x)
    assert relative(solution.values["u"][0], exact) <= float(solution.error_estimate[0]) <= 1e-6


def test_kuramoto_sivashinsky_equals_scipy():
    problem = periodic(
        "dt(u) + u*dx(u) + dxx(u) + dxxxx(u) = 0",
        space={"x": [0, 22]},
        time=5.0,
        initial={"u": "cos(2*pi*x/22) + 0.3*sin(4*pi*x/22)"},
    )
    solution = solve_reference(problem, {}, times=[0, 2.5, 5.0], shape=(64,))
    x = solution.axes[0].numpy()
    rhs = fourier_rhs_1d(lambda t, u, ux, uxx, u3, u4: -u * ux - uxx - u4, 22.0, 64, 4)
    start = np.cos(2 * np.pi * x / 22) + 0.3 * np.sin(4 * np.pi * x / 22)
    exact = integrate(rhs, start, [0, 2.5, 5.0])
    assert relative(solution.values["u"][0], exact) < 1e-6


def test_allen_cahn_equals_scipy_with_parameters_per_sample():
    problem = periodic(
        "dt(u) = epsilon*dxx(u) + 3*(u - u**3)",
        space={"x": [-1, 1]},
        initial={"u": "sin(pi*x)*0.8 + 0.1"},
        inputs={"epsilon": {"of": [], "law": "uniform", "low": 0.001, "high": 0.1}},
    )
    values = [0.004, 0.05]
    solution = solve_reference(
        problem, {"epsilon": Scalars(values)}, times=[0.5, 1.0], shape=(128,)
    )
    x = solution.axes[0].numpy()
    for b, eps in enumerate(values):
        rhs = fourier_rhs_1d(lambda t, u, ux, uxx, e=eps: e * uxx + 3 * (u - u**3), 2.0, 128, 2)
        exact = integrate(rhs, np.sin(np.pi * x) * 0.8 + 0.1, [0, 0.5, 1.0])[1:]
        assert relative(solution.values["u"][b], exact) < 1e-6


def test_variable_coefficient_and_source_equal_scipy():
    problem = periodic(
        "dt(u) = d(a*dx(u), x) + f",
        initial={"u": "0"},
        inputs={
            n: {
                "of": ["x"],
                "law": "fourier_series",
                "terms": 2,
                "amplitude": [0, 1],
                "wavenumber": [1, 2],
            }
            for n in ("a", "f")
        },
    )
    a = random_waves(2, [(0, 1)], amplitude=0.1, wavenumber=2, seed=2, mean=0.6)
    f = random_waves(2, [(0, 1)], amplitude=2.0, wavenumber=3, seed=6)
    solution = solve_reference(problem, {"a": a, "f": f}, times=[0.1, 1.0], shape=(96,))
    assert bool(solution.accepted.all())
    x = solution.axes[0]
    k = 2j * np.pi * np.fft.fftfreq(96, 1 / 96)
    d = lambda v: np.fft.ifft(k * np.fft.fft(v)).real  # noqa: E731
    for b in range(2):
        av, fv = a.on_grid([x])[b].numpy(), f.on_grid([x])[b].numpy()
        exact = integrate(
            lambda t, u, av=av, fv=fv: d(av * d(u)) + fv, np.zeros(96), [0, 0.1, 1.0]
        )[1:]
        assert relative(solution.values["u"][b], exact) < 1e-6


def test_three_dimensional_heat_with_reaction_equals_manufactured():
    # u = e^{-t} cos(2πx) sin(2πy) cos(4πz) + 1 solves it with this source.
    wave = "cos(2*pi*x)*sin(2*pi*y)*cos(4*pi*z)"
    problem = periodic(
        f"dt(u) = 0.01*lap(u) - u**2 + (1 + exp(-t)*{wave})**2 + (0.24*pi**2 - 1)*exp(-t)*{wave}",
        space={"x": [0, 1], "y": [0, 1], "z": [0, 1]},
        time=0.5,
        initial={"u": f"1 + {wave}"},
    )
    solution = solve_reference(problem, {}, times=[0.5], shape=(8, 8, 12), tolerance=1e-5)
    x, y, z = torch.meshgrid(*solution.axes, indexing="ij")
    tau = 2 * math.pi
    wave = torch.cos(tau * x) * torch.sin(tau * y) * torch.cos(2 * tau * z)
    exact = 1 + math.exp(-0.5) * wave
    assert float((solution.values["u"][0, 0] - exact).abs().max()) < 1e-5


def test_source_in_time_and_space_is_integrated():
    law = {"law": "fourier_series", "terms": 1, "amplitude": [0, 1], "wavenumber": [1, 1]}
    problem = periodic("dt(u) = f", initial={"u": "0"}, inputs={"f": {"of": ["t", "x"], **law}})
    source = Waves([[0.7]], [[[2, 3]]], [[0.4]], [0.0, 0.0], [1.0, 1.0])
    solution = solve_reference(problem, {"f": source})
    t, angle = solution.times[:, None], 6 * math.pi * solution.axes[0] + 0.4
    rate = 4 * math.pi
    exact = 0.7 / rate * (torch.cos(angle) - torch.cos(rate * t + angle))
    error = relative(solution.values["u"][0], exact)
    assert error <= float(solution.error_estimate[0]) <= 1e-6


def test_a_source_by_the_time_derivative_of_a_function_of_space_is_zero():
    """The source of u = g + sin(t) is written with all derivatives of g."""
    law = {"law": "fourier_series", "terms": 1, "amplitude": [0, 1], "wavenumber": [1, 1]}
    problem = periodic(
        "dt(u) - 0.1*dxx(u) = dt(g) - 0.1*dxx(g) + cos(t)",
        initial={"u": "g"},
        inputs={"g": {"of": ["x"], **law}},
    )
    solution = solve_reference(problem, {"g": one_wave(0.7)})
    exact = 0.7 * torch.sin(2 * math.pi * solution.axes[0]) + solution.times.sin()[:, None]
    error = relative(solution.values["u"][0], exact)
    assert error <= float(solution.error_estimate[0]) <= 1e-6


def test_gauge_gives_the_auxiliary_its_mean():
    problem = periodic(
        "dt(w) = 0.1*dxx(w) + psi",
        ("w",),
        auxiliary={"psi": {"equation": "dxx(psi) = cos(2*pi*x)*sin(3*t)", "mean": 2.5}},
        initial={"w": "0"},
    )
    solution = solve_reference(problem, {})
    psi = solution.values["psi"][0]
    t, x = solution.times[:, None], solution.axes[0]
    exact = 2.5 - torch.cos(2 * math.pi * x) * torch.sin(3 * t) / (2 * math.pi) ** 2
    assert float((psi - exact).abs().max()) < 1e-12
    # The mean drives w: its own mean grows as 2.5 t.
    assert torch.allclose(solution.values["w"][0].mean(-1), 2.5 * solution.times, atol=1e-9)


@pytest.mark.parametrize("walls", ["periodic", {"neumann": {"u": 0}}])
def test_quadratic_drag_decays_as_one_over_time_from_either_sign(walls):
    """A constant a decays as a/(1 + |a|t) under u_t + u|u| = u_xx, which has a kink at zero."""
    problem = Problem(
        name="drag",
        time={"t": [0, 2]},
        space={"x": [0, 1]},
        unknowns=["u"],
        parameters={"a": {"law": "uniform", "low": -2, "high": 2}},
        equations=["dt(u) + u*abs(u) = dxx(u)"],
        initial={"u": "a"},
        boundary={"x": walls},
    )
    starts = torch.tensor([-1.5, 0.8], dtype=torch.float64)
    solution = solve_reference(problem, {"a": Scalars(starts)}, times=[0.0, 0.5, 2.0])
    exact = starts[:, None] / (1 + starts.abs()[:, None] * solution.times)
    assert bool(solution.accepted.all())
    assert float((solution.values["u"] - exact[..., None]).abs().max()) < 1e-6

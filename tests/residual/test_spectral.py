"""Spectral residuals on periodic grids vanish on resolved solutions."""

import math
from types import SimpleNamespace

import pytest
import sympy
import torch

from piop.errors import NotSupportedError

from .spectral import grid_residual

TAU = 2 * math.pi


def _problem(make_problem, names, channels, residuals, inputs=()):
    problem = make_problem(names, channels, residuals, inputs)
    for axis in problem.space:
        axis.high = TAU
    return problem


def _grid(times: torch.Tensor, *sizes: int) -> list[torch.Tensor]:
    axes = [torch.arange(n, dtype=torch.float64) * TAU / n for n in sizes]
    return list(torch.meshgrid(times, *axes, indexing="ij"))


TIMES = torch.linspace(0.0, 1.0, 5, dtype=torch.float64)


def test_heat_mode_in_two_dimensions(make_problem) -> None:
    t, x, y = sympy.symbols("t x y", real=True)
    u = sympy.Function("u", real=True)(t, x, y)
    problem = _problem(
        make_problem, "txy", ["u"], [u.diff(t) - 0.1 * (u.diff(x, 2) + u.diff(y, 2))]
    )
    tt, xx, yy = _grid(TIMES, 16, 17)
    values = (torch.exp(-0.5 * tt) * torch.sin(xx + 2 * yy))[None]
    out = grid_residual(problem, {"u": values}, {"u": -0.5 * values}, times=TIMES)
    assert out[0].shape == values.shape
    assert out[0].abs().max() < 1e-13
    assert (
        grid_residual(problem, {"u": values}, {"u": -0.4 * values}, times=TIMES)[0].abs().max()
        > 1e-2
    )


def test_third_order_and_mixed_derivatives(make_problem) -> None:
    t, x = sympy.symbols("t x", real=True)
    u = sympy.Function("u", real=True)(t, x)
    problem = _problem(make_problem, "tx", ["u"], [u.diff(t) + u.diff(x, 3) + u.diff(x, t)])
    tt, xx = _grid(TIMES, 32)
    # u = sin(2x − ωt): −ω + (−8) cos…, mixed: 2ω sin: not a solution; check the residual itself
    values, slope = torch.sin(2 * xx - 3 * tt)[None], -3 * torch.cos(2 * xx - 3 * tt)[None]
    truth = slope - 8 * torch.cos(2 * xx - 3 * tt) + 6 * torch.sin(2 * xx - 3 * tt)
    out = grid_residual(problem, {"u": values}, {"u": slope}, times=TIMES)[0]
    torch.testing.assert_close(out, truth, rtol=1e-11, atol=1e-11)


def test_second_time_derivatives_have_their_own_key(make_problem) -> None:
    t, x = sympy.symbols("t x", real=True)
    u = sympy.Function("u", real=True)(t, x)
    problem = _problem(make_problem, "tx", ["u"], [u.diff(t, 2) - u.diff(x, 2)])
    tt, xx = _grid(TIMES, 16)
    values = (torch.cos(tt) * torch.sin(xx))[None]
    out = grid_residual(problem, {"u": values}, {"u.2": -values}, times=TIMES)
    assert out[0].abs().max() < 1e-13
    with pytest.raises(KeyError, match=r"lacks 'u.2'"):
        grid_residual(problem, {"u": values}, times=TIMES)


def test_inputs_are_broadcast_along_the_axes_they_lack(make_problem, symbolic_function) -> None:
    t, x, y = sympy.symbols("t x y", real=True)
    u = sympy.Function("u", real=True)(t, x, y)
    nu = sympy.Symbol("nu", real=True)
    g = sympy.Function("g", real=True)(y, t)
    problem = _problem(
        make_problem, "txy", ["u"], [u - nu * g.diff(y) - t * sympy.sin(x)], {"nu": "", "g": "yt"}
    )
    tt, xx, yy = _grid(TIMES, 6, 8)
    functions = {
        "nu": symbolic_function(sympy.Rational(1, 2), ()),
        "g": symbolic_function(sympy.sin(y) * t, (y, t)),
    }
    values = (0.5 * torch.cos(yy) * tt + tt * torch.sin(xx))[None]
    out = grid_residual(problem, {"u": values}, functions=functions, times=TIMES)
    assert out[0].abs().max() < 1e-14


def test_steady_problems_have_no_time_axis(make_problem) -> None:
    x, y = sympy.symbols("x y", real=True)
    psi, w = (sympy.Function(n, real=True)(x, y) for n in ("psi", "w"))
    problem = _problem(make_problem, "xy", ["psi", "w"], [psi.diff(x, 2) + psi.diff(y, 2) + w, w])
    axes = [torch.arange(12, dtype=torch.float64) * TAU / 12] * 2
    xx, yy = torch.meshgrid(*axes, indexing="ij")
    stream = (torch.sin(xx) * torch.cos(2 * yy))[None]
    out = grid_residual(problem, {"psi": stream, "w": 5 * stream})
    assert out[0].abs().max() < 1e-13
    torch.testing.assert_close(out[1], 5 * stream)


def test_odd_derivatives_drop_the_nyquist_mode(make_problem) -> None:
    x = sympy.Symbol("x", real=True)
    u = sympy.Function("u", real=True)(x)
    problem = _problem(make_problem, "x", ["u"], [u.diff(x)])
    sawtooth = torch.tensor([[1.0, -1.0] * 4], dtype=torch.float64)
    assert grid_residual(problem, {"u": sawtooth})[0].abs().max() < 1e-14


def test_walls_are_refused(make_problem) -> None:
    x = sympy.Symbol("x", real=True)
    problem = make_problem("x", ["u"], [sympy.Function("u", real=True)(x)])
    problem.space = (SimpleNamespace(**{**vars(problem.space[0]), "periodic": False}),)
    with pytest.raises(NotSupportedError, match=r"axes \['x'\] are not periodic"):
        grid_residual(problem, {"u": torch.zeros(1, 4)})


def test_times_are_needed(make_problem) -> None:
    t, x = sympy.symbols("t x", real=True)
    u = sympy.Function("u", real=True)(t, x)
    problem = _problem(make_problem, "tx", ["u"], [u.diff(x)])
    with pytest.raises(ValueError, match="needs the times"):
        grid_residual(problem, {"u": torch.zeros(1, 2, 4, dtype=torch.float64)})

"""Creeping and slow flows with their pressure: exact ones, and the channel that is shipped."""

import math

import pytest
import sympy as sp
import torch

from piop.errors import NotSupportedError, SolverError, SpecError
from piop.forms.terms import multipliers
from piop.problem import Problem
from piop.problem.capabilities import choose_method
from piop.problem.reference_methods import Chebyshev
from piop.reference import Limits, solve_reference
from piop.sampling import Draws, sample_inputs

from ..cases import Formula
from ..patches import residual_over_bent
from .cases import X, Y, exact_values, relative

STREAM = sp.sin(2 * X + sp.Rational(1, 3)) * sp.cos(3 * Y) + X * Y**2
FLOW = {"u": sp.diff(STREAM, Y), "v": -sp.diff(STREAM, X)}
PRESSURE = sp.sin(X + 1) * sp.cos(2 * Y)


def flow(boundary, inertia=0, periodic=(), stream=STREAM, pressure=PRESSURE, **words):
    """Steady flow on the unit box that solves Stokes' (or Navier and Stokes') equations."""
    u, v = sp.diff(stream, Y), -sp.diff(stream, X)
    equations = []
    for name, w, axis in (("u", u, X), ("v", v, Y)):
        carried = inertia * (u * sp.diff(w, X) + v * sp.diff(w, Y))
        force = sp.simplify(carried - sp.diff(w, X, 2) - sp.diff(w, Y, 2) + sp.diff(pressure, axis))
        equations.append(
            f"{inertia}*(u*dx({name}) + v*dy({name})) - lap({name}) + d{axis}(p) = {force}"
        )
    equations.append("dx(u) + dy(v) = 0")
    return Problem(
        name="flow",
        space={"x": [0, 1], "y": [0, 1]},
        unknowns=["u", "v", "p"],
        equations=equations,
        boundary={**dict.fromkeys(periodic, "periodic"), **boundary},
        save={"x": 21, "y": 21},
        **words,
    )


def kovasznay(reynolds=40):
    """The wake of a grid, on 2 of its periods: an exact solution, and its problem.

    Source: Kovasznay 1948, doi:10.1017/S0305004100023999.
    """
    rate = float(reynolds / 2 - sp.sqrt(reynolds**2 / 4 + 4 * sp.pi**2))
    wake = sp.exp(rate * X)
    u, v = 1 - wake * sp.cos(2 * sp.pi * Y), rate / (2 * sp.pi) * wake * sp.sin(2 * sp.pi * Y)
    low, high = (-0.5, -0.5), (1.0, 1.5)
    boundary = {}
    for axis, symbol in enumerate((X, Y)):
        for end, place in (("min", low), ("max", high)):
            at = {symbol: sp.Rational(place[axis])}
            boundary[f"{symbol}.{end}"] = {
                "dirichlet": {"u": str(u.subs(at)), "v": str(v.subs(at))}
            }
    carried = "u*dx({0}) + v*dy({0}) - lap({0})/{1} + d{2}(p) = 0"
    momentum = [carried.format(name, reynolds, axis) for name, axis in (("u", "x"), ("v", "y"))]
    problem = Problem(
        name="kovasznay",
        space={"x": [low[0], high[0]], "y": [low[1], high[1]]},
        unknowns=["u", "v", "p"],
        equations=[*momentum, "dx(u) + dy(v) = 0"],
        boundary=boundary,
        gauge={"p": {"mean": 0}},
        save={"x": 17, "y": 21},
    )
    mean = (math.exp(2 * rate * low[0]) - math.exp(2 * rate)) / (4 * rate * 1.5)
    return problem, {"u": u, "v": v, "p": -(wake**2) / 2 - mean}


def test_fluxes_that_cancel_are_not_refused_where_a_coarse_mesh_cannot_tell():
    """On 13 points along each axis they leave 1e-4 over, on 27 nothing."""
    check(*kovasznay(), 1e-2)


@pytest.mark.parametrize("net", ["1e-2", "1e-4"])
def test_fluxes_that_do_not_cancel_are_refused(net):
    through = {"dirichlet": {"u": 0, "v": f"x*(1 - x)*({net} + sin(2*pi*x))"}}
    walls = {"rest": {"dirichlet": {"u": 0, "v": 0}}, "y.max": through}
    gauge = {"p": {"mean": 0}}
    problem = flow(walls, stream=sp.S.Zero, pressure=sp.S.Zero, gauge=gauge)
    with pytest.raises(SolverError, match=r"sample 0: .* of 'p' leave .* integrals must cancel"):
        solve_reference(problem, {}, limits=Limits(levels=5))


def at_wall(place, stream=STREAM):
    u, v = sp.diff(stream, Y), -sp.diff(stream, X)
    return {"dirichlet": {"u": str(u.subs(place)), "v": str(v.subs(place))}}


CLOSED = {"x.min": at_wall({X: 0}), "x.max": at_wall({X: 1}),
          "y.min": at_wall({Y: 0}), "y.max": at_wall({Y: 1})}  # fmt: skip


def check(problem, exact, tolerance):
    assert isinstance(choose_method(problem), Chebyshev)
    solution = solve_reference(problem, {}, tolerance=tolerance)
    for name, formula in exact.items():
        found = solution.values[name][0]
        error = relative(found, exact_values(formula, problem, solution.axes, [0.0]))
        assert error <= float(solution.error_estimate[0]) <= tolerance, name


def test_a_closed_box_has_a_pressure_but_for_its_mean():
    mean = sp.integrate(sp.integrate(PRESSURE, (X, 0, 1)), (Y, 0, 1))
    problem = flow(CLOSED, gauge={"p": {"mean": 0.5}})
    assert multipliers(problem.pde) == ("p",)
    check(problem, {**FLOW, "p": PRESSURE - mean + 0.5}, 1e-8)


@pytest.mark.parametrize("inertia", [0, 3])
def test_an_outlet_gives_the_pressure_its_level(inertia):
    """There the traction is given, −p + u_x; with inertia Newton's iteration solves it."""
    u, v = FLOW["u"], FLOW["v"]
    traction = (sp.diff(u, X) - PRESSURE).subs(X, 1)
    outlet = [f"dx(u) - p = {traction}", {"dirichlet": {"v": str(v.subs(X, 1))}}]
    problem = flow({**CLOSED, "x.max": outlet}, inertia=inertia)
    check(problem, {**FLOW, "p": PRESSURE}, 1e-8)


def test_along_a_periodic_axis():
    """Drawn by a wall whose speed is a wave: ψ = y (A e^{ky} + B e^{−ky}) cos kx is biharmonic.

    ∇²ψ = 2k (A e^{ky} − B e^{−ky}) cos kx, and p_x = ∂_y ∇²ψ, p_y = −∂_x ∇²ψ.
    """
    k = 2 * sp.pi
    a, b = sp.Rational(1, 50), sp.Rational(1, 3)
    stream = (a * Y * sp.exp(k * Y) + b * Y * sp.exp(-k * Y)) * sp.cos(k * X)
    pressure = 2 * k * (a * sp.exp(k * Y) + b * sp.exp(-k * Y)) * sp.sin(k * X)
    walls = {"y.min": at_wall({Y: 0}, stream), "y.max": at_wall({Y: 1}, stream)}
    problem = flow(
        walls, periodic=("x",), stream=stream, pressure=pressure, gauge={"p": {"mean": 0}}
    )
    u, v = sp.diff(stream, Y), -sp.diff(stream, X)
    check(problem, {"u": u, "v": v, "p": pressure}, 1e-8)


def test_errors_fall_with_the_degree_as_for_one_equation():
    problem = flow(CLOSED, gauge={"p": {"mean": 0}})
    mean = sp.integrate(sp.integrate(PRESSURE, (X, 0, 1)), (Y, 0, 1))
    exact = {**FLOW, "p": PRESSURE - mean}
    errors = []
    for levels in (2, 3):
        solution = solve_reference(problem, {}, tolerance=1e-12, limits=Limits(levels=levels))
        errors.append(
            [
                relative(solution.values[n][0], exact_values(f, problem, solution.axes, [0.0]))
                for n, f in exact.items()
            ]
        )
    assert max(errors[0]) < 1e-6  # 13 points
    assert max(errors[1]) < 1e-10  # 19 points


def test_a_parabola_stays_and_the_pressure_falls_evenly():
    """Poiseuille: u = 6 y (1 − y), p = 12 (2 − x)."""
    problem = Problem.from_file("stokes_channel")
    parabola = Formula(lambda y: 6 * y * (1 - y))
    solution = solve_reference(problem, {"inflow": parabola})
    x, y = solution.axes
    assert torch.allclose(solution.values["u"][0], (6 * y * (1 - y)).expand(65, -1), atol=1e-10)
    assert float(solution.values["v"].abs().max()) < 1e-10
    assert torch.allclose(solution.values["p"][0], (12 * (2 - x))[:, None], atol=1e-8)


def test_any_inflow_relaxes_to_a_parabola_of_its_flux():
    problem = Problem.from_file("stokes_channel")
    functions = sample_inputs(problem, Draws(3, 0, torch.arange(1)))
    solution = solve_reference(problem, functions, tolerance=1e-4)
    assert bool(solution.accepted.all())
    y = solution.axes[1]
    u = solution.values["u"]
    third = (y[1] - y[0]) / 3  # Simpson's rule
    weights = third * torch.tensor([1.0, *[4.0, 2.0] * 15, 4.0, 1.0], dtype=torch.float64)
    flux = u @ weights
    assert float((flux - flux[:, :1]).abs().max()) < 2e-5  # of the rule, for five half waves
    last = flux[:, :1] * (6 * y * (1 - y))
    assert float((u[:, -1] - last).abs().max()) < 5e-4  # e^{−4.2·2} = 2e-4, times what came in
    start = functions["inflow"].on_grid([y])
    assert float((u[:, 0] - start).abs().max()) < 1e-10
    slope = (solution.values["p"][:, 40, 16] - solution.values["p"][:, 60, 16]) / 0.625
    assert torch.allclose(slope, 12 * flux[:, 0], rtol=1e-3)


def test_what_a_pressure_cannot_have_is_refused():
    fixed = {**CLOSED, "x.max": [*[{"dirichlet": {"u": 0, "v": 0}}], {"dirichlet": {"p": 0}}]}
    problem = flow(fixed)
    with pytest.raises(NotSupportedError, match="a condition on p, which takes none"):
        choose_method(problem)
    with pytest.raises(SpecError, match="leave a constant in p free"):
        flow(CLOSED)


def test_the_residual_of_the_channel_vanishes():
    """Away from the corners, where the pressure is no polynomial."""
    problem = Problem.from_file("stokes_channel")
    functions = sample_inputs(problem, Draws(7, 0, torch.arange(1)))
    solution = solve_reference(problem, functions)
    points = torch.stack(torch.meshgrid(*solution.axes, indexing="ij"), -1).flatten(0, 1)
    values = {name: solution.values[name][0].flatten() for name in problem.channels}
    found = residual_over_bent(problem, functions, points, values, [1.5, 0.5], 0.3, 8)
    assert (found < 1e-5).all()

"""Which steady problems are solved wave by wave, and why others are not."""

from dataclasses import replace

import pytest

from piop.errors import NotSupportedError
from piop.forms import linear_steady as module
from piop.forms.linear_steady import linear_steady
from piop.problem import Problem

SPEC = """
piop: 1
name: example
space: {{x: [0, 1], y: [0, 1]}}
unknowns: [u]
inputs:
  f: {{of: [x, y], law: gaussian_random_field, tau: 5, alpha: 4, modes: 6, zero_mean: true}}
  {inputs}
equations: ["{equation}"]
boundary: {{{boundary}}}
{more}
sensors: {{f: {{count: [8, 8], place: grid}}}}
save: {{x: 17, y: 17}}
"""
PERIODIC = "x: periodic, y: periodic"
DIRICHLET = "x: {dirichlet: {u: 0}}, y: {dirichlet: {u: 0}}"
NEUMANN = "x: {neumann: {u: 0}}, y: {neumann: {u: 0}}"


def example(equation: str, boundary: str = DIRICHLET, inputs: str = "", more: str = "") -> Problem:
    text = SPEC.format(equation=equation, boundary=boundary, inputs=inputs, more=more)
    return Problem.from_yaml(text)


def test_operator_and_source_are_read_from_the_equations() -> None:
    problem = example("3 - lap(u) = 2*f - 5*u")
    found = linear_steady(problem.pde)
    assert found.operator == {(0, 0): {(2, 0): -1.0, (0, 2): -1.0, (0, 0): 5.0}}
    assert found.sources == (2 * problem.pde.function("f") - 3,)
    assert found.means == {}


@pytest.mark.parametrize("boundary", [PERIODIC, NEUMANN])
def test_a_constant_that_is_left_takes_its_mean(boundary: str) -> None:
    problem = example("-lap(u) = f", boundary, more="gauge: {u: {mean: 3}}")
    assert linear_steady(problem.pde).means == {0: 3.0}


def test_a_constant_that_the_equations_fix_takes_no_mean() -> None:
    assert linear_steady(example("u - lap(u) = f", NEUMANN).pde).means == {}


def test_odd_derivatives_are_allowed_along_periodic_axes_only() -> None:
    across = "x: {dirichlet: {u: 0}}, y: periodic"
    assert linear_steady(example("u - lap(u) + dy(u) = f", across).pde)
    with pytest.raises(NotSupportedError, match="odd order along x"):
        linear_steady(example("u - lap(u) + dx(u) = f", across).pde)


@pytest.mark.parametrize("equation", ["u**3 - lap(u) = f", "u*dx(u) - lap(u) = f"])
def test_nonlinear_equations_are_refused(equation: str) -> None:
    with pytest.raises(NotSupportedError, match="the equations are not linear"):
        linear_steady(example(equation).pde)


@pytest.mark.parametrize(
    ("equation", "inputs", "named"),
    [
        ("-lap(u) + (1 + x)*u = f", "", r"x \+ 1|x"),
        ("-lap(u) + k*u = f", "k: {law: uniform, low: 1, high: 2}", "k"),
        ("-lap(u) + exp(f)*u = 1", "", r"exp\(f\)"),
    ],
)
def test_coefficients_that_vary_are_refused(equation: str, inputs: str, named: str) -> None:
    with pytest.raises(NotSupportedError, match=f"a coefficient is not a number: ({named})"):
        linear_steady(example(equation, inputs=inputs).pde)


def test_a_resonance_is_refused_by_its_wave() -> None:
    """sin(πx) sin(2πy) solves Δu + 5π² u = 0; beside the resonance there is a solution."""
    with pytest.raises(NotSupportedError, match="resonate with a wave of this many periods: "):
        linear_steady(example("lap(u) + 5*pi**2*u = f").pde)
    assert linear_steady(example("lap(u) + 5.01*pi**2*u = f").pde)
    with pytest.raises(NotSupportedError, match=r"0\.5 along x, 1 along y|1 along x, 0\.5 along y"):
        linear_steady(example("lap(u) + 5*pi**2*u = f").pde)


def test_free_waves_shorter_than_the_grid_are_refused() -> None:
    """Waves of 55 periods are not resolved, so the discrete operator may resonate with them."""
    assert linear_steady(example("lap(u) + 60**2*u = f").pde)
    with pytest.raises(NotSupportedError, match="resonate"):
        linear_steady(example("lap(u) + 173**2*u = f").pde)


def test_a_wave_equation_between_walls_is_refused() -> None:
    with pytest.raises(NotSupportedError, match="resonate"):
        linear_steady(example("dxx(u) - 2*dyy(u) = f").pde)


def test_a_short_wave_may_not_resonate_even_approximately(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = example("dxx(u) - 2*dyy(u) = f")
    monkeypatch.setattr(module, "SHORT", 0.0)
    assert linear_steady(problem.pde)  # no wave resonates exactly: the root of two


def test_regions_and_evolutions_are_refused() -> None:
    with pytest.raises(NotSupportedError, match="the domain is not a box"):
        linear_steady(Problem.from_file("poisson_lshape").pde)
    with pytest.raises(NotSupportedError, match="the problem is not steady"):
        linear_steady(Problem.from_file("heat").pde)


SYSTEM = """
piop: 1
name: example
space: {{x: [0, 1], y: [0, 1]}}
unknowns: [{unknowns}]
equations: [{equations}]
boundary: {{x: periodic, y: periodic}}
gauge: {{{gauge}}}
save: {{x: 16, y: 16}}
"""
STOKES = ['"dx(p) - lap(u) = sin(2*pi*y)"', '"dy(p) - lap(v) = 0"', '"dx(u) + dy(v) = 0"']


def test_a_periodic_flow_takes_the_means_of_all_unknowns() -> None:
    text = SYSTEM.format(
        unknowns="u, v, p",
        equations=", ".join(STOKES),
        gauge="u: {mean: 1}, v: {mean: 0}, p: {mean: 2}",
    )
    assert linear_steady(Problem.from_yaml(text).pde).means == {0: 1.0, 1: 0.0, 2: 2.0}


def test_a_constant_that_is_left_needs_a_mean() -> None:
    pde = example("-lap(u) = f", PERIODIC, more="gauge: {u: {mean: 3}}").pde
    with pytest.raises(NotSupportedError, match="the equations leave a constant to u"):
        linear_steady(replace(pde, gauge={}))


def test_constants_that_only_stand_together_are_refused() -> None:
    text = SYSTEM.format(unknowns="u, v", equations='"u - lap(u) = 1", "v - lap(v) = 1"', gauge="")
    pde = Problem.from_yaml(text).pde
    assert linear_steady(pde).means == {}
    u, v = pde.function("u"), pde.function("v")
    coupled = (pde.residuals[0] + v, pde.residuals[1] + u)
    with pytest.raises(NotSupportedError, match="do not fix the constants of all unknowns"):
        linear_steady(replace(pde, residuals=coupled))


def test_an_axis_with_walls_takes_its_second_derivative() -> None:
    pde = example("u - lap(u) = f").pde
    x = pde.space[0].symbol
    flat = pde.residuals[0] + pde.function("u").diff(x, 2)
    with pytest.raises(NotSupportedError, match="the highest derivative along x is not the second"):
        linear_steady(replace(pde, residuals=(flat,)))

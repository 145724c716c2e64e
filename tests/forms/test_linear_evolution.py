"""Which linear parts have waves that evolve independently."""

import pytest

from piop.errors import NotSupportedError
from piop.forms.linear_evolution import linear_evolution
from piop.problem import Problem

SPEC = """
piop: 1
name: example
time: {{t: [0, 1]}}
space: {{x: [0, 1]}}
unknowns: [u]
inputs:
  u0: {{of: [x], law: gaussian_random_field, scale: 1, tau: 5, alpha: 4, modes: 6}}
  {inputs}
equations:
  - {equation}
initial: {{u: u0}}
boundary: {{{boundary}}}
sensors: {{u0: {{count: 16, place: grid}}}}
save: {{t: 5, x: 16}}
"""
PERIODIC = "x: periodic"
DIRICHLET, NEUMANN = "x: {dirichlet: {u: 0}}", "x: {neumann: {u: 0}}"


def example(equation: str, boundary: str = PERIODIC, inputs: str = "") -> Problem:
    return Problem.from_yaml(SPEC.format(equation=equation, boundary=boundary, inputs=inputs))


@pytest.mark.parametrize(
    ("boundary", "extension"), [(PERIODIC, "periodic"), (DIRICHLET, "odd"), (NEUMANN, "even")]
)
def test_extension_keeps_the_boundary_condition(boundary: str, extension: str) -> None:
    assert linear_evolution(example("dt(u) = dxx(u)", boundary).pde).extensions == (extension,)


def test_odd_derivatives_are_allowed_on_periodic_axes_only() -> None:
    assert linear_evolution(example("dt(u) + dx(u) = 0").pde).extensions == ("periodic",)
    with pytest.raises(NotSupportedError, match="odd order along x"):
        linear_evolution(example("dt(u) + dx(u) = dxx(u)", DIRICHLET).pde)


@pytest.mark.parametrize(
    "boundary",
    [
        "x: {dirichlet: {u: 1}}",
        "x: {neumann: {u: 1}}",
        "x: {robin: {u: [1, 1, 0]}}",
    ],
)
def test_other_walls_are_refused(boundary: str) -> None:
    with pytest.raises(NotSupportedError, match="along x it is neither periodic"):
        linear_evolution(example("dt(u) = dxx(u)", boundary).pde)


def test_walls_of_two_kinds_are_refused() -> None:
    walls = "x.min: {dirichlet: {u: 0}}, x.max: {neumann: {u: 0}}"
    with pytest.raises(NotSupportedError, match="along x all unknowns vanish on one wall"):
        linear_evolution(example("dt(u) = dxx(u)", walls).pde)


def test_a_drawn_coefficient_is_refused() -> None:
    inputs = "nu: {law: uniform, low: 1, high: 2}"
    with pytest.raises(NotSupportedError, match="a coefficient is not a number: nu"):
        linear_evolution(example("dt(u) = nu*dxx(u)", inputs=inputs).pde)


def test_a_linear_part_is_required() -> None:
    with pytest.raises(NotSupportedError, match="no term is linear"):
        linear_evolution(example("dt(u) = u**2").pde)


def test_a_coefficient_of_the_coordinate_does_not_count_as_linear_part() -> None:
    with pytest.raises(NotSupportedError, match="no term is linear"):
        linear_evolution(example("dt(u) = cos(2*pi*x)*u").pde)

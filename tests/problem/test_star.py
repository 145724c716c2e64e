"""Stars in specs: their words, the angle that inputs may be of, and what is refused."""

import math

import numpy as np
import pytest
from sympy import Function, Symbol

from piop.domain import GeometryError, Radius
from piop.errors import SpecError
from piop.problem import Problem
from piop.problem.describe import to_text

SPEC = """piop: 1
name: case
space: {x: [0, 1], y: [0, 1]}
domain:
  box: [[0, 1], [0, 1]]
  holes: {cavity: {star: {centre: [0.5, 0.5], angle: phi, radius: r}}}
unknowns: [u]
inputs:
  g: {of: [phi], law: gaussian_random_field, scale: 1, tau: 3, alpha: 2, hidden: true}
  r: {of: [phi], expression: "0.2 + 0.1/(1 + exp(g))"}
  s: {law: uniform, low: 1, high: 3}
equations: [-lap(u) = s]
boundary: {rest: {dirichlet: {u: 0}}}
sensors: {r: {count: 12, place: grid}}
save: {points: 50}
"""


FIELD = """  g: {of: [phi], law: gaussian_random_field, scale: 1, tau: 3, alpha: 2, hidden: true}
"""
RADIUS = """  r: {of: [phi], expression: "0.2 + 0.1/(1 + exp(g))"}
"""
SENSORS = """sensors: {r: {count: 12, place: grid}}
"""


def changed(*pairs):
    text = SPEC
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return Problem.from_yaml(text)


def test_the_angle_is_a_coordinate_of_inputs_and_of_nothing_else():
    problem = changed()
    phi = Symbol("phi", real=True)
    assert [c.name for c in problem.coordinates] == ["x", "y"]
    assert problem.coordinate("phi").periodic
    assert problem.coordinate("phi").high == 2 * math.pi
    assert problem.domain.radii == {"domain.holes.cavity": Function("r", real=True)(phi)}
    assert problem.vectors == {"r": 12}
    assert problem.domain.varies
    assert problem.points == 50
    assert "u(x, y)" in str(problem.residuals[0])


def test_what_holds_for_all_is_read_off_inputs_in_the_middle_of_their_laws():
    problem = changed()
    assert set(problem.boundary) == {"x.min", "x.max", "y.min", "y.max", "cavity"}
    assert problem.domain.members["domain"].volume == pytest.approx(1 - math.pi * 0.25**2)
    other = problem.domain.sample({"domain.holes.cavity": Radius.of(lambda _: 0.3)})
    assert other.area == pytest.approx(1 - math.pi * 0.09)
    assert set(other.faces) == set(problem.domain.faces)


def test_a_radius_may_hold_the_angle_numbers_and_parameters():
    problem = changed(
        ("radius: r}", "radius: a*(2 + 0.1*s*cos(3*phi))}"),
        (FIELD + RADIUS, ""),
        (SENSORS, "parameters: {a: 0.1}\n"),
    )
    angles = np.linspace(0, 2 * math.pi, 1000, endpoint=False)
    radius = 0.1 * (2 + 0.2 * np.cos(3 * angles))
    assert problem.domain.members["domain"].volume == pytest.approx(
        1 - math.pi * np.mean(radius**2)
    )
    assert problem.domain.varies
    assert problem.vectors == {}


def test_a_shape_without_inputs_is_the_same_for_all_samples():
    problem = changed(
        ("radius: r}", "radius: 0.2 + 0.01*cos(phi)}"), (FIELD + RADIUS, ""), (SENSORS, "")
    )
    assert not problem.domain.varies
    assert problem.points == 50


def test_a_domain_that_cannot_be_read_is_the_only_thing_complained_of():
    with pytest.raises(SpecError) as caught:
        changed(("angle: phi, ", ""))
    assert len(caught.value.issues) == 1


def test_a_spec_with_a_star_is_written_and_read_again():
    problem = changed()
    assert Problem.from_yaml(problem.to_yaml()) == problem
    assert changed(("radius: r}", "radius: 0.9*r}")) != problem
    assert "points 50" in to_text(problem)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("radius: r}", "radius: r - 0.3}", "its radius is -0.05 at the angle 0; a positive"),
        (
            "radius: r}",
            "radius: 3*r}",
            r"reaches out of the interval \[0, 1\] of space where",
        ),
        ("radius: r}", "radius: r*x}", "'x' is not"),
        ("radius: r}", "radius: 'r + where(phi < 1, 0.1, 0)'}", "jumps, or changes too fast"),
        ("angle: phi, ", "", "a star needs angle"),
        ("centre: [0.5, 0.5]", "centre: [0.5]", "a centre is"),
        ("angle: phi", "angle: x", "declared twice"),
        ("-lap(u) = s", "-lap(u) = s*r", "depends on the angle phi"),
        ("-lap(u) = s", "-lap(u) = s*phi", "'phi' is the angle of a star"),
        ("place: grid", "place: sobol", "an input of an angle is observed at even angles"),
        ("r: {of: [phi]", "r: {of: [phi, x]", "an input of an angle depends on nothing else"),
        ("save: {points: 50}", "save: {points: 50, x: 9}", "points say where solutions"),
        ("law: gaussian_random_field, scale: 1, tau: 3, alpha: 2", "law: data", "has no middle"),
    ],
)
def test_refused_with_place_and_reason(old, new, message):
    with pytest.raises(SpecError, match=message):
        changed((old, new))


def test_a_radius_that_is_to_be_inferred_is_refused():
    with pytest.raises(SpecError, match="depends on a, which is to be inferred"):
        changed(("radius: r}", "radius: a*r}"), ("save:", "parameters: {a: 1}\ninfer: [a]\nsave:"))


def test_points_are_for_shapes_alone():
    with pytest.raises(SpecError, match="save: 'points' is not a coordinate"):
        Problem.from_yaml(
            "piop: 1\nname: a\nspace: {x: [0, 1], y: [0, 1]}\nunknowns: [u]\n"
            "equations: [-lap(u) = 1]\nboundary: {rest: {dirichlet: {u: 0}}}\nsave: {points: 9}\n"
        )


@pytest.mark.parametrize(
    ("size", "message"), [(0.6, "reaches out"), (0.5, "touches itself"), (-0.1, "is -0.1")]
)
def test_bad_shapes_of_a_draw_are_told_by_their_own_reason(size, message):
    with pytest.raises(GeometryError, match=message):
        changed().domain.sample({"domain.holes.cavity": Radius.of(lambda _: size)})

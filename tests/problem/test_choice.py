"""Shapes to choose from in specs: their words, faces and numbers, and what is refused."""

import pytest

from piop.domain import GeometryError
from piop.errors import NotSupportedError, SpecError
from piop.problem import Problem
from piop.problem.describe import to_json, to_text

SQUARE = "    square: {box: [[0, 1], [0, 1]]}\n"
DISK = "    disk: {disk: [0.5, 0.5, 0.5]}\n"
RING = "    ring: {disk: [0.5, 0.5, 0.5], holes: {inner: {disk: [0.5, 0.5, 0.2]}}}\n"
SPEC = f"""piop: 1
name: case
space: {{x: [0, 1], y: [0, 1]}}
domain:
  choose: k
  of:
{SQUARE}{DISK}{RING}unknowns: [u]
inputs:
  k: {{law: integer, low: 0, high: 2, hidden: true}}
  f: {{of: [x, y], expression: "1 + x + k"}}
equations: [-lap(u) = f]
boundary: {{rest: {{dirichlet: {{u: 0}}}}}}
sensors: {{f: {{place: points}}}}
save: {{points: 50}}
"""


def changed(*pairs):
    text = SPEC
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return Problem.from_yaml(text)


def test_rest_holds_on_all_faces_of_all_shapes():
    problem = changed()
    assert problem.domain.varies
    assert tuple(problem.domain.members) == ("square", "disk", "ring")
    faces = {"x.min", "x.max", "y.min", "y.max", "outline", "inner"}
    assert set(problem.boundary) == faces
    assert all(len(conditions) == 1 for conditions in problem.boundary.values())
    ring = problem.domain.sample({}, 2)
    assert set(ring.faces) == {"outline", "inner"}
    assert ring.area == pytest.approx(3.14159265 * (0.25 - 0.04))
    assert problem.domain.sample({}, 0).area == pytest.approx(1)


def test_a_face_that_every_shape_has_may_be_named():
    half = "    half: {polygon: [[0, 0], [1, 0], [0, 1]]}\n"
    problem = changed(
        (DISK + RING, half),
        ("high: 2", "high: 1"),
        ("{rest:", "{y.min: {neumann: {u: 0}}, rest:"),
    )
    kinds = {face: found[0].keyword for face, found in problem.boundary.items()}
    assert kinds.pop("y.min") == "neumann"
    assert set(kinds) == {"x.min", "x.max", "y.max", "outline"}
    assert set(kinds.values()) == {"dirichlet"}


def test_numbers_and_not_names_tell_shapes_apart():
    problem = changed()
    assert Problem.from_yaml(problem.to_yaml()) == problem
    assert changed(("    disk:", "    round:")) == problem
    assert changed((SQUARE + DISK, DISK + SQUARE)) != problem
    assert changed(("0.5, 0.2]", "0.5, 0.3]")) != problem


def test_a_reader_is_told_of_the_shapes_and_of_the_sensors():
    text = to_text(changed())
    assert "k chooses:" in text
    assert "2 ring (outline, inner)" in text
    assert "k: integer (low 0, high 2)" in text
    assert "observed at 50 sensors, points" in text
    assert to_json(changed())["choice"]["of"]["disk"] == ["outline"]


def test_equations_are_not_trained_on_shapes_that_differ():
    with pytest.raises(NotSupportedError, match="given at the points of solutions: functions that"):
        changed().capabilities.equations.require()
    with pytest.raises(NotSupportedError, match="domain, because"):
        changed(("sensors: {f: {place: points}}\n", "")).capabilities.equations.require()
    changed().capabilities.data.require()


def test_points_are_as_many_as_usual_where_nothing_is_said():
    assert changed(("save: {points: 50}\n", "")).inputs[1].sensor_shape == (1000,)


def test_a_star_may_be_among_the_shapes():
    star = "{star: {centre: [0.5, 0.5], angle: phi, radius: 0.2 + 0.01*k*cos(3*phi)}}"
    problem = changed(("{disk: [0.5, 0.5, 0.2]}", star))
    assert list(problem.domain.radii) == ["domain.of.ring.holes.inner"]
    with pytest.raises(SpecError, match=r"holes.inner: its radius is 0 at the angle"):
        changed(("{disk: [0.5, 0.5, 0.2]}", star.replace("0.2 + 0.01*k*cos(3*phi)", "k - 1")))


def test_a_number_without_a_shape_is_told():
    for number in (-1, 3):
        with pytest.raises(GeometryError, match=f"its number is {number}, and there are shapes 0"):
            changed().domain.sample({}, number)


LAW = "k: {law: integer, low: 0, high: 2, hidden: true}"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("choose: k", "choose: j", r":5:11: domain.choose: 'j' is not an input. Write inputs: {j:"),
        ("choose: k", "choose: kk", r"'kk' is not an input. Did you mean 'k'"),
        ("  choose: k\n", "", "domain: a choice needs choose"),
        ("choose: k", "choose: f", "'f' depends on x, y, and is to be the number of a shape"),
        ("law: integer, low: 0", "law: uniform, low: 0", "'k' is not drawn as a whole number"),
        (LAW, f"{LAW[:-1]}, smooth: true}}\n  j: {{law: integer, low: 0, high: 1}}", "never used"),
        (", hidden: true", "", "'k' is shown to the network"),
        ("high: 2", "high: 3", r":12:29: inputs.k: is drawn from 0 to 3, and domain.of has"),
        ("low: 0", "low: -1", r":12:21: inputs.k: is drawn from -1 to 2"),
        ("high: 2", "high: 1", ":9:5: domain.of.ring: is never drawn, since k, its number 2, is"),
        (DISK + RING, "", "domain.of: two or more shapes are needed"),
        ("0.5, 0.5]}", "0.5, 0.6]}", r"the disk \[-0.1, 1.1\] along x reaches out of"),
        ("inner:", "outline:", "domain.of.ring.holes: 'outline' has a meaning in boundary"),
        (
            DISK,
            "    disk: {choose: k, of: {a: {}}}\n",
            "domain.of.disk: a choice is of shapes",
        ),
        (DISK, "    d-k: {disk: [0.5, 0.5, 0.5]}\n", "domain.of: 'd-k' is not a name"),
        (DISK, "    disk: {ball: [0.5, 0.5, 0.5]}\n", "domain.of.disk: 'ball' is not a key that"),
        ("  choose: k\n", "  choose: k\n  box: [[0, 1], [0, 1]]\n", "'box' is not a key that is"),
        (
            "{disk: [0.5, 0.5, 0.2]}",
            "{disk: [0.5, 0.5, 0.5]}",
            "ring: the shape is empty",
        ),
        (
            "{rest:",
            "{x.min: {neumann: {u: 0}}, rest:",
            "x.min: domain.of.disk has no such",
        ),
        ("{rest:", "{inner: {dirichlet: {u: 1}}, rest:", "domain.of.square has no such face"),
        ("rest:", "x:", "boundary.x: domain.of.disk has no such face, and samples may have that"),
        ("{place: points}", "{place: points, count: 9}", "as many as the solution has points, 50"),
        (
            "save: {points: 50}",
            "save: {x: 9}",
            "that differ from sample to sample are on",
        ),
    ],
)
def test_refused_with_place_and_remedy(old, new, message):
    with pytest.raises(SpecError, match=message):
        changed((old, new))


def test_of_shapes_that_cannot_be_read_nothing_else_is_said():
    for old, new in ((DISK, "    disk: {ball: [0.5, 0.5, 0.5]}\n"), ("  choose: k\n", "")):
        with pytest.raises(SpecError) as caught:
            changed((old, new))
        assert "domain" in str(caught.value)
        assert "sensors" not in str(caught.value)


def test_shapes_to_choose_from_are_in_the_plane():
    with pytest.raises(SpecError, match="shapes to choose from need two space dimensions"):
        Problem.from_yaml(
            "piop: 1\nname: a\nspace: {x: [0, 1]}\nunknowns: [u]\nequations: [-dxx(u) = 1]\n"
            "boundary: {rest: {dirichlet: {u: 0}}}\n"
            "domain: {choose: k, of: {a: {box: [[0, 1]]}, b: {box: [[0, 0.5]]}}}\n"
        )


def test_sensors_at_the_points_of_solutions_on_a_grid_are_refused():
    with pytest.raises(SpecError, match=r"sensors.f: only solutions on a shape, at 'save: {points"):
        Problem.from_yaml(
            "piop: 1\nname: a\nspace: {x: [0, 1]}\nunknowns: [u]\nequations: [-dxx(u) = f]\n"
            "inputs: {f: {of: [x], law: fourier_series, terms: 2, amplitude: [0, 1], "
            "wavenumber: [1, 2]}}\nboundary: {x: {dirichlet: {u: 0}}}\n"
            "sensors: {f: {place: points}}\n"
        )

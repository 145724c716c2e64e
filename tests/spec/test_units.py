# ruff: noqa: E501 - tables are read by row
"""Units as people write them, and specs whose formulas no units can make consistent."""

from fractions import Fraction

import pytest

from piop.errors import SpecError
from piop.expression import Refusal
from piop.problem import Problem
from piop.spec.load import builtin_names, draft_file
from piop.spec.units import dimension_of

HEAT = """name: heat
time: {t: [0, 1]}
space: {x: [0, 1]}
parameters: {nu: 0.01}
unknowns: [u]
equations:
  - dt(u) = nu*dxx(u)
initial: {u: 3*sin(pi*x)}
boundary: {x: {dirichlet: {u: 0}}}
units: {x: m, t: s, u: K}
"""


def issues(*changes):
    text = HEAT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    try:
        Problem.from_yaml(text, "f.yaml")
    except SpecError as error:
        return [f"{i.line}:{i.column} {i.message} {i.hint}" for i in error.issues]
    return []


SPEED = {"[length]": 1, "[time]": -1}
WRITTEN = {
    "m/s": SPEED,
    "m s-1": SPEED,
    "m s^-1": SPEED,
    "m*s**-1": SPEED,
    "m.s-1": SPEED,
    "m·s⁻¹": SPEED,
    "m^2/s": {"[length]": 2, "[time]": -1},
    "m²/s": {"[length]": 2, "[time]": -1},
    "m2/s": {"[length]": 2, "[time]": -1},
    "1/s": {"[time]": -1},
    "W/(m^2 K)": {"[mass]": 1, "[time]": -3, "[temperature]": -1},
    "m^0.5": {"[length]": Fraction(1, 2)},
    "m^(1/2)": {"[length]": Fraction(1, 2)},
    "mol/L": {"[substance]": 1, "[length]": -3, "[scale]": 3},
    "µm": {"[length]": 1, "[scale]": -6},
    "degC": {"[temperature]": 1},
    "°C": {"[temperature]": 1},
    "%": {"[scale]": -2},
    "rad": {},
    "dimensionless": {},
    "-": {},
    "1": {},
    "": {},
}


@pytest.mark.parametrize("label", WRITTEN)
def test_a_unit_is_read_however_it_is_written(label):
    assert dimension_of(label) == WRITTEN[label]


NO_UNITS = [
    "9^9^9^9",
    "m^9^9",
    "(9)^(9)",
    "1000 m",
    "m^(99^99)",
    "m" * 99,
    "__import__('os')",
    "2",
    "m^²",
]


@pytest.mark.parametrize("label", [*NO_UNITS, "metr", "nan", "psu", "((m", "if", "(fm^99)^99"])
def test_what_is_no_unit_is_refused_and_nothing_is_computed_of_it(label):
    with pytest.raises(Refusal, match="is not a"):
        dimension_of(label)


def test_an_unknown_unit_is_refused_with_its_place_and_the_nearest():
    (found,) = issues(("x: m", "x: metr"))
    assert found == "10:9 units.x: 'metr' is not a known unit. Did you mean 'metre'?"
    assert not issues(("x: m,", 'x: "",'), ("t: s", 't: "-"'))


@pytest.mark.parametrize("name", builtin_names())
def test_the_units_of_a_shipped_problem_are_consistent(name):
    assert not draft_file(f"pdes/{name}.yaml").issues


WALLS = "x: {dirichlet: {u: 0}}"
INCONSISTENT = [
    ("nu*dxx(u)", "nu*dxx(u) + u", "7:25 equations: the unit of 'u' is K, that of 'dt(u)' K/s."),
    (
        "{u: 3*sin(pi*x)}",
        "{u: x*(1 - x)}",
        "8:14 initial.u: the unit of 'x*(1 - x)' is m^2, that of 'u' K.",
    ),
    (
        "sin(pi*x)",
        "sin(x)",
        "8:20 initial.u: the unit of 'x' is m, that of the argument of sin none.",
    ),
    ("{u: 0}", "{u: 2 + t}", "9:35 boundary.x: the unit of 't' is s, that of u K."),
    (
        WALLS,
        "x.min: {neumann: {u: 0}}, x.max: {neumann: {u: 2 - t}}",
        "9:63 boundary.x.max: the unit of 't' is s, that of d(u, x) K/m.",
    ),
    (
        WALLS,
        "x.min: {neumann: {u: 0}}, x.max: {robin: {u: [nu, nu, 0]}}",
        "9:66 boundary.x.max: the unit of (nu)*d(u, x) is m*K/s, that of (nu)*u m^2*K/s (with nu in m^2/s",
    ),
    (
        WALLS,
        'x.min: {neumann: {u: 0}}, x.max: "dx(u)*nx = -u"',
        "9:57 boundary.x.max: the unit of 'u' is K, that of 'dx(u)*nx' K/m.",
    ),
    (
        "u: K}",
        "u: K, nu: m/s}",
        "7:13 equations: the unit of 'nu*dxx(u)' is K/m/s, that of 'dt(u)' K/s.",
    ),
]
FULL = """name: f
time: {t: [0, 1]}
space: {x: [0, 1], y: [0, 1]}
parameters: {L: 2, k: L}
unknowns: [u]
auxiliary: {psi: {equation: "-lap(psi) = u", mean: 0}}
inputs:
  g: {of: [x, y], law: fourier_series, terms: 3, amplitude: [-1, 1], wavenumber: [1, 3], hidden: true}
  u0: {of: [x, y], expression: exp(g)*L}
definitions: {v: "(dy(psi), -dx(psi))", q: 2*u}
equations:
  - dt(u) + dot(v, grad(u)) + k*q = 2*lap(u)
initial: {u: u0}
boundary: {x: periodic, y: periodic}
units: {x: m, y: m, t: s, u: 1/s, UNIT}
"""
SECTIONS = {
    "L: m, k: s": "4:23 parameters.k: the unit of 'L' is m, that of 'k' s.",
    "psi: m": "6:42 auxiliary.psi.equation: the unit of 'u' is 1/s, that of 'lap(psi)' 1/m.",
    "g: K": "9:36 inputs.u0.expression: the unit of 'g' is K, that of the argument of exp none.",
    "psi: m^2/s, v: m": "10:19 definitions.v: the unit of '(dy(psi), -dx(psi))' is m/s, that of 'v' m.",
    "q: m, k: 1/s": "12:31 equations: the unit of 'k*q' is m/s, that of 'dt(u)' 1/s^2.",
    "u0: K": "13:14 initial.u: the unit of 'u0' is K, that of 'u' 1/s.",
}


@pytest.mark.parametrize("units", SECTIONS)
def test_formulas_of_every_section_are_checked(units):
    with pytest.raises(SpecError) as caught:
        Problem.from_yaml(FULL.replace("UNIT", units), "f.yaml")
    first = caught.value.issues[0]
    assert f"{first.line}:{first.column} {first.message}".startswith(SECTIONS[units].rstrip("."))


def test_units_of_every_section_may_be_consistent():
    units = "L: 1/s, k: 1/s, v: m/s, q: 1/s, u0: 1/s, g: '', psi: m²/s"
    assert Problem.from_yaml(FULL.replace("UNIT", units)).units["psi"] == "m²/s"


@pytest.mark.parametrize(("old", "new", "message"), INCONSISTENT)
def test_a_formula_that_no_units_make_consistent_is_refused_at_its_term(old, new, message):
    (found,) = issues((old, new))
    assert found.startswith(message)


WITH_UNIT = {
    ("nu: 0.01", 'nu: "0.01 m^2/s"'): "4:18",
    ("nu: 0.01", "nu: 0.01*m**2/s"): "4:18",
    ("nu: 0.01", "nu: 1cm"): "4:18",
    ("[0, 1]}\nspace", "[0, 10 s]}\nspace"): "2:15",
    ("nu: 0.01", "nu: {law: uniform, low: 1 mm, high: 2}"): "4:38",
}


@pytest.mark.parametrize("change", WITH_UNIT)
def test_numbers_and_parameters_take_no_unit(change):
    found = issues(change)
    assert found[0].startswith(WITH_UNIT[change])
    assert "numbers and parameters take no unit. Write " in found[0]


def test_what_only_looks_like_a_unit_keeps_its_own_message():
    assert "Write '2*pi'" in issues(("nu: 0.01", "nu: 2 pi"))[0]
    assert "'q' is not declared" in issues(("nu: 0.01", "nu: 2*q"))[0]


def test_spelling_of_runs_that_began_before_units_were_checked_still_loads(tmp_path):
    (tmp_path / "f.yaml").write_text(HEAT.replace("u: K}", "u: warmth}"))
    with pytest.raises(SpecError, match="'warmth' is not a known unit"):
        Problem.from_file(tmp_path / "f.yaml")
    assert Problem.from_file(tmp_path / "f.yaml", check_units=False).units["u"] == "warmth"


def test_units_that_are_too_many_to_solve_for_are_refused():
    names = ", ".join(f"c{i}: {i}" for i in range(201))
    used = "+".join(f"c{i}" for i in range(201))
    found = issues(("nu: 0.01", f"nu: 0.01, {names}"), ("nu*dxx", f"nu*({used})*dxx"))
    assert "202 names have no unit; the units of at most 200" in found[0]

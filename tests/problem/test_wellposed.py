# ruff: noqa: E501 - tables are read by row
"""Every ill-posed problem is refused, at its place and with what to do; its well-posed twin is not."""

import pytest

from piop.errors import SpecError
from piop.problem import Problem

HEAT = """piop: 1
name: heat
time: {t: [0, 1]}
space: {x: [0, 1]}
parameters: {nu: 0.01}
unknowns: [u]
inputs:
  u0: {of: [x], law: fourier_series, terms: 3, amplitude: [-1, 1], wavenumber: [1, 3]}
equations:
  - dt(u) = nu*dxx(u)
initial: {u: u0}
boundary: {x: periodic}
"""
NAVIER_STOKES = Problem.from_file("navier_stokes").to_yaml()
POISSON = """name: poisson
space: {x: [0, 1], y: [0, 1]}
unknowns: [u]
inputs:
  f: {of: [x, y], law: gaussian_random_field, tau: 3, alpha: 2, zero_mean: true}
equations: ["-lap(u) = f"]
boundary: {x: periodic, y: periodic}
gauge: {u: {mean: 0}}
"""
DARCY = """name: darcy
space: {x: [0, 1], y: [0, 1]}
unknowns: [u]
inputs:
  a: {of: [x, y], law: piecewise_constant, cells: 4, low: 3, high: 12}
equations: ["-div(a*grad(u)) = 1"]
boundary: {x: {dirichlet: {u: 0}}, y: {dirichlet: {u: 0}}}
"""
EULER = """name: gas
time: {t: [0, 0.1]}
space: {x: [0, 1]}
unknowns: [r, m, e]
definitions: {v: m/r, p: 0.4*(e - m*v/2)}
equations:
  - dt(r) + dx(m) = 0
  - dt(m) + dx(m*v + p) = 0
  - dt(e) + dx((e + p)*v) = 0
initial: {r: "where(x < 0.5, 1, 0.125)", m: 0, e: "where(x < 0.5, 2.5, 0.25)"}
boundary: {x: outflow}
"""


def refuse(text):
    with pytest.raises(SpecError) as caught:
        Problem.from_yaml(text, "f.yaml")
    return caught.value.issues


def edit(text, *changes):
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return text


@pytest.mark.parametrize("text", [HEAT, NAVIER_STOKES, POISSON, DARCY, EULER])
def test_well_posed_problems_pass(text):
    problem = Problem.from_yaml(text)
    assert Problem.from_yaml(problem.to_yaml()) == problem


EQ = "dt(u) = nu*dxx(u)"
CASES = [
    # names
    ("nu*dxx(u)", "nuu*dxx(u)", (10, 13), "'nuu' is not declared", "Did you mean 'nu'?"),
    ("nu: 0.01", "nu: 0.01, u: 1", (6, 12), "'u' is declared twice; first under parameters in line 5", ""),
    ("nu: 0.01", "nu: 0.01, dx: 1", (5, 24), "'dx' is reserved", "another"),
    ("nu: 0.01", "nu: 0.01, lambda: 1", (5, 24), "'lambda' is reserved", "another"),
    ("[u]", "[u, 2v]", (6, 15), "'2v' is not a name", ""),
    ("nu: 0.01", "nu: 0.01, mu: 1", (5, 24), "'mu' is declared but never used", "leave it out"),
    ("unknowns:", "unknown:", (6, 1), "'unknown' is not a key", "Did you mean 'unknowns'?"),
    ("terms: 3", "term: 3", (8, 38), "'term' is not a key", "Did you mean 'terms'?"),
    ("fourier_series", "fourier_serie", (8, 22), "'fourier_serie' is not one of", "'fourier_series'"),
    ("of: [x]", "of: [z]", (8, 13), "'z' is not a coordinate", ""),
    ("of: [x]", "of: [x, x]", (8, 13), "a coordinate is repeated", ""),
    ("x: periodic", "z: periodic", (12, 12), "'z' is not a face or an axis", ""),
    ("x: periodic", "x: perodic", (12, 15), "'perodic' is not a boundary condition", "'periodic'"),
    ("initial: {u: u0}", "initial: {w: u0}", (11, 11), "'w' is not an unknown", ""),
    ("initial: {u: u0}", "initial: {u: u}", (11, 14), "'u' is declared under 'unknowns' and has no value here", ""),
    ("initial: {u: u0}", "initial: {u: u0*t}", (11, 17), "'t' is declared under 'time' and has no value here", ""),
    ("nu: 0.01", "nu: 2*mu, mu: 1", (5, 20), "'mu' is declared below, and a parameter may use those above it", ""),
    ("nu: 0.01", "nu: 2*nu", (5, 20), "'nu' is declared below", ""),
    ("nu: 0.01", "mu: 1, nu: 2*mu", None, None, None),
    ("nu: 0.01", "mu: {law: uniform, low: 1, high: 2}, nu: 2*mu", (5, 57), "'mu' is drawn for each sample, and one number", ""),
    ("{nu: 0.01}\n", "{nu: 2*mu, mu: {law: uniform, low: 1, high: 2}}\n", (5, 20), "'mu' is drawn for each sample, and one number", ""),
    # counts
    (EQ, EQ + "\n  - u = 1", (9, 1), "2 equations for 1 unknown", "The unknowns are u"),
    ("[u]", "[u, v]", (6, 15), "'v' is in no equation", ""),
    (EQ, "nu = 1", (10, 5), "contains no unknown", ""),
    ("initial: {u: u0}", "initial: {}", (9, 1), "'u' is missing; u is of order 1 in time", ""),
    (EQ, "d(u, t, 2) = nu*dxx(u)", (11, 1), "'dt(u)' is missing", ""),
    ("{u: u0}", '{u: u0, "dt(u)": 0}', (11, 18), "'dt(u)' is one condition too many", ""),
    # faces
    ("boundary: {x: periodic}\n", "", (4, 9), "u needs 1 condition here; 0 given", "dirichlet"),
    ("x: periodic", "x.min: {dirichlet: {u: 0}}", (12, 1), "boundary.x.max: u needs 1", ""),
    (
        "x: periodic",
        "x: [{dirichlet: {u: 0}}, {neumann: {u: 0}}]",
        (12, 48), "boundary.x.min: u needs 1 condition here; 2 given", "",
    ),
    ("x: periodic", "x: periodic, x.min: {dirichlet: {u: 0}}", (12, 25), "x is periodic", ""),
    ("x: periodic", "x: [periodic, outflow]", (12, 12), "periodic excludes any other", ""),
    ("x: periodic", "x.min: periodic", (12, 12), "for a whole axis", ""),
    ("x: periodic", "x: outflow", (12, 15), "outflow is for conservation laws", ""),
    ("x: periodic", "x: dirichlet", (12, 15), "needs an unknown and a value", "{u: 0}"),
    ("x: periodic", "x: {robin: {u: [1, 2]}}", (12, 27), "robin takes [alpha, beta, g]", ""),
    ("x: periodic", "x: {dirichlet: {w: 0}}", (12, 28), "'w' is not an unknown", ""),
    ("x: periodic", 'x: ["dx(u)*nx = 0", "u = 0"]', (12, 12), "2 conditions where the equations ask for 1", ""),
    (EQ, "dt(u) + dxxx(u) = nu*u", None, None, None),
    # periodicity
    ("{u: u0}", "{u: u0 + x}", (11, 11), "not periodic in x", "Make it periodic"),
    (EQ, "dt(u) = nu*dxx(u) + x", (10, 5), "not periodic in x", ""),
    ("terms: 3, amplitude: [-1, 1], wavenumber: [1, 3]", "terms: 3", (8, 7), "needs amplitude, wavenumber", ""),
    # well-posedness in time
    (EQ, "dt(u) = -nu*dxx(u)", (10, 5), "short waves grow without bound", "sign"),
    (EQ, "dt(u) = nu*dxxxx(u)", (10, 5), "short waves grow without bound", ""),
    (EQ, "dt(u) + dxxx(u) = -nu*dxx(u)", (10, 5), "short waves grow without bound", ""),
    (EQ, "dt(u) = nu*(2 + sin(2*pi*x))*dxx(u) - 5*nu*dxx(u)", (10, 5), "short waves grow", ""),
    (EQ, "dt(u) = u0*u + (1 + u0)*u - nu*dxx(u)", (10, 5), "short waves grow", ""),
    (EQ, "dt(u) + dx(u) = -nu*dxxx(u)", None, None, None),
    (EQ, "dt(u) + u*dx(u) = -dxx(u) - nu*dxxxx(u)", None, None, None),
    # conservation laws
    (EQ, "dt(u) + nu*u*dx(u) = 0", (10, 5), "is not in flux form", "d(u**2/2, x)"),
    (EQ, "dt(u) + dx(nu*u**2) = 0", None, None, None),
    # laws
    ("terms: 3", "terms: 0", (8, 45), "0 is not a whole number from 1", ""),
    ("[1, 3]", "[3, 1]", (8, 80), "wavenumber: low 3 is above high 1", ""),
    ("[-1, 1]", "[1, -1]", (8, 59), "low 1 is above high -1", ""),
    ("[1, 3]", "[1.5, 3]", (8, 81), "wavenumber: 1.5 is not a whole number from 0", ""),
    # sections
    ("[0, 1]}\nspace", "[1, 1]}\nspace", (3, 11), "the interval has no length", ""),
    ("{t: [0, 1]}", "{t: [0, 1], s: [0, 1]}", (3, 7), "time: 2 coordinates; 1 to 1 are possible", ""),
    (
        "{t: [0, 1]}",
        "[t, 0, 1]",
        (3, 7),
        "time: a list where 'key: value' pairs are needed",
        "Such as time: {t: [0, 1]}.",
    ),
    ("name: heat", "name: {heat: 1}", (2, 7), "name: a mapping where ", ""),
    ("name: heat", "name: heat\nsave: {z: 3}", (3, 8), "'z' is not a coordinate", ""),
    ("name: heat", "name: heat\nsave: {x: 1}", (3, 11), "not a whole number from 2", ""),
    ("name: heat", "name: heat\nunits: {q: m}", (3, 9), "'q' is not declared", ""),
    ("name: heat", "name: heat\ninfer: [q]", (3, 9), "'q' is not a constant parameter", ""),
    (EQ, "dt(u) = (1 + nu - nu)*dxx(u)\ninfer: [nu]", (11, 9), "no condition depends on 'nu'", "No data"),
    ("[0, 1]}\nspace", "[0, nu]}\ninfer: [nu]\nspace", (3, 15), "depends on a parameter that is to be", ""),
    ("name: heat", "name: heat\nlearn: {from: u, to: q}", (3, 18), "'q' is not an input", ""),
    ("name: heat", "name: heat\nlearn: {from: u}", (3, 8), "'to' is missing", ""),
    ("name: heat", "name: heat\nlearn: {from: u, to: u0, noise: -1}", (3, 33), "a number from 0 on", ""),
    ("name: heat", "name: heat\ngauge: {u: {mean: 0}}", (3, 9), "the mean of u is fixed already", ""),
    ("name: heat", "name: heat\ngauge: {u: {}}", (3, 12), "'mean' is missing", ""),
    ("name: heat", "name: heat\nsensors: {u: {count: 3}}", (3, 11), "'u' is not an input", ""),
    ("name: heat", "name: heat\nsensors: {u0: {place: random}}", (3, 23), "'random' is not one of grid", ""),
    ("name: heat", "name: heat\nsensors: {u0: {count: [3, 3]}}", (3, 23), "need 'place: grid'", ""),
    ("name: heat", "name: heat\ndomain: sphere", (3, 9), "sphere is not supported yet", ""),
    ("name: heat", "name: heat\ndomain: {disk: [0, 0, 1]}", (3, 9), "need two space dimensions", ""),
    ("boundary: {x", "domain: {box: [[0, 1]]}\nsave: {points: 9}\nboundary: {x", (13, 8), "'points' is not a coordinate", ""),
    ("name: heat", "name: heat\ndomain: {box: [[0, 2]]}", (3, 15), "is not the interval [0, 1] of space", ""),
    ("name: heat", "name: heat\ndefinitions: {a: b, b: u}", (3, 18), "'b' is not defined yet", "above"),
    ("name: heat", "name: heat\ndefinitions: {f: tan(x) + a, a: x}", (3, 27), "'a' is not defined", ""),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "place", "message", "hint"), CASES)
def test_a_mistake_is_refused_at_its_place(old, new, place, message, hint):
    text = edit(HEAT, (old, new))
    if place is None:
        if "nu" not in new:
            text = text.replace("parameters: {nu: 0.01}\n", "")
        Problem.from_yaml(text)
        return
    issues = refuse(text)
    found = [i for i in issues if message in i.message]
    assert found, [str(i) for i in issues]
    assert (found[0].line, found[0].column) == place
    assert hint in found[0].hint
    assert found[0].file == "f.yaml"


def only(text):
    return " | ".join(f"{i.message} {i.hint}" for i in refuse(text))


def test_an_exponent_is_no_name_of_a_definition():
    definitions = "name: heat\ndefinitions: {p: 1e3*x, e3: p + x}"
    used = ("nu*dxx(u)", "nu*dxx(u) + sin(2*pi*x)*0*e3")
    Problem.from_yaml(edit(HEAT, ("name: heat", definitions), used))


def test_whole_numbers_are_tried_as_such():
    """sin(2 pi n x) is periodic over [0, 1] for whole n alone."""
    start = ("initial: {u: u0}", "initial: {u: u0 + sin(2*pi*n*x)}")
    number = ("inputs:\n", "inputs:\n  n: {law: integer, low: 1, high: 4}\n")
    Problem.from_yaml(edit(HEAT, start, number))


def test_a_misspelt_coordinate_of_an_input_is_recognised():
    found = only(edit(HEAT, ("x: [0", "radius: [0"), ("of: [x]", "of: [radios]")))
    assert "inputs.u0.of: 'radios' is not a coordinate. Did you mean 'radius'?" in found


def test_all_mistakes_of_a_file_are_told_at_once_in_its_order():
    text = edit(HEAT, ("terms: 3", "terms: -3"), ("nu*dxx", "mu*dxx"), ("periodic", "perodic"))
    issues = refuse(text)
    assert [i.line for i in issues] == [8, 10, 12]


def test_a_driven_poisson_equation_needs_a_mean_of_zero():
    assert "Set zero_mean: true" in only(
        edit(NAVIER_STOKES, ("zero_mean: true", "zero_mean: false"))
    )
    assert "mean is 0.1" in only(edit(NAVIER_STOKES, ("0.1*(sin", "0.1*(1 + sin")))
    assert "Add 'mean: 0'" in only(edit(NAVIER_STOKES, (", mean: 0", "")))
    assert "mean is 1" in only(edit(NAVIER_STOKES, ("w: w0", "w: w0 + 1")))
    assert "Set zero_mean" in only(edit(POISSON, (", zero_mean: true", "")))
    assert "mean is 1" in only(edit(POISSON, ("= f", "= f + 1")))
    series = "law: fourier_series, terms: 2, amplitude: [0, 1], wavenumber: [0, 2]"
    field = "law: gaussian_random_field, tau: 3, alpha: 2, zero_mean: true"
    assert "wavenumber start at 1" in only(edit(POISSON, (field, series)))
    assert "Use a distribution without" in only(
        edit(POISSON, (field, "law: piecewise_constant, cells: 2, low: 0, high: 1"))
    )


def test_a_background_may_take_the_mean_of_the_data_away():
    """As of ions at rest, which electrons balance: -lap(phi) = n - 1."""
    words = {
        "name": "plasma",
        "time": {"t": [0, 1]},
        "space": {"x": [0, 1]},
        "unknowns": ["n"],
        "auxiliary": {"phi": {"equation": "-dxx(phi) = n - 1", "mean": 0}},
        "equations": ["dt(n) = dx(n*dx(phi)) + 0.01*dxx(n)"],
        "boundary": {"x": "periodic"},
    }
    Problem(**words, initial={"n": "1 + 0.1*sin(2*pi*x)"})
    with pytest.raises(SpecError, match=r"mean is 0\.5; on a periodic box it must be 0"):
        Problem(**words, initial={"n": "1.5 + 0.1*sin(2*pi*x)"})


def test_a_constant_left_free_needs_a_gauge_and_a_fixed_one_has_none():
    assert "gauge: {u: {mean: 0}}" in only(edit(POISSON, ("gauge: {u: {mean: 0}}\n", "")))
    assert "Leave the gauge out" in only(edit(POISSON, ("-lap(u)", "u - lap(u)")))
    assert "fixes the mean of psi already" in only(
        edit(NAVIER_STOKES, ("-lap(psi)", "2*psi - lap(psi)"))
    )
    walls = edit(DARCY, ("{dirichlet: {u: 0}}, y: {dirichlet", "{neumann: {u: 0}}, y: {neumann"))
    assert "leave a constant in u free" in only(walls)
    Problem.from_yaml(
        edit(
            DARCY,
            ("{dirichlet: {u: 0}}, y: {dirichlet", "{neumann: {u: 0}}, y: {robin"),
            ("{u: 0}}}", "{u: [1, 1, 0]}}}"),
        )
    )


def test_auxiliary_unknowns_are_elliptic_and_without_time():
    assert "not elliptic" in only(edit(NAVIER_STOKES, ("-lap(psi) = w", "dx(psi) = w")))
    assert "does not contain it" in only(edit(NAVIER_STOKES, ("-lap(psi) = w", "lap(w) = w")))
    assert "no time derivative" in only(edit(NAVIER_STOKES, ("+ force", "+ force + 0.1*dt(psi)")))


def test_the_strong_form_of_a_rough_coefficient_is_refused():
    strong = "-a*lap(u) - dot(grad(a), grad(u)) = 1"
    assert "div(a*grad(u))" in only(edit(DARCY, ("-div(a*grad(u)) = 1", strong)))
    smooth = edit(DARCY, ("-div(a*grad(u)) = 1", strong), ("high: 12", "high: 12, smooth: true"))
    assert Problem.from_yaml(smooth).inputs[0].smooth


def test_a_flux_without_its_pressure_is_not_hyperbolic():
    weak = edit(EULER, ("m*v + p", "m*v"))
    assert "full set of eigenvectors" in only(weak)
    assert "real eigenvalues" in only(edit(
        EULER, ("dt(r) + dx(m)", "dt(r) - dx(m)"), ("dt(m) + dx(m*v + p)", "dt(m) + dx(r)"),
        ("dt(e) + dx((e + p)*v)", "dt(e) + dx(e)*(0*v*p + 1)")))  # fmt: skip


def test_systems_are_judged_by_the_eigenvalues_of_their_symbol():
    two = edit(
        HEAT,
        ("[u]", "[u, v]"),
        (EQ, "dt(u) = dx(v)*nu\n  - dt(v) = QQ"),
        ("{u: u0}", "{u: u0, v: 0}"),
    )
    Problem.from_yaml(two.replace("QQ", "dx(u)"))  # waves
    assert "grow without bound" in only(two.replace("QQ", "-dx(u)"))  # Cauchy-Riemann
    wave = edit(HEAT, (EQ, "d(u, t, 2) = QQ*nu*dxx(u)"), ("{u: u0}", '{u: u0, "dt(u)": 0}'))
    Problem.from_yaml(wave.replace("QQ", "1"))
    assert "grow without bound" in only(wave.replace("QQ", "-1"))
    gray = edit(
        HEAT,
        ("[u]", "[u, v]"),
        (EQ, "dt(u) = nu*lap(u) - u*v**2\n  - dt(v) = nu*lap(v) + u*v**2"),
        ("{u: u0}", "{u: u0, v: 0}"),
    )
    Problem.from_yaml(gray)


def test_faces_of_an_axis_that_was_refused_are_not_refused_too():
    text = edit(
        HEAT, ("x: [0, 1]", "x: [0, 1], y: [0/0, 1]"), ("periodic", "periodic, y: periodic")
    )
    assert [i.message for i in refuse(text)] == ["space.y: division by zero"]


@pytest.mark.parametrize("slope", ["dt(u)", " dt( u ) ", "d(u, t)", "d(u,t,1)"])
def test_initial_slopes_are_written_like_derivatives(slope):
    change = ("{u: u0}", f'{{u: u0, "{slope}": 2}}')
    wave = edit(HEAT, (EQ, "d(u, t, 2) = nu*dxx(u)"), change)
    assert [str(e) for e in Problem.from_yaml(wave).initial["u"]] == ["u0(x)", "2"]


@pytest.mark.parametrize("slope", ["dx(u)", "d(u, x)", "d(u, t, 12)", "dt(u, t)", "d t(u)", "u u"])
def test_what_is_no_derivative_in_time_is_no_initial_datum(slope):
    wrong = edit(HEAT, ("{u: u0}", f'{{u: u0, "{slope}": 2}}'))
    assert "is not an unknown or its time derivative" in only(wrong)


def test_a_random_coefficient_must_keep_its_sign():
    law = "nu: {law: uniform, low: LOW, high: 1}"
    Problem.from_yaml(edit(HEAT, ("nu: 0.01", law.replace("LOW", "0.1"))))
    assert "grow without bound" in only(edit(HEAT, ("nu: 0.01", law.replace("LOW", "-0.1"))))


@pytest.mark.parametrize(("mean", "std", "low"), [(0, 1, "-6"), (1, 0.2, "-0.2"), (-1, 0.1, "")])
def test_a_normal_coefficient_that_may_change_its_sign_is_refused(mean, std, low):
    law = f"nu: {{law: normal, mean: {mean}, std: {std}}}"
    message = only(edit(HEAT, ("nu: 0.01", law)))
    assert f"short waves grow without bound where nu = {low}" in message
    assert "which values are drawn" in message


def test_a_normal_coefficient_far_from_zero_is_let_pass():
    Problem.from_yaml(edit(HEAT, ("nu: 0.01", "nu: {law: normal, mean: 1, std: 0.1}")))


def test_a_diffusivity_drawn_as_a_gaussian_field_must_keep_its_sign():
    law = "gaussian_random_field, matern: {smoothness: 3, length: 0.3, variance: 0.04}"

    def drawn(coefficient):
        return edit(
            HEAT,
            ("inputs:", f"inputs:\n  a: {{of: [x], law: {law}}}"),
            (EQ, f"dt(u) = d(({coefficient})*dx(u), x)"),
            ("parameters: {nu: 0.01}\n", ""),
        )

    assert "short waves grow without bound where a = -" in only(drawn("1 + a"))
    Problem.from_yaml(drawn("1 + 0.05*a"))
    Problem.from_yaml(drawn("exp(a)"))


def test_laws_must_fit_their_coordinates():
    field = (
        "law: fourier_series, terms: 3, amplitude: [-1, 1], wavenumber: [1, 3]",
        "law: gaussian_random_field, QQ",
    )
    assert "infinite variance" in only(edit(HEAT, field, ("QQ", "tau: 1, alpha: 0.5")))
    assert "tau: 0" in only(edit(HEAT, field, ("QQ", "tau: 0, alpha: 2")))
    assert "needs tau and alpha" in only(edit(HEAT, field, ("QQ", "tau: 1")))
    rough = only(edit(HEAT, field, ("QQ", "matern: {smoothness: 0, length: 1}")))
    assert "inputs.u0: matern.smoothness: 0 is not positive" in rough
    assert "matern needs length" in only(edit(HEAT, field, ("QQ", "matern: {smoothness: 1}")))
    assert "neumann samples are not periodic" in only(
        edit(HEAT, field, ("QQ", "tau: 1, alpha: 2, boundary: {x: neumann}"))
    )
    assert "'y' is not in 'of'" in only(
        edit(HEAT, field, ("QQ", "tau: 1, alpha: 2, boundary: {y: neumann}"))
    )
    assert "2 counts for 1" in only(
        edit(
            HEAT,
            field,
            (
                "law: gaussian_random_field, QQ",
                "law: piecewise_constant, cells: [1, 2], low: 0, high: 1",
            ),
        )
    )
    assert "is not inside the time interval" in only(
        edit(HEAT, field, ("law: gaussian_random_field, QQ", "law: history, until: 2"))
    )
    assert "leave 'of' out" in only(
        edit(HEAT, field, ("law: gaussian_random_field, QQ", "law: normal, mean: 0, std: 1"))
    )
    assert "either a distribution or an expression" in only(
        edit(HEAT, field, (", law: gaussian_random_field, QQ", ""))
    )
    assert "a parameter is a number" in only(
        edit(HEAT, ("nu: 0.01", "nu: {law: history, until: 0.5}"))
    )


def test_a_field_of_boundary_conditions_counts_by_order():
    plate = edit(HEAT, (EQ, "dt(u) = -nu*dxxxx(u)"), ("x: periodic", "x: {dirichlet: {u: 0}}"))
    assert "u needs 2 conditions here; 1 given" in only(plate)
    Problem.from_yaml(
        plate.replace("{dirichlet: {u: 0}}", "[{dirichlet: {u: 0}}, {neumann: {u: 0}}]")
    )
    flow = edit(HEAT, (EQ, "dt(u) + nu*dx(u) = 0"), ("x: periodic", "x: {dirichlet: {u: 0}}"))
    assert "need 1 condition in all; 2 given" in only(flow)
    Problem.from_yaml(flow.replace("x: {", "x.min: {"))
    hole = "boundary: {x: {dirichlet: {u: 0}}, y: {dirichlet: {u: 0}}, QQ}\ndomain: {box: [[0, 1], [0, 1]], holes: {cavity: {disk: [0.5, 0.5, R]}}}"
    holed = DARCY.replace("boundary: {x: {dirichlet: {u: 0}}, y: {dirichlet: {u: 0}}}", hole)
    Problem.from_yaml(holed.replace("QQ", "cavity: {neumann: {u: 0}}").replace("R]", "0.2]"))
    Problem.from_yaml(holed.replace("QQ", "rest: {neumann: {u: 0}}").replace("R]", "0.2]"))
    assert "boundary.cavity: u needs 1" in only(holed.replace(", QQ", "").replace("R]", "0.2]"))
    assert "reaches out of" in only(
        holed.replace("QQ", "rest: {neumann: {u: 0}}").replace("R]", "0.7]")
    )


CIRCLES = [
    ("u0: {of: [x], expression: 1 + g}\n  g: {of: [x], expression: 2*u0}", "g"),
    (
        "u0: {of: [x], expression: 1 + g}\n  g: {of: [x], expression: h*sin(2*pi*x)}\n"
        "  k: {of: [x], expression: u0}\n  h: {of: [x], expression: k}",
        "g, k, h",
    ),
]


@pytest.mark.parametrize(("inputs", "others"), CIRCLES)
def test_inputs_that_refer_to_each_other_in_a_circle_are_refused(inputs, others):
    text = f"{HEAT[: HEAT.index('  u0')]}  {inputs}\n{HEAT[HEAT.index('equations') :]}"
    with pytest.raises(SpecError) as error:
        Problem.from_yaml(text, "heat.yaml")
    assert str(error.value) == (
        f"heat.yaml:8:17: inputs.u0.expression: refers to itself through {others}. "
        "Give u0 a distribution ('law'), or an expression without g."
    )
    Problem.from_yaml(text.replace("1 + g", "sin(2*pi*x)").replace("{u: u0}", "{u: u0 + g}"))


SOLITON = """name: soliton
time: {t: [0, 1]}
space: {x: [-15, 15]}
unknowns: [u]
equations: [dt(u) + 6*u*dx(u) + dxxx(u) = 0]
initial: {u: "2/(exp(Q*(x + 1)) + exp(-Q*(x + 1)))**2"}
boundary: {x: periodic}
"""


def test_jump_far_below_the_tolerance_is_a_note():
    problem = Problem.from_yaml(SOLITON.replace("Q", "0.65"), "soliton.yaml")
    (note,) = problem.notes
    assert note.startswith("soliton.yaml:6:11: initial.u: taken as periodic in x, though it is ")
    assert "2.494e-08 at -15 but 1.852e-09 at 15" in note
    assert note in problem.describe()
    assert Problem.from_yaml(SOLITON.replace("Q", "2")).notes == ()


def test_jump_near_the_tolerance_is_refused():
    assert "not periodic in x: 1.011e-07 at -15 but 9.174e-09 at 15" in only(
        SOLITON.replace("Q", "0.6")
    )


def test_numbers_drawn_within_bounds_are_checked_within_them():
    words = "inputs:\n  c: {law: uniform, low: 0.4, high: 0.6}\n  w: {law: uniform, low: 0.01, high: 0.03}\n"
    drawn = edit(HEAT, ("inputs:\n", words), ("{u: u0}", '{u: "u0 + exp(-((x - c)/w)**2)"}'))
    assert Problem.from_yaml(drawn).notes == ()
    assert "not periodic in x" in only(drawn.replace("high: 0.6", "high: 1"))


WALLS = edit(
    HEAT,
    (
        "fourier_series, terms: 3, amplitude: [-1, 1], wavenumber: [1, 3]",
        "gaussian_random_field, tau: 3, alpha: 4",
    ),
    ("{x: periodic}", "{x: {dirichlet: {u: 0}}}"),
)
CONTRADICTIONS = [
    ("{u: u0}", "{u: u0 + cos(pi*x)}"),
    ("{u: u0}", "{u: u0*x}"),
    ("{u: u0}", "{u: 1 - x + u0*sin(pi*x)}"),
    ("alpha: 4", "alpha: 4, boundary: {x: dirichlet}, mean: 1"),
    ("gaussian_random_field, tau: 3, alpha: 4", "fourier_series, terms: 3, amplitude: [-1, 1], wavenumber: [1, 3]"),
    ("gaussian_random_field, tau: 3, alpha: 4", "piecewise_constant, cells: 4, low: 0, high: 1"),
    ("{dirichlet: {u: 0}}", '{dirichlet: {u: "1 + t"}}'),
    ("{u: u0}", "{u: u0*sin(pi*x) + exp(x)}"),
]  # fmt: skip
AGREEMENTS = [
    ("alpha: 4", "alpha: 4, boundary: {x: dirichlet}"),
    ("{u: u0}", "{u: u0*x*(1 - x)}"),
    ("{u: u0}", "{u: sin(pi*x)*u0}"),
    ("{u: u0}", '{u: "u0*exp(-((x - 0.5)/0.05)**2)"}'),  # 1e-44 at the walls
    ("gaussian_random_field, tau: 3, alpha: 4", "fourier_series, terms: 3, amplitude: [-1, 1], wavenumber: [1, 3], phase: [0, 0]"),
    ("gaussian_random_field, tau: 3, alpha: 4", "data"),
    ("{x: {dirichlet: {u: 0}}}", "{x: {neumann: {u: 0}}}"),
]  # fmt: skip


@pytest.mark.parametrize("change", CONTRADICTIONS)
def test_initial_data_that_contradict_a_wall_are_a_note(change):
    text = edit(WALLS, change)
    (note,) = Problem.from_yaml(text, "f.yaml").notes
    line = 1 + text[: text.index("initial")].count("\n")
    assert note.startswith(f"f.yaml:{line}:11: initial.u: ")
    assert "contradicts the boundary (u at x = " in note
    assert "the solution jumps where they meet, at t = 0" in note


@pytest.mark.parametrize("change", AGREEMENTS)
def test_initial_data_that_agree_with_the_walls_have_no_note(change):
    assert Problem.from_yaml(edit(WALLS, change)).notes == ()


def test_a_note_names_the_walls_and_what_to_write_instead():
    problem = Problem.from_yaml(WALLS, "f.yaml")
    (note,) = problem.notes
    assert "u0 contradicts the boundary (u at x = 0 is 0; u at x = 1 is 0)" in note
    assert note.endswith("give u0 'boundary: {x: dirichlet}'.")
    assert note in problem.describe()
    (one,) = Problem.from_yaml(edit(WALLS, ("{u: u0}", "{u: u0*x}"))).notes
    assert "(u at x = 1 is 0)" in one


def test_data_that_are_an_expression_of_others_contradict_a_wall_as_well():
    text = edit(
        WALLS,
        ("u0: {of: [x],", "g: {of: [x], expression: u0*K}\n  u0: {of: [x], hidden: true,"),
        ("{u: u0}", "{u: g}"),
    )
    (note,) = Problem.from_yaml(edit(text, ("K", "cos(pi*x)"))).notes
    assert "initial.u: g contradicts the boundary" in note
    assert Problem.from_yaml(edit(text, ("K", "sin(pi*x)"))).notes == ()


WAVE = edit(
    WALLS,
    ("dt(u) = nu", "dtt(u) = nu"),
    ("{u: u0}", '{u: sin(pi*x), "dt(u)": u0}'),
)


def test_a_slope_in_time_that_contradicts_a_moving_wall_is_a_note():
    (note,) = Problem.from_yaml(WAVE).notes
    assert "initial.dt(u): u0 contradicts" in note
    assert "dt(u) jumps" in note
    moving = edit(WAVE, ('"dt(u)": u0', '"dt(u)": 2'), ("{u: 0}", "{u: 2*t}"), ("u0: {", "v0: {"))
    moving = edit(moving, ("sin(pi*x)", "v0*sin(pi*x)"))
    assert Problem.from_yaml(moving).notes == ()
    assert len(Problem.from_yaml(edit(moving, ("2*t", "3*t"))).notes) == 1


PLATE = """name: plate
time: {t: [0, 1]}
space: {x: [0, 2], y: [0, 2]}
domain: {box: [[0, 2], [0, 2]], holes: {hole: {disk: [1, 1, 0.5]}}}
unknowns: [u]
inputs:
  u0: {of: [x, y], law: gaussian_random_field, tau: 3, alpha: 4, boundary: {x: dirichlet, y: dirichlet}}
equations: ["dt(u) = lap(u)"]
initial: {u: u0}
boundary: {rest: {dirichlet: {u: 0}}}
"""


def test_a_field_that_vanishes_on_the_sides_contradicts_a_hole_alone():
    (note,) = Problem.from_yaml(PLATE).notes
    assert "(u on hole is 0)" in note
    around = edit(PLATE, ("{u: u0}", '{u: "u0*((x - 1)**2 + (y - 1)**2 - 0.25)"}'))
    assert Problem.from_yaml(around).notes == ()


def test_an_input_that_matters_through_another_is_a_note_unless_it_is_hidden():
    both = edit(
        HEAT, ("equations:", "  g: {of: [x], expression: exp(u0)}\nequations:"), ("u: u0", "u: g")
    )
    (note,) = Problem.from_yaml(both, "f.yaml").notes
    assert note == (
        "f.yaml:8:3: inputs.u0: the equations depend on it through g alone, and the network "
        "observes both. Write 'hidden: true' if it is only there to draw g."
    )
    for change in (
        ("u0: {of: [x],", "u0: {of: [x], hidden: true,"),
        ("u: g", "u: g + u0"),
        ("expression: exp(u0)", "expression: exp(u0), hidden: true"),
    ):
        assert Problem.from_yaml(edit(both, change)).notes == ()


def test_an_input_behind_a_hidden_one_is_a_note_too():
    chain = "  h: {of: [x], hidden: true, expression: 2*u0}\n  g: {of: [x], expression: exp(h)}\n"
    text = edit(HEAT, ("equations:", f"{chain}equations:"), ("u: u0", "u: g"))
    (note,) = Problem.from_yaml(text).notes
    assert "inputs.u0: the equations depend on it through g alone" in note

# ruff: noqa: E501 - tables are read by row
"""One problem has one hash, however it is written; another problem has another."""

import numpy as np
import pytest
import sympy

from piop.problem import Problem

BURGERS = Problem.from_file("burgers")
TEXT = BURGERS.to_yaml()
LAW = {
    "of": ["x"],
    "law": "fourier_series",
    "terms": 10,
    "amplitude": [-0.5, 0.5],
    "wavenumber": [1, 3],
}


def words(**changes):
    return {
        "name": "burgers",
        "time": {"t": [0, 2.475]},
        "space": {"x": [0, 2 * sympy.pi]},
        "parameters": {"nu": 0.01},
        "unknowns": ["u"],
        "inputs": {"u0": LAW},
        "equations": ["dt(u) + u*dx(u) = nu*dxx(u)"],
        "initial": {"u": "u0"},
        "boundary": {"x": "periodic"},
        "sensors": {"u0": {"count": 64, "place": "uniform"}},
        "save": {"t": 100, "x": 256},
    } | changes


def from_sympy():
    t, x = sympy.symbols("t x")
    u = sympy.Function("u")(t, x)
    nu = sympy.Symbol("nu")
    return sympy.Eq(u.diff(t) + u * u.diff(x), nu * u.diff(x, x))


@pytest.mark.parametrize(
    "equation",
    [
        "dt(u)+u*dx(u)=nu*dxx(u)",
        "d(u, t) + dx(u)*u = d(u, x, 2)*nu",
        "dt(u) + u*dx(u) - nu*dx(dx(u)) = 0",
        "dt(u) + u*dx(u) = 1e-2*lap(u) + 0*nu",
        from_sympy(),
    ],
)
def test_spelling_of_an_equation_does_not_matter(equation):
    assert Problem(**words(equations=[equation])).hash == BURGERS.hash


def test_order_numbers_and_labels_do_not_matter():
    shuffled = dict(reversed(words().items()))
    assert Problem(**shuffled, title="other", source="s", units={"x": "km"}).hash == BURGERS.hash
    assert Problem(**words(parameters={"nu": 1e-2}, name="b")).hash == BURGERS.hash
    assert Problem(**words(parameters={"nu": np.float64(0.01)})).hash == BURGERS.hash
    assert Problem(**words(parameters={"nu": "1/100"})).hash == BURGERS.hash
    assert Problem(**words(solve={"backbone": "pit", "lr": 1e-3})) == BURGERS
    defined = words(definitions={"flow": "u*dx(u)"}, equations=["dt(u) + flow = nu*dxx(u)"])
    assert Problem(**defined).hash == BURGERS.hash
    assert hash(Problem(**defined)) == hash(BURGERS)


@pytest.mark.parametrize(
    "changes",
    [
        {"equations": ["dt(u) + d(u**2/2, x) = nu*dxx(u)"]},  # the same where smooth, not at shocks
        {"parameters": {"nu": 0.02}},
        {"time": {"t": [0, 2]}},
        {"inputs": {"u0": LAW | {"terms": 9}}},
        {"initial": {"u": "2*u0"}},
        {"save": {"t": 100, "x": 128}},
        {"sensors": {"u0": {"count": 32}}},
        {"parameters": {"nu": {"law": "uniform", "low": 0.01, "high": 0.1}}},
        {"infer": ["nu"]},
    ],
)
def test_another_problem_has_another_hash(changes):
    problem = Problem(**words(**changes))
    assert problem.hash != BURGERS.hash
    assert problem != BURGERS
    assert Problem.from_yaml(problem.to_yaml()) == problem


def test_parameters_of_a_shape_count():
    disks = [
        Problem(
            name="disk",
            space={"x": [0, 1], "y": [0, 1]},
            parameters={"R": radius},
            domain={"disk": [0.5, 0.5, "R"]},
            unknowns=["u"],
            equations=["-lap(u) = 1"],
            boundary={"rest": {"dirichlet": {"u": 0}}},
        )
        for radius in (0.2, 0.4, 0.4)
    ]
    assert disks[0] != disks[1]
    assert disks[1] == disks[2] == Problem.from_yaml(disks[1].to_yaml())


def test_yaml_gives_the_same_hash_and_its_spec_comes_back():
    problem = Problem.from_yaml(TEXT)
    assert problem.hash == BURGERS.hash
    assert Problem.from_yaml(problem.to_yaml()).spec == problem.spec


RICH = """
piop: 1
name: rich
title: "All words: of, the language"
time: {t: [0, 1]}
space: {x: [0, 2], y: [0, L]}
parameters: {L: 1, nu: {law: log_uniform, low: 1e-3, high: 1e-1}, k: 2}
unknowns: [u, v]
inputs:
  g: {of: [x, y], law: gaussian_random_field, matern: {smoothness: 2, length: 0.2}, boundary: {x: dirichlet}, hidden: true}
  a: {of: [x, y], expression: "where(g > 0, 12, 3)", smooth: false}
  c: {of: [x, y], law: piecewise_constant, cells: [2, 3], low: 1, high: 2}
  q: {of: [y], law: gaussian_random_field, tau: 3, alpha: 2, zero_mean: true, mean: 0.5, modes: 9}
  s: {law: normal, mean: 0, std: 1}
  m: {law: constant, value: 2}
  f: {of: [x], law: from_file, path: data/f.nc, variable: f}
definitions: {V: "(u, v)", drag: "k*dot(V, V)"}
equations:
  - dt(V) = div(a*grad(u))*(1, 0) + nu*lap(V) + (f, s*c)
  - dtt(v)*0 + drag + dt(v) = nu*lap(v) + min(q, m)
initial: {u: "max(0, sin(pi*x))", v: 0}
boundary:
  x: {dirichlet: {u: 0, v: 0}}
  y.min: [{neumann: {u: 0}}, {robin: {v: [1, 2, "q*t"]}}]
  y.max: [{dirichlet: {u: 1, v: 0}}]
domain: {box: [[0, 2], [0, 1]], holes: {cavity: {disk: [1, 0.5, 0.2]}}}
sensors: {c: {count: [4, 6], place: grid}}
save: {t: 11, x: 32}
units: {x: m, u: "1"}
solve: {backbone: pit, flags: [true, 1, 0.5, "1"], name: "true"}
infer: [k]
learn: {from: u, to: [c, s], noise: [0, 0.01]}
"""


def test_every_word_survives_the_round_trip():
    text = RICH.replace(
        "  - dt(V) = div(a*grad(u))*(1, 0) + nu*lap(V) + (f, s*c)\n",
        ("  - dt(u) = div(a*grad(u)) + nu*lap(u) + f + s*c\n"),
    )
    text = text.replace("domain: {box", "  cavity: [{neumann: {u: 0, v: 0}}]\ndomain: {box")
    problem = Problem.from_yaml(text)
    again = Problem.from_yaml(problem.to_yaml())
    assert again.spec == problem.spec
    assert again.hash == problem.hash
    for word in ("title", "source", "units", "solve", "definitions", "learn", "infer", "domain"):
        assert getattr(again.spec, word) == getattr(problem.spec, word)
    assert again.solve["flags"] == (True, 1, 0.5, "1")
    assert again.solve["name"] == "true"
    assert again.units["u"] == "1"

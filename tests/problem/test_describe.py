# ruff: noqa: E501 - tables are read by row
"""The class, the words and the limits of a problem."""

import json

import pytest

from piop.errors import NotSupportedError
from piop.problem import Problem, describe
from piop.problem.capabilities import choose_method
from piop.problem.classify import classify
from piop.spec.load import builtin_names

PLAIN = {
    "name": "p",
    "time": {"t": [0, 1]},
    "space": {"x": [0, 1]},
    "unknowns": ["u"],
    "equations": ["dt(u) = dxx(u)"],
    "initial": {"u": 0},
    "boundary": {"x": "periodic"},
}


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("heat", "linear parabolic evolution, second order, periodic, 1-D"),
        ("heat2d", "linear parabolic evolution, second order, periodic, 2-D"),
        ("advection", "linear hyperbolic evolution, first order, periodic, 1-D"),
        ("burgers", "nonlinear parabolic evolution, second order, periodic, 1-D"),
        ("kdv", "nonlinear dispersive evolution, third order, periodic, 1-D"),
        ("kuramoto_sivashinsky", "nonlinear parabolic evolution, fourth order, periodic, 1-D"),
        ("allen_cahn", "nonlinear parabolic evolution, second order, periodic, 1-D"),
        (
            "navier_stokes",
            "nonlinear parabolic evolution, second order, periodic, 2-D, 1 auxiliary elliptic unknown",
        ),
    ],
)
def test_problems_are_classified_in_the_words_of_the_field(name, label):
    assert classify(Problem.from_file(name)) == label


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        (
            {"equations": ["d(u, t, 2) = dxx(u)"], "initial": {"u": 0, "dt(u)": 1}},
            "linear hyperbolic evolution, second order, periodic, 1-D",
        ),
        ({"equations": ["dt(u) = -u + 0*dx(u)"]}, "linear ordinary evolution, zeroth order, periodic, 1-D"),
        (
            {"boundary": {"x": {"neumann": {"u": 0}}}},
            "linear parabolic evolution, second order, bounded, 1-D",
        ),
        (
            {"unknowns": ["u", "v"], "equations": ["dt(u) = dx(v)", "dt(v) = dx(u)"],
             "initial": {"u": 0, "v": 0}},
            "linear hyperbolic evolution system of 2, first order, periodic, 1-D",
        ),
    ],
)  # fmt: skip
def test_other_classes(changes, label):
    assert classify(Problem(**PLAIN | changes)) == label


def test_a_steady_problem_is_elliptic():
    words = {k: v for k, v in PLAIN.items() if k not in ("time", "initial")}
    problem = Problem(**words | {"equations": ["u - dxx(u) = sin(2*pi*x)"]})
    assert classify(problem) == "linear elliptic problem, second order, periodic, 1-D"


@pytest.mark.parametrize("name", builtin_names())
def test_every_problem_is_described_as_text_and_json(name):
    problem = Problem.from_file(name)
    found = json.loads(json.dumps(describe.to_json(problem)))
    text = describe.to_text(problem)
    assert found["hash"] == problem.hash
    if problem.residuals:
        assert found["solver"]["name"] == choose_method(problem).name
        assert "streams" in found["streams"]
    else:
        assert found["solver"]["name"] == "none yet"
        assert "known from data alone" in found["class"]
    assert found["conditions"] or not (problem.initial or problem.pde.periodic)
    for equation in found["equations"]:
        assert equation in text
    assert found["class"] in text


def test_a_description_tells_the_shape():
    shape = "polygon: [[-1, -1], [1, -1], [1, 0], [0, 0], [0, 1], [-1, 1]]"
    problem = Problem.from_file("poisson_lshape")
    assert describe.to_json(problem)["shape"] == shape
    assert f"  shape       {shape}\n" in describe.to_text(problem)
    box = Problem.from_file("heat")
    assert describe.to_json(box)["shape"] == ""
    assert "  shape " not in describe.to_text(box)


def test_a_description_tells_the_laws_definitions_and_limits():
    text = describe.to_text(Problem.from_file("reaction_diffusion"))
    assert "matern {smoothness 4.5, length 0.2, variance 1}" in text
    assert "force = 0.1*" in describe.to_text(Problem.from_file("navier_stokes"))
    wall = Problem(**PLAIN | {"boundary": {"x": {"dirichlet": {"u": 0}}}})
    assert describe.to_json(wall)["solver"]["name"].startswith("Chebyshev collocation")
    clamped = {"boundary": {"x": [{"dirichlet": {"u": 0}}, {"neumann": {"u": 0}}]}}
    beam = Problem(**PLAIN | clamped | {"equations": ["dt(u) = -dxxxx(u)"]})
    nearest = "because (Chebyshev collocation, Radau IIA in time) u of order 4 along a walled axis"
    assert nearest in describe.to_text(beam)
    assert "none yet: training works without one, and piop evaluate" in describe.to_text(beam)
    assert describe.to_json(beam)["solver"]["name"] == "none yet"
    assert describe.to_json(wall)["boundary"] == {
        "x.min": "dirichlet u 0",
        "x.max": "dirichlet u 0",
    }


STATED = {
    "inputs": {
        "g": {
            "of": ["x"],
            "law": "fourier_series",
            "terms": 2,
            "amplitude": [0, 1],
            "wavenumber": [1, 2],
        },
        "f": {"of": ["x"], "expression": "exp(k*g)"},
    },
    "parameters": {"k": 1},
    "equations": ["dt(u) = dxx(u) + f"],
    "infer": ["k"],
}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"boundary": {"x": "outflow"}, "equations": ["dt(u) + dx(u) = 0"]},
            "outflow at a boundary, because conditions of conservation laws",
        ),
        (
            STATED,
            "infer k, because it is part of the input f",
        ),
        (
            {"inputs": {"f": {"of": ["x"], "law": "piecewise_constant", "cells": 4, "low": 1, "high": 2}},
             "equations": ["dt(u) = div(f*grad(u))"]},
            "rough coefficient f",
        ),
        (
            {"inputs": {"f": {"of": ["x"], "law": "piecewise_constant", "cells": 4, "low": 1, "high": 2}},
             "equations": ["dt(u) = dxx(u) + f"], "learn": {"from": "u", "to": "f"}},
            "learn",
        ),
        ({"inputs": {"h": {"of": ["x"], "law": "history", "until": 0.5}}}, "history"),
        (
            {"space": {"x": [0, 1], "y": [0, 1]}, "domain": {"box": [[0, 1], [0, 1]]},
             "boundary": {"x": "periodic", "y": {"dirichlet": {"u": 0}}}},
            "a periodic axis of a shape",
        ),
        (
            {"equations": ["d(u, t, 3) = -u + 0*dx(u)"], "initial": {"u": 0, "dt(u)": 0, "dtt(u)": 0}},
            "order in time above two",
        ),
    ],
)  # fmt: skip
def test_what_cannot_run_yet_is_refused_with_its_reason(changes, reason):
    problem = Problem(**PLAIN | changes)
    with pytest.raises(NotSupportedError, match=r"not supported yet: .* because ") as caught:
        problem.capabilities.equations.require()
    assert reason in str(caught.value)
    assert Problem.from_yaml(problem.to_yaml()) == problem


def test_what_no_solver_covers_is_trained_all_the_same():
    words = {"unknowns": ["u", "p"], "equations": ["dt(u) = dxx(u) + p", "p - dxx(p) = u"]}
    problem = Problem(**PLAIN | words)
    with pytest.raises(NotSupportedError, match="p without a time derivative"):
        problem.capabilities.reference.require()
    problem.capabilities.equations.require()


def test_walls_and_steady_problems_are_solved_and_trained():
    words = {k: v for k, v in PLAIN.items() if k not in ("time", "initial")}
    steady = Problem(**words | {"equations": ["u - dxx(u) = sin(2*pi*x)"]})
    walled = Problem(**PLAIN | {"boundary": {"x": {"dirichlet": {"u": 0}}}})
    for problem in (steady, walled):
        problem.capabilities.reference.require()
        problem.capabilities.equations.require()


def test_learning_alone_does_not_stop_the_reference():
    words = {"parameters": {"k": 1}, "equations": ["dt(u) = k*dxx(u)"], "infer": ["k"]}
    Problem(**PLAIN | words).capabilities.reference.require()


def test_data_alone_ask_for_neither_solver_nor_derivatives():
    words = {k: v for k, v in PLAIN.items() if k not in ("time", "initial")}
    cells = {"of": ["x"], "law": "piecewise_constant", "cells": 4, "low": 1, "high": 2}
    wall = {"x": {"dirichlet": {"u": 0}}}
    rough = {"inputs": {"f": cells}, "equations": ["-div(f*grad(u)) = 1"], "boundary": wall}
    problem = Problem(**words | rough)
    problem.capabilities.data.require()
    with pytest.raises(NotSupportedError, match=r"rough coefficient f") as caught:
        problem.capabilities.equations.require()
    assert str(caught.value).endswith("--no-physics (in Python data=..., physics=False)")
    problem.capabilities.reference.require()


def test_what_no_data_would_help_is_not_told_to_be_trained_on_data():
    inverse = Problem(**PLAIN | STATED)
    for found in (inverse.capabilities.equations, inverse.capabilities.data):
        with pytest.raises(NotSupportedError, match="infer k") as caught:
            found.require()
        assert "--data" not in str(caught.value)


def test_equations_on_walls_stand_as_they_were_written():
    text = """
piop: 1
name: case
space: {x: [0, 1]}
unknowns: [u]
definitions: {flux: "(1 + u**2)*dx(u)"}
equations: ["d(flux, x) = 1"]
boundary: {x.min: ["flux*nx = 1"], x.max: {dirichlet: {u: 0}}}
save: {x: 9}
"""
    found = describe.to_json(Problem.from_yaml(text))["boundary"]
    assert found == {"x.min": "general flux*nx = 1", "x.max": "dirichlet u 0"}

"""Inverse operators: the problem turned round, and what cannot be."""

import pytest

from piop.errors import NotSupportedError, SpecError
from piop.problem import Problem
from piop.problem.describe import to_json, to_text
from piop.spec.distributions import FromData

DARCY = """
name: darcy
space: {x: [0, 1], y: [0, 2*L]}
parameters: {L: 1}
unknowns: [u]
inputs:
  a: {of: [x, y], law: piecewise_constant, cells: 4, low: 3, high: 12}
  k: {law: uniform, low: 1, high: 2}
equations: ["-div(a*grad(u)) = k"]
boundary: {x: {dirichlet: {u: 0}}, y: periodic}
sensors: {a: {count: [9, 8], place: grid}}
save: {x: 17, y: 16}
units: {x: m, u: Pa}
learn: {from: u, to: a, noise: [0, 0.1]}
"""


def test_unknown_and_input_change_places():
    problem = Problem.from_yaml(DARCY)
    found = problem.inverse()
    assert (found.name, found.unknowns) == ("darcy", ("a",))
    assert found.residuals == ()
    (u,) = found.inputs
    assert (u.name, u.of, u.distribution) == ("u", ("x", "y"), FromData((0.0, 0.1)))
    assert (u.sensor_shape, u.place) == ((17, 16), "grid")
    assert found.save == (9, 8)
    assert [(c.low, c.high, c.periodic) for c in found.coordinates] == [(0, 1, False), (0, 2, True)]
    assert found.units == problem.units
    assert Problem.from_yaml(found.to_yaml()) == found
    assert found.learn is None


def test_an_evolution_gives_a_function_of_its_time_too():
    found = Problem.from_yaml("""
name: source
time: {t: [0, 1]}
space: {x: [0, 1]}
unknowns: [u]
inputs: {f: {of: [t, x], law: gaussian_random_field, tau: 3, alpha: 4}}
equations: ["dt(u) = dxx(u) + f"]
initial: {u: 0}
boundary: {x: {dirichlet: {u: 0}}}
learn: {from: u, to: f}
save: {t: 6, x: 9}
""").inverse()
    assert found.time.name == "t"
    assert found.save == (6, 9)
    assert found.inputs[0].distribution == FromData()


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("to: a", "to: k", "k is a number, and what is learned is a function of all coordinates"),
        ("of: [x, y], law", "of: [x], law", "a is of x, and what is learned"),
        ("learn:", "infer: [L]\nlearn:", "infer"),
    ],
)
def test_what_cannot_be_turned_round_is_refused_with_the_reason(old, new, reason):
    text = DARCY.replace(old, new)
    if "[x]," in new:
        text = text.replace("count: [9, 8]", "count: 9")
    if "infer" in new:
        text = text.replace("2*L", "2").replace(" = k", " = k*L")
    problem = Problem.from_yaml(text)
    for found in (problem.capabilities.equations, problem.capabilities.data):
        with pytest.raises(NotSupportedError, match=rf"learn, because .*{reason}"):
            found.require()
    with pytest.raises(NotSupportedError, match=reason):
        problem.inverse()
    problem.capabilities.reference.require()


def test_a_problem_that_asks_for_none_has_none():
    problem = Problem.from_yaml(DARCY[: DARCY.index("learn:")])
    with pytest.raises(NotSupportedError, match="there is none"):
        problem.inverse()


def test_it_is_said_what_is_learned():
    problem = Problem.from_yaml(DARCY)
    assert "the operator from u to a, observed with noise of 0 %, 10 %" in to_text(problem)
    assert to_json(problem)["learn"] == {"from": ["u"], "to": ["a"], "noise": [0.0, 0.1]}
    assert to_json(problem)["supported"] is True


def test_a_level_of_noise_is_not_negative():
    text = "name: n\nspace: {x: [0, 1]}\nunknowns: [a]\nequations: data\n"
    with pytest.raises(SpecError, match=r"noise: a noise level is a number from 0 on"):
        Problem.from_yaml(text + "inputs: {u: {of: [x], law: data, noise: [-1]}}")
    found = Problem.from_yaml(text + "inputs: {u: {of: [x], law: data, noise: 0.5}}")
    assert found.inputs[0].distribution == FromData((0.5,))

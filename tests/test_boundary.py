"""Each kind of boundary condition: its residual, what it fixes, its words and its text."""

import pytest
import sympy as sp

from piop.boundary import (
    CONDITIONS,
    Dirichlet,
    GeneralCondition,
    Neumann,
    Outflow,
    Periodic,
    Robin,
    RobinForm,
    Wall,
)
from piop.errors import NotSupportedError
from piop.problem import Problem

x, y, nx, ny, g = sp.symbols("x y nx ny g", real=True)
u = sp.Function("u", real=True)(x, y)
OUTWARD = nx * sp.Derivative(u, x) + ny * sp.Derivative(u, y)
ALL = [
    Periodic(),
    Dirichlet("u", (g,)),
    Neumann("u", (g,)),
    Robin("u", (sp.Integer(2), sp.Integer(3), g)),
    Outflow(),
    Wall(),
    GeneralCondition("", (u * nx - g,), "u*nx = g"),
]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (ALL[1], u - g),
        (ALL[2], OUTWARD - g),
        (ALL[3], 2 * u + 3 * OUTWARD - g),
        (ALL[6], u * nx - g),
    ],
)
def test_residuals_are_left_minus_right(condition, expected):
    assert sp.expand(condition.residual(lambda name: u, (x, y)) - expected) == 0


@pytest.mark.parametrize("condition", [Periodic(), Outflow(), Wall()])
def test_conditions_without_an_unknown_have_no_residual(condition):
    with pytest.raises(NotSupportedError, match=f"{condition.keyword} is no condition"):
        condition.residual(lambda name: u, (x, y))


def test_conditions_on_one_unknown_have_a_robin_form():
    one, zero = sp.S.One, sp.S.Zero
    assert [c.robin_form for c in ALL] == [
        None,
        RobinForm(one, zero, g),
        RobinForm(zero, one, g),
        RobinForm(sp.Integer(2), sp.Integer(3), g),
        None,
        None,
        None,
    ]


def test_dirichlet_alone_prescribes_a_value_and_can_be_a_hard_constraint():
    assert [c.prescribed for c in ALL] == [None, g, None, None, None, None, None]
    assert [c.keyword for c in ALL if not c.soft_because] == ["dirichlet"]


def test_conditions_that_hold_the_bare_unknown_fix_a_constant():
    found = [c.keyword for c in ALL if c.fixes_constant("u", u)]
    assert found == ["dirichlet", "robin", "outflow", "wall", "general"]
    slope = GeneralCondition("", (sp.Derivative(u, x) - g,))
    assert not slope.fixes_constant("u", u)
    assert not any(c.fixes_constant("v", sp.Function("v")(x)) for c in ALL[:4])


def test_keywords_lead_to_their_kinds():
    assert {word: kind.keyword for word, kind in CONDITIONS.items()} == {w: w for w in CONDITIONS}
    assert "general" not in CONDITIONS
    assert [w for w, k in CONDITIONS.items() if k.arguments] == ["dirichlet", "neumann", "robin"]
    assert [w for w, k in CONDITIONS.items() if k.exclusive] == ["periodic", "outflow", "wall"]
    assert [w for w, k in CONDITIONS.items() if k.conservation_law] == ["outflow", "wall"]


def test_conditions_are_written_in_the_words_of_the_language():
    assert Dirichlet.words("u", ["0"]) == {"dirichlet": {"u": "0"}}
    assert Robin.words("u", ["1", "2", "3"]) == {"robin": {"u": ["1", "2", "3"]}}
    assert Wall.words("", []) == "wall"
    assert GeneralCondition.words("", ["u*nx = 0"]) == "u*nx = 0"


def test_conditions_are_told_in_words():
    assert [c.sentence("at x = 0") for c in ALL[1:]] == [
        "u at x = 0 is g",
        "du/dn at x = 0 is g",
        "(2)*u + (3)*du/dn at x = 0 is g",
        "outflow at x = 0",
        "wall at x = 0",
        "u*nx = g at x = 0",
    ]
    assert GeneralCondition("", (u,)).sentence("at x = 0") == "u(x, y) = 0 at x = 0"
    assert [c.summary for c in ALL[2:5]] == ["neumann u g", "robin u 2, 3, g", "outflow"]


def test_a_parameter_may_have_the_name_of_a_component_of_the_normal():
    problem = Problem(
        name="t",
        space={"x": [0, 1]},
        parameters={"nx": {"law": "uniform", "low": 0, "high": 1}},
        unknowns=["u"],
        equations=["dxx(u) = 1"],
        boundary={"x": {"robin": {"u": [1, 2, "nx"]}}},
    )
    found = [problem.pde.condition_residual(f, c) for f, c in problem.pde.face_conditions]
    u, x = problem.function("u"), problem.space[0].symbol
    assert found == [u + s * 2 * u.diff(x) - sp.Symbol("nx", real=True) for s in (-1, 1)]

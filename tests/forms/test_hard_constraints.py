import pytest
import sympy as sp

from piop.forms.hard_constraints import lift_expression, restrict
from piop.problem import Problem
from piop.problem.constraints import decide_constraints

SINES = {
    "of": ["x"],
    "law": "gaussian_random_field",
    "tau": 3,
    "alpha": 6,
    "boundary": {"x": "dirichlet"},
}
COSINES = {**SINES, "boundary": {"x": "neumann"}}


def rod(boundary, initial=None, length="1", **inputs):
    return Problem(
        name="rod",
        time={"t": [0, 1]},
        space={"x": [0, length]},
        unknowns=["u"],
        inputs=inputs,
        equations=["dt(u) = dxx(u)"],
        initial={"u": initial or "0"},
        boundary=boundary,
    )


def plate(boundary, **inputs):
    return Problem(
        name="plate",
        space={"x": [0, 2], "y": [0, 1]},
        unknowns=["u"],
        inputs=inputs,
        equations=["lap(u) = 1"],
        boundary=boundary,
    )


def values(left, right):
    return {"x.min": {"dirichlet": {"u": left}}, "x.max": {"dirichlet": {"u": right}}}


def lifted(problem, order=1):
    conditions = decide_constraints(problem)
    return lift_expression(problem.pde, "u", order, conditions.hard_faces[0]), conditions


def at(expression, **places):
    found = expression
    for symbol in list(expression.free_symbols):
        if str(symbol) in places:
            found = found.subs(symbol, places[str(symbol)])
    return sp.simplify(found)


def test_start_and_walls_that_agree_are_all_met():
    problem = rod(values("sin(3*t)", "t**2"), initial="x*(1 - x)")
    found, conditions = lifted(problem)
    t, x = (c.symbol for c in problem.coordinates)
    assert conditions.hard_faces == (("x.min", "x.max"),)
    assert at(found, t=0) - x * (1 - x) == 0
    assert at(found, x=0) - sp.sin(3 * t) == 0
    assert at(found, x=1) - t**2 == 0


def test_a_wall_at_a_multiple_of_pi_is_met_exactly():
    problem = rod(values("0", "0"), initial="sin(x)", length="2*pi")
    found, conditions = lifted(problem)
    assert conditions.hard_faces == (("x.min", "x.max"),)
    assert found - sp.sin(problem.coordinate("x").symbol) == 0


def test_one_wall_reaches_as_it_is():
    problem = Problem(
        name="p",
        time={"t": [0, 1]},
        space={"x": [0, 1]},
        unknowns=["u"],
        equations=["dt(u) + dx(u) = 0"],
        initial={"u": "sin(pi*x)"},
        boundary={"x.min": {"dirichlet": {"u": "sin(pi*t/2)"}}},
    )
    found, conditions = lifted(problem)
    t, x = (c.symbol for c in problem.coordinates)
    assert conditions.hard_faces == (("x.min",),)
    assert sp.simplify(found - sp.sin(sp.pi * x) - sp.sin(sp.pi * t / 2)) == 0


def test_a_start_that_misses_a_wall_leaves_it_to_the_loss():
    _, conditions = lifted(rod(values("0", "1"), initial="1 - x**2"))
    assert conditions.lift_orders == (1,)
    assert conditions.hard_faces == ((),)
    whys = [d.why for d in conditions if "at x" in d.what]
    assert whys == ["it is not that of the initial data where they touch"] * 2


def test_data_that_vanish_at_the_walls_by_their_law_are_hard_constraints_with_them():
    _, conditions = lifted(rod(values("0", "0"), initial="u0", u0=SINES))
    assert conditions.hard_faces == (("x.min", "x.max"),)


def test_data_that_are_not_known_there_leave_walls_to_the_loss():
    _, conditions = lifted(rod(values("0", "0"), initial="u0", u0=COSINES))
    assert conditions.hard_faces == ((),)
    assert "before it is drawn" in [*conditions][-1].why


def test_values_of_an_input_along_a_wall_are_hard_constraints():
    source = {"of": ["y"], "law": "gaussian_random_field", "tau": 3, "alpha": 6,
              "boundary": {"y": "dirichlet"}}  # fmt: skip
    problem = plate({**values("g", "0"), "y": {"dirichlet": {"u": 0}}}, g=source)
    found, conditions = lifted(problem, order=0)
    g = problem.function("g")
    assert conditions.hard_faces == (("x.min", "x.max", "y.min", "y.max"),)
    x = problem.coordinate("x").symbol
    assert restrict(problem.pde, found, problem.coordinate("x"), 0.0) == g
    assert restrict(problem.pde, found, problem.coordinate("y"), 1.0) == 0
    assert sp.simplify(found - g * (1 - x / 2)) == 0


def test_corners_of_four_sides_that_agree_are_blended():
    sides = {**values("y", "2 + y"), "y.min": {"dirichlet": {"u": "x**2/2"}},
             "y.max": {"dirichlet": {"u": "1 + x"}}}  # fmt: skip
    problem = plate(sides)
    found, conditions = lifted(problem, order=0)
    x, y = (c.symbol for c in problem.coordinates)
    assert len(conditions.hard_faces[0]) == 4
    assert at(found, x=0) - y == 0
    assert at(found, x=2) - 2 - y == 0
    assert at(found, y=0) - x**2 / 2 == 0
    assert at(found, y=1) - 1 - x == 0


def test_a_lid_that_jumps_at_its_corners_is_left_to_the_loss():
    sides = {**values("0", "0"), "y.min": {"dirichlet": {"u": 0}},
             "y.max": {"dirichlet": {"u": 1}}}  # fmt: skip
    conditions = decide_constraints(plate(sides))
    assert conditions.hard_faces == (("x.min", "x.max", "y.min"),)
    assert list(conditions.soft_faces) == ["y.max"]
    assert [*conditions][-1].why == "it is not that of x.min where they touch"


def test_waves_need_walls_that_agree_with_their_slope_as_well():
    def string(right):
        return Problem(
            name="string",
            time={"t": [0, 1]},
            space={"x": [0, 1]},
            unknowns=["u"],
            equations=["dtt(u) = dxx(u)"],
            initial={"u": "0", "dt(u)": "x"},
            boundary=values("0", right),
        )

    assert decide_constraints(string("t")).hard_faces == (("x.min", "x.max"),)
    assert decide_constraints(string("t**2")).hard_faces == (("x.min",),)


def test_slopes_at_walls_are_left_to_the_loss():
    conditions = decide_constraints(rod({"x": {"neumann": {"u": 0}}}))
    assert conditions.hard_faces == ((),)
    assert [c.keyword for own in conditions.soft_faces.values() for c in own] == ["neumann"] * 2
    assert [d.what for d in [*conditions][1:]] == [
        "du/dn at x = 0 is 0",
        "du/dn at x = 1 is 0",
    ]


def test_hard_refuses_a_wall_that_cannot_be_a_hard_constraint():
    with pytest.raises(ValueError, match=r"hard is not possible for du/dn at x = 0"):
        decide_constraints(rod({"x": {"neumann": {"u": 0}}}), "hard")


def test_soft_leaves_all_walls_to_the_loss():
    conditions = decide_constraints(rod(values("0", "0")), "soft")
    assert conditions.hard_faces == ((),)
    assert len(conditions.soft_faces) == 2


def test_data_alone_ask_no_walls():
    conditions = decide_constraints(rod(values("0", "0")), walls=False)
    assert conditions.hard_faces == ((),)
    assert conditions.soft_faces == {}
    assert len([*conditions]) == 1


def test_derivatives_of_known_functions_in_conditions_are_carried_out():
    problem = rod(values("dx(sin(x))", "dt(t*cos(1))"), initial="dx(sin(x))")
    (start,) = problem.initial["u"]
    assert str(start) == "cos(x)"
    found, conditions = lifted(problem)
    assert conditions.hard_faces[0] == ("x.min", "x.max")
    assert at(found, x=0) == 1


def test_values_without_a_number_are_left_to_the_loss():
    problem = rod(values("sqrt(-1 - t)", "abs(dt(a))"), a={**SINES, "of": ["t"], "boundary": {}})
    _, conditions = lifted(problem)
    assert conditions.hard_faces[0] == ()

"""Values prescribed all around a shape: hard constraints, with which function, and why not."""

import pytest
import sympy as sp

from piop.forms.hard_constraints import lift_expression
from piop.problem import Problem
from piop.problem.constraints import decide_constraints

DISK = {"disk": [0, 0, 1]}
HOLE = {"box": [[-1, 1], [-1, 1]], "holes": {"pin": {"disk": [0, 0, 0.5]}}}
ZERO = {"rest": {"dirichlet": {"u": 0}}}
FIELD = {"of": ["x", "y"], "law": "gaussian_random_field", "tau": 3, "alpha": 6, "modes": 2}


def plate(boundary=None, domain=None, equation="-lap(u) = 1", **words):
    return Problem(
        name="plate",
        space={"x": [-1, 1], "y": [-1, 1]},
        domain=domain or DISK,
        unknowns=["u"],
        equations=[equation],
        boundary=boundary or ZERO,
        **words,
    )


def rod(initial, boundary=None, **words):
    words = {"equation": "dt(u) = lap(u)", "time": {"t": [1, 2]}, "initial": initial, **words}
    return plate(boundary, **words)


@pytest.mark.parametrize("domain", [DISK, HOLE])
def test_one_value_all_around_is_a_hard_constraint(domain):
    found = decide_constraints(plate({"rest": {"dirichlet": {"u": "x*y"}}}, domain))
    assert not found.soft_faces
    assert {d.why for d in found} == {"through the distance to the boundary"}
    assert all(d.hard for d in found)
    problem = plate({"rest": {"dirichlet": {"u": "x*y"}}}, domain)
    x, y = (c.symbol for c in problem.space)
    assert lift_expression(problem.pde, "u", 0, found.hard_faces[0]) == x * y
    assert decide_constraints(problem, walls=False).hard_faces == ((),)


def test_visible_inputs_may_be_prescribed_and_rough_or_hidden_ones_not():
    def decided(**changes):
        problem = plate({"rest": {"dirichlet": {"u": "2*g"}}}, inputs={"g": {**FIELD, **changes}})
        return next(iter(decide_constraints(problem)))

    assert decided().hard
    assert "which the network does not see" in decided(hidden=True).why
    assert "of its derivatives" in decided(alpha=2.5).why


@pytest.mark.parametrize(
    ("boundary", "domain", "reason"),
    [
        (
            {"pin": {"dirichlet": {"u": 1}}, **ZERO},
            HOLE,
            "the faces of the shape prescribe different values",
        ),
        (
            {"pin": {"neumann": {"u": 0}}, **ZERO},
            HOLE,
            "not all faces of the shape prescribe a value",
        ),
        (
            ZERO,
            {
                "union": [
                    {"box": [[-1, 0], [-1, 1]]},
                    {"disk": [0, 0, 0.2]},
                    {"box": [[0, 1], [0, 1]]},
                ]
            },
            "the distance to the boundary is not known: its parts touch along a line",
        ),
        (
            ZERO,
            {"star": {"centre": [0, 0], "angle": "phi", "radius": "0.5 + 0.1*cos(phi)"}},
            "the distance to the boundary is not known: no formula",
        ),
    ],
)
def test_soft_constraints_are_told_with_the_reason(boundary, domain, reason):
    problem = plate(boundary, domain)
    found = decide_constraints(problem)
    assert reason in {d.why.split(" gives")[0] for d in found}
    assert found.hard_faces == ((),)
    assert set(found.soft_faces) == set(problem.domain.faces)
    with pytest.raises(ValueError, match="constraints: hard is not possible"):
        decide_constraints(problem, "hard")


def test_shapes_that_differ_have_no_hard_constraints():
    found = decide_constraints(Problem.from_file("electrostatics"))
    assert {d.why for d in found} == {"the shape differs from sample to sample"}
    assert not any(d.hard for d in found)


def test_soft_leaves_all_to_the_loss():
    found = decide_constraints(plate(), "soft")
    assert [d.why for d in found] == ["as requested"]
    assert found.hard_faces == ((),)


def test_a_start_that_agrees_on_the_boundary_is_met_beside_it():
    problem = rod({"u": "(1 - x**2 - y**2)*x + 1"}, {"rest": {"dirichlet": {"u": "t**2"}}})
    found = decide_constraints(problem)
    assert found.lift_orders == (1,) and found.hard_faces == (("outline",),)
    lift = lift_expression(problem.pde, "u", 1, found.hard_faces[0])
    t, x, y = (c.symbol for c in problem.coordinates)
    assert sp.expand(lift.subs(t, 1) - problem.initial["u"][0]) == 0
    assert sp.simplify((lift - t**2).subs(y, sp.sqrt(1 - x**2))) == 0


def test_a_slope_in_time_that_agrees_too():
    words = {"equation": "dtt(u) = lap(u)", "time": {"t": [0, 1]}}
    start = {"u": "1 - x**2 - y**2", "dt(u)": "3 + x*(1 - x**2 - y**2)"}
    problem = rod(start, {"rest": {"dirichlet": {"u": "3*t"}}}, **words)
    found = decide_constraints(problem)
    assert found.lift_orders == (2,) and found.hard_faces == (("outline",),)
    lift = lift_expression(problem.pde, "u", 2, found.hard_faces[0])
    t, x, y = (c.symbol for c in problem.coordinates)
    data = [sp.diff(lift, t, k).subs(t, 0) for k in (0, 1)]
    assert all(sp.expand(a - b) == 0 for a, b in zip(data, problem.initial["u"], strict=True))
    assert sp.simplify((lift - 3 * t).subs(y, sp.sqrt(1 - x**2))) == 0


@pytest.mark.parametrize("start", ["1 - x**2", "u0"])
def test_a_start_that_need_not_agree_leaves_the_boundary_a_soft_constraint(start):
    given = {"inputs": {"u0": FIELD}} if start == "u0" else {}
    found = decide_constraints(rod({"u": start}, **given))
    assert found.lift_orders == (1,) and found.hard_faces == ((),)
    assert "nothing says that it is that of the initial data" in [*found][-1].why

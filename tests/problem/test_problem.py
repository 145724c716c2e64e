"""A problem gives every consumer the same symbols, however it was made."""

import dataclasses
import subprocess
import sys

import pytest
import sympy
from sympy import Derivative, Function, Rational, Symbol

from piop.errors import SpecError
from piop.problem import Problem
from piop.spec.distributions import GaussianRandomField
from piop.spec.load import builtin_names, find_builtin

t, x, y = (Symbol(n, real=True) for n in "txy")
u = Function("u", real=True)(t, x)
HEAT = {
    "name": "heat",
    "time": {"t": [0, 1]},
    "space": {"x": [0, 2]},
    "unknowns": ["u"],
    "equations": ["dt(u) = dxx(u)"],
    "initial": {"u": 0},
    "boundary": {"x": "periodic"},
}


@pytest.mark.parametrize("name", builtin_names())
def test_every_problem_that_comes_with_piop_loads_cites_and_round_trips(name):
    problem = Problem.from_file(name)
    assert problem.name == name
    assert len(problem.spec.source) > 20
    assert problem.spec.title
    assert problem.pde.periodic or problem.boundary
    assert "save" in find_builtin(name).read_text()
    again = Problem.from_yaml(problem.to_yaml())
    assert again.spec == problem.spec
    assert again.hash == problem.hash


def test_the_ten_problems_are_there():
    assert set(builtin_names()) >= {
        "heat", "heat2d", "advection", "burgers", "burgers_wang", "kdv", "kuramoto_sivashinsky",
        "allen_cahn", "reaction_diffusion", "navier_stokes",
    }  # fmt: skip


def test_burgers_is_what_the_paper_says():
    problem = Problem.from_file("pdes/burgers.yaml")
    assert problem.residuals == (
        Derivative(u, t) + u * Derivative(u, x) - Derivative(u, (x, 2)) / 100,
    )
    assert problem.coordinates[0].name == "t"
    assert problem.coordinate("x").length == pytest.approx(6.283185307179586)
    assert problem.save == (100, 256)
    assert problem.pde.time_order == {"u": 1}
    assert problem.initial["u"] == (Function("u0", real=True)(x),)
    item = problem.inputs[0]
    assert (item.of, item.sensor_shape, item.place, item.hidden) == (
        ("x",),
        (64,),
        "uniform",
        False,
    )
    assert problem.function("u") == u
    assert problem.function("u0") == item.symbol
    assert problem.units["x"] == "m"
    assert problem.solve["backbone"] == "pit"
    assert "dt(u) + u*dx(u)" in repr(problem)
    with pytest.raises(KeyError):
        problem.function("w")
    with pytest.raises(KeyError):
        problem.coordinate("w")


def test_navier_stokes_has_an_auxiliary_channel():
    problem = Problem.from_file("navier_stokes")
    assert problem.channels == ("w", "psi")
    assert problem.unknowns == ("w",)
    assert problem.pde.auxiliaries[0].mean == 0.0
    assert problem.pde.auxiliaries[0].gauged
    psi = problem.function("psi")
    w = problem.function("w")
    assert problem.residuals[-1] == -w - Derivative(psi, (x, 2)) - Derivative(psi, (y, 2))
    law = problem.inputs[0].distribution
    assert law == GaussianRandomField(scale=343, tau=7, alpha=2.5, zero_mean=True)


def test_what_is_ill_posed_at_the_start_of_a_parameter_is_refused():
    words = HEAT | {"parameters": {"nu": -0.5}, "equations": ["dt(u) = nu*dxx(u)"]}
    with pytest.raises(SpecError, match="short waves grow without bound"):
        Problem(**words, infer=["nu"])


def test_a_parameter_that_another_is_made_of_is_not_inferred():
    words = HEAT | {"parameters": {"k": 1, "nu": "2*k"}, "equations": ["dt(u) = nu*dxx(u)"]}
    with pytest.raises(SpecError, match=r"parameters.nu: depends on a parameter that is to be"):
        Problem(**words, infer=["k"])


def test_derivatives_are_carried_out_in_residuals_and_kept_in_raw_ones():
    problem = Problem(**HEAT | {"equations": ["dt(u) + d(u**2/2, x) = dxx(u)"]})
    assert problem.residuals[0] == Derivative(u, t) + u * Derivative(u, x) - Derivative(u, (x, 2))
    assert problem.pde.residuals_raw[0].has(Derivative(u**2 / 2, x))


def test_parameters_are_numbers_unless_drawn_or_inferred():
    words = HEAT | {"parameters": {"nu": 0.5}, "equations": ["dt(u) = nu*dxx(u)"]}
    nu = Symbol("nu", real=True)
    fixed = Problem(**words)
    assert fixed.residuals[0].coeff(Derivative(u, (x, 2))) == Rational(-1, 2)
    assert fixed.parameters == {"nu": 0.5}
    inferred = Problem(**words, infer=["nu"])
    assert inferred.residuals[0].has(nu)
    assert inferred.infer == {"nu": 0.5}
    assert inferred.at() == fixed
    assert inferred.at({"nu": 0.25}) == Problem(**words | {"parameters": {"nu": 0.25}})
    assert fixed.at() is fixed
    with pytest.raises(SpecError, match="short waves grow without bound"):
        inferred.at({"nu": -0.1})
    drawn = Problem(**words | {"parameters": {"nu": {"law": "uniform", "low": 1, "high": 2}}})
    assert drawn.residuals[0].has(nu)
    assert drawn.inputs[0].symbol == nu
    assert drawn.inputs[0].of == ()
    assert drawn.inputs[0].sensor_shape == (1,)


def test_hidden_inputs_and_expressions():
    problem = Problem(
        **HEAT
        | {
            "inputs": {
                "g": {
                    "of": ["x"],
                    "law": "gaussian_random_field",
                    "tau": 3,
                    "alpha": 3,
                    "hidden": True,
                },
                "a": {"of": ["x"], "expression": "where(g > 0, 12, 3)"},
            },
            "equations": ["dt(u) = dxx(u) + a"],
            "sensors": {"a": {"count": 9, "place": "grid"}},
        }
    )
    g, a = problem.inputs
    assert problem.visible_inputs == (a,)
    assert a.expression.has(g.symbol)
    assert not a.smooth
    assert g.smooth
    assert a.sensor_shape == (9,)


def test_boundary_conditions_are_by_face():
    problem = Problem(
        **HEAT
        | {"boundary": {"x.min": {"dirichlet": {"u": "t"}}, "rest": {"robin": {"u": [1, 2, 3]}}}}
    )
    assert not problem.pde.periodic
    low, high = problem.boundary["x.min"][0], problem.boundary["x.max"][0]
    assert (low.keyword, low.unknown, low.values) == ("dirichlet", "u", (t,))
    assert (high.keyword, high.values) == ("robin", (1, 2, 3))


def test_grids_of_sensors_have_equal_sides_or_counts_per_axis():
    problem = Problem.from_file("heat2d")
    assert problem.inputs[0].sensor_shape == (12, 12)
    text = problem.to_yaml()
    same = Problem.from_yaml(text.replace("[12, 12]", "144"))
    assert same.inputs[0].sensor_shape == (12, 12)
    from piop.errors import SpecError

    with pytest.raises(SpecError, match=r"145 points make no grid of 2 equal sides. Write 144"):
        Problem.from_yaml(text.replace("[12, 12]", "145"))
    with pytest.raises(SpecError, match="3 counts for 2 coordinates"):
        Problem.from_yaml(text.replace("[12, 12]", "[2, 3, 4]"))


def test_vector_equations_count_once_per_component():
    problem = Problem(
        **HEAT
        | {
            "unknowns": ["u", "v"],
            "definitions": {"V": "(u, v)"},
            "equations": ["dt(V) = lap(V)"],
            "initial": {"u": 0, "v": 0},
        }
    )
    assert len(problem.residuals) == 2


def test_a_problem_is_immutable_and_building_it_is_deterministic():
    problem = Problem(**HEAT)
    with pytest.raises(dataclasses.FrozenInstanceError):
        problem.name = "other"
    with pytest.raises(TypeError):
        problem.initial["u"] = ()
    assert Problem(**HEAT).hash == problem.hash
    assert Problem(**HEAT) == problem
    assert problem != "heat"


def test_loading_and_checking_needs_neither_torch_nor_a_second():
    code = (
        "import sys, time, resource; from piop.problem import Problem, describe;"
        "describe.to_text(Problem.from_file('navier_stokes'));"
        "assert 'torch' not in sys.modules and 'scipy.sparse' not in sys.modules;"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_utime)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 2.0  # about 0.6 s on one core; the rest is for busy machines


def test_fit_and_solve_reference_hand_on_to_the_layers_above(monkeypatch):
    calls = {}
    import piop.reference
    import piop.run

    monkeypatch.setattr(piop.run, "fit", lambda problem, **k: calls.update(fit=(problem, k)))
    monkeypatch.setattr(
        piop.reference,
        "solve_reference",
        lambda problem, *a, **k: calls.update(ref=(problem, a, k)),
    )
    problem = Problem(**HEAT)
    problem.fit(steps=3)
    problem.solve_reference(tolerance=1e-3)
    assert calls == {
        "fit": (problem, {"steps": 3}),
        "ref": (problem, ({},), {"tolerance": 1e-3}),
    }


def test_sympy_symbols_of_any_assumption_are_known_by_name():
    s = sympy.Symbol("x")
    free = sympy.Function("u")(sympy.Symbol("t"), s)
    problem = Problem(
        **HEAT | {"equations": [sympy.Eq(free.diff(sympy.Symbol("t")), free.diff(s, 2))]}
    )
    assert problem == Problem(**HEAT)


@pytest.mark.parametrize("source", ["log(lap(x) - 1)", "sqrt(dx(1 - x))"])
def test_what_is_not_real_once_derivatives_are_carried_out_is_refused(source):
    with pytest.raises(SpecError, match="equations: not a real expression"):
        Problem(**HEAT | {"equations": [f"dt(u) = dxx(u) + {source}"]})

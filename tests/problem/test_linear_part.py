"""Which steady problems are solved for their source, and the reasons why others are not."""

import pytest

from piop.problem import Problem
from piop.problem.constraints import decide_constraints
from piop.problem.linear_part import LinearPartDecision, LinearPartMode, decide_linear_part

SPEC = """
piop: 1
name: example
space: {{x: [0, 1]}}
unknowns: [u]
parameters: {{{parameters}}}
inputs:
  {inputs}
equations: ["{equation}"]
boundary: {{{boundary}}}
sensors: {{f: {{count: 16, place: grid}}}}
save: {{x: 17}}
"""
SMOOTH = "f: {of: [x], law: gaussian_random_field, scale: 1, tau: 5, alpha: 4, modes: 6}"


def example(
    equation: str = "-dxx(u) = f",
    inputs: str = SMOOTH,
    boundary: str = "x: {dirichlet: {u: 0}}",
    parameters: str = "",
) -> Problem:
    return Problem.from_yaml(
        SPEC.format(equation=equation, inputs=inputs, boundary=boundary, parameters=parameters)
    )


def decided(problem: Problem, mode: LinearPartMode = "auto") -> LinearPartDecision:
    return decide_linear_part(problem, decide_constraints(problem), mode)


@pytest.mark.parametrize("name", ["helmholtz", "poisson"])
def test_shipped_problems_are_solved_for_their_source(name: str) -> None:
    problem = Problem.from_file(name)
    wanted = "solved exactly, each wave of the source by itself"
    assert str(decided(problem)) == wanted
    assert f"linear part {wanted}" in str(problem.describe())
    assert str(decided(problem, "learned")) == "learned, as requested"


def test_a_linear_evolution_beside_an_unknown_without_a_time_derivative_is_learned() -> None:
    problem = Problem(
        name="potential",
        time={"t": [0, 1]},
        space={"x": [0, 1]},
        unknowns=["u", "v"],
        equations=["dt(u) = dxx(u) - dx(v)", "-dxx(v) = cos(pi*x)"],
        gauge={"v": {"mean": 0}},
        initial={"u": "cos(pi*x)"},
        boundary={"x": {"neumann": {"u": 0, "v": 0}}},
    )
    assert str(decided(problem)) == "learned, no time derivative of v"


def test_an_auxiliary_unknown_of_a_later_one_is_learned() -> None:
    first, later = {"q": {"equation": "q - dxx(q) = u + r"}}, {"r": {"equation": "r - dxx(r) = u"}}
    found = [
        str(
            decided(
                Problem(
                    name="chain",
                    time={"t": [0, 1]},
                    space={"x": [0, 1]},
                    unknowns=["u"],
                    auxiliary=auxiliary,
                    equations=["dt(u) = dxx(u) + q"],
                    initial={"u": "sin(2*pi*x)"},
                    boundary={"x": "periodic"},
                )
            )
        )
        for auxiliary in (first | later, later | first)
    ]
    assert (
        found[0] == "learned, the auxiliary equation of 'q' must fix it by states and earlier ones"
    )
    assert found[1].startswith("solved exactly")


def test_a_permeability_that_varies_is_learned() -> None:
    problem = Problem.from_file("darcy_smooth")
    assert str(decided(problem)).startswith("learned, a coefficient is not a number: -")
    with pytest.raises(ValueError, match="linear_part: exact is not possible: a coefficient is"):
        decided(problem, "exact")


def test_waves_of_varying_speed_are_solved_by_modes_but_in_older_runs() -> None:
    problem = Problem.from_file("wave2d_cvit")
    wanted = "solved exactly, by the modes of its varying coefficients"
    assert str(decided(problem)) == wanted
    assert decided(problem, "exact").by_modes
    old = decide_linear_part(problem, decide_constraints(problem), varying=False)
    assert str(old) == "learned, the coefficients of the equations vary"
    mean_speed = decide_linear_part(problem, decide_constraints(problem), "exact", varying=False)
    assert (mean_speed.exact, mean_speed.by_modes) == (True, False)
    waves = decided(Problem.from_file("wave"))
    assert (waves.exact, waves.by_modes) == (True, False)


def test_coefficients_that_vary_otherwise_are_learned_for_a_reason() -> None:
    text = Problem.from_file("wave2d_cvit").to_yaml().replace("c**2*", "(1 + t)*c**2*")
    problem = Problem.from_yaml(text)
    assert str(decided(problem)).startswith("learned, a coefficient varies with more than")
    assert not decided(problem, "exact").by_modes  # waves at the speed at the beginning


def test_soft_constraints_are_learned() -> None:
    problem = example()
    soft = decide_constraints(problem, "soft")
    found = str(decide_linear_part(problem, soft))
    assert found.startswith("learned, this is a soft constraint: u at x = 0")
    periodic = example("u - dxx(u) = f", boundary="x: periodic")
    assert decided(periodic).exact
    assert not decide_linear_part(periodic, decide_constraints(periodic, "soft")).exact


def test_slopes_at_walls_need_no_hard_constraint() -> None:
    assert decided(example("u - dxx(u) = f", boundary="x: {neumann: {u: 0}}")).exact


@pytest.mark.parametrize(
    ("inputs", "equation", "why"),
    [
        (
            "g" + SMOOTH[1:-1] + ", hidden: true}\n  f: {of: [x], expression: 2*g}",
            "-dxx(u) = f + g",
            "the source depends on g, which the network does not see",
        ),
        (
            SMOOTH.replace("alpha: 4", "alpha: 1"),
            "-dxx(u) = f",
            "the source is not smooth enough to be interpolated: f has fewer than 0.5 derivatives",
        ),
        (SMOOTH, "-dxx(u) = where(f > 0, 1, 2)", "it has a kink or a jump"),
    ],
)
def test_sources_that_are_not_seen_or_not_smooth_are_learned(
    inputs: str, equation: str, why: str
) -> None:
    assert why in str(decided(example(equation, inputs)))

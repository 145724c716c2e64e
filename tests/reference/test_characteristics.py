"""Linear transport with an inlet: values carried from where they were, kinks and all."""

import math

import pytest
import torch

from piop.errors import SolverError
from piop.problem import Problem
from piop.problem.capabilities import choose_method
from piop.problem.reference_methods import Characteristics, Chebyshev
from piop.reference import solve_reference
from piop.sampling import Draws, sample_inputs

from .cases import Scalars, Waves, relative


def carried(equation, boundary, initial="sin(pi*x)", time=1.0, **words):
    problem = Problem(
        name="case",
        time={"t": [0, time]},
        space={"x": [0, 1]},
        unknowns=["u"],
        equations=[equation],
        initial={"u": initial},
        boundary=boundary,
        save={"t": 9, "x": 65},
        **words,
    )
    assert isinstance(choose_method(problem), Characteristics)
    return problem


INLET = {"x.min": {"dirichlet": {"u": "sin(pi*t/2)"}}}


def check(problem, exact, rate=None, functions=None, tolerance=1e-8):
    solution = solve_reference(problem, functions or {}, tolerance=tolerance)
    t, x = solution.times[:, None], solution.axes[0]
    error = relative(solution.values["u"][0], exact(t, x))
    assert error <= float(solution.error_estimate[0]) <= tolerance
    if rate is not None:
        assert torch.allclose(solution.time_derivatives["u"][0], rate(t, x), atol=1e-6)


def test_a_kink_from_the_corner_stays_sharp():
    """Speed 1 + x: x has been reached after ln(1 + x), and came from (1 + x) e^−t − 1."""

    def exact(t, x):
        entered, foot = t - torch.log(1 + x), (1 + x) * torch.exp(-t) - 1
        return torch.where(entered > 0, torch.sin(math.pi / 2 * entered), torch.sin(math.pi * foot))

    def rate(t, x):
        entered, foot = t - torch.log(1 + x), (1 + x) * torch.exp(-t) - 1
        inside = -math.pi * torch.cos(math.pi * foot) * (1 + foot)
        # On the kink itself, where both meet, either slope is right: x = 0 at first counts as data.
        return torch.where(entered > 0, math.pi / 2 * torch.cos(math.pi / 2 * entered), inside)

    check(carried("dt(u) + (1 + x)*dx(u) = 0", INLET), exact, rate)


def test_the_longest_step_is_part_of_the_longest_interval():
    problem = carried("dt(u) + (1 + x)*dx(u) = 0", INLET)
    solution = solve_reference(problem, {}, times=(0.1, 0.4), tolerance=1e-6)
    halvings = math.log2((0.4 - 0.1) / float(solution.step[0]))
    assert halvings == round(halvings) > 0


def test_growth_and_source_along_the_way_from_the_other_end():
    """u_t − 2u_x = 3u/2 + x, from the right: u = e^(1.5s) u* + ∫ (x + 2r) e^(1.5r) dr over s."""
    problem = carried(
        "dt(u) - 2*dx(u) = 1.5*u + x", {"x.max": {"dirichlet": {"u": "cos(t)"}}}, "cos(5*x)"
    )

    def exact(t, x):
        through = (1 - x) / 2
        since = torch.minimum(t.expand(-1, len(x)), through)
        met = torch.where(t > through, torch.cos(t - through), torch.cos(5 * (x + 2 * since)))
        b = 1.5
        grown = torch.exp(b * since)
        added = x * (grown - 1) / b + 2 * (grown * (since / b - 1 / b**2) + 1 / b**2)
        return grown * met + added

    check(problem, exact, tolerance=1e-9)


def test_a_wall_value_may_be_written_with_the_coordinate_and_functions_of_it():
    """u = (1 + t) g(x) + x enters through x = 0, where g is 0.6."""
    wave = {"of": ["x"], "law": "fourier_series", "terms": 1, "amplitude": [0, 1]}
    problem = carried(
        "dt(u) + dx(u) = 0",
        {"x.min": {"dirichlet": {"u": "(1 + t)*g + x"}}},
        "g",
        inputs={"g": {**wave, "wavenumber": [1, 1]}},
    )

    def exact(t, x):
        foot = 0.6 * torch.cos(2 * math.pi * (x - t))
        return torch.where(x < t, 0.6 * (1 + t - x), foot)

    cosine = Waves([[0.6]], [[[1]]], [[math.pi / 2]], [0.0], [1.0])
    check(problem, exact, functions={"g": cosine})


def test_flux_form_and_scalars_per_sample():
    """(c (1 + x) u)_x: what flows in spreads out; (1 + x) u is carried along."""
    problem = carried(
        "dt(u) + d(c*(1 + x)*u, x) = 0",
        {"x.min": {"dirichlet": {"u": "1 + t"}}},
        "1/(1 + x)",
        inputs={"c": {"of": [], "law": "uniform", "low": 0.5, "high": 2}},
    )
    functions = {"c": Scalars([0.5, 2.0])}
    solution = solve_reference(problem, functions, tolerance=1e-8)
    t, x = solution.times[:, None], solution.axes[0]
    for b, c in enumerate((0.5, 2.0)):
        exact = (1 + (t - torch.log(1 + x) / c).clamp_min(0)) / (1 + x)
        assert relative(solution.values["u"][b], exact) <= float(solution.error_estimate[b])


@pytest.mark.parametrize("equation", ["dt(u) + (1 + x)*dx(u) = 0", "dt(u) + dx(u) = u/2 + x"])
def test_slopes_in_time_are_those_of_the_values(equation):
    problem = carried(equation, INLET)
    h = 1e-4
    solution = solve_reference(problem, {}, times=[0.5 - h, 0.5, 0.5 + h], tolerance=1e-10)
    values = solution.values["u"][0]
    slope = (values[2] - values[0]) / (2 * h)
    off = (solution.time_derivatives["u"][0, 1] - slope).abs()
    assert int((off > 1e-5).sum()) <= 1  # a point within h of the kink


def test_the_shipped_problem_obeys_its_travel_times():
    """τ(x) = ∫ dx/a: what is at x at time t > τ(x) entered at t − τ(x)."""
    problem = Problem.from_file("advection_wang")
    functions = sample_inputs(problem, Draws(2, 0, torch.arange(3)))
    solution = solve_reference(problem, functions)
    assert bool(solution.accepted.all())
    fine = torch.linspace(0, 1, 20_001, dtype=torch.float64)
    slow = 1 / functions["a"].on_grid([fine])
    steps = (slow[:, :-1] + slow[:, 1:]) / 2 * fine.diff()  # the trapezoidal rule: 1e-9 here
    travel = torch.cat([torch.zeros(3, 1).double(), steps.cumsum(1)], 1)[:, ::200]
    entered = solution.times[:, None] - travel[:, None]
    exact = torch.sin(math.pi / 2 * entered)
    gap = (solution.values["u"] - exact)[entered >= 0]
    assert int((entered >= 0).sum()) > 1000
    assert float(gap.abs().max()) < 1e-6


@pytest.mark.parametrize(("speed", "face", "word"), [(1.0, "x.min", "out"), (-1.0, "x.max", "in")])
def test_conditions_stand_where_characteristics_run_in(speed, face, word):
    speeds = {"c": {"of": [], "law": "uniform", "low": -2, "high": 2}}
    problem = carried("dt(u) + c*(x - 0.5)*dx(u) = 0", INLET, inputs=speeds)
    with pytest.raises(SolverError, match=f"sample 0: at {face} characteristics run {word}"):
        solve_reference(problem, {"c": Scalars([speed])})


def test_what_moves_in_time_is_left_to_collocation():
    words = {"name": "case", "time": {"t": [0, 1]}, "space": {"x": [0, 1]}, "unknowns": ["u"]}
    problem = Problem(
        **words,
        equations=["dt(u) + (2 + sin(t))*dx(u) = 0"],
        initial={"u": "0"},
        boundary=INLET,
        save={"t": 3, "x": 9},
    )
    assert isinstance(choose_method(problem), Chebyshev)


@pytest.mark.parametrize(
    ("part", "jump", "speed"), [("source", False, 1), ("growth", True, 1), ("source", False, 20)]
)
def test_features_narrower_than_steps_are_met(part, jump, speed):
    """A feature of the size a and any width adds a/speed to what passes, or grows it by e^that."""
    shape = "where(abs(x - c) < w, 1, 0)/(2*w)" if jump else "exp(-((x - c)/w)**2)/(sqrt(pi)*w)"
    inputs = {
        "a": {"law": "uniform", "low": 0.1, "high": 1.0},
        "c": {"law": "uniform", "low": 0.2, "high": 0.8},
        "w": {"law": "log_uniform", "low": 1e-5, "high": 1e-3},
    }
    equation = f"dt(u) + {speed}*dx(u) = a*{shape}{'*u' if part == 'growth' else ''}"
    problem = carried(equation, INLET, inputs=inputs).at()
    functions = sample_inputs(problem, Draws(0, 0, torch.arange(3)))
    a, c, w = (functions[n].on_grid(()).reshape(-1, 1, 1) for n in "acw")
    solution = solve_reference(problem, functions, times=[0.5, 1], shape=(9,), tolerance=1e-4)

    def passed(x):
        s = (x - c) / w
        return a / speed * (0.5 * s.clamp(-1, 1) if jump else 0.5 * torch.erf(s))

    t, x = solution.times[:, None], solution.axes[0]
    foot = x - speed * t
    start = torch.where(
        foot > 0, torch.sin(math.pi * foot), torch.sin(math.pi / 2 * (t - x / speed))
    )
    foot = foot.clamp_min(0)
    gain = passed(x) - passed(foot)
    exact = start + gain if part == "source" else start * gain.exp()
    gap = (solution.values["u"] - exact).square().mean(2).sqrt().amax(1)
    error = gap / exact.square().mean((1, 2)).sqrt()
    assert bool(solution.accepted.all())
    assert bool((error <= solution.error_estimate).all())

"""Whether time windows serve a problem: judged by what its solutions are known to be."""

import math

import pytest

from piop.problem import Problem
from piop.problem.residual_form import FormDecision
from piop.problem.time_windows import State, window_problem
from piop.training import state_waves
from piop.training.batches.input_grid import highest_wavenumber
from piop.training.coarse_references import solve_coarsely
from piop.training.state_waves import MOST_WAVES, find_states, window_statistics


def example(equation, waves=8, **changes):
    words = {
        "name": "example",
        "time": {"t": [0, 1]},
        "space": {"x": [0, 1]},
        "unknowns": ["u"],
        "inputs": {
            "u0": {
                "of": ["x"],
                "law": "fourier_series",
                "terms": 1,
                "amplitude": [1, 1],
                "wavenumber": [waves, waves],
            },
        },
        "equations": [equation],
        "initial": {"u": "u0"},
        "boundary": {"x": "periodic"},
    }
    return Problem(**{**words, **changes})


def decay(share):
    """An equation whose solution keeps its shape and falls by a share until the end."""
    return f"dt(u) = {math.log(1 - share)}*u"


def test_the_state_keeps_the_waves_that_there_are():
    states = find_states(example(decay(0.6)), 4, asked=False)
    assert (states.windows, states.state) == (4, State(8, 8))
    values = states.values["u"]
    assert values.shape == (4, 4, 256)
    ratio = values[:, 3].square().mean() / values[:, 0].square().mean()
    assert float(ratio) == pytest.approx(0.4 ** (2 * 0.75), rel=1e-2)


@pytest.mark.parametrize(("share", "windows"), [(0.38, 1), (0.42, 4)])
def test_windows_need_solutions_that_change(share, windows):
    states = find_states(example(decay(share)), 4, asked=False)
    assert states.windows == windows
    assert f"{100 * share:.0f} %" in states.why
    assert find_states(example(decay(share)), 4, asked=True).windows == 4


@pytest.mark.parametrize(
    ("turns", "windows"), [(0.19, 4), (0.25, 8), (0.35, 8), (0.6, 16), (1.5, 16)]
)
def test_fast_solutions_have_more_windows(turns, windows):
    """A wave that travels through some of its length: 2 sin(π turns/n) of its size per window."""
    problem = example(f"dt(u) = {-turns / 8}*dx(u)")
    change = [2 * abs(math.sin(math.pi * turns / n)) for n in (4, 8)]
    assert windows == (4 if change[0] <= 0.35 else 8 if change[1] <= 0.35 else 16)
    states = find_states(problem, 4, asked=False, most=16)
    assert states.windows == windows
    assert states.values["u"].shape == (4, windows, 256)
    assert find_states(problem, 4, asked=False, most=4).windows == 4
    assert find_states(problem, 4, asked=False, most=8).windows == min(windows, 8)


def test_growth_from_rest_is_measured_by_the_whole_time():
    """From zero to t/T of its size: 1/4 and 1/8 of it, not all of it, in the first window."""
    fields = {"unknowns": ["u", "v"], "initial": {"u": "u0", "v": 0}}
    problem = example("dt(u) = 0", equations=["dt(u) = 1e-9*dxx(u)", "dt(v) = u"], **fields)
    assert find_states(problem, 4, asked=False, most=16).windows == 8


def test_an_unknown_that_stays_zero_has_no_waves():
    fields = {"unknowns": ["u", "v"], "initial": {"u": "u0", "v": 0}}
    equations = [decay(0.6), "dt(v) = 0.01*dxx(v) - u*v"]
    states = find_states(example(decay(0.6), equations=equations, **fields), 4, asked=False)
    assert (states.windows, states.state) == (4, State(8, 8))


def test_more_windows_are_for_equations_that_a_lattice_integrates(monkeypatch):
    """Waves too short for any lattice show in the first solutions, and no others are solved for."""
    solved = []

    def solve(*args, **settings):
        solved.append(args)
        return solve_coarsely(*args, **settings)

    monkeypatch.setattr(state_waves, "solve_coarsely", solve)
    integral = FormDecision(True, "")
    # seen at 256 points, 200 periods are 56
    for periods, windows, lattice, times in (
        (0, 16, True, 2),
        (200, 4, False, 2),
        (100, 4, False, 1),
    ):
        solved.clear()
        problem = example(
            "dt(u) = -0.1875*dx(u)", initial={"u": f"u0 + 0.015*cos(2*pi*{periods}*x)"}
        )
        states = find_states(problem, 4, integral, asked=False, most=16)
        assert len(solved) == times
        assert states.windows == windows
        assert bool(states.lattice) == lattice
        assert states.values["u"].shape[1] == windows


def test_the_unknown_that_changes_most_counts():
    """What v loses is little beside the size of u, which stays."""
    changes = {"unknowns": ["u", "v"], "initial": {"u": "30 + u0", "v": "u0"}}
    still, decaying = "dt(u) = 0.1*lap(u)", decay(0.6).replace("u", "v")
    problem = example(still, equations=[still, decaying], **changes)
    states = find_states(problem, 4, asked=False)
    assert states.windows == 4
    assert "60 %" in states.why


@pytest.mark.parametrize(("part", "bulk"), [(0.005, 8), (0.018, 24), (0.022, 42)])
def test_tokens_resolve_short_waves_that_matter(part, bulk):
    problem = example(decay(0.6), 8, initial={"u": f"u0 + {part}*cos(2*pi*42*x)"})
    assert find_states(problem, 4, asked=False).state == State(42, bulk)


def test_a_wave_is_kept_by_the_length_of_its_vector_and_tokens_resolve_each_axis():
    changes = {
        "space": {"x": [0, 1], "y": [0, 1]},
        "initial": {"u": "u0 + 0.5*cos(6*pi*x)*cos(8*pi*y)"},
        "boundary": {"x": "periodic", "y": "periodic"},
    }
    problem = example(decay(0.6), 4, **changes)  # (3, 4) has the length 5
    assert find_states(problem, 4, asked=False).state == State(5, 4)


@pytest.mark.parametrize("waves", [3, 10])
def test_a_network_sees_all_waves_that_a_state_keeps(waves):
    changes = {
        "space": {"x": [0, 1], "y": [0, 1]},
        "boundary": {"x": "periodic", "y": "periodic"},
    }
    window = window_problem(example(decay(0.6), waves, **changes), 4, State(waves, 2))
    assert highest_wavenumber(window, window.inputs[0]) == waves


def test_windows_need_states_of_few_waves():
    most = MOST_WAVES[1]
    assert find_states(example(decay(0.6), most), 4, asked=False).state == State(most, most)
    beyond = find_states(example(decay(0.6), most + 1), 4, asked=False)
    assert (beyond.windows, beyond.state) == (1, None)
    assert "100.0 %" in beyond.why
    some = example(decay(0.6), 8, initial={"u": f"u0 + 0.022*cos(2*pi*{most + 1}*x)"})
    assert "2.2 % of a state" in find_states(some, 4, asked=False).why
    fewer = example(decay(0.6), 8, initial={"u": f"u0 + 0.018*cos(2*pi*{most + 1}*x)"})
    assert find_states(fewer, 4, asked=False).windows == 4


def test_short_waves_of_little_size_are_left_out():
    mixed = example(decay(0.6), 8, initial={"u": "u0 + 0.005*cos(18*pi*x) + 0.0005*cos(40*pi*x)"})
    assert find_states(mixed, 4, asked=False).state == State(9, 8)


@pytest.mark.parametrize(("waves", "windows"), [(7, 1), (8, 4)])
def test_windows_need_states_of_many_numbers(waves, windows):
    states = find_states(example(decay(0.6), waves), 4, asked=False)
    assert states.windows == windows
    assert ("15 numbers" in states.why) == (windows == 1)


def test_without_a_reference_solution_there_is_one_window():
    growing = example("dt(u) = u**2 + 100")  # infinite before the end
    states = find_states(growing, 4, asked=False)
    assert states.windows == 1
    assert "no reference solution" in states.why
    with pytest.raises(ValueError, match="windows: 4 is not possible"):
        find_states(growing, 4, asked=True)


def test_statistics_are_of_the_states_at_all_starts():
    problem = example(decay(0.6))
    states = find_states(problem, 4, asked=False)
    found = window_statistics(problem, states)
    size = float(states.values["u"].square().mean().sqrt())
    assert found.channel_scale[0] == pytest.approx(size, rel=0.1)
    assert found.input_std["u at the start"] == pytest.approx(size, rel=0.01)
    assert found.equation_scale[0] == pytest.approx(size / 0.25, rel=0.1)  # u over a window
    assert (found.windows, found.waves, found.bulk) == (4, 8, 8)
    again = type(found).from_json(found.to_json())
    assert again == found

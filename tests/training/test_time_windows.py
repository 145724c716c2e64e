"""From window to window: times, states, and what a rollout trains on."""

import math
from types import SimpleNamespace

import pytest
import torch

from piop.domain import Coordinate
from piop.problem import Problem
from piop.problem.time_windows import State
from piop.sampling import Draws, collocation, observe, sample_inputs
from piop.training.batches.input_grid import evaluate_on_grids
from piop.training.build import build_model, build_objective, build_source
from piop.training.choices import constraints_of, solves_linear_part, trained_problem
from piop.training.config import BudgetConfig, LossConfig, MachineConfig, TrainingConfig
from piop.training.distributed import SingleProcess
from piop.training.state_waves import States, window_statistics
from piop.training.time_windows import RolloutFunctions, TimeWindows

DECAY, WINDOWS = 0.3, 4


def heat(**changes):
    words = {
        "name": "heat",
        "time": {"t": [1, 3]},
        "space": {"x": [-1, 1]},
        "unknowns": ["u"],
        "inputs": {
            "u0": {
                "of": ["x"],
                "law": "fourier_series",
                "terms": 3,
                "amplitude": [0.5, 1],
                "wavenumber": [1, 3],
            },
        },
        "equations": [f"dt(u) = {DECAY / math.pi**2}*dxx(u)"],
        "initial": {"u": "u0"},
        "boundary": {"x": "periodic"},
    }
    return Problem(**{**words, **changes})


def windowed(problem, **loss):
    """A model of a problem in windows, whose network gives zero."""
    axis = torch.linspace(-1, 1, 33, dtype=torch.float64)[None, :-1, None]
    functions = sample_inputs(problem, Draws(0, 1, torch.arange(4)))
    values = functions["u0"](axis)[:, None].expand(-1, WINDOWS, -1)
    own = dict.fromkeys(problem.initial, values)
    states = States(WINDOWS, "", State(4, 3), own, functions)
    config = TrainingConfig(
        BudgetConfig(steps=10),
        loss=LossConfig(**{"linear_part": "exact", "windows": WINDOWS, **loss}),
        machine=MachineConfig(precision="float64"),
        backbone_settings={"width": 8, "blocks": 1, "heads": 2},
    )
    statistics = window_statistics(problem, states)
    model = build_model(problem, statistics, config)
    for parameter in model.operator.backbone.parameters():
        torch.nn.init.zeros_(parameter)
    return SimpleNamespace(problem=problem, config=config, statistics=statistics, model=model)


@pytest.fixture(scope="module")
def small():
    return windowed(heat())


def drawn(problem, count=3):
    draws = Draws(5, 0, torch.arange(count))
    functions = sample_inputs(problem, draws)
    return functions, observe(functions, problem, draws), draws


def solution(functions, queries):
    """The three waves of u0, each with its decay, from its values at even points."""
    x = torch.linspace(-1, 1, 33, dtype=torch.float64)[:-1]
    modes = torch.fft.rfft(functions["u0"](x[None, :, None]), norm="forward")
    time, place = queries[..., 0] - 1, queries[..., 1] + 1
    found = torch.zeros(len(modes), queries.shape[1], dtype=torch.float64)
    for k in range(1, 4):
        wave = modes[:, k, None] * torch.exp(1j * math.pi * k * place)
        found = found + 2 * wave.real * torch.exp(-DECAY * k**2 * time)
    return found


def test_every_time_has_a_window_and_a_place_in_the_first_one():
    windows = TimeWindows(Coordinate("t", heat().time.symbol, 1.0, 3.0), 4)
    times = torch.tensor([1.0, 1.2, 1.5, 1.51, 2.0, 2.6, 3.0])
    assert windows.number(times).tolist() == [0, 0, 0, 1, 1, 3, 3]
    queries = torch.tensor([[2.6, 0.3], [3.0, 0.4]], dtype=torch.float64)
    moved = windows.shifted(queries, 3)
    torch.testing.assert_close(moved, torch.tensor([[1.1, 0.3], [1.5, 0.4]], dtype=torch.float64))
    assert queries[0, 0] == 2.6


def test_windows_come_into_use_in_the_first_part_of_training():
    windows = TimeWindows(Coordinate("t", heat().time.symbol, 1.0, 3.0), 4)
    assert [windows.reach(f) for f in (0, 0.06, 0.11, 0.16, 0.2, 0.99)] == [1, 2, 3, 4, 4, 4]


def test_the_solution_is_composed_of_windows(small):
    functions, observed, draws = drawn(small.problem)
    queries = collocation(small.problem, draws, 50)
    model = small.model

    def evaluate(functions, observed, at):
        seen = evaluate_on_grids(model.grids, functions, observed)
        return model.operator(seen, at, model.known(functions, at))

    with torch.no_grad():
        found = model.rollout.compose(functions, observed, queries, evaluate)[..., 0]
        shared = model.rollout.compose(functions, observed, queries[:1], evaluate)[..., 0]
    torch.testing.assert_close(found, solution(functions, queries), rtol=0, atol=1e-9)
    torch.testing.assert_close(shared, solution(functions, queries[:1]), rtol=0, atol=1e-9)


def test_states_keep_no_shorter_waves_than_they_say(small):
    rollout, x = small.model.rollout, rollout_axis(small.model)
    values = (torch.cos(4 * math.pi * x) + torch.cos(5 * math.pi * x))[None, :, None]
    functions, observed = rollout.inputs({}, {}, values)
    at = torch.linspace(-1, 1, 7, dtype=torch.float64)[None, :, None]
    expected = torch.cos(4 * math.pi * (at[..., 0]))
    torch.testing.assert_close(functions["u at the start"](at), expected)
    torch.testing.assert_close(observed["u at the start"].values, values)


def rollout_axis(model):
    (axis,) = model.grids["u at the start"]
    return axis


class Functions:
    """A source of the functions of a problem that notes which ones were asked for."""

    def __init__(self, problem):
        self.problem, self.asked = problem, []

    def __call__(self, draws, dtype, fraction):
        self.asked.append((draws.step, draws.index.tolist()))
        functions = sample_inputs(self.problem, draws)
        return functions, observe(functions, self.problem, draws)


def followed(small, count=6, functions=None, processes=None):
    source = functions or Functions(small.problem)
    return RolloutFunctions(source, small.model.rollout, count, processes)


def steps_of(source, steps, count=6, fraction=0.99, first=0):
    """The states of some steps, at nine points of space."""
    x = torch.linspace(-1, 1, 9, dtype=torch.float64)[None, :, None]
    for step in range(first, first + steps):
        draws = Draws(5, step + 1, torch.arange(count))
        yield source(draws, torch.float64, fraction)[0]["u at the start"](x)


def exact_states(small, number):
    """States of a function at the starts of all windows, at nine points of space."""
    x = torch.linspace(-1, 1, 9, dtype=torch.float64)[None, :, None]
    one = sample_inputs(small.problem, Draws(5, 1, torch.tensor([number])))
    starts = [torch.full_like(x, 1 + 0.5 * w) for w in range(WINDOWS)]
    return torch.stack([solution(one, torch.cat((t, x), -1))[0] for t in starts])


def test_training_follows_functions_from_window_to_window(small):
    source, count = followed(small), 6
    ages = torch.zeros(count, dtype=torch.int64)
    seen = [0] * WINDOWS
    for step, states in enumerate(steps_of(source, 40)):
        number, left = source._current.number, source._current.remaining
        ages = torch.where(number >= step * count, 0, ages + 1)
        assert bool((number % count == torch.arange(count)).all())
        assert bool((left + ages < WINDOWS).all())
        for row in range(count):
            expected = exact_states(small, int(number[row]))[ages[row]]
            torch.testing.assert_close(states[row], expected, rtol=0, atol=1e-9)
            seen[int(ages[row])] += 1
    # a lifetime of 1 to 4 windows, each as likely: 4, 3, 2 and 1 of ten
    assert seen == sorted(seen, reverse=True)
    assert 5 <= seen[-1] <= 50  # 24 expected


def test_at_first_every_step_has_new_functions(small):
    functions = Functions(small.problem)
    source = followed(small, 2, functions)
    states = list(steps_of(source, 3, 2, fraction=0.0))
    assert functions.asked == [(1, [0, 1]), (1, [2, 3]), (1, [4, 5])]
    expected = torch.stack([exact_states(small, n)[0] for n in (4, 5)])
    torch.testing.assert_close(states[-1], expected)


def test_a_step_that_is_drawn_again_is_the_same(small):
    source = followed(small)
    list(steps_of(source, 5))
    (once,), (again,) = (list(steps_of(source, 1, first=5)) for _ in range(2))
    assert torch.equal(once, again)
    (after,) = steps_of(source, 1, first=6)
    straight = followed(small)
    assert torch.equal(after, list(steps_of(straight, 7))[-1])


def test_followed_functions_are_kept_for_a_resume(small):
    source, other = followed(small), followed(small)
    list(steps_of(source, 5))
    list(steps_of(other, 2, fraction=0.0))
    other.load_state_dict(source.state_dict())
    for first in (4, 5):  # a step that was drawn and never taken, and the next one
        (mine,), (found,) = (steps_of(s, 1, first=first) for s in (source, other))
        assert torch.equal(mine, found)
    larger = followed(small, 7)
    larger.load_state_dict(source.state_dict())
    assert larger.state_dict() == {"step": 0}


def test_processes_keep_their_functions_together(small):
    class Half(SingleProcess.__base__):
        count, lead, collect, agree = 2, None, None, None

        def __init__(self, rank):
            self.rank, self.sent = rank, []

        def add(self, tensors):
            self.sent += tensors
            return list(tensors)

    whole = followed(small, 5)
    list(steps_of(whole, 4, 5))
    halves = [followed(small, 5, processes=Half(rank)) for rank in range(2)]
    for source in halves:
        source.load_state_dict(whole.state_dict())
    assert [s._current.number.tolist() for s in halves] == [
        whole._current.number[:3].tolist(),
        whole._current.number[3:].tolist(),
    ]
    for source in halves:
        source.state_dict()
    sums = [a + b for a, b in zip(*(s.processes.sent for s in halves), strict=True)]
    kept = whole.state_dict()
    wanted = [v.double() for name in ("previous", "current") for v in kept[name].values()]
    assert len(sums) == len(wanted) == 6
    assert all(torch.equal(a, b) for a, b in zip(sums, wanted, strict=True))


def test_a_rollout_that_blows_up_gives_way_to_a_new_function(small, monkeypatch):
    rollout = small.model.rollout
    source = followed(small, 64)
    list(steps_of(source, 1, 64))
    going = (source._current.remaining > 0).nonzero()[:, 0].tolist()
    good = rollout.advance

    def bad(functions, observed):
        values = good(functions, observed)
        values[0], values[1] = math.nan, 1e9
        return values

    monkeypatch.setattr(rollout, "advance", bad)
    (states,) = steps_of(source, 1, 64, first=1)
    assert bool((states.abs() < 10).all())
    assert source._current.number[going[:3]].tolist() == [64 + going[0], 64 + going[1], going[2]]


def test_other_inputs_go_through_all_windows_with_their_function():
    problem = heat(
        inputs={
            "u0": {
                "of": ["x"],
                "law": "fourier_series",
                "terms": 1,
                "amplitude": [1, 1],
                "wavenumber": [1, 3],
            },
            "k": {"law": "uniform", "low": 1, "high": 2},
        },
        equations=["dt(u) = 0.01*dxx(u) - k*u**2"],
    )
    small = windowed(problem, linear_part="learned")
    source = followed(small, 16)
    for step in range(6):
        found, seen = source(Draws(5, step + 1, torch.arange(16)), torch.float64, 0.99)
    numbers = source._current.number
    assert len({number // 16 for number in numbers.tolist()}) > 1
    functions = sample_inputs(problem, Draws(5, 1, numbers))
    expected = observe(functions, problem, Draws(5, 1, numbers))["k"].values
    assert torch.equal(seen["k"].values, expected)
    at = torch.zeros(1, 1, 0, dtype=torch.float64)
    assert torch.equal(found["k"](at), functions["k"](at))


def test_batches_are_of_one_window(small):
    loss = build_objective(small.model, small.statistics, small.config)
    batch = build_source(small.model, loss, small.statistics, small.config, None)(3, 0.9)
    times = batch.equations.queries[..., 0]
    assert 1.4 < float(times.max()) <= 1.5
    assert set(batch.inputs) == {"u at the start"}
    with torch.no_grad():
        assert float(loss(batch)[0]["residual"]) < 1e-12


def test_fast_damping_is_solved_exactly_in_windows():
    def exact(equation):
        problem = heat(equations=[equation])
        small = windowed(problem, linear_part="auto")
        trained = trained_problem(problem, small.statistics)
        return solves_linear_part(trained, constraints_of(trained, small.config), small.config)

    # the shortest of 4 waves, k² = 16 π², over a window of 0.5
    assert exact(f"dt(u) = {21 / 8 / math.pi**2}*dxx(u) + 0.1*u - u**3") is True
    assert exact(f"dt(u) = {19 / 8 / math.pi**2}*dxx(u) - u**3") is False
    assert exact(f"dt(u) = {40 / 8 / math.pi**2}*dxx(u) + 0.3*u - u**3") is False  # grows by e^0.15

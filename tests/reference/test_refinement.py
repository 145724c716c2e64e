"""Adaptive refinement, with a method whose errors are known exactly."""

import math
import re
import time

import pytest
import torch

from piop.errors import SolverError
from piop.problem import Problem
from piop.reference import solve_reference
from piop.reference.levels import (
    GridLevel,
    GridResult,
    SolvedSamples,
    Stop,
    observed_order,
    reason_to_stop,
    relative_scale,
    richardson_error,
)
from piop.reference.refinement import LevelSolver
from piop.reference.solution import BatchProgress, Limits, Request


class Halving(LevelSolver[GridLevel, GridResult]):
    """The value on n cells is 1 + constant/n; ``broken`` samples are not finite on early levels."""

    coarsest = GridLevel(1, (4,))

    def __init__(self, constants, last=20, broken=None, joint=False, slow=()):
        self.constants, self.last, self.broken, self.joint = constants, last, broken or {}, joint
        self.slow, self.solved = slow, []
        self.axes, self.samples = (), range(len(constants))

    def solve(self, level, samples, earlier):
        self.solved.append((level.number, tuple(samples), tuple(len(e) for e in earlier)))
        (n,) = level.sizes
        values = [1 + self.constants[s] / n for s in samples]
        results = [
            GridResult(
                richardson_error(abs(value - float(own[0].values)), 1) if own else math.inf,
                level.halved() if level.number < self.last else None,
                level.sizes,
                f"{n} cells",
                torch.tensor(value, dtype=torch.float64),
                expected=1.0 if sample in self.slow else 0.0,
            )
            if level.number > self.broken.get(sample, 0)
            else None
            for sample, value, own in zip(samples, values, earlier, strict=True)
        ]
        until = [self.broken.get(s, math.inf) for s in samples]
        return SolvedSamples(
            results, lambda rows: ({"u": torch.tensor([[values[r]] for r in rows])}, {}), until
        )

    def after_failure(self, level):
        return level.halved() if level.number < self.last else None

    def unseen(self, sizes):
        return torch.zeros(len(self.constants))


def run(solver, tolerance=0.01, limits=None, span=0.0, progress=None):
    solver.request = Request(
        (), (1,), tolerance, torch.device("cpu"), limits or Limits(), progress or BatchProgress(1)
    )
    solver.span = span
    return solver.run()


def test_each_sample_ends_on_the_level_whose_estimate_meets_the_tolerance():
    solution = run(Halving([0.0, 1.0, 8.0]))
    assert solution.modes.flatten().tolist() == [8, 256, 2048]
    assert bool(solution.accepted.all())
    assert torch.allclose(solution.values["u"][:, 0], 1 + torch.tensor([0, 1 / 256, 8 / 2048]))
    errors = (solution.values["u"][:, 0] - 1).abs()
    assert bool((errors <= solution.error_estimate).all())


def test_finest_level_is_a_reason_to_stop():
    solution = run(Halving([1.0, 8.0], last=7))
    assert solution.accepted.tolist() == [True, False]
    (note,) = solution.notes
    assert note.startswith("sample 1: tolerance 1.0e-02 not met; refinement ended at 256 cells")
    assert Stop.FINEST.value in note


def test_number_of_levels_is_limited():
    solution = run(Halving([8.0]), limits=Limits(levels=3))
    assert solution.modes.tolist() == [[16]]
    assert Stop.LEVELS.value in solution.notes[0]


def test_a_long_solve_says_how_far_it_is(monkeypatch, caplog):
    monkeypatch.setattr("piop.reference.solution._EVERY", 0.0)
    progress = BatchProgress(2)
    with caplog.at_level("INFO", logger="piop"):
        run(Halving([0.0, 8.0], last=7), progress=progress)
    said = [record.getMessage() for record in caplog.records]
    assert said[0].startswith("reference: 0 of 2 samples solved, now at 4 cells")
    assert said[-1].startswith("reference: 1 of 2 samples solved, now at 128 cells")
    assert progress.finished == 2


@pytest.mark.parametrize("kind", ["fourier", "chebyshev", "finite_volume"])
def test_a_long_run_says_how_far_it_is(kind, monkeypatch, caplog):
    monkeypatch.setattr("piop.reference.solution._EVERY", 0.0)
    law = "dt(u) = -dx(u**2)" if kind == "finite_volume" else "dt(u) = dxx(u) - dx(u**2)"
    problem = Problem(
        name="case",
        time={"t": [0, 0.5]},
        space={"x": [0, 1]},
        unknowns=["u"],
        equations=[law],
        initial={"u": "sin(2*pi*x)"},
        boundary={"x": {"dirichlet": {"u": 0}} if kind == "chebyshev" else "periodic"},
        save={"t": 2, "x": 16},
    )
    with caplog.at_level("INFO", logger="piop"):
        solve_reference(problem, {}, tolerance=0.5)
    text = "\n".join(record.getMessage() for record in caplog.records)
    found = [float(t) for t in re.findall("0 of 1 samples solved, now at t = ([0-9.e-]+)", text)]
    assert len(found) > 1
    assert min(found) < 0.1 < 0.3 < max(found) <= 0.5


def test_slow_convergence_is_a_reason_to_stop():
    solution = run(Halving([8.0], slow=[0]))
    assert solution.modes.tolist() == [[8]]
    assert Stop.CONVERGENCE.value in solution.notes[0]


def test_first_level_is_no_reason_to_stop():
    value = torch.zeros(())
    result = GridResult(math.inf, GridLevel(2, (8,)), (4,), "4 cells", value, expected=1.0)
    assert reason_to_stop(result, 1, 16, 1e-3) is None


def test_joint_samples_end_on_one_level():
    solution = run(Halving([0.0, 8.0], joint=True))
    assert solution.modes.flatten().tolist() == [2048, 2048]


def test_a_failure_forgets_earlier_levels():
    solver = Halving([1.0], broken={0: 2})
    solution = run(solver)
    assert [earlier for _, _, (earlier,) in solver.solved[:4]] == [0, 0, 0, 1]
    assert bool(solution.accepted[0])


def test_a_level_after_a_failure_is_not_compared_with_those_before_it():
    solver = Halving([64.0])
    usual = solver.solve

    def fails_on_the_third(level, samples, earlier):
        found = usual(level, samples, earlier)
        return SolvedSamples([None], found.evaluate, [1.0]) if level.number == 3 else found

    solver.solve = fails_on_the_third
    run(solver)
    assert [earlier for _, _, (earlier,) in solver.solved[:5]] == [0, 1, 1, 0, 1]


def test_failures_at_the_same_time_end_refinement():
    solver = Halving([1.0], broken={0: 10})
    with pytest.raises(SolverError, match="sample 0: the solution is not finite"):
        run(solver, span=1.0)
    assert len(solver.solved) == 3


def test_failure_on_the_finest_level_is_an_error():
    with pytest.raises(SolverError, match="sample 1"):
        run(Halving([1.0, 1.0], last=4, broken={1: 9}))


def test_memory_bounds_samples_solved_together(monkeypatch):
    monkeypatch.setattr("piop.reference.refinement.MEMORY", 2)
    solver = Halving([1.0] * 5)
    run(solver)
    assert [samples for number, samples, _ in solver.solved if number == 1] == [
        (0, 1),
        (2, 3),
        (4,),
    ]


@pytest.fixture
def timed(monkeypatch):
    """A method that takes a second per cell, by a clock that stands still otherwise."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    class Timed(Halving):
        def solve(self, level, samples, earlier):
            now[0] += level.sizes[0] * len(samples)
            return super().solve(level, samples, earlier)

    return Timed, now


def test_a_level_that_would_take_too_long_is_not_begun(timed):
    method, now = timed
    solution = run(method([8.0, 8.0]), limits=Limits(seconds=60.0))
    assert now == [2 * (4 + 8) + 16 * 2]  # a level of 32 cells would end after 120 s
    assert solution.modes.flatten().tolist() == [16, 16]
    assert torch.allclose(solution.values["u"][:, 0], torch.tensor(1.5))
    assert solution.error_estimate.tolist() == [1.0, 1.0]  # 2 |8/16 − 8/8|
    assert all(Stop.TIME.value in note for note in solution.notes)


def test_as_many_samples_go_on_as_time_is_left_for(timed):
    method, now = timed
    solution = run(method([8.0] * 3), limits=Limits(seconds=72.0))
    assert solution.modes.flatten().tolist() == [16, 16, 8]
    assert torch.allclose(solution.values["u"][:, 0], torch.tensor([1.5, 1.5, 2.0]))
    assert solution.error_estimate.tolist() == [1.0, 1.0, 2.0]
    assert now == [68.0]


def test_one_sample_is_refined_until_its_error_is_known(timed):
    method, now = timed
    solution = run(method([8.0, 8.0]), limits=Limits(seconds=1.0))
    assert now == [8.0 + 8.0]
    assert solution.error_estimate.tolist() == [2.0, math.inf]
    assert solution.values["u"][0].tolist() == [2.0]
    assert bool(solution.values["u"][1].isnan())
    assert solution.notes[0] == "sample 1: not solved, because no time is left"


def test_what_a_level_misses_counts_where_time_ends_the_refinement(timed):
    method, _ = timed
    solver = method([8.0])
    solver.unseen = lambda sizes: torch.tensor([1e-6])
    solver.effects = lambda level, indices, results: [0.25] * len(indices)
    solution = run(solver, limits=Limits(seconds=20.0))
    assert solution.modes.tolist() == [[8]]
    assert solution.error_estimate.tolist() == pytest.approx([2.25], abs=1e-5)


def test_observed_order_is_that_of_the_differences():
    assert observed_order([1 / 4, 1.0]) == 2.0
    assert observed_order([1.0]) == 1.0
    assert observed_order([0.0, 1.0]) == 1.0
    assert richardson_error(3.0, 2) == 2.0


def test_small_unknowns_are_measured_against_the_largest():
    scale = relative_scale(torch.tensor([[2.0, 1e-20], [0.0, 0.0]], dtype=torch.float64))
    assert scale.tolist() == [[2.0, 2e-9], [1e-300, 1e-300]]

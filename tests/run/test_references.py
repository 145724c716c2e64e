"""References of an evaluation: as exact as needed, within their time, and solved once."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from piop import user_cache
from piop.errors import SolverError
from piop.problem import Problem
from piop.report import draw_run
from piop.run import Run, drawn_inputs, evaluation
from piop.run import references as module
from piop.run.drawn_inputs import Batches, DrawnInputs
from piop.run.held_out import Judge
from piop.training.coarse_references import solve_coarsely


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(user_cache, "_warned", set())
    return tmp_path / "cache" / "piop" / "references"


@pytest.fixture
def solved(monkeypatch):
    """Tolerance and number of samples of every solve."""
    found, solve = [], module.solve_reference

    def counting(problem, functions, **given):
        solution = solve(problem, functions, **given)
        found.append((given["tolerance"], len(solution.error_estimate)))
        return solution

    monkeypatch.setattr(module, "solve_reference", counting)
    return found


@pytest.fixture
def run(trained, tmp_path):
    return Run.load(shutil.copytree(trained.path, tmp_path / "run"))


class Errors(Judge):
    """Predicts zero, and has errors that do not depend on it."""

    def __init__(self, of):
        self.of, self.predicted = of, []

    def predict(self, held_out):
        self.predicted.append(len(held_out.accepted))
        return {name: torch.zeros_like(value) for name, value in held_out.truth.items()}

    def errors(self, held_out, prediction):
        assert len(next(iter(prediction.values()))) == len(held_out.accepted)
        return self.of(held_out)


def errors(*values):
    return Errors(lambda held: torch.tensor(values, dtype=torch.float64)[: len(held.accepted)])


def test_references_are_solved_once_for_errors_and_figures(run, solved):
    run.evaluate(4)
    assert solved[0] == (1e-2, 4)
    before = len(solved)
    assert draw_run(run)
    assert len(solved) == before
    again = Run.load(run.path)
    assert draw_run(again)
    again.evaluate(4)
    assert len(solved) == before


def test_predictions_are_made_once_for_errors_and_figures(run, monkeypatch):
    sizes, predict = [], evaluation.predict_held_out

    def counting(problem, model, held_out):
        sizes.append(len(held_out.accepted))
        return predict(problem, model, held_out)

    monkeypatch.setattr(evaluation, "predict_held_out", counting)
    run.evaluate(4)
    assert draw_run(run)
    assert sizes == [4]


def test_a_reference_that_fails_on_finer_grids_keeps_its_solution(heat, monkeypatch):
    solve, hard = module.solve_reference, []

    def failing(problem, functions, **given):
        solution = solve(problem, functions, **given)
        if given["tolerance"] >= 1e-2:
            hard.append(solution.values["u"][1])
            return replace(solution, error_estimate=torch.full((3,), 5e-3, dtype=torch.float64))
        if any(torch.equal(value, hard[0]) for value in solution.values["u"]):
            raise SolverError("sample 1: Newton's iteration found no solution on any mesh")
        return solution

    monkeypatch.setattr(module, "solve_reference", failing)
    found = DrawnInputs(heat, 3, 0).judging(errors(1e-3, 1e-3, 1e-3)).held_out
    assert found.accepted.tolist() == [True, False, True]
    assert found.error_estimate[1] == 5e-3
    assert max(found.error_estimate[[0, 2]]) < 1e-4


def test_references_that_time_ended_are_kept_until_it_is_no_limit(heat, monkeypatch):
    limits, solve = [], module.solve_reference

    def short(problem, functions, **given):
        """The second sample keeps a coarser solution, and no error is known of the third."""
        solution = solve(problem, functions, **given)
        limits.append(given["limits"].seconds)
        if limits[-1] == float("inf") or len(solution.error_estimate) == 1:
            return solution
        error = solution.error_estimate.clone()
        error[-2:] = torch.tensor([0.5, float("inf")], dtype=torch.float64)
        return replace(solution, error_estimate=error, ended_by_time=error > 0.1)

    monkeypatch.setattr(module, "solve_reference", short)
    source, large = DrawnInputs(heat, 3, 0), errors(1.0, 1.0, 1.0)
    found = source.judging(large, 60.0).held_out
    assert found.error_estimate[1] == 0.5
    assert found.accepted.tolist() == [True, False]
    assert source._references.kept(range(3)).keys() == {0, 1}
    again = source.judging(large, 60.0).held_out  # the third alone is tried again
    assert len(limits) == 3
    assert again.error_estimate[1] == 0.5
    assert again.accepted.tolist() == [True, False, True]
    whole = source.judging(large).held_out
    assert limits[3:] == [float("inf")]
    assert whole.accepted.tolist() == [True, True, True]


def test_a_reference_that_time_allows_none_better_than_stays(heat, monkeypatch):
    source = DrawnInputs(heat, 1, 0)
    before = source._references.solve(range(1), 1e-2, None)
    solve = module.solve_reference

    def short(problem, functions, **given):
        solution = solve(problem, functions, **given)
        worse = torch.full_like(solution.error_estimate, 0.3)
        return replace(solution, error_estimate=worse, ended_by_time=torch.tensor([True]))

    monkeypatch.setattr(module, "solve_reference", short)
    found = source._references.solve(range(1), 1e-4, None, 1.0, before)[0]
    assert found.error == before[0].error
    assert torch.equal(found.values["u"], before[0].values["u"])
    assert found.ended_by_time
    assert source._references.kept(range(1))[0].error == before[0].error


def test_references_leave_time_for_predictions(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(drawn_inputs.clock, "monotonic", lambda: now[0])
    batches, judge = Batches(20.0), errors()
    monkeypatch.setattr(judge, "predict", lambda held_out: now.__setitem__(0, now[0] + 2.0))
    assert batches.left(predictions=4) == 20.0
    batches.predict(judge, SimpleNamespace(accepted=torch.ones(4)))
    assert batches.left() == 18.0
    assert batches.left(predictions=4) == 16.0


def test_figures_after_an_evaluation_without_a_cache_solve_nothing(run, solved, tmp_path):
    (tmp_path / "cache").write_bytes(b"")
    run.evaluate(4)
    before = len(solved)
    run.plot("fields")
    assert len(solved) == before


def test_more_samples_solve_only_the_rest(heat, solved):
    few = DrawnInputs(heat, 3, 0).held_out()
    more = DrawnInputs(heat, 5, 0).held_out()
    assert [count for _, count in solved] == [3, 2]
    assert torch.equal(more.truth["u"][:3], few.truth["u"])
    alone = DrawnInputs(heat, 5, 1).held_out()
    assert not torch.isclose(alone.truth["u"], more.truth["u"]).all((1, 2)).any()


def test_kept_references_are_the_same_numbers(heat, solved):
    one, two = DrawnInputs(heat, 2, 0).held_out(), DrawnInputs(heat, 2, 0).held_out()
    assert len(solved) == 1
    assert torch.equal(one.truth["u"], two.truth["u"])
    assert torch.equal(one.error_estimate, two.error_estimate)


STORED = """
piop: 1
name: stored
time: {t: [0, 1]}
space: {x: [0, 1]}
unknowns: [u]
inputs: {u0: {of: [x], law: from_file, path: u0.npz}}
equations: [dt(u) = 0.01*dxx(u)]
initial: {u: u0}
boundary: {x: periodic}
sensors: {u0: {count: 8, place: grid}}
save: {t: 3, x: 16}
"""


def test_inputs_of_another_file_are_solved_anew(tmp_path):
    """A spec names a file by its path, whatever it holds."""
    (tmp_path / "stored.yaml").write_text(STORED)
    x = np.arange(16) / 16
    found = []
    for size in (1.0, 5.0):
        np.savez(tmp_path / "u0.npz", x=x, u0=size * np.sin(2 * np.pi * x)[None])
        problem = Problem.from_file(tmp_path / "stored.yaml")
        coarse = solve_coarsely(problem, [0.0, 1.0])
        found.append((DrawnInputs(problem, 1, 0).held_out().truth["u"], coarse["u"]))
    for before, after in zip(*found, strict=True):
        torch.testing.assert_close(after, 5 * before, rtol=0.01, atol=0.01)


def test_a_damaged_reference_is_solved_again(heat, solved, empty_cache):
    before = DrawnInputs(heat, 2, 0).held_out()
    for file in empty_cache.iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    assert torch.equal(DrawnInputs(heat, 2, 0).held_out().truth["u"], before.truth["u"])
    assert [count for _, count in solved] == [2, 2]


def test_another_code_or_equation_does_not_use_them(heat, solved, monkeypatch):
    DrawnInputs(heat, 2, 0).held_out()
    monkeypatch.setattr(user_cache, "_own_code", lambda: "edited")
    DrawnInputs(heat, 2, 0).held_out()
    other = type(heat).from_yaml(heat.to_yaml().replace("0.05", "0.06"))
    DrawnInputs(other, 2, 0).held_out()
    assert len(solved) == 3


@pytest.mark.parametrize("name", ["poisson_lshape", "electrostatics"])
def test_references_are_kept_whole_on_shapes_too(solved, name):
    from piop.problem import Problem

    source = DrawnInputs(Problem.from_file(name), 2, 0)
    one, two = source.held_out(), source.held_out()
    assert len(solved) == 1
    assert torch.equal(one.queries.points, two.queries.points)
    assert all(torch.equal(one.truth[name], two.truth[name]) for name in source.problem.channels)


@pytest.fixture
def failing(monkeypatch):
    """Numbers of the inputs whose references fail."""
    solve, numbers = module.References.solve, set()

    def solve_or_fail(self, samples, *given):
        for row, sample in enumerate(samples):
            if sample in numbers:
                raise SolverError(f"sample {row}: no solution on any mesh")
        return solve(self, samples, *given)

    monkeypatch.setattr(module.References, "solve", solve_or_fail)
    return numbers


def test_a_reference_that_fails_leaves_the_others(run, failing):
    failing.add(2)
    found = run.evaluate(5)
    warning = (
        "the references of 1 of 5 inputs failed; they are left out "
        "(input 2: no solution on any mesh)"
    )
    assert found["warnings"] == [warning]
    assert found["samples"] == 4
    assert draw_run(run)
    ones = errors(*[1.0] * 5)
    left = DrawnInputs(run.problem, 5, 1).judging(ones).held_out
    failing.clear()
    whole = DrawnInputs(run.problem, 5, 1).judging(ones).held_out
    assert torch.equal(left.truth["u"], whole.truth["u"][[0, 1, 3, 4]])
    assert torch.equal(left.inputs["u0"].values, whole.inputs["u0"].values[[0, 1, 3, 4]])


@pytest.mark.parametrize("seconds", [None, 60.0])
def test_references_of_which_most_fail_end_an_evaluation(heat, failing, seconds, monkeypatch):
    failing |= {*range(64)} - {1}
    tried, solve = [], DrawnInputs._solve
    monkeypatch.setattr(DrawnInputs, "_solve", lambda *a: (tried.append(a[2]), solve(*a))[1])
    with pytest.raises(SolverError, match="sample 0: no solution"):
        DrawnInputs(heat, 64, 0).judging(errors(*[1.0] * 64), seconds)
    assert len(tried) < 16
    failing.add(1)
    with pytest.raises(SolverError, match="input 0: no solution"):
        DrawnInputs(heat, 2, 1).judging(errors(1.0, 1.0), seconds)  # none is kept


def test_only_references_too_coarse_for_their_error_are_refined(heat, solved, monkeypatch):
    coarse = DrawnInputs(heat, 3, 0)
    coarse.judging(errors(1.0, 1.0, 1.0))
    assert solved == [(1e-2, 3)]
    found = coarse._references.kept(range(3))
    doubtful = {i: replace(found[i], error=e) for i, e in enumerate([5e-3, 5e-3, 5e-3])}
    monkeypatch.setattr(module.References, "kept", lambda *_: dict(doubtful))

    def judge(held):
        return torch.tensor([1.0, 2e-2, 0.06], dtype=torch.float64)[: len(held.accepted)]

    small = iter([judge, lambda held: torch.tensor([2e-2], dtype=torch.float64)])
    judge = Errors(lambda held: next(small)(held))
    held = coarse.judging(judge).held_out
    assert judge.predicted == [3]  # once
    assert solved[1:] == [(pytest.approx(2e-3), 1)]  # the second alone, to a tenth of its error
    assert held.accepted.all()
    assert held.error_estimate[0] == held.error_estimate[2] == 5e-3
    assert held.error_estimate[1] <= 2e-3


def test_a_reference_short_of_a_tenth_of_the_error_is_not_accepted(heat, monkeypatch):
    source = DrawnInputs(heat, 2, 0)
    source.judging(errors(1.0, 1.0))
    found = source._references.kept(range(2))
    missed = {i: replace(found[i], error=0.04) for i in found}  # above its own tolerance
    monkeypatch.setattr(module.References, "kept", lambda *_: dict(missed))
    assert source.judging(errors(1.0, 0.1)).held_out.accepted.tolist() == [True, False]


def test_references_stop_when_the_next_batch_does_not_fit(heat, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(drawn_inputs.clock, "monotonic", lambda: now[0])
    solve, batches, shown = module.References.solve, [], []

    def slow(self, samples, *given):
        batches.append(len(samples))
        now[0] += len(samples)  # a second for each
        return solve(self, samples, *given)

    monkeypatch.setattr(module.References, "solve", slow)
    large = errors(*[1.0] * 64)
    found = DrawnInputs(heat, 64, 0).judging(large, 13.5, lambda *n: shown.append(n))
    assert batches == [1, 3, 8, 1]
    assert len(found.held_out.accepted) == len(found.prediction["u"]) == 13
    assert shown[-1] == (13, 64)
    assert [done for done, _ in shown] == sorted(done for done, _ in shown)
    assert len(DrawnInputs(heat, 64, 1).judging(large, 0.0).held_out.accepted) == 1
    batches.clear()
    assert len(DrawnInputs(heat, 64, 0).judging(large).held_out.accepted) == 64
    assert batches == [51]  # the rest


@pytest.mark.parametrize(
    ("seconds", "size"),
    [(244.0, 60), (240.0, 59), (20.0, 8), (6.0, 2), (5.0, 1), (4.5, 0), (4.0, 0), (3.0, 0)],
)
def test_a_batch_is_as_large_as_surely_fits_else_twice_what_was_solved(monkeypatch, seconds, size):
    now = [0.0]
    monkeypatch.setattr(drawn_inputs.clock, "monotonic", lambda: now[0])
    batches = Batches(seconds)
    assert batches.size(0, known=False) == 1
    with batches.timing(known=False, samples=4):
        now[0] = 4.0  # a second for each
    assert batches.size(4, known=False) == size


def test_cheap_references_take_two_batches(heat, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(drawn_inputs.clock, "monotonic", lambda: now[0])
    solve, batches = module.References.solve, []

    def cheap(self, samples, *given):
        batches.append(len(samples))
        now[0] += 0.01 * len(samples)
        return solve(self, samples, *given)

    monkeypatch.setattr(module.References, "solve", cheap)
    assert len(DrawnInputs(heat, 64, 0).judging(errors(*[1.0] * 64), 5.0).held_out.accepted) == 64
    assert batches == [1, 63]


def test_kept_references_do_not_pretend_that_others_are_fast(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(drawn_inputs.clock, "monotonic", lambda: now[0])
    batches = Batches(10.0)
    with batches.timing(known=True, samples=32):
        pass
    assert batches.size(32, known=True) > 1000  # they take no time
    assert batches.size(32, known=False) == 1
    now[0] = 11.0
    assert batches.size(32, known=False) == 0


def test_an_evaluation_says_how_many_were_left_out(run, monkeypatch):
    monkeypatch.setattr("piop.run.run.LEAST_SECONDS", 0.0)
    monkeypatch.setattr("piop.run.run.PART_OF_TRAINING", 0.0)
    found = run.evaluate()
    assert found["samples"] == found["reference"]["solved"] == 1
    (text,) = [w for w in found["warnings"] if "references were solved" in w]
    assert "1 of 64" in text
    assert f"piop evaluate {run.path} --samples 64" in text
    assert json.loads((run.path / "evaluation.json").read_text())["reference"]["solved"] == 1
    again = Run.load(run.path).shown(8)
    assert len(run.shown(8).held_out.accepted) == len(again.held_out.accepted) == 1
    whole = run.evaluate(9)
    assert whole["samples"] == 9
    assert not any("references were solved" in w for w in whole["warnings"])
    first = pytest.approx(found["relative_l2"]["per_sample"])
    assert whole["relative_l2"]["per_sample"][:1] == first


def test_the_time_of_references_is_a_quarter_of_training(run, monkeypatch):
    monkeypatch.setattr(Run, "metrics", [{"step": 1, "seconds": 19.0}])
    assert run._seconds_of_evaluation == 5.0
    monkeypatch.setattr(Run, "metrics", [{"step": 1, "seconds": 100.0}])
    assert run._seconds_of_evaluation == 25.0


def test_a_tenth_of_that_time_is_left_to_compare_with_the_solver(run, monkeypatch):
    given, judging = [], DrawnInputs.judging

    def recorded(self, judge, seconds=None, progress=None):
        given.append(seconds)
        return judging(self, judge, seconds, progress)

    monkeypatch.setattr(DrawnInputs, "judging", recorded)
    monkeypatch.setattr("piop.run.run.LEAST_SECONDS", 1000.0)
    run.evaluate(write=False)
    assert given == [pytest.approx(900, rel=0.05)]


def test_evaluation_and_figures_keep_to_the_threads_of_the_run(run, monkeypatch):
    before, seen = torch.get_num_threads(), []
    machine = replace(run.config.machine, threads=before + 1)
    run = replace(run, config=replace(run.config, machine=machine))
    solve = module.solve_reference

    def watching(*given, **more):
        seen.append(torch.get_num_threads())
        return solve(*given, **more)

    monkeypatch.setattr(module, "solve_reference", watching)
    run.evaluate(1, write=False)
    run.plot("fields", seed=7)
    assert len(seen) >= 2
    assert set(seen) == {before + 1}
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(("save", "count"), [((5, 16), (5, 16)), ((51, 100), (41, 100))])
@pytest.mark.parametrize("end", [False, True])
def test_grids_of_figures_are_around_those_of_errors(heat, save, count, end):
    problem = type(heat).from_yaml(
        heat.to_yaml().replace("t: 5", f"t: {save[0]}").replace("x: 16", f"x: {save[1]}")
    )
    assert problem.save == save
    source = DrawnInputs(problem, 1, 0, end=end)
    fine, usual = source._references.queries.axes, source.held_out().queries.axes
    assert (len(fine["t"]), len(fine["x"])) == ((1 if end else count[0]), count[1])
    expected = source._usual().axes
    for name, axis in usual.items():
        torch.testing.assert_close(axis, expected[name], rtol=0, atol=1e-12)

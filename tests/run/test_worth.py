"""Whether an operator is worth its training."""

import math
import time
from types import SimpleNamespace

import pytest
import torch

from piop.cli.error_tables import error_table
from piop.errors import SolverError
from piop.reference import solve_reference
from piop.run import worth
from piop.run.worth import measure_worth


@pytest.fixture(scope="module")
def held_out(trained):
    return trained.held_out(12, seed=5)


def measured(trained, held_out, error=0.01, seconds=60.0):
    return measure_worth(trained.problem, trained.model, held_out, error, seconds)


def slow(asked, pause, accepted=True):
    def solve(problem, functions, **settings):
        asked.append(settings)
        time.sleep(pause)
        return SimpleNamespace(accepted=torch.tensor([accepted] * 8))

    return solve


def test_training_pays_where_the_solver_is_slow(trained, held_out, monkeypatch):
    asked = []
    monkeypatch.setattr(worth, "solve_reference", slow(asked, 2.0))
    found = measured(trained, held_out)
    assert found["samples"] == 8
    assert found["solver_seconds"] == pytest.approx(0.25, rel=0.2)
    gain = found["solver_seconds"] - found["operator_seconds"]
    assert found["answers"] == math.ceil(60 / gain)
    assert asked[0]["tolerance"] == found["tolerance"] == 0.01  # the operator's, no more
    assert asked[0]["shape"] == (16,)


def test_training_never_pays_where_the_solver_is_fast(trained, held_out, monkeypatch):
    monkeypatch.setattr(worth, "solve_reference", slow([], 0.0))
    monkeypatch.setattr(worth, "predict_held_out", lambda *_: time.sleep(0.05))
    assert measured(trained, held_out)["answers"] is None


def test_fewer_inputs_are_answered_where_the_operator_is_slow(trained, held_out, monkeypatch):
    now = [0.0]

    def predict(problem, model, few):
        now[0] += 0.1 * len(few.accepted)

    monkeypatch.setattr(worth, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(worth, "predict_held_out", predict)
    found = measure_worth(trained.problem, trained.model, held_out, 0.01, 60.0, seconds=0.7)
    assert found["samples"] == 3
    assert found["operator_seconds"] == pytest.approx(0.1)


@pytest.mark.parametrize(("error", "asked"), [(1e-9, 1e-6), (3.0, 0.5)])
def test_the_solver_is_asked_for_what_it_can_do(trained, held_out, error, asked):
    found = measured(trained, held_out, error)
    assert found["tolerance"] == asked
    assert found["solver_seconds"] > 0


def test_nothing_is_said_without_an_answer_of_the_solver(trained, held_out, monkeypatch):
    monkeypatch.setattr(worth, "solve_reference", slow([], 0.0, accepted=False))
    assert measured(trained, held_out) is None

    def fail(*_, **__):
        raise SolverError("no solution")

    monkeypatch.setattr(worth, "solve_reference", fail)
    assert measured(trained, held_out) is None
    assert measured(trained, held_out, error=math.nan) is None


def test_an_evaluation_says_it(trained):
    found = trained.evaluate(samples=4, write=False)
    assert found["worth"]["samples"] == 4
    assert solve_reference is worth.solve_reference
    assert "Training " in error_table(found)


COST = {"operator_seconds": 0.001, "solver_seconds": 0.05, "tolerance": 0.0123, "samples": 8}


@pytest.mark.parametrize(
    ("answers", "changed", "expected"),
    [
        (1200, {}, "has paid after 1200 answers: an answer is 50 times as fast as the solver"),
        (None, {"solver_seconds": 0.0005}, "never pays: the solver is 2 times as fast"),
    ],
)
def test_the_number_of_answers_is_told(answers, changed, expected):
    text = error_table({"worth": {**COST, **changed, "answers": answers}})
    assert f"Training {expected} at this accuracy (8 together, error 0.012)" in text

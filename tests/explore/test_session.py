"""One page's requests: the newest counts, stages come in order, failures are told."""

from __future__ import annotations

import asyncio
import json

import pytest
import torch

from piop.errors import SolverError
from piop.explore.messages import read_frame
from piop.explore.session import Session
from piop.run.references import Reference

REFERENCE = Reference({"u": torch.ones(5, 16).double()}, None, 1e-7, 1e-6)


class Inline:
    """Computes at once, and gives others their turn."""

    async def quickly(self, function, *arguments):
        await asyncio.sleep(0)
        return function(*arguments)

    thoroughly = quickly


class Solver:
    """A solver whose answers are prepared."""

    def __init__(self, *answers):
        self.answers, self.calls, self.cancelled = list(answers), 0, 0

    async def solve(self, inputs, sensors):
        self.calls += 1
        answer = self.answers.pop(0) if self.answers else REFERENCE
        try:
            if answer == "never":
                await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if isinstance(answer, Exception):
            raise answer
        return answer, 0.5


def show(number, seed=0, **more):
    inputs = {"u0": {"kind": "draw", "seed": seed}}
    return json.dumps({"type": "show", "id": number, "inputs": inputs, **more})


def messages_of(explored, solver, script, idle=0.0):
    """Run a session with a script, and give its messages: text as dicts, frames as headers."""

    async def run():
        found = []

        async def send(message):
            plain = json.loads(message) if isinstance(message, str) else read_frame(message)[0]
            found.append(plain)

        session = Session(explored, Inline(), solver, send, idle)
        task = asyncio.create_task(session.run())
        await script(session, found)
        task.cancel()
        return found

    return asyncio.run(run())


async def until(found, kind, number):
    async with asyncio.timeout(20):
        while not any(m["type"] == kind and m.get("id") == number for m in found):
            await asyncio.sleep(0.001)


def test_the_answer_for_the_time_shown_comes_first(explored):
    async def script(session, found):
        session.take(show(1))
        await until(found, "reference", 1)

    kinds = [m["type"] for m in messages_of(explored, Solver(), script)]
    assert kinds[0] == "answer"
    assert kinds[-1] == "reference"
    assert sorted(kinds) == ["answer", "reference", "solving", "trust", "whole"]


def test_only_the_newest_of_waiting_requests_is_answered(explored):
    async def script(session, found):
        for number in range(1, 6):
            session.take(show(number, number))
        await until(found, "reference", 5)

    found = messages_of(explored, Solver(), script)
    assert {m["id"] for m in found} == {5}


def test_a_newer_request_ends_the_stages_and_the_solver(explored):
    solver = Solver("never")

    async def script(session, found):
        session.take(show(1))
        await until(found, "whole", 1)
        session.take(show(2, 1))
        await until(found, "reference", 2)

    found = messages_of(explored, solver, script)
    assert solver.cancelled == 1
    assert [m["id"] for m in found if m["type"] == "reference"] == [2]


def test_while_requests_keep_coming_only_answers_are_computed(explored):
    async def script(session, found):
        for number in range(1, 4):
            session.take(show(number, number))
            await until(found, "answer", number)
        await until(found, "trust", 3)

    found = messages_of(explored, Solver(), script, idle=0.2)
    assert [m["id"] for m in found if m["type"] == "answer"] == [1, 2, 3]
    assert [m["id"] for m in found if m["type"] == "trust"] == [3]


def test_moved_sensors_keep_the_reference(explored):
    solver = Solver()

    async def script(session, found):
        session.take(show(1))
        await until(found, "reference", 1)
        session.take(show(2, sensors={"u0": {"points": [[0.5], [1.0]]}}))
        await until(found, "reference", 2)
        session.take(show(3, 1))
        await until(found, "reference", 3)

    messages_of(explored, solver, script)
    assert solver.calls == 2


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (SolverError("met NaN"), "met NaN"),
        (RuntimeError("oops"), "unexpected RuntimeError: oops. This is a bug in piop"),
        (Reference({"u": torch.full((5, 16), torch.nan)}, None, 1.0, 1e-6), "is not finite"),
    ],
)
def test_a_failing_solver_is_told_and_the_next_request_answered(explored, failure, message):
    async def script(session, found):
        session.take(show(1))
        await until(found, "error", 1)
        session.take(show(2, 1))
        await until(found, "reference", 2)

    found = messages_of(explored, Solver(failure), script)
    (error,) = [m for m in found if m["type"] == "error"]
    assert error["stage"] == "reference"
    assert message in error["message"]


def test_inputs_that_do_not_fit_are_told_and_the_next_request_answered(explored):
    async def script(session, found):
        session.take(json.dumps({"type": "show", "id": 1, "inputs": {}}))
        await until(found, "error", 1)
        session.take(show(2))
        await until(found, "reference", 2)

    found = messages_of(explored, Solver(), script)
    (error,) = [m for m in found if m["type"] == "error"]
    assert error["stage"] == "answer"
    assert "'u0' is missing" in error["message"]


def test_without_a_solver_there_is_no_reference(explored):
    async def script(session, found):
        session.take(show(1))
        await until(found, "whole", 1)
        await asyncio.sleep(0.05)

    kinds = [m["type"] for m in messages_of(explored, None, script)]
    assert kinds == ["answer", "trust", "whole"]

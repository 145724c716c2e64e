"""The process that solves references: right answers, and it can be left, fail, and be killed."""

from __future__ import annotations

import asyncio
import io

import numpy as np
import pytest

from piop.errors import SolverError
from piop.explore.explored import Explored
from piop.explore.reference_process import Stopped, Stops, read_message, write_message
from piop.explore.reference_solver import ReferenceSolver
from piop.reference import solve_reference

DRAWN = {"u0": {"kind": "draw", "seed": 2}}
SLOW = """
piop: 1
name: slow
time: {t: [0, 20]}
space: {x: [0, 1]}
unknowns: [u]
inputs: {u0: {of: [x], law: fourier_series, terms: 4, amplitude: [-1, 1], wavenumber: [1, 9]}}
equations: [dt(u) + u*dx(u) = 2e-4*dxx(u)]
initial: {u: u0}
boundary: {x: periodic}
"""


def with_solver(explored, use, **settings):
    """Use a solver, which is closed afterwards."""

    async def run():
        solver = ReferenceSolver(explored.source, explored.display, {}, **settings)
        try:
            return await use(solver)
        finally:
            await solver.close()

    return asyncio.run(run())


def test_it_solves_fails_stops_and_starts_again(explored):
    """One process, since its start takes seconds."""
    points = [[0.1 * i] for i in range(9)]  # more values than the distribution has waves
    bad = {"u0": {"kind": "sensors", "points": points, "values": [9, -9, 0] * 3}}

    async def use(solver):
        first, seconds = await solver.solve(DRAWN, None)
        with pytest.raises(SolverError, match="do not follow its distribution"):
            await solver.solve(bad, None)
        process = solver._process
        process.kill()
        await process.wait()
        again, _ = await solver.solve(DRAWN, None)
        return first, seconds, again

    first, seconds, again = with_solver(explored, use)
    inputs = explored.read(DRAWN, None)
    exact = solve_reference(
        explored.problem,
        inputs.exact(),
        times=explored.display.times,
        shape=explored.display.sizes,
        tolerance=1e-5,
    )
    np.testing.assert_allclose(first.values["u"], exact.values["u"][0], atol=1e-12)
    assert first.error == float(exact.error_estimate[0])
    assert seconds > 0
    np.testing.assert_array_equal(first.values["u"], again.values["u"])


def test_a_slow_reference_is_given_up_or_left_and_the_next_one_solved(tmp_path):
    file = tmp_path / "slow.yaml"
    file.write_text(SLOW)
    slow = Explored.open(str(file))

    async def use(solver):
        await solver.warm_up()
        first = solver._process
        with pytest.raises(SolverError, match=r"longer than 1 s"):
            await solver.solve(DRAWN, None)
        task = asyncio.create_task(solver.solve(DRAWN, None))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return first is solver._process and first.returncode is None

    assert with_solver(slow, use, seconds=1.0), "the process was ended rather than its job"


def test_a_process_that_cannot_start_is_told(explored, monkeypatch):
    monkeypatch.setattr("piop.explore.reference_solver.sys.executable", "/bin/false")

    async def use(solver):
        await solver.warm_up()
        with pytest.raises(SolverError, match="ended unexpectedly"):
            await solver.solve(DRAWN, None)

    with_solver(explored, use)


def test_only_the_running_job_is_stopped():
    stops = Stops()
    stops.running, stops.stopped = 2, 1
    stops.interrupt(2, None)
    stops.stopped = 2
    with pytest.raises(Stopped):
        stops.interrupt(2, None)
    stops.interrupt(2, None)  # once only


def test_messages_are_read_as_they_are_written():
    file = io.BytesIO()
    write_message(file, {"number": 1}, b"12345678")
    file.seek(0)
    assert read_message(file) == ({"number": 1}, b"12345678")
    assert read_message(file) is None

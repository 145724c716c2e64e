"""A small calibrated run, and its page on the loopback interface."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from piop.explore.compute import Compute
from piop.explore.explored import Explored
from piop.explore.reference_solver import ReferenceSolver
from piop.explore.server import application, listen, make_server
from piop.problem import Problem
from piop.run import fit
from tests.small_heat import HEAT

OPTIONS = """
units: {x: m, t: s, u: K}
solve: {width: 8, blocks: 1, heads: 2, functions: 4, queries: 32}
"""


TWO_WAVES = HEAT.replace("terms: 2", "terms: 4").replace("[1, 1]}", "[1, 2]}")
"""With which the residual tells the error of so short a training, and bounds differ."""


@pytest.fixture(scope="session")
def heat():
    return Problem.from_yaml(TWO_WAVES + OPTIONS)


@pytest.fixture(scope="session")
def run_path(heat, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "heat"
    own = {"device": "cpu", "precision": "float64", "compile": False}
    fit(heat, steps=40, out=path, samples=2, calibrate=40, **own)
    return path


@pytest.fixture(scope="session")
def explored(run_path):
    return Explored.open(str(run_path))


class Served:
    """A page that is served in a thread."""

    def __init__(self, explored: Explored, solver=None, **settings) -> None:
        self.listening = listen(None)
        self.port = self.listening.getsockname()[1]
        self.compute, self.solver = Compute(), solver
        app = application(explored, self.compute, solver, self.port, **settings)
        self.server = make_server(app)
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        async def serve():
            await self.server.serve(sockets=[self.listening])
            if self.solver is not None:
                await self.solver.close()

        asyncio.run(serve())

    def __enter__(self):
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self.server.should_exit = True
        self.thread.join(10)
        self.compute.close()
        self.listening.close()


@pytest.fixture(scope="session")
def served(explored):
    """The page of the run, with references."""
    solver = ReferenceSolver(explored.source, explored.display, {})
    with Served(explored, solver, idle=0.02) as found:
        yield found


@pytest.fixture
def serve_page():
    return Served

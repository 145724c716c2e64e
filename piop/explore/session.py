"""One page: the newest of its requests is answered, in stages; older ones are dropped."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, final

from torch import Tensor

from piop.errors import PiopError, SolverError
from piop.explore.compute import Compute
from piop.explore.explored import Explored
from piop.explore.limits import IDLE_SECONDS
from piop.explore.messages import ShowRequest, frame_bytes
from piop.explore.page_inputs import PageInputs
from piop.explore.reference_solver import ReferenceSolver
from piop.json_values import json_value
from piop.run.references import Reference

logger = logging.getLogger(__name__)

Send = Callable[[str | bytes], Awaitable[None]]
"""Sends a message to the page."""


@final
class Session:
    """The requests of one page.

    The answer for the time shown comes first, as ``answer``; then the bound and the test of the
    inputs, as ``trust``; all times, as ``whole``; and the reference with the true error, as
    ``reference``. A newer request ends these stages, and the solver.

    Args:
        explored: What is shown.
        compute: Threads that compute.
        solver: Solves references; None where no solver covers the problem.
        send: Sends to the page.
        idle: Seconds without a newer request after which more than the time shown is computed.
    """

    def __init__(
        self,
        explored: Explored,
        compute: Compute,
        solver: ReferenceSolver | None,
        send: Send,
        idle: float = IDLE_SECONDS,
    ) -> None:
        self.explored, self.compute, self.solver = explored, compute, solver
        self.idle = idle
        self._send = send
        self._newest: ShowRequest | None = None
        self._solved: tuple[str, Reference, float] | None = None
        self._wake = asyncio.Event()

    def take(self, text: str) -> None:
        """Take a message of the page, which supersedes the one before.

        Raises:
            UsageError: If it is malformed.
        """
        self._newest = ShowRequest.read(text, self.explored.display.frames)
        self._wake.set()

    async def run(self) -> None:
        """Answer requests until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            request, self._newest = self._newest, None
            if request is not None:
                await self._answer(request)

    @property
    def superseded(self) -> bool:
        """Whether a newer request waits."""
        return self._wake.is_set()

    async def _answer(self, request: ShowRequest) -> None:
        stage = "answer"
        reference: asyncio.Task[tuple[Reference, float]] | None = None
        try:
            inputs = self.explored.read(request.inputs, request.sensors)
            quick = self.compute.quickly(self.explored.at_time, inputs, request.frame)
            (header, arrays), observed = await quick
            await self._frame("answer", request, header, arrays)
            if await self._superseded_within(self.idle):
                return
            if self.solver is not None:
                reference = asyncio.create_task(self._solve(self.solver, request))
            values = None
            if self.explored.run is not None:
                stage = "trust"
                values = await self._operator(request, inputs, observed)
            if self.superseded or reference is None:
                return
            stage = "reference"
            await self._compared(request, reference, values)
        except PiopError as error:
            await self._failed(stage, request, str(error))
        except Exception as error:  # a bug must not end the page
            logger.exception("the page's request failed")
            what = f"unexpected {type(error).__name__}: {error}. This is a bug in piop"
            await self._failed(stage, request, what)
        finally:
            if reference is not None and not reference.done():
                reference.cancel()

    async def _solve(
        self, solver: ReferenceSolver, request: ShowRequest
    ) -> tuple[Reference, float]:
        """Solve the reference; where only sensors or the time changed, it is the one before."""
        key = json.dumps(request.inputs, sort_keys=True)
        if self._solved is None or self._solved[0] != key:
            await self._frame("solving", request, {}, {})
            self._solved = key, *await solver.solve(request.inputs, request.sensors)
        return self._solved[1:]

    async def _operator(
        self, request: ShowRequest, inputs: PageInputs, observed: Mapping[str, Any]
    ) -> Tensor | None:
        """Send what the operator tells beside its answer; None where a newer request came."""
        trust = self.compute.thoroughly(self.explored.trust, inputs, observed)
        await self._frame("trust", request, await trust, {})
        if self.superseded:
            return None
        values = await self.compute.thoroughly(self.explored.whole, observed)
        await self._frame("whole", request, {}, {"values": self.explored.movie(values)})
        return values

    async def _compared(
        self,
        request: ShowRequest,
        reference: asyncio.Task[tuple[Reference, float]],
        values: Tensor | None,
    ) -> None:
        """Send the reference when it is there, unless a newer request comes first."""
        newer = asyncio.create_task(self._wake.wait())
        try:
            await asyncio.wait({reference, newer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            newer.cancel()
        if self.superseded or not reference.done():
            return
        found, seconds = reference.result()
        if not all(bool(v.isfinite().all()) for v in found.values.values()):
            raise SolverError("the solution is not finite")
        header, arrays = self.explored.compare(found, values)
        await self._frame("reference", request, header | {"seconds": seconds}, arrays)

    async def _superseded_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return False
        return True

    async def _frame(
        self, kind: str, request: ShowRequest, header: Mapping[str, Any], arrays: Mapping[str, Any]
    ) -> None:
        await self._send(frame_bytes({"type": kind, "id": request.number} | dict(header), arrays))

    async def _failed(self, stage: str, request: ShowRequest, message: str) -> None:
        body = {"type": "error", "stage": stage, "id": request.number, "message": message}
        await self._send(json.dumps(json_value(body)))

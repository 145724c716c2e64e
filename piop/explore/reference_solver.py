"""The process that solves references, as the server uses it: one job at a time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
from collections.abc import Mapping
from typing import Any, final

import numpy as np
import torch

from piop.errors import SolverError
from piop.explore.display import Display
from piop.explore.limits import REFERENCE_SECONDS, REFERENCE_TOLERANCE
from piop.explore.reference_process import HEADER
from piop.problem.capabilities import usual_tolerance
from piop.run.references import Reference

logger = logging.getLogger(__name__)

STOP_SECONDS = 2.0
"""Time that a job has to stop; the process is ended after it."""
START_SECONDS = 120.0
"""Time that the process has to start."""


@final
class ReferenceSolver:
    """Solves references in a process of its own, started when needed, and again when it ends.

    Args:
        source: Run folder, file or name of the spec.
        display: Where solutions are shown.
        parameters: Values of inferred parameters.
        seconds: Time after which a reference is given up.
    """

    def __init__(
        self,
        source: str,
        display: Display,
        parameters: Mapping[str, float],
        seconds: float = REFERENCE_SECONDS,
    ) -> None:
        self.source, self.display, self.seconds = source, display, seconds
        self._parameters = json.dumps(dict(parameters))
        self._lock = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._number = 0

    async def solve(self, inputs: Any, sensors: Any) -> tuple[Reference, float]:
        """Solve one reference; the solution is left when this is cancelled.

        Args:
            inputs: Input → definition, as the page sends them.
            sensors: Input → sensors.

        Returns:
            The reference at the positions of the display, and its seconds.

        Raises:
            SolverError: With the reason, if there is none.
        """
        async with self._lock:
            try:
                process = await self._started()
                self._number += 1
                await self._send(process, self._job(inputs, sensors))
                waiting = asyncio.ensure_future(self._receive(process))
                try:
                    async with asyncio.timeout(self.seconds):
                        header, values = await asyncio.shield(waiting)
                except TimeoutError:
                    await self._stop(process, waiting)
                    message = f"it took longer than {self.seconds:g} s and was given up"
                    raise SolverError(message) from None
                except asyncio.CancelledError:
                    await self._stop(process, waiting)
                    raise
            except (OSError, asyncio.IncompleteReadError):
                await self.close()
                raise SolverError("the process of the solver ended unexpectedly") from None
        if "failed" in header:
            raise SolverError(header["failed"])
        return self._reference(header, values), header["seconds"]

    def _job(self, inputs: Any, sensors: Any) -> dict[str, Any]:
        problem, display = self.display.problem, self.display
        wanted = REFERENCE_TOLERANCE[len(problem.space)]
        return {
            "number": self._number,
            "inputs": inputs,
            "sensors": sensors,
            "times": None if display.times is None else display.times.tolist(),
            "shape": list(display.sizes),
            "tolerance": max(wanted, usual_tolerance(problem)),
            "seconds": self.seconds / 2,
        }

    def _reference(self, header: Mapping[str, Any], values: bytes) -> Reference:
        found = np.frombuffer(values, "<f8").reshape(header["shape"])
        channels = self.display.problem.channels
        named = {n: torch.from_numpy(v.copy()) for n, v in zip(channels, found, strict=True)}
        return Reference(named, None, header["error"], header["tolerance"])

    async def _started(self) -> asyncio.subprocess.Process:
        """Return the process, started anew where there is none that runs."""
        if self._process is not None and self._process.returncode is None:
            return self._process
        self._process = process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "piop.explore.reference_process"),
            *(self.source, self._parameters),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the server, which ends it
        )
        async with asyncio.timeout(START_SECONDS):
            await self._read(process)
        return process

    async def warm_up(self) -> None:
        """Start the process before the first job, since its imports take seconds."""
        async with self._lock:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
                await self._started()

    async def _send(self, process: asyncio.subprocess.Process, header: Mapping[str, Any]) -> None:
        text = json.dumps(header).encode()
        if process.stdin is not None:
            process.stdin.write(HEADER.pack(len(text), 0) + text)
            await process.stdin.drain()

    async def _receive(self, process: asyncio.subprocess.Process) -> tuple[dict[str, Any], bytes]:
        """Wait for the answer to the newest job."""
        while True:
            header, values = await self._read(process)
            if header.get("number") == self._number:
                return header, values

    async def _read(self, process: asyncio.subprocess.Process) -> tuple[dict[str, Any], bytes]:
        if process.stdout is None:
            raise OSError("the process has no output")
        size, count = HEADER.unpack(await process.stdout.readexactly(HEADER.size))
        header = json.loads(await process.stdout.readexactly(size))
        return header, await process.stdout.readexactly(count)

    async def _stop(
        self, process: asyncio.subprocess.Process, waiting: asyncio.Future[Any]
    ) -> None:
        """Stop the running job, or end the process where it does not stop."""
        try:
            await self._send(process, {"stop": self._number})
            async with asyncio.timeout(STOP_SECONDS):
                await asyncio.shield(waiting)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.CancelledError):
            logger.info("the solver did not stop within %g s; it is started again", STOP_SECONDS)
            await self.close()
        finally:
            waiting.cancel()

    async def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        with contextlib.suppress(asyncio.CancelledError):
            await process.wait()

"""A process of its own that solves references for the page, one after the other.

It reads jobs from stdin and writes answers to stdout; each is a frame of safetensors' length, a
JSON header and float64 values. A message ``{"stop": n}`` ends job n where Python runs between two
steps of the solver; a solver that does not return is ended with its process. When stdin closes, the
process ends.
"""

from __future__ import annotations

import _thread
import contextlib
import json
import os
import queue
import signal
import struct
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast, final

import numpy as np

HEADER = struct.Struct("<IQ")
"""Length of the header, length of the values."""


def write_message(file: BinaryIO, header: Mapping[str, Any], values: bytes = b"") -> None:
    """Write a message."""
    text = json.dumps(header).encode()
    file.write(HEADER.pack(len(text), len(values)) + text + values)
    file.flush()


def read_message(file: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """Read a message; None at the end of the file."""
    start = file.read(HEADER.size)
    if len(start) < HEADER.size:
        return None
    size, count = HEADER.unpack(start)
    return json.loads(file.read(size)), file.read(count)


class Stopped(Exception):
    """The job is no longer wanted."""


@final
class Stops:
    """Which job runs, and which is to be stopped."""

    def __init__(self) -> None:
        self.running = self.stopped = -1

    def interrupt(self, number: int, frame: object) -> None:
        """Leave the running job, if it is the one to be stopped; called in the main thread."""
        del number, frame
        if self.running >= 0 and self.running == self.stopped:
            self.running = -1
            raise Stopped

    def read(self, file: BinaryIO, jobs: queue.Queue[dict[str, Any]]) -> None:
        """Pass jobs on, and stop the running one, until there is nothing more to read."""
        while (message := read_message(file)) is not None:
            header, _ = message
            if "stop" in header:
                self.stopped = header["stop"]
                _thread.interrupt_main()
            else:
                jobs.put(header)
        os._exit(0)  # nobody waits for an answer


def solve(job: Mapping[str, Any], problem: Any, draw: Any) -> tuple[dict[str, Any], bytes]:
    """Solve one job.

    Args:
        job: ``inputs`` and ``sensors`` as the page sends them, ``times`` and ``shape`` of the
            output, ``tolerance``, and ``seconds`` after which nothing is refined any more.
        problem: The problem.
        draw: Draws its inputs.

    Returns:
        Header and values ``[C, …]`` in float64.
    """
    from piop.explore.page_inputs import read_inputs
    from piop.reference import solve_reference
    from piop.reference.solution import Limits

    inputs = read_inputs(problem, draw, job["inputs"], job["sensors"])
    begun = time.monotonic()
    solution = solve_reference(
        problem,
        inputs.exact(),
        times=job["times"],
        shape=job["shape"],
        tolerance=job["tolerance"],
        limits=Limits(seconds=job["seconds"]),
    )
    values = np.stack([solution.values[name][0].cpu().numpy() for name in problem.channels])
    header = {
        "error": float(solution.error_estimate[0]),
        "tolerance": solution.tolerance,
        "shape": list(values.shape),
        "notes": list(solution.notes),
        "seconds": time.monotonic() - begun,
    }
    return header, values.astype("<f8").tobytes()


def main(source: str, parameters: str) -> None:
    """Solve jobs of one problem until stdin closes.

    Args:
        source: Run folder, file or name of the spec.
        parameters: Values of inferred parameters, JSON.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = cast("BinaryIO", os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)  # what is printed must not mix with the answers

    def answer(header: Mapping[str, Any], values: bytes = b"") -> None:
        try:
            write_message(answers, header, values)
        except OSError:  # the server has ended
            os._exit(0)

    with contextlib.suppress(OSError, AttributeError):
        os.nice(5)  # answers of the operator come first
    import torch

    from piop.errors import PiopError
    from piop.explore.page_inputs import Draw
    from piop.problem import Problem
    from piop.run.folder import RunFolder

    torch.set_num_threads(max(1, torch.get_num_threads() // 2))
    if Path(source).is_dir():
        folder = RunFolder(source)
        problem = folder.read_problem(folder.read_config())
    else:
        problem = Problem.from_file(source)
    problem = problem.at(json.loads(parameters))
    draw, stops = Draw(problem), Stops()
    jobs: queue.Queue[dict[str, Any]] = queue.Queue()
    signal.signal(signal.SIGINT, stops.interrupt)
    threading.Thread(target=stops.read, args=(sys.stdin.buffer, jobs), daemon=True).start()
    answer({"ready": True})
    while True:
        job = jobs.get()
        values = b""
        try:
            stops.running = job["number"]
            header, values = solve(job, problem, draw)
            stops.running = -1
        except Stopped:
            header = {"stopped": True}
        except PiopError as error:
            header = {"failed": str(error)}
        except MemoryError:
            header = {"failed": "out of memory"}
        except Exception as error:  # a bug in the solver must not end the page
            header = {"failed": f"unexpected {type(error).__name__}: {error}"}
        stops.running = -1
        answer({"number": job["number"], **header}, values)


if __name__ == "__main__":
    main(*sys.argv[1:])

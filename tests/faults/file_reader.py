"""Reads one file after another as the commands do, in a process that may die of it.

    python -m tests.faults.file_reader

Takes a path a line on stdin and answers a line of JSON; see :func:`main`.
"""

from __future__ import annotations

import json
import logging
import resource
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from piop.datasets import inspect_file, read_queries, read_sensors
from piop.datasets.formats import hdf5_attributes
from piop.datasets.reader import StoredDataset
from piop.errors import DataError, PiopError
from piop.problem import Problem
from piop.run.data import GivenData
from piop.sampling.stored_functions import stored_functions
from piop.spec.distributions import FromFile

SPEC = """
piop: 1
name: line
time: {t: [0, 1]}
space: {x: [0, 1]}
unknowns: [u]
inputs: {u0: {of: [x], law: from_file, path: d.nc}}
equations: ["dt(u) = dxx(u)"]
initial: {u: u0}
boundary: {x: {dirichlet: {u: 0}}}
"""
CPU_SECONDS, MEMORY = 2.0, 250_000_000
"""What a file may take; the memory beyond that of a process with piop and its libraries loaded,
for that depends on their versions. Libraries of formats, loaded at the first file, are in it."""
SECRET = 1234.5
"""A number that stands in a file which no data file may show."""
EXECUTING = {"os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "pickle.find_class"}


def readers(problem: Problem) -> dict[str, Callable[[Path], Any]]:
    """What the commands do with a file before they use its numbers."""

    def trained_on(path: Path) -> Any:
        given = GivenData.open(problem, path)
        given.require_trainable(problem)
        return given.dataset.values["u"]

    def sample_by_sample(path: Path) -> None:
        stored = StoredDataset.open(path, problem)
        with stored.file:
            stored.take(torch.arange(len(stored)))

    def drawn_from(path: Path) -> None:
        (item,) = problem.inputs
        stored_functions(item, FromFile("F", None, path), problem.space)

    return {
        "data": trained_on,
        "stored": sample_by_sample,
        "inspect": lambda path: inspect_file(path),
        "fits": lambda path: inspect_file(path, problem),
        "input": lambda path: read_sensors(path, problem)["u0"].values,
        "queries": lambda path: read_queries(path, problem),
        "law": drawn_from,
    }


def attempt(name: str, read: Callable[[Path], Any], path: Path) -> tuple[np.ndarray | None, str]:
    """Read a file: its values where there are any, and what was wrong; empty for nothing."""
    try:
        found = read(path)
    except PiopError as error:
        text = str(error)
        if not isinstance(error, DataError):
            return None, f"{name}: {type(error).__name__}, not DataError: {text}"
        named = str(path)[:200] in text or str(path.resolve())[:200] in text
        return None, "" if named and "\n" not in text else f"{name}: unclear: {text[:300]}"
    except BaseException:
        return None, f"{name}: {traceback.format_exc(limit=-4)}"
    return (found.double().numpy() if isinstance(found, torch.Tensor) else None), ""


def peak_memory() -> int:
    """The most memory that this process has held; ``getrusage`` counts its parent's too."""
    (line,) = [s for s in Path("/proc/self/status").read_text().split("\n") if "VmHWM" in s]
    return 1024 * int(line.split()[1])


def main() -> None:
    """Answer each path with what went wrong, and whether it was read as data."""
    warnings.simplefilter("ignore")
    logging.disable()
    problem = Problem.from_yaml(SPEC)
    executed: list[str] = []

    def audit(event: str, args: tuple[Any, ...]) -> None:
        ours = event == "subprocess.Popen" and hdf5_attributes.__file__ in args[1]
        if event in EXECUTING and not ours:
            executed.append(event)

    sys.addaudithook(audit)
    all_readers = readers(problem)
    start_memory = peak_memory()
    print(json.dumps({}), flush=True)  # ready
    for line in sys.stdin:
        path = Path(json.loads(line))
        executed.clear()
        faults, loaded = [], False
        for name, read in all_readers.items():
            soft = int(time.process_time() + 10)
            resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))
            start = time.process_time()
            values, fault = attempt(name, read, path)
            spent = time.process_time() - start
            faults += [fault] if fault else []
            if spent > CPU_SECONDS:
                faults.append(f"{name}: {spent:.1f} s of processor time")
            if values is not None:
                loaded |= name in ("data", "input")
                if (values == SECRET).any():
                    faults.append(f"{name}: holds what stands in another file")
                np.save(path.parent / f"read.{name}.npy", values)
        peak = peak_memory()
        if peak > start_memory + MEMORY:
            faults.append(f"{peak / 1e6:.0f} MB, of them {start_memory / 1e6:.0f} before any file")
        faults += [f"executed {event}" for event in set(executed)]
        print(json.dumps({"faults": faults, "loaded": loaded, "peak": peak}), flush=True)


if __name__ == "__main__":
    main()

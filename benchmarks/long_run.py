"""Train, and make data, for an hour: do handles, memory or the time of a step grow?

    python benchmarks/long_run.py [--minutes 60] [--only training]

Runs `piop solve burgers` (eager) and `piop data` at once, with a thread each, and reads /proc
(Linux) whenever a command reports its progress. After a warm-up of a sixth of the time, the first
third of the rest is compared with the last: open handles must be equal, resident memory within 2 %,
the processor time of a step (wall times of a shared machine say little) within 5 %; compared are
medians, of the processor time over minutes. Exit code 1 where one is not. Result:
`results/long_run_cpu.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median, median_low
from typing import Any, Self

from record import RESULTS, environment, record

ROOT = Path(__file__).parents[1]
RESULT = "long_run_cpu"
WARM_UP = 1 / 6
MEMORY, STEP = 0.02, 0.05
"""Largest relative differences between the first and the last third."""
INTERRUPTED = 130
PROGRESS = re.compile(r"step (\d+) |(\d+) of \d+ samples")


@dataclass(frozen=True)
class Reading:
    """A process at one moment.

    Attributes:
        at: Seconds of a monotonic clock.
        count: Steps or samples done.
        processor: Seconds of processor time so far.
        handles: Open file handles.
        memory: Resident memory in MiB.
    """

    at: float
    count: int
    processor: float
    handles: int
    memory: float

    @classmethod
    def of(cls, pid: int, count: int) -> Self:
        """Read /proc."""
        process = Path(f"/proc/{pid}")
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        processor = sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")  # user and system
        pages = int((process / "statm").read_text().split()[1])
        memory = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
        handles = len(list((process / "fd").iterdir()))
        return cls(time.monotonic(), count, processor, handles, memory)


def commands(minutes: float, folder: Path) -> dict[str, list[str]]:
    """What runs, for longer than it is watched."""
    spec = folder / "small.yaml"  # Burgers' equation on a coarse grid: batches of seconds
    text = (ROOT / "pdes" / "burgers.yaml").read_text()
    spec.write_text(re.sub("(?m)^save: .*$", "save: {t: 20, x: 64}", text))
    training = ["solve", "burgers", "--threads", "1", "--device", "cpu", "--out", "run"]
    data = ["data", spec.name, "-n", "1000000", "--tolerance", "1e-3", "--output", "data.nc"]
    return {"training": [*training, "--no-compile", "--time", f"{2 * minutes:g}m"], "data": data}


def watch(command: Sequence[str], folder: Path, minutes: float) -> list[Reading]:
    """Run a command for a while, reading at every line of its progress, and interrupt it."""
    readings: list[Reading] = []
    paths = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    whole, said = [sys.executable, "-m", "piop", *command], ""
    with subprocess.Popen(
        whole, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            said += line
            if found := PROGRESS.match(line):
                readings.append(Reading.of(process.pid, int(found[1] or found[2])))
                print(command[0], readings[-1], flush=True)
                if readings[-1].at > readings[0].at + 60 * minutes:
                    break
        process.terminate()
        said += process.stderr.read()
    if process.returncode != INTERRUPTED:
        raise SystemExit(f"{' '.join(command)}: ended with {process.returncode}: {said}")
    return readings


def compare(readings: Sequence[Reading], minutes: float) -> dict[str, Any]:
    """Compare the first third after the warm-up with the last."""
    begin = readings[0].at + 60 * minutes * WARM_UP
    third = (readings[-1].at - begin) / 3
    first = [r for r in readings if 0 <= r.at - begin <= third]
    last = [r for r in readings if r.at >= readings[-1].at - third]
    parts = first, last
    handles = [median_low(r.handles for r in part) for part in parts]
    memory = [median(r.memory for r in part) for part in parts]
    step = [step_time(part, minutes) for part in parts]  # seconds: a minute of an hour
    return {
        "environment": environment(),
        "minutes": round((readings[-1].at - readings[0].at) / 60, 1),
        "done": readings[-1].count,
        "handles": handles,
        "memory_MiB": [round(each, 1) for each in memory],
        "processor_seconds_per_step": [round(each, 5) for each in step],
        "holds": {
            "handles": handles[0] == handles[1],
            "memory": abs(memory[1] / memory[0] - 1) <= MEMORY,
            "step": abs(step[1] / step[0] - 1) <= STEP,
        },
    }


def step_time(readings: Sequence[Reading], interval: float) -> float:
    """Processor seconds of a step or sample: the median over intervals of so many seconds."""
    ends = [readings[0]]
    for reading in readings:
        if reading.at >= ends[-1].at + interval:
            ends.append(reading)
    pairs = pairwise(ends)
    return median((b.processor - a.processor) / (b.count - a.count) for a, b in pairs)


def table(found: dict[str, Any]) -> str:
    """The figures of both commands as a table in Markdown."""
    lines = ["| | first third | last third | holds |", "|---|---|---|---|"]
    keys = {"handles": "handles", "memory": "memory_MiB", "step": "processor_seconds_per_step"}
    for name, row in found.items():
        for what, key in keys.items():
            first, last = row[key]
            lines.append(f"| {name}: {key} | {first} | {last} | {row['holds'][what]} |")
    return "\n".join(lines)


def main() -> None:
    """Run, compare, record; exit code 1 where something grows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--only", choices=["training", "data"])
    options = parser.parse_args()
    minutes = options.minutes
    path = RESULTS / f"{RESULT}.json"
    found: dict[str, Any] = json.loads(path.read_text())["found"] if path.exists() else {}
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor() as pool:
        folder = Path(name)
        run = commands(minutes, folder)
        names = [options.only] if options.only else [*run]
        watched = pool.map(partial(watch, folder=folder, minutes=minutes), map(run.get, names))
        found |= {n: compare(r, minutes) for n, r in zip(names, watched, strict=True)}
    record(RESULT, f"python benchmarks/long_run.py --minutes {minutes:g}", {"found": found})
    print(table(found))
    if not all(holds for row in found.values() for holds in row["holds"].values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()

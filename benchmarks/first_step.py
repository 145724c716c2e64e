"""Seconds from a command to its first training step, and steps after a minute, cold and warm.

    python benchmarks/first_step.py [--only NAME …] [--backbones] [--minutes [N]]

For each problem that is trained on its equation, a process of its own trains it with the default
recipe and five minutes of budget, first with empty caches of compiled code and of references, then
with what the first process left there; the clock starts with the process. Each is stopped at its
first step, or, with `--minutes`, one or N minutes after its start: on slow cores, more of them show
what faster ones do in one. With `--backbones` each backbone's default preset is trained on `heat`
in place of the problems. A cell that is finished is kept. The result is `results/first_step.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from all_problems import trained_on_equations
from record import RESULTS, environment, record

from piop.models import BACKBONES

PROGRAM = """
import os, sys, time
began, until = float(sys.argv[1]), float(sys.argv[2])
import piop

def stop(event):
    seconds = time.time() - began
    if event.step == 1:
        print(seconds, flush=True)
    if seconds >= until:
        print(event.step, flush=True)
        os._exit(0)

settings = dict(pair.split("=", 1) for pair in sys.argv[6:])
piop.Problem.from_file(sys.argv[3]).fit(
    time="5m", samples=0, calibrate=0, out=sys.argv[4], callbacks=[stop],
    compile=bool(int(sys.argv[5])) or None, **settings
)
"""


def measure(
    problem: str, settings: Sequence[str], until: float, cache: str, at_once: bool = False
) -> dict[str, float]:
    """Train a problem in a process of its own until so many seconds after its start.

    With ``at_once`` the step is compiled before the first of them.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        program = [sys.executable, "-c", PROGRAM, str(time.time()), str(until), problem]
        said, errors = Path(folder) / "stdout", Path(folder) / "stderr"  # pipes would wait
        with said.open("w") as out, errors.open("w") as err:  # for the compilers as well
            running = subprocess.Popen(
                [*program, f"{folder}/run", str(int(at_once)), *settings],
                env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache, "XDG_CACHE_HOME": cache},
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
            running.wait()
        with suppress(ProcessLookupError):  # compilers that it has started
            os.killpg(running.pid, signal.SIGKILL)
        if running.returncode:
            raise SystemExit(f"{problem}: {errors.read_text()}")
        first, steps = said.read_text().split()
    return {"first_step": round(float(first), 1), "steps": int(steps)}


def table(cells: dict[str, dict[str, Any]]) -> str:
    """Write the cells as Markdown."""
    lines = [
        "| problem | first step, cold | warm | minutes | steps in them, cold | warm | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, cell in cells.items():
        first = f"{cell['cold']['first_step']} s | {cell['warm']['first_step']} s"
        steps = "– | – | – | –"
        if cell["minutes"]:
            cold, warm = cell["cold"]["steps"], cell["warm"]["steps"]
            steps = f"{cell['minutes']} | {cold} | {warm} | {cold / warm:.2f}"
        lines.append(f"| `{name}` | {first} | {steps} |")
    return "\n".join(lines)


def main() -> None:
    """Parse the arguments, measure what is missing, write the result."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--only", nargs="+", default=None, metavar="NAME")
    parser.add_argument("--backbones", action="store_true")
    parser.add_argument("--minutes", nargs="?", type=int, const=1, default=0, metavar="N")
    options = parser.parse_args()
    path = RESULTS / "first_step.json"
    cells = json.loads(path.read_text())["cells"] if path.exists() else {}
    wanted = {name: (name, []) for name in trained_on_equations()}
    if options.backbones:
        wanted = {f"heat, {name}": ("heat", [f"backbone={name}"]) for name in BACKBONES}
    if unknown := set(options.only or ()) - set(wanted):
        parser.error(f"--only: {', '.join(unknown)}: not among {', '.join(wanted)}")
    for name in options.only or wanted:
        key = name if options.minutes <= 1 else f"{name}, {options.minutes} minutes"
        if key in cells and cells[key]["minutes"] >= options.minutes:
            continue
        problem, settings = wanted[name]
        until = 60.0 * options.minutes
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache:
            found = {"cold": measure(problem, settings, until, cache)}
            if options.minutes:
                measure(problem, settings, 0.0, cache, at_once=True)
            found["warm"] = measure(problem, settings, until, cache)
        here = {part: environment()[part] for part in ("commit", "cpu")}
        cells[key] = {**found, "minutes": options.minutes, **here}
        command = f"python benchmarks/first_step.py {' '.join(sys.argv[1:])}".strip()
        record("first_step", command, {"cells": dict(sorted(cells.items()))})
        print(key, cells[key], flush=True)
    print(table(cells))


if __name__ == "__main__":
    main()

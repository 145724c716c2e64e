"""`piop solve` as a user types it, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence


def solve(
    problem: str,
    training_time: str,
    seed: int,
    out: str,
    options: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    folder: str | None = None,
) -> tuple[subprocess.CompletedProcess[str], float]:
    """Run the command once.

    Args:
        problem: A spec, or the name of one that comes with piop.
        training_time: As of ``--time``.
        seed: As of ``--seed``.
        out: The run folder.
        options: Further ones.
        variables: Of the environment, beside the present ones.
        folder: Where it runs, whose piop comes first; by default here.

    Returns:
        The finished process, whose output is the JSON of ``--json``, and its wall time in seconds.
    """
    command = [sys.executable, "-m", "piop", "solve", problem, "--time", training_time]
    command += ["--seed", str(seed), "--json", "--out", out, *options]
    begun = time.perf_counter()
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(variables or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    return done, time.perf_counter() - begun

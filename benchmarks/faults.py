"""Inject faults by the thousand, count what was survived, and write `docs/reliability.md`.

    python benchmarks/faults.py [--only NAME …] [--share 0.01] [--seed 0]

Each class of faults is a module of `tests/faults`, whose tests inject a few of them. Results:
`results/faults_cpu.json`; classes that are not run keep the figures of their last run.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from record import RESULTS, environment, record

ROOT = Path(__file__).parents[1]
RESULT = "faults_cpu"
REPORT = ROOT / "docs" / "reliability.md"

COUNTS: dict[str, int] = {"specs": 100_000, "files": 2_000, "names": 2_000}
"""Module of `tests/faults` with a function ``attack`` → how many faults it injects in full."""

INTRODUCTION = """# Reliability

What was done to piop on purpose, and what came of it. *Survived* means: noticed, refused with a
message that names place and remedy, or gone on with the right result; *lost* means anything else.
`python benchmarks/faults.py` repeats it; `tests/faults` injects a few of each in every check.
"""


def run(name: str, count: int, seed: int) -> dict[str, Any]:
    """Inject the faults of one module and count what came of them."""
    attack = importlib.import_module(f"tests.faults.{name}").attack
    rows: dict[str, dict[str, Any]] = defaultdict(lambda: {"tried": 0, "survived": 0, "lost": []})
    with tempfile.TemporaryDirectory() as folder:
        for done, outcome in enumerate(attack(count, seed, Path(folder)), 1):
            row = rows[outcome.fault]
            row["tried"] += 1
            row["survived"] += outcome.survived
            if not outcome.survived:
                row["lost"].append(outcome.detail)
                print(f"  lost: {outcome.fault}: {outcome.detail}", flush=True)
            if done % max(1, count // 20) == 0:
                print(f"  {name}: {done} of {count}", flush=True)
    return {"seed": seed, "environment": environment(), "rows": dict(rows)}


def table(found: dict[str, Any]) -> str:
    """The classes of faults as a table in Markdown."""
    lines = ["| fault | tried | survived | lost |", "|---|---|---|---|"]
    for group in found.values():
        for fault, row in group["rows"].items():
            lost = row["tried"] - row["survived"]
            lines.append(f"| {fault} | {row['tried']} | {row['survived']} | {lost} |")
    return "\n".join(lines)


def main() -> None:
    """Inject, write the results, print the table; exit code 1 where something was lost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=[*COUNTS], default=[*COUNTS])
    parser.add_argument("--share", type=float, default=1.0, help="of the full number of faults")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))  # tests.faults
    path = RESULTS / f"{RESULT}.json"
    found: dict[str, Any] = json.loads(path.read_text())["found"] if path.exists() else {}
    for name in options.only:
        count = max(1, round(COUNTS[name] * options.share))
        print(f"{name}: {count} faults", flush=True)
        found[name] = run(name, count, options.seed)
        if options.share == 1.0:
            record(RESULT, "python benchmarks/faults.py", {"found": found})
            REPORT.write_text(f"{INTRODUCTION}\n{table(found)}\n")
    print(table(found))
    if any(len(row["lost"]) for group in found.values() for row in group["rows"].values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()

"""Inject faults by the thousand, count what was survived, and write `docs/reliability.md`.

    python benchmarks/faults.py [--only NAME …] [--share 0.01] [--seed 0]

Each class of faults is a module of `tests/faults`, whose tests inject a few of them. Results:
`results/faults_cpu.json`; classes that are not run keep the figures of their last run. A full run
is recorded after each of its parts, and one that was ended early goes on from there.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from record import RESULTS, environment, record

ROOT = Path(__file__).parents[1]
RESULT = "faults_cpu"
REPORT = ROOT / "docs" / "reliability.md"

COUNTS: dict[str, int] = {
    "specs": 100_000,
    "files": 2_000,
    "names": 2_000,
    "kills": 200,
    "corruption": 1_000,
    "data_sets": 1_000,
    "writes": 100,
}
"""Module of `tests/faults` with a function ``attack`` → how many faults it injects in full."""
PARTS = 20
"""A full run is as many runs of different seeds."""

INTRODUCTION = """# Reliability

What was done to piop on purpose, and what came of it. *Survived* means: noticed, refused with a
message that names place and remedy, or gone on with the right result; *lost* means anything else.
`python benchmarks/faults.py` repeats it; `tests/faults` injects a few of each in every check.
"""


def run(name: str, count: int, seed: int, so_far: dict[str, Any]) -> dict[str, Any]:
    """Inject one part of the faults of a module, and add what came of them."""
    attack = importlib.import_module(f"tests.faults.{name}").attack
    rows: dict[str, dict[str, Any]] = so_far["rows"]
    part = so_far["parts"]
    with tempfile.TemporaryDirectory() as folder:
        for outcome in attack(count, seed + 1000 * part, Path(folder)):
            row = rows.setdefault(outcome.fault, {"tried": 0, "survived": 0, "lost": []})
            row["tried"] += 1
            row["survived"] += outcome.survived
            if not outcome.survived:
                row["lost"].append(outcome.detail)
                print(f"  lost: {outcome.fault}: {outcome.detail}", flush=True)
    environments = [e for e in so_far["environments"] if e != environment()] + [environment()]
    return so_far | {"parts": part + 1, "environments": environments}


def table(found: dict[str, Any]) -> str:
    """The classes of faults as a table in Markdown."""
    lines = ["| fault | tried | survived | lost |", "|---|---|---|---|"]
    for group in found.values():
        for fault, row in sorted(group["rows"].items()):
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
        count = max(1, round(COUNTS[name] * options.share / PARTS))
        own = found.get(name, {})
        if options.share != 1.0 or own.get("seed") != options.seed or own["parts"] >= PARTS:
            own = {"seed": options.seed, "parts": 0, "environments": [], "rows": {}}
        while own["parts"] < PARTS:
            print(f"{name}: part {own['parts'] + 1} of {PARTS}, {count} faults", flush=True)
            found[name] = own = run(name, count, options.seed, own)
            if options.share == 1.0:
                record(RESULT, "python benchmarks/faults.py", {"found": found})
                REPORT.write_text(f"{INTRODUCTION}\n{table(found)}\n")
    print(table(found))
    if any(len(row["lost"]) for group in found.values() for row in group["rows"].values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()

"""The cost of one residual step: forward, all derivatives, loss, backward; as ratios.

    python benchmarks/residual_step.py --json
    python benchmarks/residual_step.py --only pit,orders --rounds 31

Every ratio is of medians of steps that ran in turns in one process. The result is
`results/residual_step_cpu.json`, or `_gpu` where there is a CUDA device; a part that is measured
alone replaces its own figures there and keeps the others; `parts` says how each was measured.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from typing import Any

import torch
from record import RESULTS, environment, record
from steps.timing import Options

from piop.denormals import flush_denormals

PARTS = {
    "pit": "steps.pit",
    "orders": "steps.orders",
    "cvit": "steps.cvit",
    "deeponet": "steps.deeponet",
    "scaling": "steps.scaling",
}
"""Name → module with ``measure(options)``."""


@flush_denormals()
def main() -> None:
    """Parse the arguments, measure the parts, write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1, help="of the CPU")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--record", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    chosen = options.only.split(",")
    if strange := sorted(set(chosen) - set(PARTS)):
        parser.error(f"--only {','.join(strange)}: give some of {', '.join(PARTS)}")
    torch.set_num_threads(options.threads)
    kind = "gpu" if torch.cuda.is_available() else "cpu"
    device = torch.device("cuda" if kind == "gpu" else "cpu")
    how = Options(device, options.rounds, options.compile)
    figures: dict[str, float] = {}
    for name in chosen:
        found = importlib.import_module(PARTS[name]).measure(how)
        found = {key: float(f"{value:.4g}") for key, value in found.items()}
        figures |= found
        if options.record:
            keep(f"residual_step_{kind}", name, found, options)
        if not options.json:
            for key, value in found.items():
                print(f"{value:10.4g}  {key}", flush=True)
    if options.json:
        print(json.dumps(figures))


def keep(name: str, part: str, found: dict[str, float], options: argparse.Namespace) -> None:
    """Add the figures of a part to the result, and how that part was measured."""
    path = RESULTS / f"{name}.json"
    old: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    own = {key: old[key] for key in ("command", "environment", "settings") if key in old}
    before = old.get("parts", dict.fromkeys(PARTS, own) if own else {})
    command = f"python benchmarks/residual_step.py {' '.join(sys.argv[1:])}".strip()
    settings = {"rounds": options.rounds, "threads": options.threads}
    measured = {"command": command, "environment": environment(), "settings": settings}
    figures = {
        "settings": settings,
        "load_average": list(os.getloadavg()),
        "parts": {**before, part: measured},
        "figures": old.get("figures", {}) | found,
    }
    record(name, command, figures)


if __name__ == "__main__":
    main()

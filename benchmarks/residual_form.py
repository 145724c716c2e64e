"""The forms of the residual beside each other, for the same time of training.

    python benchmarks/residual_form.py [--time T] [--seeds S …] [--only NAME …] [--threads N]
                                       [--forms FORM …]

Each cell is one `piop solve NAME --time T --no-compile --set form=FORM`, by default with `integral`
and `strong`, all else by default: error over 16 held-out inputs, and steps. A cell that is
finished is kept when the script is started again. The result is `results/residual_form_cpu.json`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from record import RESULTS, environment, record

PROBLEMS = (
    "advection_diffusion",
    "allen_cahn",
    "burgers2d",
    "burgers2d_cvit",
    "burgers_fno",
    "burgers_galerkin",
    "cahn_hilliard",
    "fisher_kpp",
    "kdv",
    "kuramoto_sivashinsky",
    "schroedinger",
)


def solve(problem: str, form: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Run the command once; return error and steps."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "piop", "solve", problem, "--time", options.time]
        command += ["--no-compile", "--samples", "16", "--seed", str(seed), "--json"]
        command += ["--set", f"form={form}", "--out", str(Path(folder) / "run")]
        command += ["--threads", str(options.threads)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1]}
    found = json.loads(done.stdout)
    machine = {key: environment()[key] for key in ("commit", "cpu", "date")}
    return {"mean": found["relative_l2"]["mean"], "steps": found["steps"], **machine}


def main() -> None:
    """Parse the arguments, run the cells that are missing, write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--time", default="60s")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--only", nargs="+", default=PROBLEMS, metavar="NAME")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--forms", nargs="+", default=["integral", "strong"], metavar="FORM")
    options = parser.parse_args()
    path = RESULTS / "residual_form_cpu.json"
    cells = json.loads(path.read_text())["cells"] if path.exists() else {}
    command = f"python benchmarks/residual_form.py {' '.join(sys.argv[1:])}".strip()
    for seed in options.seeds:
        for problem in options.only:
            for form in options.forms:
                key = f"{problem}/{form}/{options.time}/{seed}"
                if "mean" not in cells.get(key, {}):
                    cells[key] = solve(problem, form, seed, options)
                    record("residual_form_cpu", command, {"cells": dict(sorted(cells.items()))})
                    print(key, cells[key], flush=True)


if __name__ == "__main__":
    main()

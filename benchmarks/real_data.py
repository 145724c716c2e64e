"""Every backbone beside neuraloperator's own FNO, on data that nobody here made.

    python benchmarks/real_data.py                          # all cells; where it was, it goes on
    python benchmarks/real_data.py --cells darcy/fno --seeds 0

Darcy flow (1000 samples on 16 × 16 to learn from, 50 to judge by, and the same 50 on 32 × 32, a
grid that no network has seen) and Burgers' equation (800 and 400, initial data to trajectory on
17 × 16), both from neuraloperator's files. One loop trains all networks: the same samples in the
same order, epochs, batch, optimiser, schedule, loss and units, whole solutions at every step. Only
the peak of the learning rate is each network's own: the best of four on a fifth of the training
data held out for that, after a shorter training on the rest, and the next best where the whole
training diverges. The test data choose nothing.

One seed of every network comes first. After each cell the result is written; started again, the
script goes on with what is missing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from real.compare import markdown, summarise
from real.networks import THEIRS, build, choices
from real.problems import DATA, SOURCES, Loaded, load, split
from real.training import Diverged, Recipe, judge, train
from record import RESULTS, environment, record

from piop.errors import UsageError

RATES = (1e-3, 3e-3, 8e-3, 2e-2)
TRIAL_SHARE, TRIAL_SEED, TRIAL_EPOCHS = 0.2, 100, 2
WORST = 1e6
"""Stands for the error of what diverged."""
DIGITS = 6
"""Of the errors that are kept."""


def plan(wanted: Sequence[str], seeds: Sequence[int]) -> list[tuple[str, str, int]]:
    """List cells: one seed of every network, theirs first, then the next seed.

    Args:
        wanted: ``PROBLEM``, ``NETWORK`` or ``PROBLEM/NETWORK``; all for none.
        seeds: In their order.

    Raises:
        UsageError: For a name that is none of these.
    """
    pairs = [(problem, name) for problem in SOURCES for name in (THEIRS, *choices())]
    for name in wanted:
        if not any(name in (*pair, "/".join(pair)) for pair in pairs):
            raise UsageError(
                f"--cells: {name!r} is no cell; give problems ({', '.join(SOURCES)}), networks "
                f"({THEIRS}, {', '.join(choices())}), or PROBLEM/NETWORK"
            )
    kept = [p for p in pairs if not wanted or {*p, "/".join(p)} & set(wanted)]
    return [(*pair, seed) for seed in dict.fromkeys(seeds) for pair in kept]


def choose_rate(name: str, loaded: Loaded, recipe: Recipe, found: dict[str, float]) -> float:
    """Choose the peak rate by errors on held-out training data, kept in ``found`` by rate."""
    shorter = replace(recipe, epochs=min(TRIAL_EPOCHS, recipe.epochs))
    learned, judged = split(loaded.train, TRIAL_SHARE)
    for rate in RATES:
        if str(rate) not in found:
            entrant = build(name, loaded, TRIAL_SEED)
            try:
                train(entrant, learned, shorter, rate, TRIAL_SEED)
                error = float(judge(entrant, judged).mean())
            except Diverged:
                error = WORST
            found[str(rate)] = min(error, WORST)
    return min(RATES, key=lambda rate: found[str(rate)])


def run_cell(name: str, loaded: Loaded, recipe: Recipe, rate: float, seed: int) -> dict[str, Any]:
    """Train and judge one network.

    Returns:
        What the result file keeps of it.
    """
    entrant = build(name, loaded, seed)
    seconds = train(entrant, loaded.train, recipe, rate, seed)
    errors = {label: judge(entrant, test).tolist() for label, test in loaded.tests.items()}
    choice = choices().get(name)
    return {
        "network": name,
        "settings": None if choice is None else {"preset": choice.preset, **choice.settings},
        "seed": seed,
        "rate": rate,
        "parameters": entrant.size,
        "cpu_seconds": round(seconds, 1),
        "commit": environment()["commit"],
        "errors": {k: [round(e, DIGITS) for e in each] for k, each in errors.items()},
    }


def read(path: Path, setup: dict[str, Any]) -> dict[str, Any]:
    """Read the result so far, or begin one.

    Raises:
        UsageError: If it was made with another setup, or cannot be read.
    """
    if not path.exists():
        return {"setup": setup, "refused": {}, "rates": {}, "cells": []}
    try:
        found = json.loads(path.read_text())
        same = found["setup"] == setup
        held = {key: found[key] for key in ("setup", "refused", "rates", "cells")}
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path}: is no result of this script ({error!r}); give --out") from error
    if not same:
        raise UsageError(f"{path}: holds cells of {held['setup']}, this is {setup}; give --out")
    return held


def write(path: Path, result: dict[str, Any]) -> str:
    """Write the result with its table; return the table."""
    rows = summarise(result["cells"])
    table = markdown(rows)
    command = f"python benchmarks/real_data.py {' '.join(sys.argv[1:])}".strip()
    record(path.stem, command, {**result, "table": rows, "markdown": table}, path.parent)
    return table


def run(options: argparse.Namespace) -> int:
    """Run the missing cells; return the exit code."""
    recipe = Recipe(epochs=options.epochs)
    setup = {**recipe.to_json(), "rates": list(RATES), "trial_epochs": TRIAL_EPOCHS,
             "trial_share": TRIAL_SHARE}  # fmt: skip
    result = read(options.out, setup)
    loaded: dict[str, Loaded] = {}
    for problem, name, seed in plan(options.cells, options.seeds):
        key = f"{problem}/{name}"
        done = {(c["problem"], c["network"], c["seed"]) for c in result["cells"]}
        if (problem, name, seed) in done:
            continue
        if problem not in loaded:
            loaded[problem] = load(problem, options.data)
        try:
            build(name, loaded[problem], seed)
        except UsageError as error:
            if name == THEIRS:
                raise
            result["refused"][key] = str(error)
            print(f"{key}: {error}", flush=True)
            continue
        result["refused"].pop(key, None)
        rates = result["rates"].setdefault(key, {})
        while True:
            rate = choose_rate(name, loaded[problem], recipe, rates)
            write(options.out, result)
            try:
                found = run_cell(name, loaded[problem], recipe, rate, seed)
                break
            except Diverged:  # longer training may, where the trial did not: the next best rate
                print(f"{key}/{seed}: diverged at rate {rate:g}", flush=True)
                if rates[str(rate)] == WORST:
                    raise
                rates[str(rate)] = WORST
        result["cells"].append({"problem": problem, **found})
        write(options.out, result)
        errors = ", ".join(f"{sum(e) / len(e):.4f} ({k})" for k, e in found["errors"].items())
        print(f"{key}/{seed}: {errors}; rate {rate:g}, {found['cpu_seconds']:.0f} s", flush=True)
    print(write(options.out, result))
    return 0


def main() -> int:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", nargs="+", default=[], help="PROBLEM, NETWORK or both by /")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=Recipe.epochs)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of neuraloperator's files")
    parser.add_argument("--out", type=Path, default=RESULTS / "real_data_cpu.json")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    try:
        return run(options)
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())

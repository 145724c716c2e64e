"""Cost of denormal numbers: a training step that keeps them beside one that flushes them to zero.

    python benchmarks/denormals.py [NAME …] [--rounds 9]

Gradients of a batch of the default recipe, of a fresh network, on one thread: milliseconds with
denormal numbers as zero, as in training, and how many times as long the same step takes that keeps
them, eager and compiled, in turns; and how far their gradients are apart, relative to their size.
The result is `results/denormals_MAKER.json`, by the maker of the processor.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import Any

import torch
from parts_of_step import difference
from record import maker, record
from second_order import Case, build_case
from steps.timing import Options, interleaved

from piop.denormals import flush_denormals
from piop.problem import Problem
from piop.residual.compiled_step import TracedStep
from piop.training.loop.gradients import CompiledGradients

PROBLEMS = ("burgers", "burgers2d_cvit", "gray_scott", "heat2d", "kdv", "navier_stokes")


def measure(case: Case, options: Options) -> dict[str, Any]:
    """Measure the gradients of one batch."""
    own = CompiledGradients(case.loss)
    tensors = own._tensors(case.draw()(0, 0.0))
    steps = {
        "eager": TracedStep(own._flat_loss, compiled=False),
        "compiled": TracedStep(own._flat_loss),
    }
    steps["compiled"].prepare(own.parameters, tensors)
    found: dict[str, Any] = {}
    for name, step in steps.items():
        kept = partial(step, own.parameters, tensors)
        flushed = flush_denormals()(kept)
        seconds = interleaved({"kept": kept, "flushed": flushed}, options)
        found[name] = {
            "milliseconds": round(1e3 * seconds["flushed"], 1),
            "kept_over_flushed": round(seconds["kept"] / seconds["flushed"], 2),
            "difference": difference(kept()[1], flushed()[1]),
        }
    return found


def main() -> None:
    """Parse the arguments, measure, write the result."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("problems", nargs="*", default=PROBLEMS, metavar="NAME")
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    torch.set_num_threads(1)  # a thread of torch's that started before keeps its mode
    options = Options(torch.device("cpu"), given.rounds)
    cells = {}
    for name in given.problems:
        case = build_case(Problem.from_file(name), 0, device="cpu")
        cells[name] = measure(case, options)
        print(name, cells[name], flush=True)
    command = f"python benchmarks/denormals.py {' '.join(sys.argv[1:])}".strip()
    record(f"denormals_{maker()}", command, {"problems": cells})


if __name__ == "__main__":
    main()

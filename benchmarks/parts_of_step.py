"""Time of the parts of a training step on one device: drawing, gradients, optimiser.

    python benchmarks/parts_of_step.py [NAME …] [--device cuda] [--rounds 30] [--no-graph]

Milliseconds of the default recipe's step: drawing functions and points (a step at a time, and as
one of several at once, as training does), gradients of the whole batch together (eager, compiled,
and on a GPU as a CUDA graph; on a CPU training takes them in microbatches), and the optimiser (with
and without new eigenbases). The device has done its work at both ends of a time; ways of one part
take turns. With them the seconds of tracing and of compiling in an empty cache, and by how much
gradients differ from eager ones, relative to their size. The result is
`results/parts_of_step_DEVICE.json`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from record import record
from second_order import Case, build_case
from steps.timing import Options, interleaved, wait
from torch import Tensor

from piop.denormals import flush_denormals
from piop.problem import Problem
from piop.residual.compiled_step import TracedStep
from piop.residual.inductor import fresh_cache
from piop.training.batches.ahead import BatchesAhead
from piop.training.batches.batch import Batch
from piop.training.loop.gradients import CompiledGradients
from piop.training.optimisers.build import build_optimiser

PROBLEMS = ("burgers", "burgers2d_cvit")


def measure(case: Case, options: Options, graph: bool) -> dict[str, Any]:
    """Measure the parts of a step."""
    source = case.draw()
    batch = source(0, 0.0)
    found: dict[str, Any] = {
        "functions": max([len(samples.values) for samples in batch.inputs.values()], default=1)
    }
    found["drawing"] = drawing(source, options)
    found |= gradients(case, batch, options, graph and options.device.type == "cuda")
    return found | {"optimiser": optimiser(case, options)}


def drawing(source: Any, options: Options) -> dict[str, float]:
    """Time the batches of some steps, drawn one by one and as training does."""
    if not isinstance(source, BatchesAhead):
        return in_milliseconds({"a step": lambda: source(1, 0.0)}, options)
    first = iter(range(0, 10**9, source.steps))
    together = f"a step of {source.steps} at once"
    ways = {
        "a step": lambda: source.equations(1, 0.0),
        together: lambda: source(next(first), 0.0),
    }
    found = in_milliseconds(ways, options)
    return found | {together: round(found[together] / source.steps, 3)}


def gradients(case: Case, batch: Batch, options: Options, graph: bool) -> dict[str, Any]:
    """Time the gradients of a batch, and tracing and compiling."""
    ways: dict[str, Callable[[], object]] = {}
    seconds: dict[str, float] = {}
    differences: dict[str, float] = {}
    own = CompiledGradients(case.loss)
    tensors = own._tensors(batch)
    usual = TracedStep(own._flat_loss, compiled=False)
    _, expected = usual(own.parameters, tensors)
    ways["eager"] = lambda: usual(own.parameters, tensors)
    for name in ("compiled", "CUDA graph")[: 1 + graph]:
        step = TracedStep(own._flat_loss, graphs=name != "compiled")
        with fresh_cache():
            begun = time.perf_counter()
            step.foresee(own.parameters, tensors)
            seconds["tracing"] = time.perf_counter() - begun
            step.prepare(own.parameters, tensors)
            wait(options.device)
            seconds[name] = time.perf_counter() - begun
            _, given = step(own.parameters, tensors)
        differences[name] = difference(given, expected)
        ways[name] = lambda step=step: step(own.parameters, tensors)
    return {
        "gradients": in_milliseconds(ways, options),
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
        "difference": differences,
    }


def difference(given: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> float:
    """Return the distance of gradients, relative to the size of those expected."""
    squares = [(a - b).square().sum() for a, b in zip(given, expected, strict=True)]
    return float((sum(squares) / sum(b.square().sum() for b in expected)) ** 0.5)


def optimiser(case: Case, options: Options) -> dict[str, float]:
    """Time the default optimiser with random gradients, with eigenbases every step and never."""
    parameters = [p for p in case.loss.parameters() if p.requires_grad]
    ways: dict[str, Callable[[], object]] = {}
    for name, every in {"without new eigenbases": 10**9, "with new eigenbases": 1}.items():
        own = build_optimiser(parameters, case.job.config.optimiser)
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        own.param_groups[0]["precondition_frequency"] = every
        ways[name] = own.step
    return in_milliseconds(ways, options)


def in_milliseconds(ways: dict[str, Callable[[], object]], options: Options) -> dict[str, float]:
    """Return the median milliseconds of each way."""
    return {k: round(1e3 * v, 3) for k, v in interleaved(ways, options).items()}


@flush_denormals()
def main() -> None:
    """Parse the arguments, measure, write the result."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("problems", nargs="*", default=PROBLEMS, metavar="NAME")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--graph", action=argparse.BooleanOptionalAction, default=True)
    given = parser.parse_args()
    options = Options(torch.device(given.device), given.rounds)
    cells = {}
    for name in given.problems:
        case = build_case(Problem.from_file(name), 0, device=given.device)
        cells[name] = measure(case, options, given.graph)
        print(name, cells[name], flush=True)
        torch._dynamo.reset()
    command = f"python benchmarks/parts_of_step.py {' '.join(sys.argv[1:])}".strip()
    kind = "gpu" if given.device == "cuda" else given.device
    record(f"parts_of_step_{kind}", command, {"milliseconds": cells})


if __name__ == "__main__":
    main()

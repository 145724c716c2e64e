"""What a training step computes and moves, beside what the machine can: the roofline of a step.

    python benchmarks/roofline.py [--problems burgers] [--rounds 15]

One thread, float32, the compiled step of the default recipe, whose microbatches are counted one by
one. Floating-point operations are those of the traced graph: 2·m·n·k of a matrix product, one for
each value of an elementwise operation or a reduction. Bytes before fusion are the sizes of what
each operation of the graph reads and writes; after fusion they are what Inductor counts for its
kernels, for which the step is compiled anew (about a minute; not with ``--no-fusion``). Views
count nothing.

Peaks are measured in the same process, in turns with the step: a product of two 1024 × 1024
matrices; a triad a = b + s·c on arrays far larger than the caches, and on arrays within them; and
the products of the step alone, on random matrices of their shapes. Times are processor times,
medians over the rounds. The result is `results/roofline_cpu.json`.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from record import record
from second_order import Case, build_case
from steps.timing import Options, interleaved
from torch import Tensor
from torch.func import functional_call
from torch.fx import GraphModule, Node

from piop.denormals import flush_denormals
from piop.problem import Problem
from piop.residual.compiled_step import trace
from piop.residual.inductor import fresh_cache
from piop.training.batches.batch import Batch, flatten
from piop.training.batches.split import split_batch
from piop.training.loop.compilation import StepGradients
from piop.training.loop.microbatches import COMPILED_ROWS, microbatch_count
from piop.training.loop.phases import Stochastic, TrainingTask

aten = torch.ops.aten
PRODUCTS = (aten.mm, aten.bmm, aten.addmm, aten.baddbmm)
VIEWS = frozenset(
    {"view", "reshape", "permute", "expand", "transpose", "t", "slice", "select", "unsqueeze"}
    | {"squeeze", "split", "split_with_sizes", "unbind", "alias", "detach", "as_strided"}
)
LARGE, SMALL = 2**24, 2**14
"""Numbers in each array of a triad: 64 MB, far beyond the caches, and 64 kB."""
SIDE = 1024


@dataclass
class Work:
    """Operations, floating-point operations and bytes of a graph, by class of operation.

    Attributes:
        count: Operations.
        flops: Floating-point operations.
        moved: Bytes read and written, one operation after the other.
        shapes: Shapes of the factors of each product.
    """

    count: Counter[str] = field(default_factory=Counter)
    flops: Counter[str] = field(default_factory=Counter)
    moved: Counter[str] = field(default_factory=Counter)
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=list)


def _tensors(value: Any) -> list[Tensor]:
    found = value if isinstance(value, list | tuple) else [value]
    return [t for t in found if isinstance(t, Tensor)]


def _size(tensors: list[Tensor]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def class_of(node: Node) -> str | None:
    """Return the class of an operation; None for views and for what is no operation."""
    target = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
        return None
    packet = target.overloadpacket
    if packet in PRODUCTS:
        return "products"
    if packet.__name__ in VIEWS:
        return None
    if torch.Tag.pointwise in target.tags:
        return "elementwise"
    if packet.__name__ in ("sum", "mean", "amax", "var_mean", "prod", "max", "min"):
        return "reductions"
    return "copies and other"


def count_work(graph: GraphModule) -> Work:
    """Count the work of a traced graph."""
    work = Work()
    for node in graph.graph.nodes:
        kind = class_of(node)
        if kind is None:
            continue
        inputs = [t for n in node.all_input_nodes for t in _tensors(n.meta.get("val"))]
        outputs = _tensors(node.meta.get("val"))
        work.count[kind] += 1
        work.moved[kind] += _size(inputs) + _size(outputs)
        if kind == "products":
            left, right = (tuple(t.shape) for t in inputs[-2:])
            work.shapes.append((left, right))
            work.flops[kind] += 2 * math.prod(left) * right[-1]
        elif kind == "reductions":
            work.flops[kind] += sum(t.numel() for t in inputs)
        elif kind == "elementwise":
            work.flops[kind] += sum(t.numel() for t in outputs)
    return work


def traced(case: Case, batch: Batch) -> GraphModule:
    """Trace loss and gradients of a microbatch, as the compiled step does."""
    loss = case.loss
    trained = {n: p for n, p in loss.named_parameters() if p.requires_grad}
    inputs, rebuild = flatten((dict(loss.named_buffers()), batch))

    def run(tensors: list[Tensor]) -> tuple[Tensor, ...]:
        with torch.enable_grad():
            weights = [t.detach().requires_grad_() for t in tensors[: len(trained)]]
            buffers, rows = rebuild(tensors[len(trained) :])
            state = {**dict(zip(trained, weights, strict=True)), **buffers}
            parts, _ = functional_call(loss, state, (rows,))
            return torch.autograd.grad(parts["loss"], weights, materialize_grads=True)

    return trace(run, [*(p.detach() for p in trained.values()), *inputs])


def bytes_after_fusion(compiling: Callable[[], object]) -> int:
    """Return the bytes that the kernels read and write which are compiled in a call.

    Inductor counts them where they are logged, and not for kernels of its cache.
    """
    from torch._inductor import compile_fx, metrics

    level, before = compile_fx.inductor_metrics_log.level, metrics.num_bytes_accessed
    compile_fx.inductor_metrics_log.setLevel(logging.INFO)
    try:
        with fresh_cache():
            compiling()
    finally:
        compile_fx.inductor_metrics_log.setLevel(level)
    return metrics.num_bytes_accessed - before


def triad(size: int) -> Callable[[], object]:
    """Prepare a = b + s·c, repeated on small arrays so that the time is long enough to measure."""
    a, b, c = (torch.rand(size) for _ in range(3))
    repeats = max(1, LARGE // size)

    def run() -> None:
        for _ in range(repeats):
            torch.add(b, c, alpha=0.5, out=a)

    return run


def products(work: Work) -> Callable[[], object]:
    """Prepare the products of a graph, on random matrices."""
    pairs = [(torch.rand(a), torch.rand(b)) for a, b in work.shapes]
    return lambda: [a @ b for a, b in pairs]


def measure(problem: Problem, rounds: int, fusion: bool) -> dict[str, Any]:
    """Count and time the compiled step of a problem."""
    case = build_case(problem, 0)
    config, source = case.job.config.optimiser, case.draw()
    gradients = StepGradients(case.loss, compiled=True)
    task = TrainingTask(case.loss.operator, gradients, source, config, case.loss.weightings)
    phase = Stochastic(task)
    batch = source(0, 0.0)
    streams = 0 if case.loss.residual is None else case.loss.residual.streams
    microbatches = microbatch_count(batch, streams, COMPILED_ROWS)
    work = count_work(traced(case, split_batch(batch, microbatches)[0]))
    if fusion:
        fused = bytes_after_fusion(lambda: gradients(batch))  # compiles
    else:
        fused = None
        gradients(batch)
    for index in range(2):
        phase.step(index, 0.1)  # the optimiser sets up its state

    left, right = torch.rand(SIDE, SIDE), torch.rand(SIDE, SIDE)
    runs = {
        "gradients": lambda: gradients(batch),
        "draw": lambda: source(1, 0.1),
        "optimiser": phase.optimiser.step,
        "products_alone": products(work),
        "matmul": lambda: left @ right,
        "triad": triad(LARGE),
        "triad_in_cache": triad(SMALL),
    }
    options = Options(torch.device("cpu"), rounds)
    seconds = interleaved(runs, options, warm=1, clock=time.process_time)
    peak = 2 * SIDE**3 / seconds["matmul"]
    memory = 12 * LARGE / seconds["triad"]
    cache = 12 * LARGE / seconds["triad_in_cache"]
    flops, moved = sum(work.flops.values()), sum(work.moved.values())
    each = seconds["gradients"] / microbatches
    least = {
        "flops_at_peak": flops / peak,
        "bytes_before_fusion_in_cache": moved / cache,
        "bytes_before_fusion_in_memory": moved / memory,
    }
    found = {
        "points": math.prod(batch.equations.queries.shape[:2]) if batch.equations else 0,
        "microbatches": microbatches,
        "of_a_microbatch": {
            "operations": dict(work.count),
            "megaflops": {kind: round(n / 1e6, 1) for kind, n in work.flops.items()},
            "megabytes_before_fusion": {k: round(n / 1e6, 2) for k, n in work.moved.items()},
        },
        "milliseconds": {name: round(1e3 * value, 3) for name, value in seconds.items()},
        "peak_gigaflops": round(peak / 1e9, 1),
        "triad_gigabytes_per_second": round(memory / 1e9, 2),
        "triad_in_cache_gigabytes_per_second": round(cache / 1e9, 2),
        "flops_per_byte_before_fusion": round(flops / moved, 2),
        "fraction_of_peak": round(flops / each / peak, 3),
        "fraction_of_peak_of_products_alone": round(
            work.flops["products"] / seconds["products_alone"] / peak, 3
        ),
        "fraction_of_time_in_products": round(seconds["products_alone"] / each, 3),
    }
    if fused is not None:
        found["of_a_microbatch"]["megabytes_after_fusion"] = round(fused / 1e6, 2)
        found["flops_per_byte_after_fusion"] = round(flops / fused, 2)
        found["gigabytes_per_second_after_fusion"] = round(fused / each / 1e9, 2)
        least["bytes_after_fusion_in_cache"] = fused / cache
        least["bytes_after_fusion_in_memory"] = fused / memory
    rounded = {name: round(1e3 * microbatches * value, 3) for name, value in least.items()}
    return {**found, "least_milliseconds": rounded}


@flush_denormals()
def main() -> None:
    """Parse the arguments, measure, write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", default=["burgers"])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--fusion", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = {
        name: measure(Problem.from_file(name), options.rounds, options.fusion)
        for name in options.problems
    }
    command = f"python benchmarks/roofline.py {' '.join(sys.argv[1:])}".strip()
    record("roofline_cpu", command, {"load_average": list(os.getloadavg()), "problems": found})
    for name, row in found.items():
        print(name)
        for key, value in row.items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()

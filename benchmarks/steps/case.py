"""One problem with its network and one batch, and the steps that are compared on it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from piop.models import build_backbone
from piop.problem import Problem
from piop.problem.constraints import decide_constraints
from piop.residual import compile_residual
from piop.residual.compiled_step import TracedStep
from piop.sampling import Draws, collocation, observe, sample_inputs
from piop.training.batches.batch import Batch, CollocationPoints, flatten
from piop.training.batches.split import split_batch
from piop.training.build import signature_of
from piop.training.loop.microbatches import COMPILED_ROWS, EAGER_ROWS, microbatch_count
from piop.training.loss.known_functions import hard_constraint_lift
from piop.training.loss.statistics import distribution_statistics
from piop.training.operator import Operator, OperatorField
from steps.timing import Options, Run, interleaved, peak_memory

FUNCTIONS, QUERIES = 16, 256


@dataclass(frozen=True)
class Case:
    """A loss as a function of parameters and points, in the three ways that are compared.

    Attributes:
        parameters: Of the network.
        batch: What the step looks at.
        losses: ``streams``, ``nested`` (reverse mode) and ``supervised`` (mean squared error).
        streams: S of the equations.
    """

    parameters: list[Tensor]
    batch: Batch
    losses: dict[str, Callable[[list[Tensor], Batch], Tensor]]
    streams: int

    def step(self, loss: str, compiled: bool, in_pieces: bool) -> Run:
        """Prepare a step: loss and gradients, of the whole batch or in pieces as in training."""
        rows = COMPILED_ROWS if compiled else EAGER_ROWS
        count = microbatch_count(self.batch, self.streams, rows) if in_pieces else 1
        pieces = [flatten(piece) for piece in split_batch(self.batch, count)]
        rebuild = pieces[0][1]

        def flat(values: list[Tensor], tensors: list[Tensor]) -> Tensor:
            return self.losses[loss](values, rebuild(tensors))

        step = TracedStep(flat, compiled=compiled)
        step.prepare(self.parameters, pieces[0][0])
        if step.eager_because is not None:
            raise RuntimeError(f"{loss} does not compile: {step.eager_because}")

        def run() -> list[Tensor]:
            totals: list[Tensor] = []
            for tensors, _ in pieces:
                gradients = list(step(self.parameters, tensors)[1])
                if totals:
                    torch._foreach_add_(totals, gradients)
                else:
                    totals = gradients
            return totals

        return run


def build_case(
    problem: Problem,
    width: int,
    device: torch.device,
    *,
    attend: bool,
    dtype: Any = torch.float32,
    functions: int = FUNCTIONS,
    queries: int = QUERIES,
) -> Case:
    """Set up the project's default PIT on a problem, with its initial data built in.

    Args:
        problem: The problem.
        width: Features of the network.
        device: Where it runs.
        attend: Attend to the sensors themselves; otherwise to the lattice of their harmonic fit,
            as the network does with smooth inputs, and the number of sensors hardly matters.
        dtype: Precision.
        functions: B.
        queries: N, of each function.
    """
    residual = compile_residual(problem)
    statistics = distribution_statistics(problem, residual, seed=0)
    conditions = decide_constraints(problem, "auto")
    signature = signature_of(problem, conditions, statistics)
    if attend:
        seen_as = tuple(replace(entry, smooth=False) for entry in signature.inputs)
        signature = replace(signature, inputs=seen_as)
    torch.manual_seed(0)
    mean, scale = statistics.channel_mean, statistics.channel_scale
    backbone = build_backbone("pit", signature, width=width)
    operator = Operator(backbone, conditions.lift_orders, problem.time, mean, scale)
    operator.to(device=device, dtype=dtype)
    known = hard_constraint_lift(problem, conditions, mean)
    lift = None if known is None else residual.compile_lift(known.expressions)
    names = [name for name, _ in operator.named_parameters()]

    like = torch.empty(0, dtype=dtype, device=device)
    draws = Draws(0, 1, torch.arange(functions, device=device))
    drawn = sample_inputs(problem, draws, dtype)
    at = collocation(problem, draws, queries, "uniform").to(like)
    seen = observe(drawn, problem, draws, dtype)
    rows = None if lift is None else lift(drawn, at)
    points = CollocationPoints(at, residual.evaluate_inputs(drawn, at), rows)
    scales = torch.tensor(statistics.equation_scale, device=device, dtype=dtype)

    def network(values: list[Tensor]) -> Callable[..., Any]:
        weights = dict(zip(names, values, strict=True))
        return lambda *args: functional_call(operator, weights, args)

    def physics(evaluate: Callable[..., Any]) -> Callable[[list[Tensor], Batch], Tensor]:
        def loss(values: list[Tensor], batch: Batch) -> Tensor:
            at: CollocationPoints = batch.equations  # type: ignore[assignment]
            field = OperatorField(network(values), batch.inputs, lift, at.lift)  # type: ignore[arg-type]
            found = evaluate(field, at.queries, at.input_values).values
            return ((found / scales) ** 2).mean()

        return loss

    def supervised(values: list[Tensor], batch: Batch) -> Tensor:
        at: CollocationPoints = batch.equations  # type: ignore[assignment]
        value = None if at.lift is None else at.lift[0]
        return (network(values)(batch.inputs, at.queries, value) ** 2).mean()

    losses = {
        "streams": physics(residual),
        "nested": physics(residual.reverse),
        "supervised": supervised,
    }
    parameters = [p.detach() for p in operator.parameters()]
    return Case(parameters, Batch(seen, equations=points), losses, residual.plan.count)


RATIOS = (
    ("streams_compiled", "supervised_eager"),
    ("streams_compiled", "supervised_compiled"),
    ("streams_eager", "supervised_eager"),
    ("nested_eager", "streams_eager"),
    ("nested_eager", "streams_compiled"),
    ("nested_pieces_eager", "streams_compiled"),
    ("nested_compiled", "streams_compiled"),
)


def compare(case: Case, options: Options, nested_compiled: bool) -> dict[str, float]:
    """Time the steps of a case in turns and give their ratios.

    Args:
        case: What is compared.
        options: How.
        nested_compiled: Compile nested reverse mode too, which for high orders takes very long.
    """
    runs = {
        f"{name}_eager": case.step(name, compiled=False, in_pieces=name == "streams")
        for name in case.losses
    }
    runs["nested_pieces_eager"] = case.step("nested", compiled=False, in_pieces=True)
    if options.compiled:
        for name in ("supervised", "streams", *["nested"] * nested_compiled):
            start = time.perf_counter()
            runs[f"{name}_compiled"] = case.step(name, True, in_pieces=name == "streams")
            print(f"compiled {name}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
    seconds = interleaved(runs, options)
    peaks = {name: peak_memory(run, options.device) for name, run in runs.items()}
    pairs = [(a, b) for a, b in RATIOS if a in runs and b in runs]
    figures = {f"{a}_over_{b}": seconds[a] / seconds[b] for a, b in pairs}
    memory = [(b, a) for a, b in pairs if a.startswith("nested")]
    figures |= {f"memory_{a}_over_{b}": peaks[a] / peaks[b] for a, b in memory}
    figures |= {f"milliseconds_{name}": 1e3 * value for name, value in seconds.items()}
    return figures | {f"megabytes_{name}": value / 1e6 for name, value in peaks.items()}

"""What rounding the matrix products of a step does to it, against float64.

    python benchmarks/precision.py

On Burgers' equation with the default network, fresh and trained for a while, one batch and the same
weights: the relative L2 error of the residual and of the loss's gradient when all matrix products
of the network with its streams take float32, TF32 (10 bits of mantissa) or bfloat16 (7 bits), and
when keys and values alone, which have no streams, are stored in bfloat16. Beside them the data's
part, which has no derivatives: the errors of its misfit and gradient. `between_batches` is how far
the gradients of two batches lie apart, the noise that any step has. Rounding is emulated: operands
to so many bits, sums in float32, as matrix units do it. Last, training on data alone in bfloat16
and in float32: the error on held-out trajectories after the same steps.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from record import record
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from piop.datasets import Dataset, read_dataset
from piop.generation import generate
from piop.problem import Problem
from piop.residual import compile_residual
from piop.run import fit
from piop.training.batches.batch import Batch, flatten
from piop.training.build import build_model, build_objective, build_source
from piop.training.config import BudgetConfig, MachineConfig, TrainingConfig
from piop.training.loss.objective import EQUATIONS, ResidualLoss
from piop.training.loss.statistics import distribution_statistics
from piop.training.optimisers.build import build_optimiser

PRODUCTS = {
    torch.ops.aten.mm.default,
    torch.ops.aten.bmm.default,
    torch.ops.aten.addmm.default,
    torch.ops.aten.baddbmm.default,
}
BITS = {"tf32": 10, "bf16": 7}


def rounded(value: Tensor, bits: int) -> Tensor:
    """Round float32 to so many bits of mantissa, half away from zero."""
    drop = 23 - bits
    whole = value.contiguous().view(torch.int32) + (1 << (drop - 1))
    return (whole >> drop << drop).view(torch.float32)


class RoundedProducts(TorchDispatchMode):
    """Rounds what enters matrix products, forward and backward, and for bf16 what leaves them."""

    def __init__(self, precision: str) -> None:
        super().__init__()
        self.bits = BITS[precision]
        self.stored = precision == "bf16"

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function not in PRODUCTS:
            return function(*args, **(kwargs or {}))
        taken = (rounded(a, self.bits) if _is_single(a) else a for a in args)
        found = function(*taken, **(kwargs or {}))
        return rounded(found, self.bits) if self.stored and _is_single(found) else found


def _is_single(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype == torch.float32


@contextmanager
def rounded_keys(loss: ResidualLoss) -> Iterator[None]:
    """Store keys and values in bfloat16."""
    layers = [m for n, m in loss.named_modules() if n.endswith((".key", ".value"))]
    hooks = [m.register_forward_hook(lambda m, i, out: out.bfloat16().float()) for m in layers]
    assert hooks
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def build(problem: Problem, precision: str, data: Dataset | None) -> tuple[ResidualLoss, Any]:
    """Build the objective and its source; on data alone where there are data."""
    machine = MachineConfig(precision=precision)  # type: ignore[arg-type]
    config = TrainingConfig(BudgetConfig(steps=1), machine=machine, physics=data is None)
    statistics = distribution_statistics(problem, compile_residual(problem), 0)
    model = build_model(problem, statistics, config)
    loss = build_objective(model, statistics, config)
    return loss, build_source(model, loss, statistics, config, data)


def misfit(loss: ResidualLoss, batch: Batch) -> Tensor:
    """The residual, or what the prediction misses the data by."""
    if (points := batch.equations) is not None:
        field = loss._field(batch, EQUATIONS, points)
        return loss.residual(field, points.queries, points.input_values).values.detach()
    seen = batch.observations
    return (loss.operator(seen.inputs, seen.queries, seen.lift) - seen.targets).detach()


def gradient(loss: ResidualLoss, batch: Batch) -> Tensor:
    """The gradient of the loss as one vector."""
    parameters = [p for p in loss.parameters() if p.requires_grad]
    found = torch.autograd.grad(loss(batch)[0]["loss"], parameters, materialize_grads=True)
    return torch.cat([g.flatten() for g in found])


def apart(found: Tensor, truth: Tensor) -> float:
    """Relative L2 distance."""
    return float((found.double() - truth).norm() / truth.norm())


def in_single(batch: Batch) -> Batch:
    """The same batch in float32."""
    tensors, rebuild = flatten(batch)
    return rebuild([t.float() if t.is_floating_point() else t for t in tensors])


def compare(exact: ResidualLoss, single: ResidualLoss, batches: list[Batch]) -> dict[str, Any]:
    """Errors of every rounding at the present weights."""
    single.load_state_dict({k: v.float() for k, v in exact.state_dict().items()})
    truth, slope = misfit(exact, batches[0]), gradient(exact, batches[0])
    modes: dict[str, Callable[[], Any]] = {
        "float32": nullcontext,
        "tf32": lambda: RoundedProducts("tf32"),
        "bf16": lambda: RoundedProducts("bf16"),
        "bf16_keys_and_values": lambda: rounded_keys(single),
    }
    found: dict[str, Any] = {}
    for name, mode in modes.items():
        with mode():
            batch = in_single(batches[0])
            values, slopes = misfit(single, batch), gradient(single, batch)
        found[name] = {"misfit": apart(values, truth), "gradient": apart(slopes, slope)}
    found["between_batches"] = apart(gradient(exact, batches[1]), slope)
    return found


def train(loss: ResidualLoss, draw: Any, steps: int) -> None:
    """Take plain steps of the default optimiser at a fixed rate."""
    config = TrainingConfig(BudgetConfig(steps=1)).optimiser
    optimiser = build_optimiser(loss.parameters(), config)
    for step in range(steps):
        optimiser.zero_grad()
        loss(draw(step, 0.0))[0]["loss"].backward()
        torch.nn.utils.clip_grad_norm_(loss.parameters(), 1.0)
        optimiser.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100, help="before the second comparison")
    parser.add_argument("--data-steps", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    problem = Problem.from_file("burgers")
    figures: dict[str, Any] = {"data_training": {"float32": [], "bf16": []}}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.nc"
        generate(problem, 64, path)
        for name, data in {"physics": None, "data": read_dataset(path, problem)}.items():
            (exact, draw), (single, _) = (build(problem, p, data) for p in ("float64", "float32"))
            batches = [draw(10_000, 0.0), draw(10_001, 0.0)]
            figures[name] = {"fresh": compare(exact, single, batches)}
            train(exact, draw, options.steps)
            figures[name][f"after_{options.steps}_steps"] = compare(exact, single, batches)
            print(name, figures[name], flush=True)
        for seed in range(options.seeds):
            for precision, errors in figures["data_training"].items():
                run = fit(
                    problem, steps=options.data_steps, data=path, physics=False, device="cpu",
                    precision=precision, compile=False, seed=seed,
                    out=Path(folder) / f"{precision}{seed}",
                )  # fmt: skip
                errors.append(run.evaluate(64, write=False)["relative_l2"]["mean"])
                print(precision, seed, errors[-1], flush=True)
    print(record("precision_cpu", "python benchmarks/precision.py", figures))


if __name__ == "__main__":
    main()

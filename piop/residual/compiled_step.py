"""A training step as one compiled graph: loss and gradients, forward and backward together.

Streams do not survive Dynamo, but a function of a flat list of tensors can be traced with
``make_fx``, through the streams and through the backward pass, to plain operations; those are then
compiled. Shapes are static: another shape is traced and compiled anew.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, cast, final

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

LossFunction = Callable[[list[Tensor], list[Tensor]], Any]
FlatFunction = Callable[[list[Tensor]], tuple[Tensor, ...]]
VIEWS = (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default)
"""Reshapes without a copy, which hold for the strides of the traced run alone."""


@final
class TracedStep:
    """A training step, a callable (params, inputs) -> (parts, grads).

    Args:
        loss_function: Maps (parameters, inputs) to the loss, or to a tuple that begins with it.
            Anything else it reads, buffers too, is frozen as it is when a shape first occurs.
        compiled: Whether to trace and compile; otherwise everything is eager.
        graphs: Whether to record CUDA graphs of the compiled step. They read the parameters where
            they lie, so those must be changed in place; inputs are copied, and so is what is given.

    Attributes:
        eager_because: Why compilation was given up; None while it was not.
    """

    def __init__(
        self, loss_function: LossFunction, *, compiled: bool = True, graphs: bool = False
    ) -> None:
        self.loss_function = loss_function
        self.compiled, self.graphs = compiled, graphs
        self.eager_because: str | None = None
        self._graphs: dict[Any, FlatFunction] = {}

    def __call__(
        self, params: Sequence[Tensor], inputs: Sequence[Tensor]
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Compute loss and gradients.

        Args:
            params: Parameters, of which the gradients are wanted.
            inputs: Tensors of one batch.

        Returns:
            What the loss function gave, detached, the loss first; and a gradient per parameter.

        Warns:
            RuntimeWarning: If tracing or compiling fails, upon which the step is eager.
        """
        count = len(params)
        run = self.prepare(params, inputs)
        run = self._flat(count) if run is None else run  # a compiled graph has no truth value
        with torch.no_grad():
            out = run([p.detach() for p in (*params, *inputs)])
        return out[:-count], out[-count:]

    def prepare(self, params: Sequence[Tensor], inputs: Sequence[Tensor]) -> FlatFunction | None:
        """Trace and compile for the shapes of these tensors; give None where the step is eager.

        Warns:
            RuntimeWarning: If tracing or compiling fails, upon which the step is eager.
        """
        if not self.compiled or self.eager_because is not None:
            return None
        tensors, count = (*params, *inputs), len(params)
        key = (count, *((t.shape, t.dtype, t.device) for t in tensors))
        try:
            if key not in self._graphs:
                flat = [t.detach() for t in tensors]
                self._graphs[key] = self._compiled(self._flat(count), flat, count)
        except (MemoryError, torch.OutOfMemoryError):
            raise  # eager needs no less
        except Exception as reason:  # whatever a compiler raises, eager still works
            self.eager_because = f"{type(reason).__name__}: {reason}"
            warnings.warn(
                f"the training step stays eager, which is slower: {self.eager_because}",
                RuntimeWarning,
                stacklevel=3,
            )
            return None
        return self._graphs[key]

    def _compiled(self, function: FlatFunction, flat: list[Tensor], count: int) -> FlatFunction:
        """Trace, compile and try; once more without the cache, which a killed compile damages."""

        def attempt() -> FlatFunction:
            graph = trace(function, flat, count if self.graphs else None)
            with torch.no_grad():
                graph(flat)
            return graph

        try:
            return attempt()
        except (MemoryError, torch.OutOfMemoryError):
            raise
        except Exception:  # half a library is left behind by a compiler that was killed
            from torch._inductor.utils import fresh_cache  # slow to import

            with fresh_cache():
                return attempt()

    def _flat(self, count: int) -> FlatFunction:
        """Give the step as a function of one list: parameters, then inputs."""

        def run(tensors: list[Tensor]) -> tuple[Tensor, ...]:
            with torch.enable_grad():
                params = [t.detach().requires_grad_() for t in tensors[:count]]
                out = self.loss_function(params, list(tensors[count:]))
                parts = (out,) if isinstance(out, Tensor) else tuple(out)
                grads = torch.autograd.grad(parts[0], params, materialize_grads=True)
            return (*(part.detach() for part in parts), *grads)

        return run


def trace(function: FlatFunction, examples: list[Tensor], fixed: int | None = None) -> FlatFunction:
    """Trace a function of a flat list of tensors to plain operations and compile it.

    Args:
        function: Maps a list of tensors to a tuple of tensors; it may differentiate inside.
        examples: Tensors of the shapes to come; the compiled function is called with these first.
        fixed: Record CUDA graphs, in which so many of the first tensors stay where they are in
            memory; None records none.

    Returns:
        The compiled function, to be called without gradients.
    """
    graph = make_fx(function)(examples)
    for node in graph.graph.nodes:  # a compiler may lay out memory otherwise than the traced run
        if node.target in VIEWS:
            node.target = torch.ops.aten.reshape.default
    graph.graph.eliminate_dead_code()
    graph.recompile()
    if fixed is None:
        return cast(FlatFunction, torch.compile(graph, fullgraph=True, dynamic=False))
    for tensor in examples[:fixed]:  # else every step would copy all parameters
        torch._dynamo.mark_static_address(tensor, guard=False)
    recorded: Any = torch.compile(graph, fullgraph=True, dynamic=False, mode="reduce-overhead")

    def run(tensors: list[Tensor]) -> tuple[Tensor, ...]:
        """Copy the outputs, since the next run of a recorded graph writes to the same memory."""
        torch.compiler.cudagraph_mark_step_begin()
        found = recorded(tensors)
        # many copies in one kernel
        return tuple(torch._foreach_mul(found, 1))  # pyright: ignore[reportPrivateImportUsage]

    return run

"""A training step as one compiled graph: loss and gradients, forward and backward together.

Streams do not survive Dynamo, but a function of a flat list of tensors can be traced with
``make_fx``, through the streams and through the backward pass, to plain operations; those are then
compiled. Shapes are static: another shape is traced and compiled anew.
"""

from __future__ import annotations

import gc
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, final

import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.func import functionalize
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.graph import CodeGen
from torch.utils._pytree import tree_flatten, tree_unflatten

from piop.residual.inductor import (
    BackgroundCompilation,
    FlatFunction,
    compile_graph,
    decompositions,
    fresh_cache,
    graph_digest,
    is_cached,
    load_graph,
    note_cached,
    require_compiler,
)

logger = logging.getLogger(__name__)

LossFunction = Callable[[list[Tensor], list[Tensor]], Any]
VIEWS = (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default)
"""Reshapes without a copy, which hold for the strides of the traced run alone."""
CHECKS = (torch.ops.aten._linalg_check_errors.default,)
"""Operations that raise and give nothing, which the cache of compiled graphs refuses.

A singular matrix gives what is not finite, which the divergence monitor finds.
"""
COMPILING, LOADING = 5.5, 1.0
"""Seconds of compiling, and of loading from the cache, per second of the first tracing.

Seen: 4.7 and 5.2 on ``burgers``, 5.0 and 4.4 on ``navier_stokes``, 5.7 twice on ``lotka_volterra``
(Intel Xeon, AMD EPYC), 5.6 on ``kuramoto_sivashinsky``, 6.4 on ``heat2d``, and 0.3 to 0.9 from the
cache. The slower the machine is at the moment, the longer all of them take.
"""
R = TypeVar("R")


@dataclass(frozen=True)
class _Foreseen:
    """What tracing in the background tells.

    Attributes:
        seconds: That compiling takes.
        digest: Of the graph, as of :func:`graph_digest`.
        structure: As :attr:`TracedStep.structure`.
    """

    seconds: float
    digest: str
    structure: Any


@dataclass(frozen=True)
class _InCache:
    """A graph that the background compiled: its key in the cache, and its digest."""

    key: str
    digest: str


class StoppedCompiling(KeyboardInterrupt):
    """Tracing or compiling was stopped: it is neither tried another way nor done without."""


@final
class TracedStep:
    """A training step, a callable (params, inputs) -> (parts, grads).

    Args:
        loss_function: Maps (parameters, inputs) to the loss, or to tuples and dicts of tensors, the
            first of which is the loss. Anything else it reads, buffers too, is frozen as it is when
            a shape first occurs.
        compiled: Whether to trace and compile; otherwise everything is eager.
        graphs: Whether to record CUDA graphs of the compiled step. They read the parameters where
            they lie, so those must be changed in place; inputs are copied, and so is what is given.

    Attributes:
        threads: Threads that each kernel uses on a CPU; None: as many as torch does when it is
            compiled.
        concurrent: Whether several threads may call the compiled step at a time.
        eager_because: Why compilation was given up; None while it was not.
        structure: What the loss function gives, with the numbers of tensors in their places; None
            before the first step.
        background_foresees: Seconds that compiling in the background takes; None until it has
            traced.
    """

    def __init__(
        self, loss_function: LossFunction, *, compiled: bool = True, graphs: bool = False
    ) -> None:
        self.threads: int | None = None
        self.concurrent = False
        self.loss_function = loss_function
        self.compiled, self.graphs = compiled, graphs
        self.eager_because: str | None = None
        self.structure: Any = None
        self.background_foresees: float | None = None
        self._compiling = False
        self._functions: dict[Any, FlatFunction] = {}
        self._traced: dict[Any, tuple[_Foreseen, GraphModule]] = {}
        self._in_cache: dict[Any, _InCache] = {}
        self._background: BackgroundCompilation | None = None
        self._begun: Any = None  # the shapes for which it was started

    def __call__(
        self, params: Sequence[Tensor], inputs: Sequence[Tensor]
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Compute loss and gradients.

        Args:
            params: Parameters, of which the gradients are wanted.
            inputs: Tensors of one batch.

        Returns:
            The tensors that the loss function gave, detached, the loss first; and a gradient per
            parameter.

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
        key, flat = _shapes(params, inputs), [t.detach() for t in (*params, *inputs)]
        if key not in self._functions:
            found = self._attempt(lambda: self._compile(key, flat, len(params)))
            if found is None:
                return None
            self._functions[key] = found
        return self._functions[key]

    def foresee(self, params: Sequence[Tensor], inputs: Sequence[Tensor]) -> float | None:
        """Trace for the shapes of these tensors, and foresee the seconds that compiling takes.

        Returns:
            The seconds; None where the step stays eager.

        Warns:
            RuntimeWarning: If tracing fails, upon which the step is eager.
        """
        key, flat = _shapes(params, inputs), [t.detach() for t in (*params, *inputs)]
        found = self._attempt(lambda: self._foresee(flat, len(params)))
        if found is None:
            return None
        self._traced[key] = found
        return found[0].seconds

    def may_use_background(self, device: torch.device) -> bool:
        """Whether the step can be compiled in the background for a device."""
        on_cpu = device.type == "cpu" and not self.graphs
        return on_cpu and BackgroundCompilation.is_possible()

    def start_background(
        self, params: Sequence[Tensor], inputs: Sequence[Tensor], limit: float
    ) -> bool:
        """Trace and compile in the background, for :meth:`prepare` to load.

        Args:
            params: As of :meth:`foresee`, where :meth:`may_use_background`.
            inputs: As well.
            limit: Seconds after which it is given up if it has not traced.

        Returns:
            Whether that has begun.
        """
        key, flat = _shapes(params, inputs), [t.detach() for t in (*params, *inputs)]
        decompositions()  # imports Inductor for both processes
        threads = torch.get_num_threads()
        settings = flat, len(params), self.threads or threads, threads
        self.background_foresees = None
        with suppress(OSError):
            work = partial(self._work_in_background, *settings)
            self._background, self._begun = BackgroundCompilation(work, limit), key
        return self._background is not None

    def extend_background(self, limit: float) -> None:
        """Let the background compile for so many seconds from now."""
        if self._background is not None:
            self._background.extend(limit)

    def background_runs(self) -> bool:
        """Whether the background is at work, where :meth:`prepare` would do it again.

        What it has told meanwhile is noted.
        """
        if self._background is None:
            return False
        runs = self._background.runs  # before what it told: all of that, if it does not
        for report in self._background.received():
            if isinstance(report, _Foreseen):
                self.structure, self.background_foresees = report.structure, report.seconds
            else:
                self._in_cache[self._begun] = report
        return runs

    def close(self) -> None:
        """End compiling in the background."""
        if self._background is not None:
            self._background.stop()
        self._background = None

    def stop(self) -> None:
        """End tracing and compiling, where they are under way; for handlers of signals.

        Raises:
            StoppedCompiling: If they are; the compilers that run end with it.
        """
        if self._compiling:
            raise StoppedCompiling

    def _attempt(self, action: Callable[[], R]) -> R | None:
        """Return what an action gives; None, and a warning, where it fails."""
        self._compiling = True
        try:
            with _without_collection():
                return action()
        except (MemoryError, torch.OutOfMemoryError):
            raise  # eager needs no less
        except Exception as reason:  # whatever a compiler raises, eager still works
            self.eager_because = f"{type(reason).__name__}: {reason}"
            warnings.warn(
                f"the training step stays eager, which is slower: {self.eager_because}",
                RuntimeWarning,
                stacklevel=4,
            )
            return None
        finally:
            self._compiling = False

    def _foresee(self, flat: list[Tensor], count: int) -> tuple[_Foreseen, GraphModule]:
        """Trace, unless there is no compiler that works, and foresee what compiling takes."""
        if flat[0].device.type == "cpu":
            require_compiler()
        decompositions()  # imports Inductor, which takes seconds once
        begun = time.perf_counter()
        graph = trace(self._flat(count), flat)
        spent, digest = time.perf_counter() - begun, graph_digest(graph, flat, self.threads)
        seconds = spent * (LOADING if is_cached(digest) else COMPILING)
        return _Foreseen(seconds, digest, self.structure), graph

    def _work_in_background(
        self,
        flat: list[Tensor],
        count: int,
        threads: int,
        compilers: int,
        report: Callable[[_Foreseen | _InCache], None],
    ) -> None:
        """Trace and compile in a process that was forked for it."""
        self.threads = threads
        foreseen, graph = self._foresee(flat, count)
        report(foreseen)
        compiled = compile_graph(graph, threads, compilers)
        if compiled.key is not None:
            report(_InCache(compiled.key, foreseen.digest))

    def _load(self, key: Any, flat: list[Tensor]) -> FlatFunction | None:
        """Load and try what the background compiled; None where there is nothing or it fails."""
        cached = self._in_cache.pop(key, None)
        if cached is None:
            return None
        try:
            found = load_graph(cached.key, self.threads)
            finite = _gives_finite(found, flat)
        except (MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as reason:
            logger.warning("compiling again: %s: %s", type(reason).__name__, reason)
            return None
        if finite:
            note_cached(cached.digest)
        self.concurrent = True
        return found

    def _compile(self, key: Any, flat: list[Tensor], count: int) -> FlatFunction:
        """Compile and try; again without the cache, which a killed compiler damages."""
        loaded = self._load(key, flat)
        if loaded is not None:
            return loaded
        foreseen, graph = self._traced.pop(key, None) or self._foresee(flat, count)
        last: Exception | None = None
        for compile_it, in_cache, concurrent in self._ways(flat, count):
            try:
                with nullcontext() if in_cache else fresh_cache():
                    # compiling changes the graph
                    found = compile_it(graph if last is None else trace(self._flat(count), flat))
                    finite = _gives_finite(found, flat)  # where torch compiles
            except (MemoryError, torch.OutOfMemoryError):
                raise
            except Exception as reason:
                last = reason
                continue
            if last is not None:
                kind = type(last).__name__
                logger.warning("compiled without the cache of earlier runs: %s: %s", kind, last)
            if in_cache and finite:
                note_cached(foreseen.digest)
            self.concurrent = concurrent
            return found
        raise last or AssertionError

    def _ways(
        self, flat: list[Tensor], count: int
    ) -> list[tuple[Callable[[GraphModule], FlatFunction], bool, bool]]:
        """Return ways to compile, the fastest first.

        With each: whether it is in the usual cache, and whether several threads may call the
        result at a time.
        """
        fixed = count if self.graphs else None

        def by_torch(graph: GraphModule) -> FlatFunction:
            return compile_by_torch(graph, flat, fixed)

        if fixed is not None or flat[0].device.type != "cpu":
            return [(by_torch, True, False), (by_torch, False, False)]

        def for_cpu(graph: GraphModule) -> FlatFunction:
            return compile_graph(graph, self.threads)

        return [(for_cpu, True, True), (for_cpu, False, True), (by_torch, False, False)]

    def _flat(self, count: int) -> FlatFunction:
        """Give the step as a function of one list: parameters, then inputs."""

        def run(tensors: list[Tensor]) -> tuple[Tensor, ...]:
            with torch.enable_grad():
                params = [t.detach().requires_grad_() for t in tensors[:count]]
                out = self.loss_function(params, list(tensors[count:]))
                parts, tree = tree_flatten(out)
                self.structure = tree_unflatten(range(len(parts)), tree)
                grads = torch.autograd.grad(parts[0], params, materialize_grads=True)
            return (*(part.detach() for part in parts), *grads)

        return run


def trace(function: FlatFunction, examples: list[Tensor]) -> GraphModule:
    """Trace a function of a flat list of tensors to plain operations on tensors, one by one.

    Nothing is computed: the shapes alone pass through. What two terms of a loss have in common,
    such as the tokens of an input, is in the graph once.

    Args:
        function: Maps a list of tensors to a tuple of tensors; it may differentiate inside.
        examples: Tensors of the shapes to come.
    """
    from torch._functorch.compile_utils import fx_graph_cse

    # without an environment of shapes the cache of compiled graphs is passed by
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv(), static_shapes=True)
    shapes = [mode.from_tensor(tensor) for tensor in examples]
    simpler = decompositions()
    graph = make_fx(function, simpler, tracing_mode="fake")(shapes)
    if any(_changes_tensors(node) for node in graph.graph.nodes):
        changing = graph
        unchanging = functionalize(lambda tensors: changing(tensors))
        graph = make_fx(unchanging, simpler, tracing_mode="fake")(shapes)
    for node in graph.graph.nodes:
        if node.target in VIEWS:  # a compiler may lay out memory otherwise than the traced run
            node.target = torch.ops.aten.reshape.default
        if node.target in CHECKS:
            graph.graph.erase_node(node)
    graph = GraphModule(graph, fx_graph_cse(graph.graph))
    graph.graph.set_codegen(CodeGen())  # tensors one by one, not as a list
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return graph


def _gives_finite(function: FlatFunction, tensors: list[Tensor]) -> bool:
    """Call a compiled function; return whether all that it gives is finite."""
    with torch.no_grad():
        return all(bool(t.isfinite().all()) for t in function(tensors))


def _changes_tensors(node: Node) -> bool:
    """Whether an operation writes to one of its arguments."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def compile_by_torch(
    graph: GraphModule, examples: list[Tensor], fixed: int | None = None
) -> FlatFunction:
    """Compile a traced graph by ``torch.compile``, for any device.

    Args:
        graph: The graph.
        examples: Tensors of the shapes to come; the compiled function is called with these first.
        fixed: Record CUDA graphs, in which so many of the first tensors stay where they are in
            memory; None records none.

    Returns:
        The compiled function, to be called without gradients.
    """
    if fixed is None:
        compiled: Any = torch.compile(graph, fullgraph=True, dynamic=False)
        return lambda tensors: compiled(*tensors)
    for tensor in examples[:fixed]:  # else every step would copy all parameters
        torch._dynamo.mark_static_address(tensor, guard=False)
    recorded: Any = torch.compile(graph, fullgraph=True, dynamic=False, mode="reduce-overhead")

    def run(tensors: list[Tensor]) -> tuple[Tensor, ...]:
        """Copy the outputs, since the next run of a recorded graph writes to the same memory."""
        torch.compiler.cudagraph_mark_step_begin()
        found = recorded(*tensors)
        # many copies in one kernel
        return tuple(torch._foreach_mul(found, 1))  # pyright: ignore[reportPrivateImportUsage]

    return run


def _shapes(params: Sequence[Tensor], inputs: Sequence[Tensor]) -> Any:
    """What compiled code depends on: strides too, which tell points that functions share."""
    return len(params), *((t.shape, t.stride(), t.dtype, t.device) for t in (*params, *inputs))


@contextmanager
def _without_collection() -> Iterator[None]:
    """Do not collect garbage in a block: where many objects are made that stay, it is slow."""
    active = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if active:
            gc.enable()

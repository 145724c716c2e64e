"""Compilation of a traced step for the CPU by Inductor, torch's compiler, in seconds.

``torch.compile`` takes three to four times as long for the same machine code, for reasons that do
not concern a graph that is traced to the end already:

- It traces twice more, by Dynamo and for autograd; the graph is handed to Inductor itself.
- It compiles each kernel as a file of its own, in which reading the headers of torch takes most of
  the time; :class:`JoinedKernels` compiles them together, in as many files as there are cores.
- It simplifies every index of memory as if it were any formula; :func:`expanded` multiplies out
  those that are polynomials, to the same result.
- It tries by compiling which vector instructions there are; torch itself knows.
- It sets up its rules for types at every operation (:func:`quick_types`), and looks for parts to
  record as CUDA graphs.

All of this relies on parts of Inductor that are not public. Whoever calls it falls back to
``torch.compile`` where they differ from those of the pinned version.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, final

import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from piop.residual.inductor.cache import keyed_by_instruction_set
from piop.residual.inductor.kernels import JoinedKernels
from piop.residual.inductor.patches import quick_indices, quick_types
from piop.residual.inductor.processes import CompilerProcesses

logger = logging.getLogger(__name__)

FlatFunction = Callable[[list[Tensor]], tuple[Tensor, ...]]

# Some of these modules take a second to import, which a run without compilation is spared.


@final
class CompiledGraph:
    """A compiled function of a list of tensors, to be called without gradients.

    Args:
        compiled: What Inductor gives.

    Attributes:
        key: By what :func:`load_graph` finds it in the cache; None where it is in none.
    """

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled
        self.key: str | None = compiled._fx_graph_cache_key

    def __call__(self, tensors: list[Tensor]) -> tuple[Tensor, ...]:
        """Compute."""
        return tuple(self._compiled(list(tensors)))


def compile_graph(
    graph: GraphModule, threads: int | None = None, compilers: int | None = None
) -> CompiledGraph:
    """Compile a graph of plain operations on CPU tensors.

    Args:
        graph: Traced with fake tensors and :func:`decompositions`. It takes tensors one by one,
            gives a tuple, and changes none of them. Compiling changes the graph.
        threads: Threads that each of its kernels uses; by default as many as torch does now.
        compilers: C++ compilers that run at a time; by default as many as torch has threads.

    Raises:
        Exception: Whatever Inductor or the C++ compiler raises; any of them where this version of
            torch differs from what is expected here.
    """
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.fx_passes.joint_graph import joint_graph_passes
    from torch._inductor.utils import BoxedBool

    shapes = [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]
    with _inductor(shapes[0].fake_mode, threads, compilers), quick_indices(), quick_types():
        joint_graph_passes(graph)
        compiled = compile_fx_inner(graph, shapes, is_inference=True, cudagraphs=BoxedBool(False))
    return CompiledGraph(compiled)


def load_graph(key: str, threads: int | None = None) -> CompiledGraph:
    """Load what :func:`compile_graph` compiled, also in another process, from Inductor's cache.

    Args:
        key: :attr:`CompiledGraph.key`.
        threads: As then.

    Raises:
        KeyError: If the cache no longer has it.
        Exception: As of :func:`compile_graph`.
    """
    from torch._inductor.codecache import FxGraphCache
    from torch._inductor.output_code import CompiledFxGraphConstants
    from torch._inductor.utils import BoxedBool

    constants: Any = CompiledFxGraphConstants()
    with _inductor(FakeTensorMode(shape_env=ShapeEnv()), threads):
        compiled, _ = FxGraphCache.load_with_key(
            key, [], [], local=True, remote_cache=None, is_backward=False, constants=constants
        )
        if compiled is None:
            raise KeyError(f"the cache has no compiled graph {key}")
        compiled.post_compile([], constants, {"cudagraphs": BoxedBool(False), "is_backward": False})
    compiled._fx_graph_cache_key = key
    return CompiledGraph(compiled)


@contextmanager
def _inductor(
    mode: FakeTensorMode, threads: int | None = None, compilers: int | None = None
) -> Iterator[CompilerProcesses]:
    """Set Inductor up for graphs of fake tensors of a mode in a block; give its compilers."""
    from torch._guards import TracingContext, tracing
    from torch._inductor import config
    from torch._inductor.virtualized import V

    known_cpu = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
    options: dict[str, Any] = {
        "cpp.threads": threads or torch.get_num_threads(),
        "cpp_cache_precompile_headers": False,
        "graph_partition": False,  # into parts of a CUDA graph
    }
    if known_cpu:
        options["cpp.vec_isa_ok"] = True
    processes = CompilerProcesses()
    with ExitStack() as stack:
        for context in (
            torch.no_grad(),
            tracing(TracingContext(mode)),
            V.set_fake_mode(mode),
            config.patch(options),
            keyed_by_instruction_set(),
            processes.used(),
            JoinedKernels.collected(processes, compilers or torch.get_num_threads()),
        ):
            stack.enter_context(context)
        yield processes


def require_compiler() -> None:
    """Compile a file without kernels, unless the cache has it, before minutes go into a graph.

    Raises:
        Exception: If there is no C++ compiler, or it cannot make a module for Python.
    """
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import CppCompileError

    get_cpp_compiler()
    try:
        with _inductor(FakeTensorMode()) as processes:
            JoinedKernels(processes, 1).compile()
    except CppCompileError:
        raise
    except Exception as reason:  # such as a damaged library, which the compiler has no part in
        logger.debug("a file without kernels: %s", reason)


def decompositions() -> Mapping[Any, Any]:
    """Return what Inductor wants to be written in simpler operations as a graph is traced."""
    from torch._inductor.decomposition import select_decomp_table

    return select_decomp_table()

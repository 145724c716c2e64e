"""Compilation of a traced step for the CPU by Inductor, torch's compiler, in seconds.

``torch.compile`` takes three to four times as long for the same machine code, for reasons that do
not concern a graph that is traced to the end already:

- It traces twice more, by Dynamo and for autograd; the graph is handed to Inductor itself.
- It compiles each kernel as a file of its own, in which reading the headers of torch takes most of
  the time; :class:`_JoinedKernels` compiles them together, in as many files as there are cores.
- It simplifies every index of memory as if it were any formula; :func:`_expanded` multiplies out
  those that are polynomials, to the same result.
- It tries by compiling which vector instructions there are; torch itself knows.

All of this relies on parts of Inductor that are not public. Whoever calls it falls back to
``torch.compile`` where they differ from those of the pinned version.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import copy_context
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import sympy as sp
import torch
from torch import Tensor
from torch.fx import GraphModule

FlatFunction = Callable[[list[Tensor]], tuple[Tensor, ...]]

# Some of these modules take a second to import, which a run without compilation is spared.


def compile_graph(graph: GraphModule) -> FlatFunction:
    """Compile a graph of plain operations on CPU tensors.

    Args:
        graph: Traced with fake tensors and :func:`decompositions`. It takes tensors one by one,
            gives a tuple, and changes none of them. Compiling changes the graph.

    Returns:
        The compiled function of a list of tensors, to be called without gradients.

    Raises:
        Exception: Whatever Inductor or the C++ compiler raises; any of them where this version of
            torch differs from what is expected here.
    """
    from torch._guards import TracingContext, tracing
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.fx_passes.joint_graph import joint_graph_passes
    from torch._inductor.utils import BoxedBool
    from torch._inductor.virtualized import V

    shapes = [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]
    mode = shapes[0].fake_mode
    known_cpu = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
    options: Mapping[str, Any] = {"cpp.vec_isa_ok": True} if known_cpu else {}
    with ExitStack() as stack:
        for context in (
            torch.no_grad(),
            tracing(TracingContext(mode)),
            V.set_fake_mode(mode),
            config.patch({"cpp_cache_precompile_headers": False, **options}),
            _quick_indices(),
            _JoinedKernels.collected(),
        ):
            stack.enter_context(context)
        joint_graph_passes(graph)
        compiled: Any = compile_fx_inner(
            graph, shapes, is_inference=True, cudagraphs=BoxedBool(False)
        )
    return lambda tensors: tuple(compiled(list(tensors)))


def require_compiler() -> str:
    """Return the C++ compiler.

    Raises:
        Exception: If there is none.
    """
    from torch._inductor.cpp_builder import get_cpp_compiler

    return get_cpp_compiler()


def fresh_cache() -> AbstractContextManager[Any]:
    """Give the compiler an empty cache in a block."""
    from torch._inductor.utils import fresh_cache

    return fresh_cache()


def decompositions() -> Mapping[Any, Any]:
    """Return what Inductor wants to be written in simpler operations as a graph is traced."""
    from torch._inductor.decomposition import select_decomp_table

    return select_decomp_table()


def graph_digest(graph: GraphModule, examples: list[Tensor]) -> str:
    """Return what identifies a graph with its shapes and constants, and the number of threads."""
    found = hashlib.sha256(graph.code.encode())
    found.update(repr([(t.shape, t.stride(), t.dtype) for t in examples]).encode())
    found.update(repr((torch.__version__, torch.get_num_threads())).encode())
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            constant = getattr(graph, node.target).detach().cpu().contiguous()
            found.update(constant.numpy().tobytes())
    return found.hexdigest()


def _note(digest: str) -> Path:
    """Return the file that says that a graph is in the cache, within that cache."""
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    return Path(cache_dir()) / "piop" / digest


def is_cached(digest: str) -> bool:
    """Whether a graph was compiled before, and the cache of the compiler was not cleared since."""
    return _note(digest).exists()


def note_cached(digest: str) -> None:
    """Note that a graph was compiled; a cache that cannot be written to is left as it is."""
    with contextlib.suppress(OSError):
        _note(digest).parent.mkdir(exist_ok=True)
        _note(digest).touch()


def _expanded(expression: Any) -> Any:
    """Multiply out a polynomial; simplify anything else.

    Indices of memory are polynomials in the indices of loops, except where axes are merged.
    """
    from torch.utils._sympy.functions import FloorDiv, ModularIndexing

    plain = isinstance(expression, sp.Expr) and expression.is_polynomial()
    if plain and not expression.has(FloorDiv, ModularIndexing):
        return sp.expand(expression)
    return sp.simplify(expression)


@contextmanager
def _quick_indices() -> Iterator[None]:
    """Simplify indices of memory by :func:`_expanded` while Inductor generates code."""
    from torch._inductor import sizevars

    class Quick:
        """SymPy, but for ``simplify``."""

        simplify = staticmethod(_expanded)

        def __getattr__(self, name: str) -> Any:
            return getattr(sp, name)

    with _replaced(sizevars, "sympy", Quick()):
        yield


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Give an attribute that is there another value in a block."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


_ENTRY = re.compile(r"\bkernel\(")
_BINDING = """
#include <Python.h>
using DataPointer = void* (*)(PyObject*);
static DataPointer data_pointer = nullptr;
static inline void* argument(PyObject* args, Py_ssize_t i) {
    return data_pointer(PyTuple_GET_ITEM(args, i));
}
static PyObject* set_data_pointer(PyObject*, PyObject* address) {
    data_pointer = reinterpret_cast<DataPointer>(PyLong_AsVoidPtr(address));
    Py_RETURN_NONE;
}
"""
_KERNEL_BINDING = """
static PyObject* python_%(name)s(PyObject*, PyObject* args) {
    if (PyTuple_GET_SIZE(args) != %(count)d) {
        PyErr_SetString(PyExc_TypeError, "%(name)s takes %(count)d tensors");
        return nullptr;
    }
    try {
        %(name)s(%(arguments)s);
    } catch (std::exception const& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
        return nullptr;
    }
    Py_RETURN_NONE;
}
"""
_MODULE = """
static PyMethodDef methods[] = {
    {"set_data_pointer", set_data_pointer, METH_O, nullptr},
    %(methods)s
    {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "kernels", nullptr, -1, methods};
PyMODINIT_FUNC PyInit_kernels(void) { return PyModule_Create(&definition); }
"""


class _JoinedKernels:
    """The kernels of one graph, which are compiled when the last of them is known.

    Attributes:
        sources: Types of the arguments of each kernel, all of them pointers, and its C++ code, in
            which it is named ``kernel``.
    """

    def __init__(self) -> None:
        self.sources: list[tuple[list[str], str]] = []

    @classmethod
    @contextmanager
    def collected(cls) -> Iterator[None]:
        """Collect the kernels that Inductor hands to its own compilation in this block."""
        from torch._inductor.async_compile import AsyncCompile

        own: dict[int, _JoinedKernels] = {}
        wait = AsyncCompile.wait

        def cpp_pybinding(self: Any, argtypes: list[str], source_code: str) -> _Position:
            kernels = own.setdefault(id(self), cls())
            kernels.sources.append((argtypes, source_code))
            return _Position(len(kernels.sources) - 1)

        def wait_for_all(self: Any, scope: dict[str, Any]) -> None:
            if id(self) in own:
                functions = own.pop(id(self)).compile()
                found = {k: v for k, v in scope.items() if isinstance(v, _Position)}
                scope.update({name: functions[at.number] for name, at in found.items()})
            wait(self, scope)

        with (
            _replaced(AsyncCompile, "cpp_pybinding", cpp_pybinding),
            _replaced(AsyncCompile, "wait", wait_for_all),
        ):
            yield

    def compile(self) -> list[Callable[..., None]]:
        """Compile all kernels; return them in order."""
        parts = self._parts(torch.get_num_threads())
        with ThreadPoolExecutor(len(parts)) as pool:
            # options of Inductor hold in the context where they are set, which threads do not share
            jobs = [pool.submit(copy_context().run, _load, self._source(part)) for part in parts]
            modules = [job.result() for job in jobs]
        found: dict[int, Callable[..., None]] = {}
        for part, module in zip(parts, modules, strict=True):
            found |= {number: getattr(module, _name(number)) for number in part}
        return [found[number] for number in range(len(self.sources))]

    def _parts(self, most: int) -> list[list[int]]:
        """Split the kernels into at most so many parts of similar length, the longest first."""
        parts: list[list[int]] = [[] for _ in range(max(1, min(most, len(self.sources))))]
        lengths = [0] * len(parts)
        order = sorted(range(len(self.sources)), key=lambda i: -len(self.sources[i][1]))
        for number in order:
            shortest = lengths.index(min(lengths))
            parts[shortest].append(number)
            lengths[shortest] += len(self.sources[number][1])
        return parts

    def _source(self, part: list[int]) -> str:
        """Write the C++ file of some kernels, with their bindings to Python."""
        texts, methods = [_BINDING], []
        for number in part:
            types, source = self.sources[number]
            name = _name(number)
            arguments = [f"static_cast<{t}>(argument(args, {i}))" for i, t in enumerate(types)]
            values = {"name": name, "count": len(types), "arguments": ", ".join(arguments)}
            texts += [_ENTRY.sub(f"{name}(", source), _KERNEL_BINDING % values]
            methods.append(f'{{"{name}", python_{name}, METH_VARARGS, nullptr}},')
        return "\n".join([*texts, _MODULE % {"methods": "\n    ".join(methods)}])


class _Position:
    """Stands for a kernel until it is compiled."""

    def __init__(self, number: int) -> None:
        self.number = number


def _name(number: int) -> str:
    return f"kernel_{number}"


def _load(source: str) -> ModuleType:
    """Compile a C++ file, unless the cache has it, and load it as a module."""
    from torch._C._dynamo import guards
    from torch._inductor.codecache import CppCodeCache

    class Kernels(CppCodeCache):
        """A library that is a Python module."""

        cpp_compile_command_flags = {"include_pytorch": False, "shared": True}  # noqa: RUF012

        @classmethod
        def _load_library_inner(cls, path: str, key: str) -> ModuleType:
            spec: Any = spec_from_file_location("kernels", path)
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            return module

    module: Any = Kernels.load(source)
    own: Any = guards
    module.set_data_pointer(own._torchinductor_pyobject_tensor_data_ptr)
    return module

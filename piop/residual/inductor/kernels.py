"""The C++ kernels of one graph, compiled together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from contextvars import copy_context
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any, final

from piop.residual.inductor.cache import instruction_set
from piop.residual.inductor.patches import replaced
from piop.residual.inductor.processes import CompilerProcesses

_ENTRY = re.compile(r"\bkernel\(")
_BINDING = """
#include <Python.h>
#include <string>
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
    void* pointers[%(count)d];
    for (Py_ssize_t i = 0; i < %(count)d; ++i) pointers[i] = argument(args, i);
    std::string failure;
    PyThreadState* state = PyEval_SaveThread();  // other threads may run their kernels meanwhile
    try {
        %(name)s(%(arguments)s);
    } catch (std::exception const& error) {
        failure = *error.what() ? error.what() : "%(name)s failed";
    }
    PyEval_RestoreThread(state);
    if (!failure.empty()) {
        PyErr_SetString(PyExc_RuntimeError, failure.c_str());
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


@final
class JoinedKernels:
    """The kernels of one graph, which are compiled when the last of them is known.

    Args:
        processes: Those that compile.
        compilers: How many of them run at a time.

    Attributes:
        sources: Types of the arguments of each kernel, all of them pointers, and its C++ code, in
            which it is named ``kernel``.
    """

    def __init__(self, processes: CompilerProcesses, compilers: int) -> None:
        self.processes, self.compilers = processes, compilers
        self.sources: list[tuple[list[str], str]] = []

    @classmethod
    @contextmanager
    def collected(cls, processes: CompilerProcesses, compilers: int) -> Iterator[None]:
        """Collect the kernels that Inductor hands to its own compilation in this block."""
        from torch._inductor.async_compile import AsyncCompile

        own: dict[int, JoinedKernels] = {}
        wait = AsyncCompile.wait

        def cpp_pybinding(self: Any, argtypes: list[str], source_code: str) -> _Position:
            kernels = own.setdefault(id(self), cls(processes, compilers))
            kernels.sources.append((argtypes, source_code))
            return _Position(len(kernels.sources) - 1)

        def wait_for_all(self: Any, scope: dict[str, Any]) -> None:
            if id(self) in own:
                functions = own.pop(id(self)).compile()
                found = {k: v for k, v in scope.items() if isinstance(v, _Position)}
                scope.update({name: functions[at.number] for name, at in found.items()})
            wait(self, scope)

        with (
            replaced(AsyncCompile, "cpp_pybinding", cpp_pybinding),
            replaced(AsyncCompile, "wait", wait_for_all),
        ):
            yield

    def compile(self) -> list[Callable[..., None]]:
        """Compile all kernels; return them in order."""
        from torch._inductor.cpu_vec_isa import pick_vec_isa

        pick_vec_isa()  # is cached; two threads that try instructions at once mix up compiler flags
        parts = self._parts(self.compilers)
        with ThreadPoolExecutor(len(parts)) as pool:
            # options of Inductor hold in the context where they are set, which threads do not share
            jobs = [pool.submit(copy_context().run, _load, self._source(part)) for part in parts]
            try:
                for job in as_completed(jobs):
                    job.result()  # raises what the first that fails raised
            except BaseException:
                self.processes.stop()  # the threads would wait for them
                raise
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
        texts, methods = [f"// {instruction_set()}", _BINDING], []
        for number in part:
            types, source = self.sources[number]
            name = _name(number)
            arguments = [f"static_cast<{t}>(pointers[{i}])" for i, t in enumerate(types)]
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

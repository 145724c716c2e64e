"""Kernels are compiled together, in threads that end with the compilation."""

import time
from types import SimpleNamespace

import pytest

from piop.residual.inductor import kernels as module
from piop.residual.inductor.kernels import JoinedKernels
from piop.residual.inductor.processes import CompilerProcesses


@pytest.fixture
def kernels():
    return JoinedKernels(CompilerProcesses(), compilers=2)


def test_kernels_are_split_evenly_over_files(kernels):
    kernels.sources = [([], "x" * n) for n in (10, 100, 20, 80, 30)]
    assert kernels._parts(2) == [[1, 2], [3, 4, 0]]
    assert kernels._parts(9) == [[1], [3], [4], [2], [0]]


def test_threads_that_load_kernels_have_the_options_of_the_compilation(kernels, monkeypatch):
    from torch._inductor import config

    options = []

    def load(_source):
        options.append(config.cpp.vec_isa_ok)
        return SimpleNamespace(kernel_0=None, kernel_1=None)

    monkeypatch.setattr(module, "_load", load)
    kernels.sources = [([], "a"), ([], "b")]
    with config.patch({"cpp.vec_isa_ok": True}):
        kernels.compile()
    assert options == [True, True]


def test_the_flags_of_the_compiler_are_known_before_threads_load(kernels, monkeypatch):
    from torch._inductor import cpu_vec_isa

    tried = cpu_vec_isa.valid_vec_isa_list
    known = []

    def load(_source):
        known.append(tried.cache_info().currsize)
        return SimpleNamespace(kernel_0=None, kernel_1=None)

    monkeypatch.setattr(module, "_load", load)
    kernels.sources = [([], "a"), ([], "b")]
    tried.cache_clear()
    kernels.compile()
    assert known == [1, 1]  # threads that try them at once find others, and miss the cache


def test_one_that_fails_stops_the_compilers_of_the_others(kernels, monkeypatch):
    def load(source):
        if "fails" in source:
            while not kernels.processes._running:
                time.sleep(0.01)
            raise ValueError("fails")
        kernels.processes.run("sleep 60", cwd=".")

    monkeypatch.setattr(module, "_load", load)
    kernels.sources = [([], "fails"), ([], "takes long")]
    begun = time.monotonic()
    with pytest.raises(ValueError, match="fails"):
        kernels.compile()
    assert time.monotonic() - begun < 20


def test_a_file_of_kernels_names_the_processor_it_is_for(kernels, monkeypatch):
    kernels.sources = [(["float*"], "void kernel(float* a) {}")]
    monkeypatch.setattr(module, "instruction_set", lambda: "AVX512 of today")
    assert "AVX512 of today" in kernels._source([0])

"""Entries of the cache are told apart by all that changes the code of a graph."""

import pytest
import torch

from piop.residual.compiled_step import trace
from piop.residual.inductor import cache as module
from piop.residual.inductor import compile_graph, graph_digest, is_cached, note_cached
from piop.residual.inductor.cache import instruction_set


@pytest.fixture
def tensors():
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(n, 3, generator=generator) for n in (40, 33)]


def test_a_graph_is_told_apart_by_its_constants_its_shapes_and_the_threads(tensors):
    def times(constant):
        return trace(lambda t: (t[0] * torch.tensor([constant] * 3),), tensors)

    digests = [graph_digest(times(c), tensors) for c in (1.0, 1.0, 2.0)]
    assert digests[0] == digests[1] != digests[2]
    assert graph_digest(times(1.0), [t[:5] for t in tensors]) != digests[0]
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(before + 1)
        assert graph_digest(times(1.0), tensors) != digests[0]
    finally:
        torch.set_num_threads(before)


def test_a_graph_is_known_once_it_was_compiled(cache):
    assert not is_cached("a")
    note_cached("a")
    assert is_cached("a")
    assert not is_cached("b")


def test_a_cache_that_cannot_be_written_is_left_alone(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(
        "torch._inductor.runtime.cache_dir_utils.cache_dir", lambda: str(tmp_path / "file")
    )
    note_cached("a")
    assert not is_cached("a")


def test_a_graph_is_told_apart_by_the_instruction_set(tensors, monkeypatch):
    graph = trace(lambda t: (t[0] * 2,), tensors)
    digests = {graph_digest(graph, tensors)}
    for capability in ("NO AVX", "AVX512 of another kind"):
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda c=capability: c)
        digests.add(graph_digest(graph, tensors))
    assert len(digests) == 3


def test_the_instruction_set_is_what_torch_uses_and_what_the_processor_can_do(monkeypatch):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    can = {"bmi": True, "avx512_f": False, "architecture": "x86_64", "num_sockets": 1, "aes": True}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: can)
    assert instruction_set() == "AVX2 x86_64 aes bmi"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.complex64])
def test_constants_of_any_type_tell_graphs_apart(tensors, dtype):
    def digest(values):
        constant = torch.tensor(values).to(dtype)
        return graph_digest(trace(lambda t: (t[0].to(dtype) * constant,), tensors), tensors)

    assert digest([1.0, 2.0, 3.0]) != digest([1.0, 2.0, 4.0])
    assert digest(1.0) != digest(2.0)


def entries(cache):
    """Return the entries of Inductor's cache of graphs."""
    return {path.name for path in (cache / "fxgraph").glob("*/*")}


@pytest.mark.slow
def test_inductor_finds_a_graph_for_the_same_instruction_set_only(tensors, cache, monkeypatch):
    def compile_it():
        compile_graph(trace(lambda t: (t[0].sin() + t[1].sum(),), tensors))(tensors)
        return entries(cache)

    first = compile_it()
    assert compile_it() == first
    monkeypatch.setattr(module, "instruction_set", lambda: "another")
    assert len(compile_it()) == len(first) + 1

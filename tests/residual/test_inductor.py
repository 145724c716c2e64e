"""Graphs compiled by Inductor directly give what they give uncompiled, from few C++ files."""

from types import SimpleNamespace

import pytest
import sympy as sp
import torch
from torch.utils._sympy.functions import FloorDiv

from piop.residual import inductor
from piop.residual.compiled_step import trace
from piop.residual.inductor import compile_graph, graph_digest, is_cached, note_cached

SHIFT = torch.tensor([0.5, -1.5, 2.0])


def function(tensors):
    """Several kernels, a constant, and a product that is no kernel of Inductor's."""
    a, b = tensors
    product = torch.matmul(a, b.mT)
    norm = torch.softmax(product, -1)
    total = (a + SHIFT).sin().sum(0)
    return norm, total, torch.cumsum(product, 0).tanh()


@pytest.fixture
def tensors():
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(n, 3, generator=generator) for n in (40, 33)]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_a_compiled_graph_gives_the_values_of_the_function(tensors, cache):
    graph = trace(function, tensors)
    found = compile_graph(graph)(tensors)
    torch.testing.assert_close(found, function(tensors))
    assert len(list(cache.rglob("*.main.cpp"))) == 1, "all kernels in one file on one thread"


def test_kernels_are_split_evenly_over_files():
    kernels = inductor._JoinedKernels()
    kernels.sources = [([], "x" * n) for n in (10, 100, 20, 80, 30)]
    assert kernels._parts(2) == [[1, 2], [3, 4, 0]]
    assert kernels._parts(9) == [[1], [3], [4], [2], [0]]


def test_threads_that_load_kernels_have_the_options_of_the_compilation(monkeypatch):
    from torch._inductor import config

    options = []

    def load(_source):
        options.append(config.cpp.vec_isa_ok)
        return SimpleNamespace(kernel_0=None, kernel_1=None)

    monkeypatch.setattr(inductor, "_load", load)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    kernels = inductor._JoinedKernels()
    kernels.sources = [([], "a"), ([], "b")]
    with config.patch({"cpp.vec_isa_ok": True}):
        kernels.compile()
    assert options == [True, True]


def test_indices_are_simplified_as_sympy_would():
    x, y = sp.symbols("x y", integer=True, nonnegative=True)
    assert inductor._expanded(3 * (x + 2 * y) - 3 * x) == 6 * y
    merged = FloorDiv(x, 4) + FloorDiv(x, 4)
    assert inductor._expanded(merged) == sp.simplify(merged)
    assert inductor._expanded(sp.sin(x) ** 2 + sp.cos(x) ** 2) == 1


def test_what_writes_to_a_tensor_of_its_own_is_traced_without_writing(tensors):
    def writing(given):
        a = given[0] * 2
        a[1:].add_(given[0][:-1])
        a.mul_(3)
        return (a,)

    graph = trace(writing, tensors)
    names = [str(node.target) for node in graph.graph.nodes]
    assert not [name for name in names if name.endswith(("_.Tensor", "_.default"))], names
    torch.testing.assert_close(graph(*tensors), writing(tensors))


def test_a_check_that_only_raises_is_left_out_of_the_graph():
    def solving(given):
        return (torch.linalg.solve(given[0], given[1]),)

    given = [torch.eye(3) * 2, torch.ones(3, 1)]
    graph = trace(solving, given)
    assert not [n for n in graph.graph.nodes if "check_errors" in str(n.target)]
    torch.testing.assert_close(graph(*given), (torch.full((3, 1), 0.5),))


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

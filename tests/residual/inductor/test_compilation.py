"""Graphs compiled by Inductor directly give what they give uncompiled, from few C++ files."""

import threading
import time
from itertools import pairwise

import pytest
import torch

from piop.residual.compiled_step import trace
from piop.residual.inductor import compile_graph

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


@pytest.mark.usefixtures("one_thread")
def test_a_compiled_graph_gives_the_values_of_the_function(tensors, cache):
    graph = trace(function, tensors)
    found = compile_graph(graph)(tensors)
    torch.testing.assert_close(found, function(tensors))
    assert len(list(cache.rglob("*.main.cpp"))) == 1, "all kernels in one file on one thread"


@pytest.mark.usefixtures("one_thread", "cache")
def test_python_goes_on_while_a_kernel_runs():
    def long(given):
        return (sum((k * given[0]).sin() for k in range(1, 30)),)

    given = [torch.rand(3_000_000)]
    compiled = compile_graph(trace(long, given), threads=1)
    begun = time.perf_counter()
    compiled(given)
    seconds = time.perf_counter() - begun
    running = threading.Thread(target=compiled, args=(given,))
    moments = [time.perf_counter()]
    running.start()
    while running.is_alive():
        time.sleep(seconds / 100)
        moments.append(time.perf_counter())
    assert max(b - a for a, b in pairwise(moments)) < seconds / 2


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


def test_what_is_computed_twice_is_in_the_graph_once(tensors):
    def waves(given):
        return (given[0].cos().sin().sum(-1), given[0].cos().sin() * 2)

    graph = trace(waves, tensors)
    names = [str(node.target) for node in graph.graph.nodes]
    assert [name for name in names if "sin" in name or "cos" in name] == [
        "aten.cos.default",
        "aten.sin.default",
    ]
    torch.testing.assert_close(graph(*tensors), waves(tensors))


def test_equal_results_are_tensors_of_their_own(tensors):
    graph = trace(lambda given: (given[0] * 2, given[0] * 2), tensors)
    first, second = graph(*tensors)
    first.zero_()
    torch.testing.assert_close(second, tensors[0] * 2)

"""The work of a step is that of its graph."""

import torch

from piop.residual.compiled_step import trace


def test_products_and_elementwise_operations_are_counted(load):
    def run(tensors):
        a, b = tensors
        return (torch.tanh(a @ b).sum(0),)

    graph = trace(run, [torch.rand(3, 5), torch.rand(5, 7)])
    work = load("roofline").count_work(graph)
    assert dict(work.flops) == {"products": 2 * 3 * 5 * 7, "elementwise": 21, "reductions": 21}
    assert work.moved["products"] == 4 * (15 + 35 + 21)
    assert work.moved["elementwise"] == 4 * (21 + 21)
    assert work.moved["reductions"] == 4 * (21 + 7)
    assert work.shapes == [((3, 5), (5, 7))]


def test_views_move_nothing(load):
    def run(tensors):
        return (tensors[0].reshape(2, 6).mT.unsqueeze(0)[:, 1:],)

    work = load("roofline").count_work(trace(run, [torch.rand(3, 4)]))
    assert not work.moved

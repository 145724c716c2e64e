"""Graphs in real arithmetic give the values of the complex ones."""

import pytest
import torch

from piop.errors import NotSupportedError
from piop.export.real_graph import acos_by_newton, atan_by_newton, to_real_graph

X = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(2, 6).sin()


class Module(torch.nn.Module):
    def __init__(self, function, **constants):
        super().__init__()
        self.function = function
        for name, value in constants.items():
            self.register_buffer(name, value)

    def forward(self, x):
        return self.function(self, x)


def captured(module, x=X):
    with torch.no_grad():
        rows = {0: torch.export.Dim.DYNAMIC}
        return torch.export.export(module, (x,), dynamic_shapes=(rows,)).module(check_guards=False)


def is_real(graph, x):
    found = torch.export.export(graph, (x,))
    values = [node.meta.get("val") for node in found.graph.nodes]
    return not any(isinstance(v, torch.Tensor) and v.is_complex() for v in values)


RATES = torch.complex(
    torch.tensor([0.3, -0.2, 0.1, 0.0], dtype=torch.float64),
    torch.tensor([1.0, 2.0, -0.5, 0.25], dtype=torch.float64),
)
MATRIX = torch.complex(X[:, :4], X[:, 1:5])


def waves(module, x):
    spectrum = torch.fft.rfft(x) / 6
    grown = spectrum * torch.exp(0.5 * module.rates) - module.rates**2
    mixed = torch.einsum("sk,bk->bs", module.matrix, grown)
    return (mixed @ module.matrix).real + (1j * mixed).real.sum(1, keepdim=True)


def transforms(module, x):
    return torch.view_as_real(torch.fft.rfftn(x.reshape(-1, 2, 3), dim=(1, 2)))


def test_a_graph_of_complex_numbers_has_the_same_values_in_real_ones():
    graph = to_real_graph(captured(Module(waves, rates=RATES, matrix=MATRIX)))
    other = torch.cat([X, 2 * X])
    assert is_real(graph, other)
    expected = waves(Module(None, rates=RATES, matrix=MATRIX), other)
    torch.testing.assert_close(graph(other), expected, rtol=0, atol=1e-14)


def test_transforms_along_several_axes_are_products_with_waves():
    graph = to_real_graph(captured(Module(transforms)))
    torch.testing.assert_close(graph(2 * X), transforms(None, 2 * X), rtol=0, atol=1e-14)


def test_an_operator_of_complex_numbers_without_a_rule_is_named():
    module = Module(lambda m, x: torch.tan(x * m.rates[:1]).real, rates=RATES)
    with pytest.raises(NotSupportedError, match=r"aten\.tan.* of complex numbers has no real form"):
        to_real_graph(captured(module))


def test_a_system_with_a_constant_matrix_becomes_a_product():
    matrix = torch.eye(6, dtype=torch.float64) + 0.1 * X.T @ X
    module = Module(lambda m, x: torch.linalg.solve(m.matrix, x.mT).mT, matrix=matrix)
    graph = to_real_graph(captured(module))
    assert not any("solve" in str(node.target) for node in graph.graph.nodes)
    torch.testing.assert_close(graph(2 * X), module(2 * X), rtol=0, atol=1e-14)


def test_a_search_among_constant_positions_becomes_a_count():
    ticks = torch.tensor([-0.5, 0.0, 0.0, 0.7], dtype=torch.float64)
    for right in (False, True):
        module = Module(lambda m, x, r=right: torch.searchsorted(m.ticks, x, right=r), ticks=ticks)
        graph = to_real_graph(captured(module))
        at = torch.tensor([[-1.0, -0.5, 0.0, 0.3, 0.7, 2.0]], dtype=torch.float64).expand(2, -1)
        assert not any("searchsorted" in str(node.target) for node in graph.graph.nodes)
        assert graph(at).tolist() == module(at).tolist()


def test_what_depends_on_no_input_is_computed_beforehand():
    module = Module(lambda m, x: x @ torch.linalg.qr(m.matrix @ m.matrix.mT)[0][:, :1], matrix=X.T)
    graph = to_real_graph(captured(module))
    calls = [node for node in graph.graph.nodes if node.op == "call_function"]
    assert [str(node.target) for node in calls] == ["aten.matmul.default"]


def test_numbers_are_tensors_in_double_precision():
    """As attributes of ONNX they would be rounded to single precision."""
    graph = to_real_graph(captured(Module(lambda m, x: x * 0.1)))
    numbers = [argument for node in graph.graph.nodes for argument in node.args]
    assert not any(isinstance(number, float) for number in numbers)
    torch.testing.assert_close(graph(X), X * 0.1, rtol=0, atol=0)


def test_arccos_by_newton_is_that_of_torch():
    x = torch.cat([torch.linspace(-1, 1, 2001), torch.tensor([-1 + 1e-9, 1 - 1e-9])]).double()
    torch.testing.assert_close(acos_by_newton(x), torch.acos(x), rtol=0, atol=1e-14)


def test_arctan_from_single_precision_has_the_digits_of_double():
    x = torch.tensor([0.0, 1e-9, 0.3, 1, -2.5, 1e4, -1e12], dtype=torch.float64)
    torch.testing.assert_close(atan_by_newton(x), torch.atan(x), rtol=1e-15, atol=1e-15)
    assert atan_by_newton(x.float()).dtype == torch.float32

"""Attention's gradients with respect to all it is made of, against nested reverse mode."""

import pytest
import sympy
import torch

from piop.residual import compile_residual
from piop.residual.rules.attention import _by_autograd, weighted_sum

B, N, M, H = 2, 3, 5, 2
T, X = sympy.symbols("t x", real=True)
U = sympy.Function("u", real=True)(T, X)
A = sympy.Function("a", real=True)(X)
EQUATIONS = {
    "order two": U.diff(T) + U * U.diff(X) - 0.1 * U.diff(X, 2),
    "point-dependent": A * U.diff(T) - A**2 * U.diff(X, 2) + U.diff(T, X) * U,
    "order four": U.diff(T, 2) + U * U.diff(X, 3) + 0.3 * U.diff(X, 4) - A * U.diff(X, 2, T),
}


def _tensor(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, generator=generator, dtype=torch.float64) + 0.1


def _case(make_problem, equation):
    residual = compile_residual(make_problem("tx", ["u"], [EQUATIONS[equation]], {"a": "x"}))
    inputs = [_tensor(B, N, seed=10 + i) for i in range(len(residual.input_derivatives.entries))]
    return residual, inputs


@pytest.mark.parametrize("equation", EQUATIONS)
def test_gradients_of_keys_values_and_queries_equal_nested_reverse_mode(
    equation, make_problem
) -> None:
    residual, inputs = _case(make_problem, equation)
    queries = _tensor(B, N, 2, seed=7)
    lift = (_tensor(H * 4, 2, seed=1) - 0.5).requires_grad_()
    keys = _tensor(B, H, M, 4, seed=2).requires_grad_()
    values = _tensor(1, H, M, 3, seed=3).requires_grad_()  # one set for all functions
    last = _tensor(1, H * 3, seed=4)

    def field(q):
        heads = torch.tanh(q @ lift.mT).unflatten(-1, (H, 4)).transpose(1, 2)
        found = torch.softmax(heads @ keys.mT, -1) @ values
        return torch.sin(found.transpose(1, 2).flatten(-2)) @ last.mT

    found, nested = residual(field, queries, inputs), residual.reverse(field, queries, inputs)
    torch.testing.assert_close(found.values, nested.values, rtol=1e-10, atol=1e-10)
    leaves = [lift, keys, values]
    for one, two in zip(
        torch.autograd.grad(found.values.square().mean(), leaves),
        torch.autograd.grad(nested.values.square().mean(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("equation", EQUATIONS)
@pytest.mark.parametrize("shape", [(B, N, M), (1, N, M)])
def test_written_gradient_equals_torchs(equation, shape, make_problem) -> None:
    residual, inputs = _case(make_problem, equation)
    stream = residual.stream(_tensor(B, N, 2, seed=7), inputs)
    first = (_tensor(M, 2, seed=1) - 0.5).requires_grad_()
    values = _tensor(B, M, 3, seed=3).requires_grad_()
    outcomes = []
    for function in (weighted_sum, _by_autograd):
        scores = torch.sin(stream @ first.mT)[: shape[0]]
        if function is _by_autograd:
            scores = scores.map(lambda rows: rows.expand(-1, B, -1, -1))
        rows = function(scores, values).data
        outcomes.append([rows, *torch.autograd.grad(rows.square().sum(), (first, values))])
    for one, two in zip(*outcomes, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-11, atol=1e-11)


def test_coefficients_that_are_trained_get_their_gradient(make_problem) -> None:
    residual, inputs = _case(make_problem, "point-dependent")
    weight = torch.ones(1, dtype=torch.float64, requires_grad=True)
    keys, values = _tensor(B, M, 2, seed=2), _tensor(B, M, 1, seed=3)

    def field(q):
        return torch.softmax(torch.tanh(q) @ keys.mT, -1) @ values

    slopes = []
    for evaluate in (residual, residual.reverse):
        found = evaluate(field, _tensor(B, N, 2, seed=7), [a * weight for a in inputs]).values
        slopes.append(torch.autograd.grad(found.square().mean(), weight)[0])
    torch.testing.assert_close(*slopes, rtol=1e-10, atol=1e-10)
    assert slopes[0].abs() > 1e-6

"""Parameters that are trained: gradients against nested reverse mode and finite differences."""

import pytest
import sympy
import torch
from torch import nn

from piop.residual import GridResidual, TensorGrid, compile_residual

T, X, Y = sympy.symbols("t x y", real=True)
NU, K = sympy.symbols("nu k", real=True)
U, V = (sympy.Function(n, real=True)(T, X) for n in "uv")
W = sympy.Function("w", real=True)(T, X, Y)
A = sympy.Function("a", real=True)(X)

CASES = {
    "heat": ("tx", ["u"], [U.diff(T) - NU * U.diff(X, 2)], {"nu": 0.3}),
    "burgers": (
        "tx", ["u"], [U.diff(T) + K * U * U.diff(X) - NU * U.diff(X, 2)], {"nu": 0.3, "k": 2.0},
    ),
    "within functions": (
        "tx", ["u"],
        [U.diff(T) - sympy.exp(NU * A) * U.diff(X, 2) - K**2 * sympy.sin(K * U) - A / K],
        {"nu": -0.4, "k": 1.5},
    ),
    "system": (
        "tx", ["u", "v"],
        [U.diff(T) - NU * U.diff(X, 2) + U * V**2, V.diff(T) - NU * K * V.diff(X, 2) - U * V**2],
        {"nu": 0.2, "k": 0.5},
    ),
    "plane": (
        "txy", ["w"], [W.diff(T) - NU * (W.diff(X, 2) + K * W.diff(Y, 2))], {"nu": 0.1, "k": 3.0},
    ),
}  # fmt: skip


def build(make_problem, symbolic_function, name):
    names, channels, residuals, start = CASES[name]
    problem = make_problem(names, channels, residuals, {"a": "x"})
    problem.infer = dict(start)
    return problem, {"a": symbolic_function(2 + sympy.cos(X), (X,), 3)}


def network(inputs, outputs):
    torch.manual_seed(0)
    layers = nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, outputs)
    return nn.Sequential(*layers).double()


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_parameters_flow_through_streams(make_problem, symbolic_function, name):
    problem, functions = build(make_problem, symbolic_function, name)
    residual = compile_residual(problem)
    assert residual.trained == tuple(problem.infer)
    assert all(term not in problem.infer for term, _ in residual.input_derivatives.entries)
    net = network(len(problem.coordinates), len(problem.channels))
    queries = torch.rand(3, 7, len(problem.coordinates), dtype=torch.float64)
    known = residual.evaluate_inputs(functions, queries)
    values = torch.tensor(list(problem.infer.values()), dtype=torch.float64, requires_grad=True)

    def loss(way, at):
        return way(net, queries, known, at.unbind()).values.square().mean()

    def slopes(way):
        weights = [values, *net.parameters()]
        return torch.autograd.grad(loss(way, values), weights, materialize_grads=True)

    streams = slopes(residual)
    assert residual.fallback is None
    nested = slopes(residual.reverse)
    for mine, theirs in zip(streams, nested, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)
    for i in range(len(values)):
        step = torch.zeros_like(values)
        step[i] = 1e-6
        with torch.no_grad():
            slope = (loss(residual, values + step) - loss(residual, values - step)) / 2e-6
        assert abs(slope - streams[0][i]) < 1e-7 * (1 + slope.abs())


def test_the_value_of_a_parameter_counts_as_a_number_does(make_problem):
    names, channels, residuals, start = CASES["burgers"]
    symbolic = make_problem(names, channels, residuals)
    symbolic.infer = dict(start)
    plain = make_problem(names, channels, [residuals[0].subs({NU: 0.3, K: 2.0})])
    net, queries = network(2, 1), torch.rand(1, 9, 2, dtype=torch.float64)
    given = [torch.tensor(v, dtype=torch.float64) for v in start.values()]
    found = compile_residual(symbolic)(net, queries, (), given).values
    torch.testing.assert_close(found, compile_residual(plain)(net, queries).values)


def test_a_parameter_that_is_not_given_is_missed(make_problem):
    names, channels, residuals, start = CASES["heat"]
    problem = make_problem(names, channels, residuals)
    problem.infer = dict(start)
    with pytest.raises(ValueError, match="tensors for"):
        compile_residual(problem)(network(2, 1), torch.rand(1, 3, 2, dtype=torch.float64))


@pytest.mark.parametrize("steps", [False, True])
def test_gradients_of_parameters_flow_on_grids(make_problem, symbolic_function, steps):
    problem, functions = build(make_problem, symbolic_function, "within functions")
    ticks = torch.linspace(0, 1, 5).double(), torch.arange(8).double() / 8
    residual = GridResidual(problem, TensorGrid(ticks, steps=steps))
    torch.manual_seed(0)
    state = torch.rand(3, 5, 8, 1, dtype=torch.float64)

    class Field:
        def on_grid(self, axes):
            return state

    known = residual.evaluate_inputs(functions, residual.points)
    values = torch.tensor(list(problem.infer.values()), dtype=torch.float64, requires_grad=True)

    def loss(at):
        return residual(Field(), None, known, at.unbind()).values.square().mean()

    assert torch.autograd.gradcheck(loss, (values,))

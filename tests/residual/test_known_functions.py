"""Known functions as streams: hard initial data."""

import pytest
import sympy
import torch
from torch import nn

from piop.lowering import lower
from piop.residual import compile_residual

T, X = sympy.symbols("t x", real=True)
U = sympy.Function("u", real=True)(T, X)
U0 = sympy.Function("u0", real=True)(X)
A = sympy.Function("a", real=True)(X)
SHAPE = sympy.exp(sympy.sin(2 * X))
EQUATIONS = {
    "burgers": U.diff(T) + U * U.diff(X) - 0.01 * U.diff(X, 2),
    "point-dependent": U.diff(T) - A * U.diff(X, 2) + U**2,
    "no constant coefficient": sympy.cos(T) * U.diff(T) - A * U.diff(X, 2) + U**2,
    "fourth order": U.diff(T) + U.diff(X, 4) + U * U.diff(X, 3) + U.diff(X, 2, T),
}


@pytest.fixture(params=EQUATIONS)
def residual(request, make_problem):
    inputs = {"u0": "x", "a": "x"}
    return compile_residual(make_problem("tx", ["u"], [EQUATIONS[request.param]], inputs))


@pytest.fixture
def functions(symbolic_function):
    return {
        "u0": symbolic_function(SHAPE, (X,), 2),
        "a": symbolic_function(2 + sympy.cos(X), (X,), 2),
    }


def test_lift_adds_to_a_network_by_ordinary_arithmetic(residual, functions) -> None:
    queries = torch.rand(2, 7, 2, dtype=torch.float64)
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    expression = U0 * sympy.exp(-T)
    lift = residual.compile_lift([expression])
    rows = lift(functions, queries)
    inputs = residual.evaluate_inputs(functions, queries)

    def attached(q):
        return lift.attach(rows, q) + (q[..., :1] - 0.25) * net(q) * lift.attach(rows, q)

    def written_out(q):
        known = torch.exp(torch.sin(2 * q[..., 1:])) * torch.exp(-q[..., :1])
        return known + (q[..., :1] - 0.25) * net(q) * known

    truth = residual(written_out, queries, inputs).values
    assert residual.fallback is None
    torch.testing.assert_close(
        residual(attached, queries, inputs).values, truth, rtol=1e-10, atol=1e-10
    )
    nested = residual.reverse(attached, queries, inputs).values
    torch.testing.assert_close(nested, truth, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(attached(queries), written_out(queries))


def test_lift_rows_are_the_derivatives(burgers, functions) -> None:
    residual = compile_residual(burgers)
    queries = torch.rand(2, 7, 2, dtype=torch.float64)
    rows = residual.compile_lift([SHAPE * T])(functions, queries)
    environment = dict(zip((T, X), queries.unbind(-1), strict=True))
    known = SHAPE * T
    expected = [known, known.diff(X), known.diff(T) - 0.01 * known.diff(X, 2)]
    assert rows.shape == (3, 2, 7, 1)
    for row, expression in zip(rows, expected, strict=True):
        torch.testing.assert_close(row[..., 0], lower(expression, environment))


def test_lift_tells_the_derivatives_of_inputs_it_needs(make_problem) -> None:
    inputs = {"u0": "x"}
    residual = compile_residual(make_problem("tx", ["u"], [EQUATIONS["burgers"]], inputs))
    lift = residual.compile_lift([U0])
    assert lift.known.input_derivatives.entries == (("u0", (0,)), ("u0", (1,)), ("u0", (2,)))


def test_lift_of_nothing_is_zero(burgers, functions) -> None:
    rows = compile_residual(burgers).compile_lift([None])(functions, torch.rand(2, 3, 2))
    assert rows.shape == (3, 2, 3, 1)
    assert not rows.any()


def test_lift_value_is_the_function(make_problem, functions) -> None:
    inputs = {"u0": "x", "a": "x"}
    residual = compile_residual(make_problem("tx", ["u"], [EQUATIONS["burgers"]], inputs))
    queries = torch.rand(2, 3, 2, dtype=torch.float64)
    value = residual.compile_lift([U0])(functions, queries)[0]
    torch.testing.assert_close(value, torch.exp(torch.sin(2 * queries[..., 1:])))


def test_lift_needs_one_function_per_channel(burgers) -> None:
    with pytest.raises(ValueError, match="2 functions for channels"):
        compile_residual(burgers).compile_lift([U0, U0])


def test_rows_of_another_plan_are_refused(burgers) -> None:
    stream = compile_residual(burgers).stream(torch.rand(2, 3, 2))
    with pytest.raises(ValueError, match="4 streams given for 3"):
        stream.like(torch.zeros(4, 2, 3, 1))

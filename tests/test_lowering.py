"""SymPy to torch: every function of the spec language, against SymPy's own numbers."""

import pytest
import sympy
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

from piop.errors import NotSupportedError
from piop.lowering import compile_expression, compile_expressions, lower

X, Y = sympy.symbols("x y", real=True)
PLACES = [(0.3, -0.4), (0.9, 0.2), (0.5, 0.5), (0.1, 0.8), (0.7, 0.0)]
EXPRESSIONS = {
    "sum": -X - Y + 3,
    "only minus": -X - 2 * Y,
    "product": -2 * X * Y * sympy.pi,
    "quotient": sympy.sin(X) / (1 + Y**2) - 3 / (sympy.pi * X),
    "powers": X**2 + X**3 + X**5 + X**-1 + X**-3 + X**0,
    "roots": sympy.sqrt(X)
    + 1 / sympy.sqrt(X)
    + X ** sympy.Rational(1, 3)
    + X ** sympy.Rational(-5, 3),
    "exponentials": 2**X + X**Y + sympy.exp(-X) + sympy.E**Y + sympy.pi ** (X * Y),
    "circular": sympy.sin(X) + sympy.cos(Y) + sympy.tan(X) + sympy.atan(Y) + sympy.asin(X),
    "inverse": sympy.acos(X) + sympy.atan2(Y, X),
    "hyperbolic": sympy.sinh(X) + sympy.cosh(Y) + sympy.tanh(X) / sympy.cosh(Y) ** 2,
    "log": sympy.log(X) + sympy.log(1 + Y**2) + sympy.erf(Y),
    "abs": sympy.Abs(Y) * sympy.sign(Y) + sympy.Abs(X - Y),
    "steps": sympy.floor(3 * Y) + sympy.ceiling(3 * X) + sympy.Heaviside(Y - 0.25),
    "minimum": sympy.Min(X, Y, sympy.Rational(1, 4)) * sympy.Max(X, Y) + sympy.Max(Y, 0),
    "piecewise": sympy.Piecewise((X, Y < 0), (X**2, sympy.Rational(3, 10) >= Y), (7, True)),
    "constants by condition": sympy.Piecewise((12, (X > 0.2) & (Y > 0)), (3, True)),
    "or, not": sympy.Piecewise((X, sympy.Or(X < 0.2, Y >= 0.5)), (Y, True)),
    "equal": sympy.Piecewise((X, sympy.Eq(Y, 0)), (Y, sympy.Ne(X, 0.5)), (9, True)),
    "negation": sympy.Piecewise((X, sympy.Not(sympy.And(X < 0.6, Y > 0))), (Y, True)),
    "derivative of a minimum": sympy.Min(X**2, Y).diff(X),
    "fixed numbers": sympy.sqrt(2) * X / 3 + sympy.log(7) - sympy.E,
    "delta": sympy.Heaviside(X - Y / 7).diff(X) + X,
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expression_equals_sympys_own(name, dtype) -> None:
    expression = EXPRESSIONS[name]
    x, y = (torch.tensor(c, dtype=dtype) for c in zip(*PLACES, strict=True))
    found = lower(expression, {X: x, Y: y})
    assert found.dtype == dtype
    rounding = 1e-13 if dtype == torch.float64 else 2e-5
    for place, value in zip(PLACES, found.expand(len(PLACES)).tolist(), strict=True):
        point = dict(zip((X, Y), map(sympy.Rational, map(str, place)), strict=True))
        assert value == pytest.approx(
            float(expression.subs(point).evalf(30)), rel=rounding, abs=rounding
        )


def test_a_condition_that_no_branch_meets_gives_nan() -> None:
    found = lower(sympy.Piecewise((X, X > 0.5)), {X: torch.tensor([0.2, 0.8])})
    assert found.isnan().tolist() == [True, False]


def test_constants_have_no_dimensions() -> None:
    assert lower(sympy.pi, {X: torch.zeros(3)}) == torch.tensor(torch.pi)
    assert lower(sympy.S(3), {}).dtype == torch.float64
    assert lower(sympy.S(3), {X: torch.zeros(3)}).shape == ()


def test_functions_and_derivatives_are_atoms() -> None:
    u = sympy.Function("u", real=True)(X, Y)
    values = {u: torch.tensor(2.0), u.diff(X): torch.tensor(3.0), u.diff(X, Y): torch.tensor(5.0)}
    assert lower(u * u.diff(X) - u.diff(X, Y), values) == 1.0


def test_an_atom_shadows_its_translation() -> None:
    assert lower(sympy.sin(X) + 1, {sympy.sin(X): torch.tensor(5.0)}) == 6.0


def test_common_parts_are_computed_once() -> None:
    shared = sympy.sin(X) * sympy.exp(Y)
    run = compile_expressions([shared + X, shared * Y, sympy.cos(shared)], (X, Y))
    graph = make_fx(lambda x, y: run([x, y]))(torch.rand(3), torch.rand(3)).graph
    names = [str(n.target) for n in graph.nodes]
    assert sum("sin" in n for n in names) == 1
    assert sum("exp" in n for n in names) == 1


def test_powers_are_products() -> None:
    graph = make_fx(lambda x: compile_expression(X**7, (X,))([x]))(torch.rand(3)).graph
    names = [str(n.target) for n in graph.nodes]
    assert not any("pow" in n for n in names)
    assert sum("mul" in n for n in names) == 4  # x², x³, x⁶, x⁷


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        (sympy.Symbol("q") + X, "q has no value here"),
        (sympy.Function("f", real=True)(X), r"f\(x\) has no value here"),
        (sympy.Function("f", real=True)(X).diff(X), r"Derivative\(f\(x\), x\) has no value"),
        (sympy.gamma(X), r"gamma\(x\) has no value here and no translation"),
        (sympy.Integral(X, X), "Integral .* has no translation"),
        (X + sympy.I, "I is no real number"),
        (X + sympy.zoo, "no real number"),
    ],
)
def test_what_has_no_translation_is_refused(expression, reason) -> None:
    with pytest.raises(NotSupportedError, match=reason):
        lower(expression, {X: torch.zeros(2)})


def test_the_number_of_tensors_is_checked() -> None:
    with pytest.raises(ValueError, match="1 tensors for 2 atoms"):
        compile_expression(X + Y, (X, Y))([torch.zeros(2)])


def test_atoms_may_change_afterwards() -> None:
    atoms = [X]
    run = compile_expression(2 * X, atoms)
    atoms.append(Y)
    assert run([torch.ones(2)]).tolist() == [2.0, 2.0]


def _trees() -> st.SearchStrategy:
    leaves = st.sampled_from([X, Y, sympy.S(2), sympy.Rational(1, 3)])
    return st.recursive(
        leaves,
        lambda t: st.one_of(
            st.tuples(t, t).map(lambda p: p[0] + p[1]),
            st.tuples(t, t).map(lambda p: p[0] * p[1]),
            st.tuples(t, t).map(lambda p: p[0] - p[1]),
            t.map(sympy.sin),
            t.map(sympy.tanh),
            t.map(lambda e: e**2),
            t.map(lambda e: 1 / (1 + e**2)),
            st.tuples(t, t).map(lambda p: sympy.Piecewise((p[0], X > Y), (p[1], True))),
        ),
        max_leaves=12,
    )


@given(expression=_trees(), x=st.integers(1, 19), y=st.integers(-19, 19))
def test_random_expressions_equal_sympys_own(expression, x, y) -> None:
    point = {X: sympy.Rational(x, 10), Y: sympy.Rational(y, 11)}
    tensors = {s: torch.tensor(float(v), dtype=torch.float64) for s, v in point.items()}
    exact = float(expression.subs(point).evalf(30))
    assert lower(expression, tensors).item() == pytest.approx(exact, rel=1e-9, abs=1e-9)

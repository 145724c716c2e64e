"""Formulas are read by whitelist, and everything else is refused with its place."""

import time

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Derivative, Function, Rational, Symbol

from piop.expression import Refusal, Scalar, Scope, number, parse, parse_equation, write

t, x, y, z = (Symbol(n, real=True) for n in "txyz")
u = Function("u", real=True)(t, x, y)
v = Function("v", real=True)(t, x, y)
SCOPE = Scope(
    {
        "t": Scalar(t),
        "x": Scalar(x),
        "y": Scalar(y),
        "u": Scalar(u),
        "v": Scalar(v),
        "nu": number(0.01),
        "E": number(7),
        "V": (Scalar(u), Scalar(v)),
    },
    {"t": t, "x": x, "y": y},
    (x, y),
)


def scalar(text):
    return parse(text, SCOPE).expr


def vector(text):
    return tuple(part.expr for part in parse(text, SCOPE))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1e-3", Rational(1, 1000)),
        ("nu*dxx(u)", Derivative(u, (x, 2)) / 100),
        ("d(u, x, 2)", Derivative(u, (x, 2))),
        ("d(u, t, x)", Derivative(u, t, x)),
        ("dxxyy(u)", Derivative(u, (x, 2), (y, 2))),
        ("dtx(dx(u))", Derivative(u, t, (x, 2))),
        ("dx(dx(u))", Derivative(u, (x, 2))),
        ("d(u**2/2, x)", Derivative(u**2 / 2, x)),
        ("-u**2", -(u**2)),
        ("2**-1 - u/4", Rational(1, 2) - u / 4),
        ("E*u", 7 * u),
        ("sin(2*pi*x)", sympy.sin(2 * sympy.pi * x)),
        ("sqrt(abs(u))", sympy.sqrt(sympy.Abs(u))),
        ("dot(V, grad(u))", u * Derivative(u, x) + v * Derivative(u, y)),
        ("div(V)", Derivative(u, x) + Derivative(v, y)),
        ("curl(V)", Derivative(v, x) - Derivative(u, y)),
        ("lap(u)", Derivative(u, (x, 2)) + Derivative(u, (y, 2))),
        ("u\n + v", u + v),
        ("dx(3)", sympy.S.Zero),
        ("where(1 < 2, u, v)", u),
        ("atan(u) + sinh(u)*cosh(u)", sympy.atan(u) + sympy.sinh(u) * sympy.cosh(u)),
        ("atan(1)", sympy.pi / 4),
    ],
)
def test_a_formula_means_what_it_says(text, expected):
    assert scalar(text) == expected


def test_vectors_follow_the_nabla_convention():
    advected = vector("dot(V, grad(V))")
    assert advected == (
        u * Derivative(u, x) + v * Derivative(u, y),
        u * Derivative(v, x) + v * Derivative(v, y),
    )
    assert vector("curl(u)") == (Derivative(u, y), -Derivative(u, x))
    assert vector("(u, v)/2 - (v, u)") == (u / 2 - v, v / 2 - u)


def test_curl_in_three_dimensions():
    f = [Function(n, real=True)(x, y, z) for n in "fgh"]
    scope = Scope(
        dict(zip("fgh", map(Scalar, f), strict=True)), {"x": x, "y": y, "z": z}, (x, y, z)
    )
    found = [part.expr for part in parse("curl((f, g, h))", scope)]
    assert found == [
        Derivative(f[2], y) - Derivative(f[1], z),
        Derivative(f[0], z) - Derivative(f[2], x),
        Derivative(f[1], x) - Derivative(f[0], y),
    ]


def test_where_is_a_piecewise():
    found = scalar("where(x < 1/2, u, v)")
    assert found.args[0] == (u, sympy.Lt(x, Rational(1, 2)))
    assert found.args[1] == (v, True)


@pytest.mark.parametrize(
    ("text", "offset", "message", "hint"),
    [
        ("u^2", 1, "'^'", "'**'"),
        ("1 + 2u", 4, "'2u'", "2*u"),
        ("2(u + v)", 0, "2(", "2*("),
        ("(u)(v)", 2, "operator is missing", ""),
        ("0x10", 0, "'0x10' is not a number here", "1e3"),
        ("u*1_000", 2, "'1_000' is not a number here", "1e3"),
        ("2j + u", 0, "'2j' is not a number here", "1e3"),
        ("u # + v", 2, "'#' is not allowed", ""),
        ("u(t, x)", 0, "without arguments", "'u'"),
        ("w + u", 0, "'w' is not declared", ""),
        ("u_t + v", 0, "'u_t' is not declared", "dt(u)"),
        ("3*u_xx", 2, "'u_xx' is not declared", "dxx(u)"),
        ("w_xx", 0, "'w_xx' is not declared", ""),
        ("tanh(sin(sqrt(exp(atan(cosh(u))))))", 0, "inside of functions, 6 deep; at most 5", ""),
        ("nu + sinn(x)", 5, "'sinn' is not a function", "sin"),
        ("e*u", 0, "not declared", "exp(1)"),
        ("u + grad(v)", 0, "a scalar and a vector of 2", ""),
        ("V*V", 0, "no single meaning", "dot"),
        ("u/V", 0, "a divisor", ""),
        ("sin(V)", 0, "needs a scalar", ""),
        ("div(u)", 0, "div needs a vector of 2", ""),
        ("dot(u, v)", 0, "two vectors", ""),
        ("dot(V, (u, v, u))", 0, "vector of 3", ""),
        ("()", 0, "empty vector", ""),
        ("(u, V)", 0, "one kind", ""),
        ("9**(16**7)", 0, "exponent of 2.68435e+08", ""),
        ("u**17", 0, "exponent of 17", ""),
        ("u**(8 + 9)", 0, "exponent of 17", ""),
        ("exp(99*log(u))", 0, "exponent of 99", ""),
        ("((u + v)**16)**16", 0, "total degree of 256", ""),
        ("(u + v + x + y + t + 1)**9*(u + v)**9", 0, "more than 2000 terms", ""),
        ("1e400*u", 0, "too large to be finite", ""),
        ("(1e300*u)**16", 0, "too large to be finite", ""),
        ("(1e300*u)*(1e300*v)", 0, "too large to be finite", ""),
        ("where(1 < u, u, 1e300)**16", 0, "too large to be finite", ""),
        ("1e200*1e200", 0, "too large to be finite", ""),
        ("exp(exp(exp(1e11)))", 8, "exp of this number", ""),
        ("log(0)", 0, "log of this number", ""),
        ("sqrt(-1)", 0, "sqrt of this number", ""),
        ("(-8)**0.5", 0, "not a real number", ""),
        ("u/0", 0, "division by zero", ""),
        ("u/(1 - 1)", 0, "division by zero", ""),
        ("0**-1", 0, "division by zero", ""),
        ("u < v", 0, "outside where", ""),
        ("where(u, 1, 2)", 6, "comparison", ""),
        ("where(u == v, 1, 2)", 8, "'=='", "<"),
        ("where(0 < u < 1, 1, 2)", 6, "compares two values", ""),
        ("where(u < where(v < 1, 1, 2), 1, 2)", 0, "where inside", ""),
        ("u if v else x", 0, "where(a < b", ""),
        ("u and v", 0, "'and'", ""),
        ("u.real", 0, "'.'", ""),
        ("u[0]", 1, "'['", "" ),
        ("lambda: 1", 0, "lambda", ""),
        ("sin(x=1)", 4 + 1, "'='", ""),
        ("sin(*x)", 0, "plain arguments", ""),
        ("sin(x, y)", 0, "takes 1 argument", ""),
        ("max(x)", 0, "two or more", ""),
        ("True*u", 0, "True", ""),
        ("'u'", 0, "not allowed", ""),
        ("1j*u", 0, "'1j'", ""),
        ("1_000", 0, "'1_000'", ""),
        ("sin", 0, "needs arguments", ""),
        ("d(u)", 0, "d takes", ""),
        ("d(u, q)", 5, "needs a coordinate", ""),
        ("d(u, x, 9)", 8, "order up to 8", ""),
        ("dxxxx(dxxxx(dx(u)))", 0, "order above 8", ""),
        ("dxxxx(sin(u*v + u + v*x + 1)*v)", 0, "derivative that expands", ""),
        ("dq(u)", 0, "'dq' is not a function", ""),
        ("012*u", 0, "leading zeros", ""),
        ("u +", 0, "not an expression that can be read", ""),
        ("(u + v", 0, "never closed", "quoted"),
        ("u) + v", 1, "closes nothing", "quoted"),
        ("u + é", 4, "ASCII", ""),
        ("u \x07", 2, "ASCII", ""),
        ("", 0, "empty", ""),
        ("   ", 0, "empty", ""),
        ("u" + "+u" * 1000, 0, "at most 2000", "definitions"),
        ("u" + "+u" * 400, 0, "at most 500", ""),
        ("(" * 41 + "u" + ")" * 41, 40, "deeper than 40", ""),
        ("u" + "**u" * 41, 1, "more than 40 powers", ""),
        ("-" * 50 + "u", 0, "signs in a row", ""),
        ("sin(" * 39 + "-+-+-u" + ")" * 39, 156 + 2, "deeper than 40 levels", ""),
        ("__import__('os').system('true')", 0, "named function", ""),
        ("__import__(1)", 0, "'__import__' is not a function", ""),
        ("(0*u - 2)**0.5", 0, "not a real number", ""),
        ("(u - u - max(2, u))**0.5", 0, "not a real", ""),
    ],
)  # fmt: skip
def test_what_is_refused_is_refused_where_it_stands(text, offset, message, hint):
    with pytest.raises(Refusal) as caught:
        parse(text, SCOPE)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.offset == offset


def test_names_of_a_refused_declaration_are_refused_silently():
    with pytest.raises(Refusal) as caught:
        parse("q + 1", Scope({}, broken=frozenset({"q"})))
    assert caught.value.message == ""


def test_an_equation_has_one_sign_and_two_sides_of_one_shape():
    left, right = parse_equation("dt(V) = nu*lap(V)", SCOPE)
    assert len(left) == len(right) == 2
    assert parse_equation("V = 0", SCOPE)[1][1].number == 0
    for text, offset in (("u", 0), ("u = v = x", 6), ("u = V", 2), ("u = w", 4), ("u == v", 0)):
        with pytest.raises(Refusal) as caught:
            parse_equation(text, SCOPE)
        assert caught.value.offset == offset


def test_comparisons_are_not_equation_signs():
    left, _ = parse_equation("where(u <= v, 1, 2) = u", SCOPE)
    assert left.expr.args[0][1] == sympy.Le(u, v)


leaves = st.sampled_from(["u", "v", "x", "t", "nu", "pi", "2", "0.5", "1e-3", "E"])
formulas = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*/"), inner),
        st.builds("({})**{}".format, inner, st.sampled_from(["2", "3", "-1", "0.5"])),
        st.builds(
            "{}({})".format,
            st.sampled_from(["sin", "tanh", "abs", "exp", "dx", "dtx", "lap", "sqrt"]),
            inner,
        ),
        st.builds("where({} < {}, {}, {})".format, leaves, leaves, inner, inner),
        st.builds("max({}, {})".format, inner, inner),
    ),
    max_leaves=12,
)


@given(formulas)
def test_written_text_parses_back_to_the_same_expression(text):
    try:
        expr = parse(text, SCOPE).expr
    except Refusal:
        return
    again = parse(write(expr), SCOPE).expr
    assert write(again) == write(expr)


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused_with_a_place_inside_it(text):
    try:
        parse(text, SCOPE)
    except Refusal as refusal:
        assert 0 <= refusal.offset <= max(len(text) - 1, 0)
        assert refusal.message


@settings(max_examples=200)
@given(st.text(alphabet="uvx+-*/().,0129e<dsin ", max_size=60))
def test_near_formulas_are_read_or_refused_quickly(text):
    start = time.process_time()
    try:
        parse(text, SCOPE)
    except Refusal as refusal:
        assert refusal.message
    assert time.process_time() - start < 1.0


def test_coefficients_longer_than_a_double_are_rounded():
    found = scalar("u" + "*0.1234567890123457" * 40).coeff(u)
    assert float(found) == pytest.approx(0.1234567890123457**40, rel=1e-13)
    assert found.q.bit_length() <= 1100

"""The product rules of higher order against SymPy's differentiation, and plans of streams."""

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from piop import Problem
from piop.errors import NotSupportedError
from piop.forms.stream_plan import (
    StreamPlan,
    below,
    composition_terms,
    is_below,
    minus,
    plan_expressions,
    plan_streams,
    product_terms,
)

T, X, Y, Z = sympy.symbols("t x y z", real=True)
NU = sympy.Symbol("nu", real=True)
INDICES = [(0, 1), (1, 1), (2, 0), (2, 1), (0, 3), (2, 2), (4, 0), (3, 1)]


def _diff(expression: sympy.Expr, index: tuple[int, ...]) -> sympy.Expr:
    counts = [(s, n) for s, n in zip((X, Y), index, strict=True) if n]
    return expression.diff(*counts) if counts else expression


@pytest.mark.parametrize("index", INDICES)
def test_composition_terms_are_faa_di_brunos(index) -> None:
    inner = sympy.Function("g")(X, Y)
    outer = sympy.exp(2 * inner)  # f⁽ᵏ⁾ = 2ᵏ f
    total = 2 * _diff(inner, index)
    for count, blocks in composition_terms(index):
        total += 2 ** len(blocks) * count * sympy.prod(_diff(inner, b) for b in blocks)
    assert sympy.expand(_diff(outer, index) / outer - total) == 0


@pytest.mark.parametrize("index", INDICES)
def test_product_terms_are_leibnizs(index) -> None:
    a, b = sympy.Function("a")(X, Y), sympy.Function("b")(X, Y)
    total = a * _diff(b, index) + b * _diff(a, index)
    for count, (left, right) in product_terms(index):
        total += count * _diff(a, left) * _diff(b, right)
    assert sympy.expand(_diff(a * b, index) - total) == 0


def test_order_of_multi_indices() -> None:
    assert list(below((1, 1))) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert minus((2, 1), (1, 1)) == (1, 0)
    assert is_below((1, 0), (1, 1))
    assert not is_below((2, 0), (1, 1))


def function(name: str, *symbols: sympy.Symbol) -> sympy.Expr:
    return sympy.Function(name, real=True)(*symbols)


def lap(f: sympy.Expr, *axes: sympy.Symbol) -> sympy.Expr:
    return sum(f.diff(a, 2) for a in axes)


def plan(names: tuple, *residuals: sympy.Expr, channels: tuple = ("u",)) -> StreamPlan:
    return plan_expressions([sympy.sympify(r).doit() for r in residuals], names, channels)


U1, U2, V2, U3 = (
    function("u", T, X),
    function("u", T, X, Y),
    function("v", T, X, Y),
    function("u", T, X, Y, Z),
)
P2 = function("u", X, Y)
A = function("a", X)


def test_burgers_takes_three_streams() -> None:
    found = plan((T, X), U1.diff(T) + U1 * U1.diff(X) - 0.01 * U1.diff(X, 2))
    assert found.describe() == "3 streams: u, u_x, collapsed u_t - 0.01*u_xx"
    assert found.explicit == ((0, 0), (0, 1))
    assert found.remainders == (U1 * U1.diff(X),)


@pytest.mark.parametrize(("names", "u"), [((T, X), U1), ((T, X, Y), U2), ((T, X, Y, Z), U3)])
def test_heat_takes_dimension_plus_two_streams(names, u) -> None:
    found = plan(names, u.diff(T) - NU * lap(u, *names[1:]))
    assert found.count == len(names) - 1 + 2
    assert len(found.collapsed) == 1


@pytest.mark.parametrize(
    ("residuals", "collapsed"),
    [
        # different diffusivities: u_t and the Laplacian
        ((U2.diff(T) - 0.1 * lap(U2, X, Y) + U2 * V2**2, V2.diff(T) - 0.05 * lap(V2, X, Y)), 2),
        # equal diffusivities: one functional for both
        ((U2.diff(T) - NU * lap(U2, X, Y) + U2 * V2**2, V2.diff(T) - NU * lap(V2, X, Y)), 1),
        # proportional to one another
        ((U2.diff(T) - NU * lap(U2, X, Y), 2 * V2.diff(T) - 2 * NU * lap(V2, X, Y) + U2), 1),
        # vorticity and stream function
        ((U2.diff(T) + V2.diff(Y) * U2.diff(X) - 0.001 * lap(U2, X, Y), lap(V2, X, Y) + U2), 2),
    ],
)
def test_systems_take_as_many_collapsed_streams_as_the_rank(residuals, collapsed) -> None:
    found = plan((T, X, Y), *residuals, channels=("u", "v"))
    assert len(found.collapsed) == collapsed
    assert found.explicit == ((0, 0, 0), (0, 1, 0), (0, 0, 1))


def test_functionals_are_not_divided_by_what_may_vanish() -> None:
    slow = A * U1.diff(T) - U1.diff(X, 2)
    assert plan((T, X), slow).collapsed == ((((1, 0), A), ((0, 2), -1)),)
    v = function("v", T, X)
    fast = v.diff(T) - A * v.diff(X, 2)  # two functionals of two derivatives: those themselves
    found = plan((T, X), slow, fast, channels=("u", "v"))
    assert found.collapsed == ((((1, 0), 1),), (((0, 2), 1),))


def test_a_coefficient_undefined_at_random_places_is_not_expanded(monkeypatch) -> None:
    def refuse(expression: sympy.Expr) -> sympy.Expr:
        raise AssertionError(f"{expression} can take minutes")

    monkeypatch.setattr("piop.forms.stream_plan.expand", refuse)
    undefined = sympy.log(-1 - U1.diff(X, 2) ** 2)
    found = plan((T, X), U1.diff(T) + undefined * U1.diff(X))
    assert {(0, 1), (0, 2)} <= set(found.explicit)


def test_arguments_of_functions_are_not_expanded(monkeypatch) -> None:
    """Where a derivative, which SymPy does not know to be real, is put back, nothing is asked."""
    asked: list[sympy.Expr] = []
    evaluate = sympy.sinh.eval.__func__

    def eval_(kind, argument):
        asked.append(argument)
        return evaluate(kind, argument)

    slope = U1.diff(X)
    inner = (
        (sympy.Max(1 / (1 + slope**2), U1) + sum(slope**n for n in range(2, 9))) * (1 + slope) / 100
    )
    sinh = sympy.sinh(inner, evaluate=False)
    one = (1 + sinh) * (1 - sinh) + sinh**2
    equation = U1.diff(T) + one * U1.diff(X, 2) + sinh
    monkeypatch.setattr(sympy.sinh, "eval", classmethod(eval_))
    found = plan_expressions([equation], (T, X), ("u",))
    assert not asked
    assert found.collapsed == ((((1, 0), 1), ((0, 2), 1)),)


def test_a_large_coefficient_is_not_expanded(monkeypatch) -> None:
    def refuse(expression):
        raise AssertionError(f"{expression} can take minutes")

    monkeypatch.setattr("piop.forms.stream_plan.expand", refuse)
    hundred = sum(sympy.cos(U1 + n) ** 2 + sympy.sin(U1 + n) ** 2 for n in range(100))
    found = plan((T, X), U1.diff(T) + U1.diff(X) * hundred)
    assert (0, 1) in found.explicit


@pytest.mark.parametrize(
    ("residual", "explicit", "collapsed"),
    [
        (U1.diff(T) + 6 * U1 * U1.diff(X) + U1.diff(X, 3), 3, 1),  # KdV: u, u_x, u_xx
        (
            U1.diff(T) + U1 * U1.diff(X) + U1.diff(X, 2) + U1.diff(X, 4),
            4,
            1,
        ),  # Kuramoto–Sivashinsky
        (U1.diff(T, 2) - U1.diff(X, 2) + sympy.sin(U1), 3, 1),  # sine-Gordon: u, u_t, u_x
        (U1.diff(T) - (U1 * U1.diff(X)).diff(X), 3, 1),  # porous medium: u_xx cannot collapse
        (U1.diff(T) - U1.diff(X) ** 2, 2, 1),  # u_x enters as a square
        (U1.diff(T) ** 2 - U1.diff(X), 2, 1),
        (U1.diff(T, X, X) + U1, 5, 1),  # u, u_t, u_x, u_tx, u_xx
        (U1**2 - sympy.sin(X), 1, 0),
        ((U1.diff(T) + U1) ** 2 - U1.diff(T) ** 2 - U1**2 - U1.diff(X, 2), 3, 1),
    ],
)
def test_counts_of_one_equation(residual, explicit, collapsed) -> None:
    found = plan((T, X), residual)
    assert (len(found.explicit), len(found.collapsed)) == (explicit, collapsed)


def test_bilaplacian_collapses_to_one_beside_all_third_derivatives() -> None:
    found = plan((X, Y), lap(lap(P2, X, Y), X, Y) - 1)
    assert (len(found.explicit), len(found.collapsed)) == (10, 1)


def test_linear_terms_hidden_in_products_are_found() -> None:
    residual = (U1.diff(X, 2) + U1) * (1 + U1) - U1.diff(X, 2) * U1 + U1.diff(T)
    assert len(plan((T, X), residual).collapsed) == 1
    assert plan((T, X), residual).explicit == ((0, 0), (0, 1))


def test_point_dependent_coefficients_get_slots() -> None:
    found = plan((T, X), U1.diff(T) - 3 * A * U1.diff(X, 2))
    assert found.coefficients == (A,)
    assert found.describe() == "3 streams: u, u_x, collapsed u_t - 3*u_xx*a(x)"


def test_common_coefficients_are_taken_out() -> None:
    a = function("a", X, Y)
    found = plan((X, Y), -(a * P2.diff(X)).diff(X) - (a * P2.diff(Y)).diff(Y) - 1)
    assert found.describe() == "4 streams: u, u_x, u_y, collapsed u_xx + u_yy"
    assert found.coefficients == ()


def test_extra_derivatives_stay_apart() -> None:
    residuals = [U1.diff(T) - U1.diff(X, 2)]
    assert plan_expressions(residuals, (T, X), ("u",), extra=[(1, 0)]).explicit == (
        (0, 0),
        (1, 0),
        (0, 1),
    )


def test_plan_reads_a_problem() -> None:
    pde = Problem.from_file("burgers").pde
    assert plan_streams(pde).describe() == "3 streams: u, u_x, collapsed u_t - u_xx/100"


def test_systems_describe_shared_streams() -> None:
    residuals = U2.diff(T) - lap(U2, X, Y), V2.diff(T) - 2 * lap(V2, X, Y)
    assert plan((T, X, Y), *residuals, channels=("u", "v")).describe() == (
        "5 streams shared by 2 channels: u, v, d_x, d_y, collapsed d_t, collapsed d_xx + d_yy"
    )


def test_order_five_is_refused() -> None:
    with pytest.raises(NotSupportedError, match="derivative of order 5"):
        plan((T, X), U1.diff(T) + U1.diff(X, 5))


@settings(max_examples=60)
@given(
    terms=st.lists(
        st.tuples(
            st.integers(0, 1),
            st.lists(st.sampled_from([T, X, Y]), min_size=1, max_size=4),
            st.sampled_from([1, 2, sympy.sin(X), A, NU, NU * A, U2, V2.diff(X)]),
            st.integers(0, 1),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_shares_and_remainders_make_up_the_equations(terms) -> None:
    residuals = [U2, V2]
    for equation, order, factor, channel in terms:
        residuals[equation] += factor * (U2, V2)[channel].diff(*order)
    found = plan((T, X, Y), *residuals, channels=("u", "v"))
    for residual, shares, remainder in zip(residuals, found.shares, found.remainders, strict=True):
        total = remainder
        for share in shares:
            for index, coefficient in found.collapsed[share.stream]:
                counts = [(s, n) for s, n in zip((T, X, Y), index, strict=True) if n]
                total += share.coefficient * coefficient * (U2, V2)[share.channel].diff(*counts)
        assert sympy.simplify(sympy.expand(total - residual)) == 0
    rows = set(found.explicit)
    assert all(b in rows for index in rows for b in below(index))
    for index in found.top:
        assert index not in rows
        assert all(b in rows for b in below(index) if b != index)
        assert not any(is_below(index, other) for other in rows)
    assert len(found.collapsed) <= max(len(found.top), 1)


def test_trained_parameters_stay_out_of_the_streams() -> None:
    """They multiply whole streams afterwards, so one may be shared by several parameters."""
    k, c = sympy.symbols("k c", real=True)
    a = sympy.Function("a", real=True)(X)
    laplacian = U2.diff(X, 2) + U2.diff(Y, 2)
    residual = U2.diff(T) - k * (1 + c) * laplacian + c * U2.diff(X) * U2
    found = plan_expressions([residual], (T, X, Y), ("u",), trained=(k, c))
    assert found.describe() == "5 streams: u, u_x, u_y, collapsed u_t, collapsed u_xx + u_yy"
    assert not any(e.has(k, c) for s in found.collapsed for _, e in s)
    total = sum(s.coefficient * (laplacian if s.stream else U2.diff(T)) for s in found.shares[0])
    assert sympy.expand(total + found.remainders[0] - residual) == 0
    rough = plan_expressions([U1.diff(T) - sympy.exp(k * a) * U1.diff(X, 2)], (T, X), ("u",),
                             trained=(k,))  # fmt: skip
    assert rough.coefficients == ()
    assert rough.describe() == "4 streams: u, u_x, collapsed u_t, collapsed u_xx"


@pytest.mark.parametrize(
    "term",
    [
        "u*abs(u)",
        "abs(dx(u))",
        "sign(u)",
        "max(u, 0)",
        "sqrt(u**2)",
        "abs(u)**1.5",
        "min(u, dx(u))",
    ],
)
def test_terms_with_kinks_leave_the_highest_derivatives_collapsed(term) -> None:
    periodic = {"time": {"t": [0, 1]}, "space": {"x": [0, 1]}, "boundary": {"x": "periodic"}}
    problem = Problem(
        name="p",
        **periodic,
        unknowns=["u"],
        equations=[f"dt(u) + {term} = dxx(u)"],
        initial={"u": "sin(2*pi*x)"},
    )
    assert plan_streams(problem.pde).describe() == "3 streams: u, u_x, collapsed u_t - u_xx"

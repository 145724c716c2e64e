"""The compiled residual against SymPy's own, over random equations and random solutions."""

import warnings

import pytest
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from piop.errors import UsageError
from piop.forms.stream_plan import plan_expressions, plan_streams
from piop.lowering import compile_expressions
from piop.problem import Problem
from piop.residual import PointwiseResidual, compile_residual
from piop.residual.stream_tensor import StreamTensor

POINTS = 2
ROUNDING = 1e-9  # of the summed absolute terms, in float64


def _phase(draw: st.DrawFn, symbols: tuple) -> sympy.Expr:
    numbers = st.integers(-12, 12).map(lambda n: sympy.Rational(n, 10))
    return sum((draw(numbers) * s for s in symbols), draw(numbers)) + symbols[-1] / 3


def _smooth(draw: st.DrawFn, symbols: tuple) -> sympy.Expr:
    """A smooth function without singularities on the unit cube."""
    z = _phase(draw, symbols)
    shapes = [
        sympy.sin(z),
        sympy.exp(z / 3),
        sympy.tanh(z),
        1 / (2 + sympy.cos(z)),
        sympy.sqrt(2 + sympy.sin(z)),
        sympy.log(3 + z**2),
        z**3 - z,
        sympy.exp(-(z**2)) * z,
    ]
    return draw(st.sampled_from(shapes))


@st.composite
def cases(draw: st.DrawFn) -> tuple:
    """A system of one or two equations of order four or less in one to three dimensions."""
    names = draw(st.sampled_from(["tx", "txy", "xy", "x", "txyz"]))
    symbols = tuple(sympy.Symbol(n, real=True) for n in names)
    channels = draw(st.sampled_from([("u",), ("u", "v")]))
    unknowns = [sympy.Function(c, real=True)(*symbols) for c in channels]
    nu = sympy.Symbol("nu", real=True)
    a = sympy.Function("a", real=True)(symbols[-1])
    limit = 4 if len(names) < 4 else 3
    residuals = []
    for _ in channels:
        total = sympy.sin(symbols[0])
        for _ in range(draw(st.integers(1, 3))):
            order = draw(st.lists(st.sampled_from(symbols), min_size=1, max_size=limit))
            term = draw(st.sampled_from(unknowns)).diff(*order)
            number = sympy.Rational(draw(st.integers(-20, 20).filter(bool)), 8)
            factors = [1, 1, sympy.cos(symbols[-1]), nu, a, a.diff(symbols[-1]) * nu]
            factors += [unknowns[0], unknowns[-1] ** 2, unknowns[0].diff(symbols[0])]
            total += number * term * draw(st.sampled_from(factors))
        residuals.append(total)
    residuals[0] += unknowns[0].diff(symbols[0]) * unknowns[-1] - (a * unknowns[0]).diff(
        symbols[-1]
    )
    solutions = [_smooth(draw, symbols) * _smooth(draw, symbols) for _ in channels]
    places = st.integers(1, 99).map(lambda n: sympy.Rational(n, 100))
    points = [[draw(places) for _ in symbols] for _ in range(POINTS)]
    return names, channels, residuals, solutions, _smooth(draw, symbols[-1:]), points


def _terms(residual: sympy.Expr, known: dict) -> list[sympy.Expr]:
    """Put known functions into the terms of a residual, and differentiate them."""
    return [t.subs(known).doit() for t in sympy.Add.make_args(sympy.expand(residual))]


def _expected(terms: list[sympy.Expr], point: dict) -> tuple[float, float]:
    """Evaluate the sum of some terms, and of their absolute values, in 25 digits."""
    found = [t.subs(point).evalf(25) for t in terms]
    return float(sum(found)), float(sum(map(abs, found)))


@settings(max_examples=40)
@given(case=cases())
def test_residual_equals_sympys_own(case, make_problem, symbolic_function) -> None:
    names, channels, residuals, solutions, shape, points = case
    problem = make_problem(names, channels, residuals, {"nu": "", "a": names[-1]})
    symbols = tuple(c.symbol for c in problem.coordinates)
    run = compile_expressions(solutions, symbols)
    residual = compile_residual(problem)
    queries = torch.tensor([[[float(c) for c in p] for p in points]], dtype=torch.float64)
    nu = sympy.Rational(7, 10)
    functions = {
        "nu": symbolic_function(nu, ()),
        "a": symbolic_function(shape, symbols[-1:]),
    }
    inputs = residual.evaluate_inputs(functions, queries)

    def field(q):
        return torch.stack(run(q.unbind(-1)), -1)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = residual(field, queries, inputs)
    nested = residual.reverse(field, queries, inputs)
    known = {
        sympy.Function(c, real=True)(*symbols): s for c, s in zip(channels, solutions, strict=True)
    }
    known[sympy.Function("a", real=True)(symbols[-1])] = shape
    for e, expression in enumerate(problem.residuals):
        terms = _terms(expression, known)
        for n, point in enumerate(points):
            place = dict(zip(symbols, point, strict=True)) | {sympy.Symbol("nu", real=True): nu}
            value, scale = _expected(terms, place)
            assert abs(found.values[0, n, e].item() - value) <= ROUNDING * scale
            assert abs(nested.values[0, n, e].item() - value) <= ROUNDING * scale


@settings(max_examples=15)
@given(case=cases(), other=st.integers(1, 5))
def test_residual_of_a_wrong_solution_is_not_zero(
    case, other, make_problem, symbolic_function
) -> None:
    """Manufacture a source for the solution; another solution then leaves the difference."""
    names, channels, residuals, solutions, shape, points = case
    problem = make_problem(names, channels, residuals, {"nu": "", "a": names[-1]})
    symbols = tuple(c.symbol for c in problem.coordinates)
    known = {
        sympy.Function(c, real=True)(*symbols): s for c, s in zip(channels, solutions, strict=True)
    }
    known[sympy.Function("a", real=True)(symbols[-1])] = shape
    known[sympy.Symbol("nu", real=True)] = sympy.Rational(7, 10)
    sourced = [r - r.subs(known).doit() for r in problem.residuals]
    exact = make_problem(names, channels, sourced, {"nu": "", "a": names[-1]})
    residual = compile_residual(exact)
    queries = torch.tensor([[[float(c) for c in p] for p in points]], dtype=torch.float64)
    functions = {
        "nu": symbolic_function(sympy.Rational(7, 10), ()),
        "a": symbolic_function(shape, symbols[-1:]),
    }
    inputs = residual.evaluate_inputs(functions, queries)
    wrong = [s + other * sympy.exp(symbols[0] / 2) * sympy.cos(symbols[-1]) for s in solutions]
    for trial, zero in ((solutions, True), (wrong, False)):
        run = compile_expressions(trial, symbols)
        out = residual(
            lambda q, run=run: torch.stack(run(q.unbind(-1)), -1), queries, inputs
        ).values
        scale = (
            1
            + residual(lambda q, run=run: 2 * torch.stack(run(q.unbind(-1)), -1), queries, inputs)
            .values.abs()
            .max()
        )
        assert (out.abs().max() <= 1e-7 * scale) == zero


def test_residual_vanishes_on_the_travelling_wave_of_burgers(burgers) -> None:
    """u = c − a tanh(a (x − c t) / 2ν): Whitham, Linear and Nonlinear Waves (1974), eq. 4.23."""
    residual = compile_residual(burgers)
    queries = torch.rand(2, 50, 2, dtype=torch.float64)

    def wave(q, c=0.3, a=0.2, nu=0.01):
        return c - a * torch.tanh(a * (q[..., 1:] - c * q[..., :1]) / (2 * nu))

    assert residual(wave, queries).values.abs().max() < 1e-13
    assert residual(lambda q: 1.01 * wave(q), queries).values.abs().max() > 1e-3


def test_residual_of_a_linear_equation_is_linear(make_problem) -> None:
    t, x, y = sympy.symbols("t x y", real=True)
    u = sympy.Function("u", real=True)(t, x, y)
    equation = u.diff(t) - sympy.sin(x) * u.diff(x, 2) - u.diff(x, y) + 3 * u - u.diff(y, 4)
    residual = compile_residual(make_problem("txy", ["u"], [equation]))
    queries = torch.rand(2, 9, 3, dtype=torch.float64)
    first = nn.Sequential(nn.Linear(3, 12), nn.Tanh(), nn.Linear(12, 1)).double()
    second = nn.Sequential(nn.Linear(3, 12), nn.GELU(), nn.Linear(12, 1)).double()
    together = residual(lambda q: 2 * first(q) - 3 * second(q), queries).values
    apart = 2 * residual(first, queries).values - 3 * residual(second, queries).values
    torch.testing.assert_close(together, apart, rtol=1e-12, atol=1e-12)


def test_derivatives_on_the_way_are_given_by_name(burgers) -> None:
    residual = compile_residual(burgers)
    queries = torch.rand(2, 5, 2, dtype=torch.float64)
    found = residual(lambda q: torch.sin(q[..., :1] * q[..., 1:]), queries).derivatives
    t, x = queries.unbind(-1)
    assert set(found) == {("u", (0, 0)), ("u", (0, 1))}
    torch.testing.assert_close(found["u", (0, 0)], torch.sin(t * x))
    torch.testing.assert_close(found["u", (0, 1)], t * torch.cos(t * x))


def test_extra_derivatives_are_added_to_the_plan(burgers) -> None:
    residual = compile_residual(burgers, extra=[(1, 0)])
    queries = torch.rand(2, 5, 2, dtype=torch.float64)
    found = residual(lambda q: torch.sin(q[..., :1] * q[..., 1:]), queries)
    t, x = queries.unbind(-1)
    torch.testing.assert_close(found.derivatives["u", (1, 0)], x * torch.cos(t * x))
    plain = compile_residual(burgers)(lambda q: torch.sin(q[..., :1] * q[..., 1:]), queries)
    torch.testing.assert_close(found.values, plain.values)


def test_gradients_of_the_parameters_agree_with_nested_reverse_mode(burgers) -> None:
    residual = compile_residual(burgers)
    net = nn.Sequential(nn.Linear(2, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 1)).double()
    queries = torch.rand(2, 9, 2, dtype=torch.float64)
    params = list(net.parameters())
    found = torch.autograd.grad(residual(net, queries).values.square().mean(), params)
    nested = torch.autograd.grad(residual.reverse(net, queries).values.square().mean(), params)
    for a, b in zip(found, nested, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-14)


def test_both_ways_give_the_slopes_that_weights_depend_on() -> None:
    """Allen and Cahn's equation contains none itself: they come with its second derivatives."""
    residual = compile_residual(Problem.from_file("allen_cahn"))
    net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    queries = torch.rand(2, 5, 2, dtype=torch.float64)
    found, nested = (way(net, queries).derivatives for way in (residual, residual.reverse))
    torch.testing.assert_close(found["u", (0, 1)], nested["u", (0, 1)])


class _Unruly(nn.Module):
    def forward(self, q):
        return (
            torch.special.bessel_j0(q).sum(-1, keepdim=True)
            if isinstance(q, StreamTensor)
            else (torch.sin(q).sum(-1, keepdim=True))
        )


def test_an_operation_without_a_rule_falls_back_with_one_warning_that_names_it(burgers) -> None:
    residual = compile_residual(burgers)
    queries = torch.rand(2, 5, 2, dtype=torch.float64)
    with pytest.warns(RuntimeWarning, match="special_bessel_j0"):
        found = residual(_Unruly(), queries)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = residual(_Unruly(), queries)
    truth = compile_residual(burgers)(lambda q: torch.sin(q).sum(-1, keepdim=True), queries)
    torch.testing.assert_close(found.values, truth.values)
    torch.testing.assert_close(again.values, truth.values)
    assert residual.fallback == "special_bessel_j0"


def test_a_field_that_hides_its_tensor_falls_back(burgers) -> None:
    residual = compile_residual(burgers)
    queries = torch.rand(2, 5, 2, dtype=torch.float64)
    with pytest.warns(RuntimeWarning, match="plain tensors"):
        found = residual(
            lambda q: (torch.sin(q.data[0]) if isinstance(q, StreamTensor) else torch.sin(q))[
                ..., :1
            ],
            queries,
        )
    truth = torch.cos(queries[..., 0])
    torch.testing.assert_close(found.values[..., 0], truth)


def test_a_field_of_the_wrong_shape_is_refused(burgers) -> None:
    with pytest.raises(ValueError, match=r"\(2, 5, 2\); expected \(2, 5, 1\)"):
        compile_residual(burgers)(torch.sin, torch.rand(2, 5, 2))


@pytest.mark.parametrize("given", [{"f": torch.ones(1, 4)}, (), torch.ones(1, 4)])
def test_input_values_that_are_no_values_in_order_are_refused(given) -> None:
    problem = Problem.from_file("poisson")
    residual, points = problem.residual(), torch.rand(1, 4, 2).double()
    network = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    right = residual.evaluate_inputs(problem.sample(1), points)
    assert residual(network, points, right).values.shape == (1, 4, 1)
    with pytest.raises(UsageError, match=r"expected a value of each of \(f\).*evaluate_inputs\("):
        residual(network, points, given)


def test_a_missing_input_function_is_named(make_problem) -> None:
    t, x = sympy.symbols("t x", real=True)
    u, f = sympy.Function("u", real=True)(t, x), sympy.Function("f", real=True)(x)
    problem = make_problem("tx", ["u"], [u.diff(t) - f.diff(x)], {"f": "x"})
    residual = compile_residual(problem)
    assert residual.input_derivatives.entries == (("f", (1,)),)
    with pytest.raises(KeyError, match="no input function 'f'"):
        residual.evaluate_inputs({}, torch.rand(1, 3, 2))


def test_inputs_are_evaluated_in_the_dtype_of_the_queries(make_problem, symbolic_function) -> None:
    t, x = sympy.symbols("t x", real=True)
    u, f = sympy.Function("u", real=True)(t, x), sympy.Function("f", real=True)(x)
    problem = make_problem("tx", ["u"], [u.diff(t) - f.diff(x)], {"f": "x"})
    residual = compile_residual(problem)
    queries = torch.rand(2, 3, 2)
    (slope,) = residual.evaluate_inputs({"f": symbolic_function(sympy.sin(x), (x,), 2)}, queries)
    assert slope.dtype == torch.float32
    torch.testing.assert_close(slope, torch.cos(queries[..., 1]))


def test_without_gradients_nothing_is_recorded(burgers) -> None:
    net = nn.Linear(2, 1).double()
    queries = torch.rand(2, 5, 2, dtype=torch.float64)
    residual = compile_residual(burgers)
    with torch.no_grad():
        assert not residual(net, queries).values.requires_grad
        nested = residual.reverse(net, queries).values
    assert not nested.requires_grad
    torch.testing.assert_close(nested, residual(net, queries).values)


def test_plan_and_residual_share_the_streams(burgers) -> None:
    assert compile_residual(burgers).plan == plan_streams(burgers.pde)


@pytest.mark.parametrize(
    ("term", "value"),
    [
        ("u*abs(u)", lambda u, p, q: u * u.abs()),
        ("abs(dx(u))", lambda u, p, q: p.abs()),
        ("d(abs(u)*dx(u), x)", lambda u, p, q: u.sign() * p**2 + u.abs() * q),
        ("sign(u)*max(u, dx(u))", lambda u, p, q: u.sign() * torch.maximum(u, p)),
        ("atan(u) + sinh(u) - cosh(dx(u))", lambda u, p, q: u.atan() + u.sinh() - p.cosh()),
        ("d(atan(u), x)", lambda u, p, q: p / (1 + u**2)),
        ("sign(dx(u))", lambda u, p, q: p.sign()),
        ("u*sign(dxx(u))", lambda u, p, q: u * q.sign()),
        ("where(dx(u) > u, -u, u)", lambda u, p, q: torch.where(p > u, -u, u)),
        ("where(dxx(u) > 0, dxx(u), 0)", lambda u, p, q: q.clamp(min=0)),
    ],
)
def test_terms_with_kinks_and_hyperbolic_functions_have_their_values_in_both_modes(term, value):
    axes = {"time": {"t": [0, 1]}, "space": {"x": [0, 1]}, "boundary": {"x": "periodic"}}
    problem = Problem(
        name="p",
        **axes,
        unknowns=["u"],
        equations=[f"dt(u) + {term} = dxx(u)"],
        initial={"u": "sin(2*pi*x)"},
    )
    queries = torch.rand(1, 20, 2, dtype=torch.float64, generator=torch.manual_seed(0))
    t, x = queries.unbind(-1)
    u, p = torch.sin(3 * x) * torch.exp(-t), 3 * torch.cos(3 * x) * torch.exp(-t)
    q = -9 * u
    expected = -u + value(u, p, q) - q

    def field(points):
        return torch.sin(3 * points[..., 1:]) * torch.exp(-points[..., :1])

    residual = problem.residual()
    for evaluate in (residual, residual.reverse):
        found = evaluate(field, queries).values[..., 0]
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_a_field_whose_value_is_all_has_plain_queries():
    """Nothing is spent on streams; the value, and its gradient, are those of the equations."""
    t, x = sympy.symbols("t x", real=True)
    u = sympy.Function("u", real=True)(t, x)
    residual = PointwiseResidual(plan_expressions([u**2 - x], (t, x), ("u",)), [u**2 - x], ())
    weight = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    seen = []

    def field(queries):
        seen.append(type(queries))
        return weight * queries[..., :1]

    queries = torch.rand(2, 5, 2, dtype=torch.float64)
    found = residual(field, queries)
    time, place = queries.unbind(-1)
    assert seen == [torch.Tensor]
    assert torch.allclose(found.values[..., 0], 9 * time**2 - place, rtol=0, atol=1e-14)
    assert torch.equal(found.derivatives["u", (0, 0)], 3 * time)
    (slope,) = torch.autograd.grad(found.values.sum(), weight)
    assert torch.allclose(slope, (6 * time**2).sum())
    with pytest.raises(ValueError, match=r"shape \(2, 5, 2\); expected \(2, 5, 1\)"):
        residual(lambda q: q, queries)

"""Operations on scalars and vectors, and vector calculus over the space coordinates.

Convention: ``grad(v)[i][j]`` is the derivative of ``v[j]`` along axis i, ``dot`` sums the last
index of its first operand with the first of its second, and ``div(T)[j]`` sums the derivative of
``T[i][j]`` along i, so ``dot(v, grad(v))`` is the advection of v by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sympy import Derivative, Dummy, Expr, Symbol

from piop.expression import quantity as q
from piop.expression.quantity import Quantity, Scalar
from piop.expression.text_checks import Refusal

_KINDS = ("a scalar", "a vector", "a matrix")


def rank(value: Quantity) -> int:
    """0 for a scalar, 1 for a vector, 2 for a matrix."""
    return 1 + rank(value[0]) if isinstance(value, tuple) else 0


def kind(value: Quantity) -> str:
    """How an error message calls the value, such as ``a vector of 2``."""
    name = _KINDS[min(rank(value), 2)]
    return f"{name} of {len(value)}" if isinstance(value, tuple) else name


def scalar(value: Quantity, what: str) -> Scalar:
    """The value itself, refused unless it is a scalar."""
    if isinstance(value, tuple):
        raise Refusal(f"{what} needs a scalar, not {kind(value)}")
    return value


def each(function: Callable[[Scalar], Scalar], value: Quantity) -> Quantity:
    """Apply to every component."""
    if isinstance(value, tuple):
        return tuple(each(function, v) for v in value)
    return function(value)


def add(parts: Sequence[Quantity]) -> Quantity:
    """Sum of values that must have one shape."""
    first = parts[0]
    for other in parts[1:]:
        if kind(other) != kind(first):
            raise Refusal(f"{kind(first)} and {kind(other)} cannot be added or subtracted")
    if isinstance(first, tuple):
        return tuple(add(column) for column in zip(*parts, strict=True))  # type: ignore[arg-type]
    return q.add(parts)  # type: ignore[arg-type]


def multiply(a: Quantity, b: Quantity) -> Quantity:
    """Product in which at most one factor is a vector."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        raise Refusal(f"{kind(a)} times {kind(b)} has no single meaning", 0, "Use dot(a, b).")
    if isinstance(a, tuple):
        a, b = b, a
    return each(lambda component: q.multiply(a, component), b)  # type: ignore[arg-type]


def divide(a: Quantity, b: Quantity) -> Quantity:
    """Quotient by a scalar."""
    divisor = scalar(b, "a divisor")
    return each(lambda component: q.divide(component, divisor), a)


def derive(value: Quantity, axes: Sequence[Symbol]) -> Quantity:
    """Derivative of every component along axes, one after the other."""
    return each(lambda component: q.derive(component, axes), value)


def grad(value: Quantity, space: Sequence[Symbol]) -> Quantity:
    """Gradient of a scalar or of a vector."""
    if rank(value) > 1:
        raise Refusal(f"grad of {kind(value)}")
    return tuple(derive(value, [axis]) for axis in space)


def div(value: Quantity, space: Sequence[Symbol]) -> Quantity:
    """Divergence of a vector or matrix with one row per axis."""
    parts = _components(value, len(space), "div")
    return add([derive(part, [axis]) for part, axis in zip(parts, space, strict=True)])


def lap(value: Quantity, space: Sequence[Symbol]) -> Quantity:
    """Laplacian of every component."""
    return add([derive(value, [axis, axis]) for axis in space])


def curl(value: Quantity, space: Sequence[Symbol]) -> Quantity:
    """Curl: of a vector in three dimensions, of a vector or a scalar in two."""
    if len(space) == 2:
        x, y = space
        if isinstance(value, Scalar):
            return q.derive(value, [y]), q.negate(q.derive(value, [x]))
        a, b = (scalar(v, "curl") for v in _components(value, 2, "curl"))
        return q.add([q.derive(b, [x]), q.negate(q.derive(a, [y]))])
    if len(space) != 3:
        raise Refusal("curl needs two or three space dimensions")
    parts = [scalar(v, "curl") for v in _components(value, 3, "curl")]
    cycle = ((1, 2), (2, 0), (0, 1))
    return tuple(
        q.add([q.derive(parts[j], [space[i]]), q.negate(q.derive(parts[i], [space[j]]))])
        for i, j in cycle
    )


def dot(a: Quantity, b: Quantity) -> Quantity:
    """Contraction of the last index of a with the first of b."""
    if not (isinstance(a, tuple) and isinstance(b, tuple)):
        raise Refusal(f"dot needs two vectors, not {kind(a)} and {kind(b)}")
    if isinstance(a[0], tuple):
        return tuple(dot(row, b) for row in a)
    if len(a) != len(b):
        raise Refusal(f"dot of {kind(a)} and {kind(b)}")
    return add([multiply(x, y) for x, y in zip(a, b, strict=True)])


def _components(value: Quantity, count: int, what: str) -> tuple[Quantity, ...]:
    if not isinstance(value, tuple) or len(value) != count:
        raise Refusal(f"{what} needs a vector of {count}, not {kind(value)}")
    return value


def occurs_bare(expression: Expr, function: Expr) -> bool:
    """Tell whether a function occurs in an expression outside its derivatives."""
    own = [d for d in expression.atoms(Derivative) if d.expr == function]
    return expression.subs({d: Dummy() for d in own}).has(function)

"""Interval arithmetic on tensors: what values an expression takes on boxes.

An :class:`Interval` stands for a tensor in the functions of `piop.lowering`, so that every
expression of the spec language can be enclosed: the enclosure contains all values on a box, and
shrinks to them with the box (R. E. Moore, Interval Analysis, 1966, ch. 3). Rounding is not
directed outwards: enclosures are right to the rounding of float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor


@final
@dataclass(frozen=True)
class Truth:
    """A condition on boxes.

    Attributes:
        possible: Where it may hold somewhere on the box.
        certain: Where it holds on all of it.
    """

    possible: Tensor
    certain: Tensor

    def __and__(self, other: Truth | bool) -> Truth:
        """Both hold."""
        other = _truth(other, self)
        return Truth(self.possible & other.possible, self.certain & other.certain)

    def __or__(self, other: Truth | bool) -> Truth:
        """Either holds."""
        other = _truth(other, self)
        return Truth(self.possible | other.possible, self.certain | other.certain)

    __rand__, __ror__ = __and__, __or__

    def __invert__(self) -> Truth:
        """It does not hold."""
        return Truth(~self.certain, ~self.possible)

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., Any],
        types: Sequence[type],
        arguments: Sequence[Any] = (),
        keywords: Mapping[str, Any] | None = None,
    ) -> Any:
        """Choose between values by a condition: both, where it may go either way."""
        if function is not torch.where or keywords:
            return NotImplemented
        condition, yes, no = arguments
        if not isinstance(condition, Truth):
            return NotImplemented
        return choose(condition, yes, no)


def _truth(value: Truth | bool, like: Truth) -> Truth:
    if isinstance(value, Truth):
        return value
    whole = torch.full_like(like.possible, bool(value))
    return Truth(whole, whole)


@final
@dataclass(frozen=True, eq=False)
class Interval:
    """All values between two tensors of one shape.

    Attributes:
        low: Least values; −inf where there is no bound.
        high: Greatest values.
    """

    low: Tensor
    high: Tensor

    @property
    def centre(self) -> Tensor:
        """Halfway between."""
        return 0.5 * (self.low + self.high)

    @property
    def width(self) -> Tensor:
        """Greatest minus least values."""
        return self.high - self.low

    @property
    def size(self) -> Tensor:
        """Greatest absolute values."""
        return torch.maximum(self.low.abs(), self.high.abs())

    def new_tensor(self, value: Any) -> Tensor:
        """A tensor of the same dtype and device."""
        return self.low.new_tensor(value)

    def __and__(self, other: Interval) -> Interval:
        """What both enclose."""
        return Interval(torch.maximum(self.low, other.low), torch.minimum(self.high, other.high))

    def __neg__(self) -> Interval:
        """All negatives."""
        return Interval(-self.high, -self.low)

    def __add__(self, other: Interval | Tensor | float) -> Interval:
        """All sums."""
        other = enclose(other, self)
        return _hull(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Interval | Tensor | float) -> Interval:
        """All differences."""
        return self + -enclose(other, self)

    def __rsub__(self, other: Tensor | float) -> Interval:
        """All differences from a number."""
        return -self + other

    def __mul__(self, other: Interval | Tensor | float) -> Interval:
        """All products; of an interval with itself, all squares."""
        if other is self:
            return self.square()
        other = enclose(other, self)
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        ends = [torch.where(end.isnan(), 0.0, end) for end in ends]  # 0 · inf
        return Interval(
            torch.minimum(torch.minimum(ends[0], ends[1]), torch.minimum(ends[2], ends[3])),
            torch.maximum(torch.maximum(ends[0], ends[1]), torch.maximum(ends[2], ends[3])),
        )

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Interval | Tensor | float) -> Interval:
        """All quotients."""
        return self * enclose(other, self).reciprocal()

    def __rtruediv__(self, other: Tensor | float) -> Interval:
        """All quotients of a number."""
        return self.reciprocal() * other

    def __pow__(self, other: Interval | Tensor | float) -> Interval:
        """All powers, of positive bases where the exponent is no whole number."""
        if isinstance(other, float | int) and float(other).is_integer() and other >= 0:
            power = _hull(self.low**other, self.high**other)
            return power if other % 2 else _even(power, self)
        return (self.log() * other).exp()

    def __rpow__(self, base: Tensor | float) -> Interval:
        """All powers of a positive number."""
        return (enclose(base, self).log() * self).exp()

    def __lt__(self, other: Interval | Tensor | float) -> Truth:
        """Less, for all or some values."""
        other = enclose(other, self)
        return Truth(self.low < other.high, self.high < other.low)

    def __le__(self, other: Interval | Tensor | float) -> Truth:
        """Less or equal, for all or some values."""
        other = enclose(other, self)
        return Truth(self.low <= other.high, self.high <= other.low)

    def __gt__(self, other: Interval | Tensor | float) -> Truth:
        """Greater, for all or some values."""
        return enclose(other, self) < self

    def __ge__(self, other: Interval | Tensor | float) -> Truth:
        """Greater or equal, for all or some values."""
        return enclose(other, self) <= self

    def square(self) -> Interval:
        """All squares."""
        return _even(Interval(self.low.square(), self.high.square()), self)

    def reciprocal(self) -> Interval:
        """All reciprocals; unbounded where 0 is inside."""
        inside = (self.low < 0) & (self.high > 0)
        low = torch.where(self.high == 0, -math.inf, 1 / self.high)
        high = torch.where(self.low == 0, math.inf, 1 / self.low)
        return Interval(torch.where(inside, -math.inf, low), torch.where(inside, math.inf, high))

    def log(self) -> Interval:
        """All logarithms of its positive values."""
        return _increasing(torch.log)(self)

    def exp(self) -> Interval:
        """All exponentials."""
        return _increasing(torch.exp)(self)

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., Any],
        types: Sequence[type],
        arguments: Sequence[Any] = (),
        keywords: Mapping[str, Any] | None = None,
    ) -> Any:
        """Enclose an operation of torch; see :data:`_ENCLOSURES`."""
        if function is torch.where:
            return Truth.__torch_function__(function, types, arguments, keywords)
        if function not in _ENCLOSURES:
            return NotImplemented
        return _ENCLOSURES[function](*arguments, **(keywords or {}))


def enclose(value: Interval | Tensor | float, like: Interval) -> Interval:
    """A value as an interval, without width where it is a tensor or a number."""
    if isinstance(value, Interval):
        return value
    found = torch.as_tensor(value, dtype=like.low.dtype, device=like.low.device)
    return Interval(found, found)


def choose(
    condition: Truth, yes: Interval | Tensor | float, no: Interval | Tensor | float
) -> Interval:
    """Values where a condition holds and where it does not; both where it may go either way."""
    like = Interval(*(torch.zeros((), dtype=torch.float64),) * 2)
    like = next((v for v in (yes, no) if isinstance(v, Interval)), like)
    yes, no = enclose(yes, like), enclose(no, like)
    return Interval(
        torch.where(
            condition.certain,
            yes.low,
            torch.where(condition.possible, torch.minimum(yes.low, no.low), no.low),
        ),
        torch.where(
            condition.certain,
            yes.high,
            torch.where(condition.possible, torch.maximum(yes.high, no.high), no.high),
        ),
    )


def _hull(a: Tensor, b: Tensor) -> Interval:
    """From the lesser to the greater; unbounded where not a number."""
    return Interval(
        torch.minimum(a, b).nan_to_num(-math.inf, math.inf, -math.inf),
        torch.maximum(a, b).nan_to_num(math.inf, math.inf, -math.inf),
    )


def _even(ends: Interval, argument: Interval) -> Interval:
    """An even function that rises from 0, by its values at both ends."""
    inside = (argument.low < 0) & (argument.high > 0)
    low, high = torch.minimum(ends.low, ends.high), torch.maximum(ends.low, ends.high)
    return Interval(torch.where(inside, 0.0, low), high)


def _increasing(function: Callable[[Tensor], Tensor]) -> Callable[[Interval], Interval]:
    """An increasing function; unbounded below where it is not defined."""
    return lambda a: Interval(
        function(a.low).nan_to_num(-math.inf, math.inf, -math.inf),
        function(a.high).nan_to_num(math.inf, math.inf, -math.inf),
    )


def _decreasing(function: Callable[[Tensor], Tensor]) -> Callable[[Interval], Interval]:
    """A decreasing function."""
    return lambda a: _hull(function(a.high), function(a.low))


def _cosine(a: Interval) -> Interval:
    return _wave(a, torch.cos, 0.0)


def _sine(a: Interval) -> Interval:
    return _wave(a, torch.sin, 0.5 * math.pi)


def _wave(a: Interval, function: Callable[[Tensor], Tensor], first: float) -> Interval:
    """Enclose a sine or cosine whose first maximum is at ``first``."""
    ends = Interval(function(a.low), function(a.high))

    def holds(extremum: float) -> Tensor:
        turns = [(end - extremum) / (2 * math.pi) for end in (a.low, a.high)]
        return turns[1].floor() >= turns[0].ceil()

    low, high = torch.minimum(ends.low, ends.high), torch.maximum(ends.low, ends.high)
    return Interval(
        torch.where(holds(first + math.pi), -1.0, low).nan_to_num(-1.0),
        torch.where(holds(first), 1.0, high).nan_to_num(1.0),
    )


def _tangent(a: Interval) -> Interval:
    pole = ((a.high / math.pi - 0.5).floor() >= (a.low / math.pi - 0.5).ceil()) | ~(
        torch.isfinite(a.low) & torch.isfinite(a.high)
    )
    return Interval(
        torch.where(pole, -math.inf, a.low.tan()), torch.where(pole, math.inf, a.high.tan())
    )


def _absolute(a: Interval) -> Interval:
    return _even(Interval(a.low.abs(), a.high.abs()), a)


def _root(a: Interval) -> Interval:
    return _increasing(torch.sqrt)(Interval(a.low.clamp_min(0), a.high))


def _hyperbolic_cosine(a: Interval) -> Interval:
    return _even(Interval(a.low.cosh() - 1, a.high.cosh() - 1), a) + 1.0


def _extreme(operation: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Interval]:
    def of_both(a: Any, b: Any) -> Interval:
        like = a if isinstance(a, Interval) else b
        a, b = enclose(a, like), enclose(b, like)
        return Interval(operation(a.low, b.low), operation(a.high, b.high))

    return of_both


def _clamp(a: Interval, **bounds: float) -> Interval:
    return Interval(a.low.clamp(**bounds), a.high.clamp(**bounds))


def _angle(y: Any, x: Any) -> Interval:
    like = y if isinstance(y, Interval) else x
    sum_ = enclose(y, like).low + enclose(x, like).low
    return Interval(torch.full_like(sum_, -math.pi), torch.full_like(sum_, math.pi))


_ENCLOSURES: dict[Any, Callable[..., Interval]] = {
    **{
        function: _increasing(function)
        for function in (
            torch.exp,
            torch.log,
            torch.tanh,
            torch.asin,
            torch.atan,
            torch.sinh,
            torch.erf,
            torch.sign,
            torch.floor,
            torch.ceil,
        )
    },
    torch.heaviside: lambda a, middle: _increasing(lambda x: torch.heaviside(x, middle))(a),
    torch.cos: _cosine,
    torch.sin: _sine,
    torch.tan: _tangent,
    torch.acos: _decreasing(torch.acos),
    torch.rsqrt: _decreasing(torch.rsqrt),
    torch.sqrt: _root,
    torch.abs: _absolute,
    torch.cosh: _hyperbolic_cosine,
    torch.atan2: _angle,
    torch.maximum: _extreme(torch.maximum),
    torch.minimum: _extreme(torch.minimum),
    torch.clamp: _clamp,
}
"""Operation of torch → its enclosure."""

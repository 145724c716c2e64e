"""Small problems, and input functions that are known by their formula."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import sympy
import torch

from piop.fields import InputFunction
from piop.lowering import lower


@dataclass
class SymbolicFunction(InputFunction):
    """B copies of a formula in the given coordinates."""

    expression: sympy.Expr
    symbols: tuple[sympy.Symbol, ...]
    batch: int = 1

    @property
    def dimension(self) -> int:
        return len(self.symbols)

    def derivative(self, points: torch.Tensor, order: Sequence[int]) -> torch.Tensor:
        counts = [(s, n) for s, n in zip(self.symbols, order, strict=True) if n]
        wanted = sympy.diff(self.expression, *counts) if counts else self.expression
        environment = dict(zip(self.symbols, points.unbind(-1), strict=True))
        return lower(wanted, environment).to(points.dtype).expand(self.batch, points.shape[1])

    def take(self, index: torch.Tensor) -> "SymbolicFunction":
        return self

    def to(self, device: object = None, dtype: object = None) -> "SymbolicFunction":
        return self


def _problem(names: str, channels: Sequence[str], residuals: object, inputs: object = ()) -> object:
    """Stand for a Problem: ``names`` are its coordinates, ``t`` is the time."""
    coordinates = tuple(
        SimpleNamespace(name=n, symbol=sympy.Symbol(n, real=True), low=0.0, high=1.0, periodic=True)
        for n in names
    )
    found = SimpleNamespace(
        coordinates=coordinates,
        time=next((c for c in coordinates if c.name == "t"), None),
        space=tuple(c for c in coordinates if c.name != "t"),
        channels=tuple(channels),
        residuals=tuple(sympy.sympify(r).doit() for r in residuals),
        infer={},
        inputs=tuple(SimpleNamespace(name=n, of=tuple(of)) for n, of in dict(inputs).items()),
    )
    found.pde = found
    return found


@pytest.fixture(scope="session")
def make_problem():
    return _problem


@pytest.fixture(scope="session")
def symbolic_function():
    return SymbolicFunction


@pytest.fixture(scope="session")
def burgers():
    t, x = sympy.symbols("t x", real=True)
    u = sympy.Function("u", real=True)(t, x)
    return _problem("tx", ["u"], [u.diff(t) + u * u.diff(x) - 0.01 * u.diff(x, 2)])

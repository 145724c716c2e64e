"""Every kind of boundary condition, and the table of their keywords."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, final

import sympy
from sympy import Derivative, Expr, Symbol

from piop.boundary.condition import BoundaryCondition, RobinForm, normal_symbols
from piop.expression.vector_calculus import occurs_bare


@final
@dataclass(frozen=True)
class Periodic(BoundaryCondition):
    """Both ends of an axis are one: the solution and all its derivatives agree there."""

    keyword = "periodic"
    whole_axis = True
    exclusive = True

    def fixes_constant(self, name: str, function: Expr) -> bool:
        """Return False: a constant is periodic."""
        del name, function
        return False


class LinearCondition(BoundaryCondition):
    """αu + β∂u/∂n = g for one unknown u, n the outward normal."""

    @property
    @abstractmethod
    def robin_form(self) -> RobinForm:
        """See the base class."""

    def residual(
        self,
        function: Callable[[str], Expr],
        space: Sequence[Symbol],
        normal: Sequence[Expr] = (),
    ) -> Expr:
        """See the base class."""
        u: Any = function(self.unknown)
        normal = normal or normal_symbols(axis.name for axis in space)
        slopes = [Derivative(u, axis) for axis in space]
        outward = sympy.Add(*(n * slope for n, slope in zip(normal, slopes, strict=True)))
        form: Any = self.robin_form
        return form.alpha * u + form.beta * outward - form.value

    @classmethod
    def words(cls, unknown: str, texts: Sequence[Any]) -> Any:
        """See the base class."""
        return {cls.keyword: {unknown: texts[0] if len(texts) == 1 else list(texts)}}


@final
@dataclass(frozen=True)
class Dirichlet(LinearCondition):
    """u = g."""

    keyword = "dirichlet"
    arguments = ("g",)
    ghost_cells = True
    soft_because = ""

    @property
    def prescribed(self) -> Expr:
        """See the base class."""
        return self.values[0]

    @property
    def robin_form(self) -> RobinForm:
        """See the base class."""
        return RobinForm(sympy.S.One, sympy.S.Zero, self.values[0])

    def fixes_constant(self, name: str, function: Expr) -> bool:
        """Return whether the unknown is its own."""
        del function
        return name == self.unknown

    def sentence(self, where: str) -> str:
        """See the base class."""
        return f"{self.unknown} {where} is {self.values[0]}"


@final
@dataclass(frozen=True)
class Neumann(LinearCondition):
    """∂u/∂n = g, n the outward normal."""

    keyword = "neumann"
    arguments = ("g",)

    @property
    def robin_form(self) -> RobinForm:
        """See the base class."""
        return RobinForm(sympy.S.Zero, sympy.S.One, self.values[0])

    def fixes_constant(self, name: str, function: Expr) -> bool:
        """Return False: a constant has no slope."""
        del name, function
        return False

    def sentence(self, where: str) -> str:
        """See the base class."""
        return f"d{self.unknown}/dn {where} is {self.values[0]}"


@final
@dataclass(frozen=True)
class Robin(LinearCondition):
    """αu + β∂u/∂n = g, n the outward normal."""

    keyword = "robin"
    arguments = ("alpha", "beta", "g")

    @property
    def robin_form(self) -> RobinForm:
        """See the base class."""
        return RobinForm(*self.values)

    def fixes_constant(self, name: str, function: Expr) -> bool:
        """Return whether the unknown is its own; α is taken as nonzero."""
        del function
        return name == self.unknown

    def sentence(self, where: str) -> str:
        """See the base class."""
        alpha, beta, value = self.values
        return f"({alpha})*{self.unknown} + ({beta})*d{self.unknown}/dn {where} is {value}"


class ConservationLawCondition(BoundaryCondition):
    """A condition on the whole state of a conservation law, by ghost cells beyond the face."""

    exclusive = True
    conservation_law = True
    ghost_cells = True

    def fixes_constant(self, name: str, function: Expr) -> bool:
        """Return True: conservation laws leave no constant free."""
        del name, function
        return True


@final
@dataclass(frozen=True)
class Outflow(ConservationLawCondition):
    """Whatever reaches the face leaves: the state beyond it is that before it."""

    keyword = "outflow"


@final
@dataclass(frozen=True)
class Wall(ConservationLawCondition):
    """Nothing passes the face: the state beyond it mirrors that before it."""

    keyword = "wall"
    mirrored = True


@final
@dataclass(frozen=True)
class GeneralCondition(BoundaryCondition):
    """An equation of unknowns, their derivatives and the outward normal (``nx``, ``ny``, ``nz``).

    Its only value is the left minus the right side.
    """

    keyword = "general"
    equation = True

    def residual(
        self,
        function: Callable[[str], Expr],
        space: Sequence[Symbol],
        normal: Sequence[Expr] = (),
    ) -> Expr:
        """See the base class."""
        del function, space, normal
        return self.values[0]

    def fixes_constant(self, name: str, function: Expr) -> bool:
        """Return whether the unknown stands outside a derivative."""
        del name
        return occurs_bare(self.values[0], function)

    @classmethod
    def words(cls, unknown: str, texts: Sequence[Any]) -> Any:
        """See the base class."""
        del unknown
        return texts[0]

    def sentence(self, where: str) -> str:
        """See the base class."""
        return f"{self.text or f'{self.values[0]} = 0'} {where}"


CONDITIONS: Mapping[str, type[BoundaryCondition]] = MappingProxyType(
    {kind.keyword: kind for kind in (Periodic, Dirichlet, Neumann, Robin, Outflow, Wall)}
)
"""Keyword in the spec language → kind; any other text is an equation, a `GeneralCondition`."""

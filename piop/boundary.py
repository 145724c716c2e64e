"""Boundary conditions: what the rest of piop asks of one, every kind, and their keywords."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, final

import sympy
from sympy import Derivative, Expr, Symbol

from piop.errors import NotSupportedError, Place
from piop.expression import write
from piop.expression.vector_calculus import occurs_bare


class RobinForm(NamedTuple):
    """αu + β∂u/∂n = g on one face, n the outward normal.

    Attributes:
        alpha: α, of coordinates, scalars and inputs, like the others.
        beta: β.
        value: g.
    """

    alpha: Expr
    beta: Expr
    value: Expr


@dataclass(frozen=True)
class BoundaryCondition:
    """One condition on one face.

    A new kind is a final subclass and an entry in ``CONDITIONS``.

    Attributes:
        unknown: The unknown it is on; empty for kinds that name none.
        values: Its expressions; one for each of ``arguments``.
        text: An equation as the spec has it; empty for other kinds.
        place: Where the spec has it.
        keyword: In the spec language, in ``piop check`` and in messages.
        arguments: Names of the values that the spec gives for an unknown; empty for kinds that name
            no unknown.
        equation: Whether the spec has an equation in place of a keyword.
        whole_axis: Whether it holds on both faces of an axis at once, which are no faces then.
        exclusive: Whether it is all that holds on its face.
        conservation_law: Whether it is for conservation laws, first-order equations in flux form.
        ghost_cells: Whether finite volumes have ghost cells for it.
        mirrored: Whether those ghost cells mirror the cells inside.
        soft_because: Why it cannot be a hard constraint, a clause; empty for a prescribed value.
    """

    unknown: str = ""
    values: tuple[Expr, ...] = ()
    text: str = field(default="", compare=False)
    place: Place = field(default_factory=Place, compare=False)

    keyword: ClassVar[str]
    arguments: ClassVar[tuple[str, ...]] = ()
    equation: ClassVar[bool] = False
    whole_axis: ClassVar[bool] = False
    exclusive: ClassVar[bool] = False
    conservation_law: ClassVar[bool] = False
    ghost_cells: ClassVar[bool] = False
    mirrored: ClassVar[bool] = False
    soft_because: ClassVar[str] = "only prescribed values can be hard constraints"

    @property
    def prescribed(self) -> Expr | None:
        """The value that it prescribes for its unknown; None for every other kind."""
        return None

    @property
    def robin_form(self) -> RobinForm | None:
        """Its coefficients as αu + β∂u/∂n = g; None where it has no such form."""
        return None

    def residual(
        self, function: Callable[[str], Expr], space: Sequence[Symbol], normal: Sequence[Expr] = ()
    ) -> Expr:
        """Return its left minus its right side.

        Args:
            function: Unknown → what stands for it in expressions, such as u(t, x).
            space: Symbols of the axes of space.
            normal: The outward normal; by default, and always in an equation of the spec, it stands
                as :func:`normal_symbols`.

        Returns:
            The residual, derivatives as written.

        Raises:
            NotSupportedError: If it is no condition on values or derivatives of unknowns.
        """
        form: Any = self.robin_form
        if form is None:
            raise NotSupportedError(f"{self.keyword} is no condition on values or slopes")
        u: Any = function(self.unknown)
        normal = normal or normal_symbols(axis.name for axis in space)
        slopes = [Derivative(u, axis) for axis in space]
        outward = sympy.Add(*(n * slope for n, slope in zip(normal, slopes, strict=True)))
        return form.alpha * u + form.beta * outward - form.value

    def fixes_constant(self, name: str, function: Expr) -> bool:
        """Tell whether it fixes the constant that equations without the bare unknown leave free.

        Args:
            name: The unknown.
            function: What stands for it in expressions.
        """
        return False

    @classmethod
    def words(cls, unknown: str, texts: Sequence[Any]) -> Any:
        """Return a condition of this kind in the words of the spec language.

        Args:
            unknown: Its unknown; empty for kinds that name none.
            texts: Its expressions.
        """
        return cls.keyword

    @property
    def summary(self) -> str:
        """The condition in a few words, such as ``dirichlet u 0``."""
        values = self.text or ", ".join(write(v) for v in self.values)
        return " ".join(filter(None, [self.keyword, self.unknown, values]))

    def sentence(self, where: str) -> str:
        """State the condition where it holds, such as ``u at x = 0 is 1``."""
        return f"{self.keyword} {where}"


def normal_symbols(axes: Iterable[str]) -> tuple[Symbol, ...]:
    """Return the components of the outward normal as a general condition names them."""
    return tuple(Symbol(f"n{axis}", real=True) for axis in axes)


@final
@dataclass(frozen=True)
class Periodic(BoundaryCondition):
    """Both ends of an axis are one: the solution and all its derivatives agree there."""

    keyword = "periodic"
    whole_axis = True
    exclusive = True


class LinearCondition(BoundaryCondition):
    """αu + β∂u/∂n = g for one unknown u, n the outward normal.

    Attributes:
        coefficients: α and β where the kind fixes them; else they are the first two values.
    """

    coefficients: ClassVar[tuple[Expr, ...]] = ()

    @property
    def robin_form(self) -> RobinForm:
        """See the base class."""
        return RobinForm(*self.coefficients, *self.values)

    def fixes_constant(self, name: str, function: Expr) -> bool:
        """Return whether the unknown is its own; α is taken as nonzero."""
        return name == self.unknown

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
    coefficients = (sympy.S.One, sympy.S.Zero)
    ghost_cells = True
    soft_because = ""

    @property
    def prescribed(self) -> Expr:
        """See the base class."""
        return self.values[0]

    def sentence(self, where: str) -> str:
        """See the base class."""
        return f"{self.unknown} {where} is {self.values[0]}"


@final
@dataclass(frozen=True)
class Neumann(LinearCondition):
    """∂u/∂n = g, n the outward normal."""

    keyword = "neumann"
    arguments = ("g",)
    coefficients = (sympy.S.Zero, sympy.S.One)

    def fixes_constant(self, name: str, function: Expr) -> bool:
        """Return False: a constant has no slope."""
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
        self, function: Callable[[str], Expr], space: Sequence[Symbol], normal: Sequence[Expr] = ()
    ) -> Expr:
        """See the base class."""
        return self.values[0]

    def fixes_constant(self, name: str, function: Expr) -> bool:
        """Return whether the unknown stands outside a derivative."""
        return occurs_bare(self.values[0], function)

    @classmethod
    def words(cls, unknown: str, texts: Sequence[Any]) -> Any:
        """See the base class."""
        return texts[0]

    def sentence(self, where: str) -> str:
        """See the base class."""
        return f"{self.text or f'{self.values[0]} = 0'} {where}"


CONDITIONS: Mapping[str, type[BoundaryCondition]] = MappingProxyType(
    {kind.keyword: kind for kind in (Periodic, Dirichlet, Neumann, Robin, Outflow, Wall)}
)
"""Keyword in the spec language → kind; any other text is an equation, a `GeneralCondition`."""

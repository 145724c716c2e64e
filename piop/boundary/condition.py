"""The interface of a boundary condition: all that the rest of piop asks of one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

from sympy import Expr, Symbol

from piop.errors import NotSupportedError, Place
from piop.expression import write


@final
@dataclass(frozen=True)
class RobinForm:
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
class BoundaryCondition(ABC):
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
        self,
        function: Callable[[str], Expr],
        space: Sequence[Symbol],
        normal: Sequence[Expr] = (),
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
        del function, space, normal
        raise NotSupportedError(f"{self.keyword} is no condition on values or slopes")

    @abstractmethod
    def fixes_constant(self, name: str, function: Expr) -> bool:
        """Tell whether it fixes the constant that equations without the bare unknown leave free.

        Args:
            name: The unknown.
            function: What stands for it in expressions.
        """

    @classmethod
    def words(cls, unknown: str, texts: Sequence[Any]) -> Any:
        """Return a condition of this kind in the words of the spec language.

        Args:
            unknown: Its unknown; empty for kinds that name none.
            texts: Its expressions.
        """
        del unknown, texts
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

"""Interfaces of a compiled residual and of known functions, evaluated at points or on a grid."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from sympy import Expr
from torch import Tensor

from piop.fields import InputFunction
from piop.forms.pde import Input
from piop.forms.stream_plan import Index

if TYPE_CHECKING:
    from piop.residual.grid import TensorGrid


@dataclass(frozen=True)
class ResidualValues:
    """A residual evaluated at points.

    Attributes:
        values: ``[B, N, E]``, left side minus right side of every equation.
        derivatives: ``[B, N]`` by (channel, multi-index over the coordinates): those computed on
            the way, the value itself under the zero index; terms of collapsed sums are not there.
    """

    values: Tensor
    derivatives: dict[tuple[str, Index], Tensor] = field(default_factory=dict)


class DerivedFunctions(ABC):
    """Functions of the coordinates that are computed from the inputs of a problem.

    Attributes:
        inputs: What they are called in expressions, and the coordinates that they depend on.
        needs: The names of the inputs that they are computed from.
    """

    inputs: tuple[Input, ...]
    needs: tuple[str, ...]

    @abstractmethod
    def __call__(
        self, functions: Mapping[str, InputFunction], device: torch.device
    ) -> Mapping[str, InputFunction]:
        """Compute them from the input functions, both by name."""

    def fixed_for(self, *batches: Mapping[str, InputFunction]) -> AbstractContextManager[None]:
        """Decide by these input functions, not by those given in the block, what is negligible.

        A graph that is exported takes no decision on its inputs.
        """
        return nullcontext()


class Lift(ABC):
    """Known functions, one per channel, that are added to a network's output."""

    @abstractmethod
    def __call__(self, functions: Mapping[str, InputFunction], queries: Tensor) -> Tensor:
        """Evaluate the known functions, and the derivatives that the residual needs.

        Args:
            functions: The input functions, by name.
            queries: ``[B or 1, N, D]``.

        Returns:
            ``[S, B, …, C]``, without gradient; the value comes first.
        """

    @abstractmethod
    def attach(self, streams: Tensor, queries: Any) -> Any:
        """Make what :meth:`__call__` returned part of a computation on queries.

        Args:
            streams: ``[S, B, …, C]``.
            queries: The argument of the field: a tensor, or one that carries streams.
        """


class Residual(ABC):
    """The compiled residual of a set of equations: a function of a field and of input values.

    Attributes:
        trained: Names of the parameters that are given with every call, and may carry a gradient.
        streams: S, the number of Taylor streams that a field is evaluated on; 0 for a grid, whose
            derivatives are taken of the values.
        grid: The grid on which a field is evaluated as a whole; None for one evaluated at points.
        anywhere: Whether it can be evaluated at any points; False where it places its own.
        holds_walls: Whether its values count the conditions on walls too.
        same_points: Whether it places the points of all functions of a batch alike.
        derived: Functions that lifts may contain beside the inputs.
    """

    derived: DerivedFunctions | None = None
    trained: tuple[str, ...]
    streams: int
    grid: TensorGrid | None
    anywhere: bool
    holds_walls: ClassVar[bool] = False
    same_points: bool = False

    @abstractmethod
    def place(self, draw: Callable[[], Tensor]) -> Tensor:
        """Return the queries: those that ``draw`` returns, or points of its own."""

    @abstractmethod
    def evaluate_inputs(
        self, functions: Mapping[str, InputFunction], queries: Tensor
    ) -> tuple[Tensor, ...]:
        """Evaluate the inputs, and derivatives of inputs, that the equations contain.

        Args:
            functions: By name, hidden ones included.
            queries: ``[B or 1, N, D]``; of a grid only their device and precision matter.

        Returns:
            One tensor for each, in the dtype of the queries, without gradient.
        """

    @abstractmethod
    def __call__(
        self,
        field: Any,
        queries: Tensor,
        input_values: Sequence[Tensor] = (),
        parameters: Sequence[Tensor] = (),
    ) -> ResidualValues:
        """Evaluate the residual of a field.

        Args:
            field: The field.
            queries: As :meth:`place` returns them.
            input_values: As :meth:`evaluate_inputs` returns them.
            parameters: Value ``[]`` of each of ``trained``, through which gradients flow.

        Returns:
            The residuals and the derivatives found on the way; differentiable by reverse mode.
        """

    @abstractmethod
    def compile_lift(self, expressions: Sequence[Expr | None]) -> Lift:
        """Compile known functions, one expression per channel; None stands for zero."""

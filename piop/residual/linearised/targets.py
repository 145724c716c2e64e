"""Linearised equations that are solved once for several steps of a training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

from sympy import Expr
from torch import Tensor

from piop.errors import UsageError
from piop.fields import InputFunction
from piop.residual.base import Residual, ResidualValues
from piop.residual.known_functions import ValueLift
from piop.residual.linearised.base import LinearisedResidual


@final
class TargetResidual(Residual):
    """The misfit of a field to values that were corrected before, by its linearised equations.

    Where the error of Newton's method takes far longer to solve for than a step of the training
    does, one solution serves several steps: the field of the first is corrected, and the field of
    each is compared with that.

    Args:
        linearised: The linearised equations and conditions.

    Attributes:
        linearised: See above.
    """

    grid, anywhere, streams = None, False, 1
    trained: tuple[str, ...] = ()
    holds_walls = True

    def __init__(self, linearised: LinearisedResidual) -> None:
        self.linearised, self.derived = linearised, linearised.derived

    def place(self, draw: Callable[[], Tensor]) -> Tensor:
        """See :meth:`LinearisedResidual.place`."""
        return self.linearised.place(draw)

    def evaluate_inputs(
        self, functions: Mapping[str, InputFunction], queries: Tensor
    ) -> tuple[Tensor, ...]:
        """See :meth:`LinearisedResidual.evaluate_inputs`."""
        return self.linearised.evaluate_inputs(functions, queries)

    def compile_lift(self, expressions: Sequence[Expr | None]) -> ValueLift:
        """See :meth:`LinearisedResidual.compile_lift`."""
        return self.linearised.compile_lift(expressions)

    def __call__(
        self,
        field: Any,
        queries: Tensor,
        input_values: Sequence[Tensor] = (),
        parameters: Sequence[Tensor] = (),
    ) -> ResidualValues:
        """Compare a field with corrected values.

        Args:
            field: Callable on queries; it receives a plain tensor.
            queries: ``[B, N, D]`` as :meth:`place` returns them.
            input_values: The corrected values ``[B, N, C]``, as
                :meth:`LinearisedResidual.corrected` returns them, alone.
            parameters: None.

        Raises:
            UsageError: For other input values.
        """
        if len(input_values) != 1:
            raise UsageError(f"input_values: got {len(input_values)}; pass the corrected values")
        return ResidualValues(self.linearised.misfit(field(queries), input_values[0]))

"""From the laws of a problem to batches of random input functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from sympy import Symbol
from sympy.core.function import AppliedUndef

from piop.errors import NotSupportedError
from piop.fields import InputFunction
from piop.sampling.expressions import ExpressionFunction
from piop.sampling.files import stored_functions
from piop.sampling.functions import PiecewiseConstantFunction, ScalarFunction
from piop.sampling.random import Draws
from piop.sampling.random_fields import draw_series, gaussian_prior
from piop.spec import distributions as laws

if TYPE_CHECKING:
    from piop.problem import Coordinate, Input, Problem


def sample_inputs(
    problem: Problem, draws: Draws, dtype: torch.dtype = torch.float64
) -> dict[str, InputFunction]:
    """Draw every input of a problem, hidden ones and those stated by an expression included.

    Numbers are drawn in float64 and then rounded to ``dtype``, so that the functions are the same
    in every precision.

    Args:
        problem: Whose inputs to draw.
        draws: Seed, step and sample numbers; functions are made on its device.
        dtype: Of the functions and of what they return.

    Returns:
        One batch of ``draws.batch`` functions for each input, by name, in the order of the problem;
        none for the law ``history``, whose values come from a solution.

    Raises:
        NotSupportedError: For the law ``data``, and for expressions of what is not an input.
        DataError: For ``from_file``, if the file does not fit.
    """
    drawn: dict[str, InputFunction] = {}
    for item in _dependencies_first(problem):
        if isinstance(item.law, laws.History):
            continue
        if item.expression is not None:
            drawn[item.name] = _by_expression(problem, item, drawn, draws, dtype)
        else:
            drawn[item.name] = draw(item, input_axes(problem, item), draws).to(dtype=dtype)
    return {item.name: drawn[item.name] for item in problem.inputs if item.name in drawn}


def input_axes(problem: Problem, item: Input) -> tuple[Coordinate, ...]:
    """Coordinates that an input depends on, in its own order."""
    return tuple(problem.coordinate(name) for name in item.of)


def draw(item: Input, axes: tuple[Coordinate, ...], draws: Draws) -> InputFunction:
    """Draw one input that has a law.

    Raises:
        NotSupportedError: For the law ``history``.
    """
    law, lane, d = item.law, f"input/{item.name}", len(axes)
    match law:
        case laws.FourierSeries():
            return draw_series(law, axes, draws, lane)
        case laws.GaussianRandomField():
            return gaussian_prior(law, axes).normal(draws, lane)
        case laws.PiecewiseConstant():
            values = law.low + (law.high - law.low) * draws.uniform(lane, *law.per_axis(d))
            return PiecewiseConstantFunction(
                values,
                low=tuple(axis.low for axis in axes),
                high=tuple(axis.high for axis in axes),
                periodic=tuple(axis.periodic for axis in axes),
            )
        case laws.Uniform():
            return ScalarFunction(law.low + (law.high - law.low) * draws.uniform(lane), d)
        case laws.Integer():
            return ScalarFunction(draws.integers(lane, law.low, law.high).double(), d)
        case laws.LogUniform():
            return ScalarFunction(law.low * (law.high / law.low) ** draws.uniform(lane), d)
        case laws.Normal():
            return ScalarFunction(law.mean + law.std * draws.normal(lane), d)
        case laws.Constant():
            values = torch.full((draws.batch,), law.value, dtype=torch.float64)
            return ScalarFunction(values.to(draws.index.device), d)
        case laws.FromFile():
            stored = stored_functions(item, law, axes)
            return stored.take(draws.integers(lane, 0, stored.batch - 1).cpu()).to(
                draws.index.device
            )
        case laws.FromData():
            raise NotSupportedError(
                f"inputs.{item.name}: its law is data, so it cannot be drawn; give --data FILE"
            )
        case _:
            raise NotSupportedError(
                f"inputs.{item.name}: its law is history, so it cannot be drawn: its values come "
                "from a solution"
            )


def _by_expression(
    problem: Problem,
    item: Input,
    drawn: dict[str, InputFunction],
    draws: Draws,
    dtype: torch.dtype,
) -> InputFunction:
    assert item.expression is not None  # noqa: S101 - the caller looked
    symbols = tuple(axis.symbol for axis in input_axes(problem, item))
    parts = {name: drawn[name] for name in _names(item)}
    return ExpressionFunction(
        item.expression, symbols, parts, draws.batch, draws.index.device, dtype
    )


def _names(item: Input) -> set[str]:
    """Names of the inputs that an expression uses."""
    if item.expression is None:
        return set()
    leaves = item.expression.atoms(AppliedUndef, Symbol)
    named = {leaf.name if isinstance(leaf, Symbol) else leaf.func.__name__ for leaf in leaves}
    return named - set(item.of)


def _dependencies_first(problem: Problem) -> list[Input]:
    """Order the inputs so that those stated by an expression follow those it uses."""
    waiting = list(problem.inputs)
    for item in waiting:
        if others := sorted(_names(item) - {i.name for i in waiting}):
            raise NotSupportedError(
                f"inputs.{item.name}: its expression uses {', '.join(others)}, which is no input: "
                "a parameter to infer has no law to be drawn from"
            )
    ordered: list[Input] = []
    while waiting:
        done = {item.name for item in ordered}
        ready = [i for i in waiting if _names(i) <= done]
        if not ready:
            raise ValueError(f"inputs {', '.join(i.name for i in waiting)} state each other")
        ordered += ready
        waiting = [i for i in waiting if i not in ready]
    return ordered

"""Python objects to the same tree that YAML gives, so both are understood by the same code."""

from __future__ import annotations

import collections.abc
from pathlib import PurePath
from typing import Any

import sympy

from piop.errors import Issue, SpecError
from piop.expression import write
from piop.spec.tree import Mapping, Node, Scalar, Sequence

_PLAIN = (str, bool, int, float, PurePath)


def read_objects(value: Any, where: str = "Problem") -> Node:
    """Turn strings, numbers, lists, dicts and SymPy expressions into a tree.

    Args:
        value: As passed to ``piop.Problem``. A SymPy ``Eq`` is an equation.
        where: How messages call the value.

    Raises:
        SpecError: For an object that a spec cannot hold.
    """
    if isinstance(value, bool):
        return Scalar("true" if value else "false")
    if isinstance(value, str):
        return Scalar(value, quoted=True)
    if isinstance(value, float):
        return Scalar(repr(float(value)))
    if isinstance(value, (int, PurePath)):
        return Scalar(str(value))
    if isinstance(value, (sympy.Basic, sympy.MatrixBase)):
        return Scalar(_text(value, where))
    if isinstance(value, collections.abc.Mapping):
        items = tuple(
            (Scalar(_key(k, where)), read_objects(v, f"{where}.{k}")) for k, v in value.items()
        )
        return Mapping(items)
    if isinstance(value, (list, tuple)):
        return Sequence(tuple(read_objects(v, f"{where}[{i}]") for i, v in enumerate(value)))
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # a NumPy number
        return read_objects(value.item(), where)
    kind = type(value).__name__
    raise SpecError(
        Issue(f"{where}: {kind} cannot be part of a spec; give text, a number or SymPy")
    )


def _key(key: Any, where: str) -> str:
    return key if isinstance(key, str) else _text(key, where)


def _text(value: Any, where: str) -> str:
    try:
        if isinstance(value, sympy.Equality):
            return f"{_text(value.lhs, where)} = {_text(value.rhs, where)}"
        if isinstance(value, (sympy.Tuple, sympy.MatrixBase)):
            return f"({', '.join(_text(v, where) for v in value)},)"
        if isinstance(value, sympy.FunctionClass):
            return value.__name__
        return write(value)
    except (TypeError, AttributeError) as error:
        raise SpecError(Issue(f"{where}: {error}")) from None

"""The distribution of an input or parameter, read from ``law:`` and its keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from piop.spec.distribution_keys import AXIS_BOUNDARIES
from piop.spec.distributions import (
    DISTRIBUTIONS,
    Distribution,
    FromData,
    FromFile,
    Matern,
)
from piop.spec.reader import Reader
from piop.spec.tree import Node, SequenceNode, child

T = TypeVar("T")


def read_distribution(
    reader: Reader, node: Node, path: str, others: Mapping[str, Callable[..., Any]]
) -> tuple[Distribution | None, dict[str, Any]]:
    """Read the distribution of a mapping, if it names one, and the values of its other keys.

    Args:
        reader: Collects issues.
        node: The mapping.
        path: Where it stands, for messages.
        others: Readers of the other keys; where there are none, a distribution must be named.
    """
    law = child(node, "law")
    if law is None:
        hint = f"One of {', '.join(DISTRIBUTIONS)}."
        required = () if others else ("law",)
        return None, reader.record(node, path, {**others, "law": Reader.text}, required, hint=hint)
    name = reader.word(law, f"{path}.law", DISTRIBUTIONS)
    own = {f.name: f for f in fields(DISTRIBUTIONS[name]) if f.compare}
    readers = {**others, "law": Reader.text, **{key: _READERS[key] for key in own}}
    required = [key for key, f in own.items() if f.default is f.default_factory]
    values = reader.record(node, path, readers, required, f"{name} needs {{}}")
    given = {key: values[key] for key in own if key in values}
    distribution = _build(reader, DISTRIBUTIONS[name], given, node, path)
    if isinstance(distribution, FromFile):
        file = Path(distribution.path)
        if reader.folder is not None:
            file = (reader.folder.resolve() / file).resolve()
        distribution = replace(distribution, file=file)
    return distribution, {key: values[key] for key in others if key in values}


def _build(
    reader: Reader, kind: Callable[..., T], values: dict[str, Any], node: Node, path: str
) -> T:
    """Build what checks its own numbers and starts its messages with the key."""
    try:
        return kind(**values)
    except ValueError as error:
        key = str(error).split(":")[0].rpartition(".")[2]
        raise reader.fail((child(node, key) or node).place, f"{path}: {error}") from None


_count = partial(Reader.integer, least=1, most=100_000)


def _cells(reader: Reader, node: Node, path: str) -> int | tuple[int, ...]:
    found = reader.several(node, path, _count)
    return found if isinstance(node, SequenceNode) else found[0]


def _matern(reader: Reader, node: Node, path: str) -> Matern:
    readers = {"smoothness": Reader.number, "length": Reader.number, "variance": Reader.number}
    values = reader.record(node, path, readers, ("smoothness", "length"), "matern needs {}")
    return _build(reader, Matern, values, node, path.removesuffix(".matern"))


def read_levels(reader: Reader, node: Node, path: str) -> tuple[float, ...]:
    """One level of noise, or a list of them."""
    levels = {"noise": reader.several(node, path, Reader.number)}
    return _build(reader, FromData, levels, node, path.removesuffix(".noise")).noise


def _path(reader: Reader, node: Node, path: str) -> str:
    text = reader.text(node, path).text
    root = None if reader.folder is None else reader.folder.resolve()
    if root and ("\0" in text or not (root / text).resolve().is_relative_to(root)):
        message = f"{path}: '{text}' leads out of the folder of the spec"
        raise reader.fail(node.place, message, "Pass the file on the command line instead.")
    return text


_READERS: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(("scale", "tau", "alpha", "mean", "std"), Reader.number),
    **dict.fromkeys(("low", "high", "value", "until"), Reader.number),
    **dict.fromkeys(("terms", "modes", "times"), _count),
    **dict.fromkeys(("amplitude", "phase"), Reader.interval),
    "cells": _cells,
    "wavenumber": partial(Reader.interval, read=partial(Reader.integer, most=10_000)),
    "matern": _matern,
    "boundary": partial(Reader.entries, read=partial(Reader.word, allowed=AXIS_BOUNDARIES)),
    "zero_mean": Reader.boolean,
    "noise": read_levels,
    "path": _path,
    "variable": lambda reader, node, path: reader.text(node, path).text,
}
"""Key of a distribution → what reads its value."""

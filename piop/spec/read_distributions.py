"""The distribution of an input or parameter, read from ``law:`` and its keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from piop.spec import distributions
from piop.spec.reader import Bad, Reader
from piop.spec.tree import Node, SequenceNode


def distribution_keys(distribution: str) -> tuple[str, ...]:
    """Return the keys of a distribution."""
    return tuple(
        k for k in distributions.DISTRIBUTIONS[distribution].__dataclass_fields__ if k != "file"
    )


def read_distribution(
    reader: Reader, name: str, found: dict[str, Node], path: str, whole: Node, folder: Path | None
) -> distributions.Distribution:
    """Build the distribution ``name`` from its keys.

    Args:
        reader: Collects issues.
        name: A key of ``DISTRIBUTIONS``.
        found: The keys of the distribution that are written.
        path: Where, for messages.
        whole: The node all of this stands in.
        folder: Folder that files must lie in; None allows any.
    """
    values: dict[str, Any] = {}
    failed = False
    for key, node in found.items():
        try:
            values[key] = _READERS[key](reader, node, f"{path}.{key}")
        except Bad:
            failed = True
    fields = distributions.DISTRIBUTIONS[name].__dataclass_fields__
    missing = [
        k
        for k in distribution_keys(name)
        if k not in found and fields[k].default is fields[k].default_factory
    ]
    if missing:
        raise reader.fail(whole.place, f"{path}: {name} needs {', '.join(missing)}")
    if failed:
        raise Bad
    try:
        distribution = distributions.DISTRIBUTIONS[name](**values)
    except (
        ValueError
    ) as error:  # the distributions check their own numbers; their texts start with the key
        node = found.get(str(error).split(":")[0].split(".")[0], whole)
        raise reader.fail(node.place, f"{path}: {error}") from None
    if isinstance(distribution, distributions.FromFile):
        return _inside(reader, distribution, path, found["path"], folder)
    return distribution


def _count(reader: Reader, node: Node, path: str) -> int:
    return reader.integer(node, path, 1, 100_000)


def _cells(reader: Reader, node: Node, path: str) -> int | tuple[int, ...]:
    if isinstance(node, SequenceNode):
        return tuple(_count(reader, n, path) for n in reader.items(node, path))
    return _count(reader, node, path)


def _wavenumbers(reader: Reader, node: Node, path: str) -> tuple[int, int]:
    low, high = reader.interval(node, path)
    if low != int(low) or high != int(high) or low < 0 or high > 10_000:
        raise reader.fail(node.place, f"{path}: wavenumbers are whole numbers from 0 to 10000")
    return int(low), int(high)


def _matern(reader: Reader, node: Node, path: str) -> distributions.Matern:
    found = reader.keys(node, path, ("smoothness", "length", "variance"))
    values = {k: reader.number(n, f"{path}.{k}") for k, n in found.items()}
    if missing := [k for k in ("smoothness", "length") if k not in values]:
        raise reader.fail(node.place, f"{path}: matern needs {', '.join(missing)}")
    return distributions.Matern(**values)


def _boundary(reader: Reader, node: Node, path: str) -> dict[str, str]:
    entries = reader.mapping(node, path)
    return {k: reader.word(n, f"{path}.{k}", distributions.AXIS_BOUNDARIES) for k, n, _ in entries}


def _levels(reader: Reader, node: Node, path: str) -> tuple[float, ...]:
    items = reader.items(node, path) if isinstance(node, SequenceNode) else (node,)
    return tuple(reader.number(n, path) for n in items)


def _path(reader: Reader, node: Node, path: str) -> str:
    return reader.text(node, path).text


_READERS: dict[str, Any] = {
    "terms": _count,
    "modes": _count,
    "cells": _cells,
    "amplitude": Reader.interval,
    "phase": Reader.interval,
    "wavenumber": _wavenumbers,
    "scale": Reader.number,
    "tau": Reader.number,
    "alpha": Reader.number,
    "std": Reader.number,
    "matern": _matern,
    "boundary": _boundary,
    "zero_mean": Reader.boolean,
    "mean": Reader.number,
    "low": Reader.number,
    "high": Reader.number,
    "value": Reader.number,
    "until": Reader.number,
    "noise": _levels,
    "times": _count,
    "path": _path,
    "variable": _path,
}


def _inside(
    reader: Reader, distribution: distributions.FromFile, path: str, node: Node, folder: Path | None
) -> distributions.FromFile:
    if folder is None:
        return distributions.FromFile(
            distribution.path, distribution.variable, Path(distribution.path)
        )
    root = folder.resolve()
    target = (root / distribution.path).resolve() if "\0" not in distribution.path else Path("/")
    if not target.is_relative_to(root):
        message = f"{path}.path: '{distribution.path}' leads out of the folder of the spec"
        raise reader.fail(node.place, message, "Pass the file on the command line instead.")
    return distributions.FromFile(distribution.path, distribution.variable, target)

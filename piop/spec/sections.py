"""The sections of a spec, and what reads each: from a tree to the parts of a `Spec`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from piop.spec.distributions import Distribution
from piop.spec.model import (
    AuxiliarySpec,
    InputSpec,
    LearnSpec,
    SensorPlacement,
    SensorSpec,
    Setting,
    Text,
)
from piop.spec.read_distributions import read_distribution, read_levels
from piop.spec.read_domain import read_conditions, read_domain
from piop.spec.reader import FARTHEST, Bad, Reader, evaluate, is_number
from piop.spec.tree import MappingNode, Node, ScalarNode, SequenceNode, child

FORMAT = 1
MAX_ENTRIES = 32  # of a section that declares what equations hold: some checks compare all pairs
NONE_KNOWN = "data"
"""What stands in place of equations where there are none."""


def _version(reader: Reader, node: Node, section: str) -> None:
    version = reader.integer(node, section, 1)
    if version != FORMAT:
        message = f"piop: format {version} is newer than this version reads ({FORMAT})"
        reader.fail(node.place, message)


def _label(reader: Reader, node: Node, path: str) -> str:
    return reader.text(node, path).text


def _unit(reader: Reader, node: Node, path: str) -> str:
    """A unit; empty quotes say that there is none."""
    empty = isinstance(node, ScalarNode) and node.quoted and not node.text
    return "" if empty else _label(reader, node, path)


_DRAWN = "is drawn for each sample, and one number for all samples is needed"
_BELOW = "is declared below, and a parameter may use those above it"


def _parameters(reader: Reader, node: Node, section: str) -> dict[str, Text | Distribution]:
    """Read constants, which may use earlier ones, or distributions, which make scalar inputs."""
    result: dict[str, Text | Distribution] = {}
    entries = reader.mapping(node, section)
    elsewhere = {
        key: _DRAWN if isinstance(value, MappingNode) else _BELOW for key, value, _ in entries
    }
    reader.constants = replace(reader.constants, elsewhere=elsewhere)
    for key, value, place in entries:
        try:
            reader.name(ScalarNode(key, place), section)
            result[key] = _parameter(reader, value, key, f"{section}.{key}")
        except Bad:
            reader.constants = replace(reader.constants, broken=reader.constants.broken | {key})
    return result


def _parameter(reader: Reader, node: Node, name: str, path: str) -> Text | Distribution:
    if isinstance(node, MappingNode):
        distribution, _ = read_distribution(reader, node, path, {})
        if distribution is None or not distribution.scalar:
            message = f"{path}: a parameter is a number; use a scalar distribution"
            raise reader.fail(node.place, message)
        return distribution
    text = reader.text(node, path)
    value = evaluate(text, reader.constants, reader.issues, path)
    if isinstance(value, tuple):
        raise reader.fail(text.place, f"{path}: a parameter is one number, not a vector")
    if value is None:
        raise Bad
    reader.constants = replace(reader.constants, values={**reader.constants.values, name: value})
    return text


def _coordinates(
    reader: Reader, node: Node, section: str, most: int
) -> dict[str, tuple[Text, Text]]:
    """``{x: [low, high]}`` with low < high."""
    if not 1 <= (count := len(reader.mapping(node, section))) <= most:
        message = f"{section}: {count} coordinates; 1 to {most} are possible"
        raise reader.fail(node.place, message)
    return reader.entries(node, section, _ends, declares=True)


def _ends(reader: Reader, node: Node, path: str) -> tuple[Text, Text]:
    low, high = reader.interval(node, path, Reader.coordinate)
    if high - low < 1 / FARTHEST:
        raise reader.fail(node.place, f"{path}: the interval has no length")
    first, last = reader.several(node, path, Reader.text)
    return first, last


_texts = partial(Reader.several, read=Reader.text)


def _input(reader: Reader, node: Node, path: str) -> InputSpec:
    readers = {
        "of": _texts,
        "expression": Reader.text,
        "hidden": Reader.boolean,
        "smooth": Reader.boolean,
    }
    distribution, others = read_distribution(reader, node, path, readers)
    item = InputSpec(**{"of": (), **others}, distribution=distribution)
    if (distribution is None) == (item.expression is None):
        raise reader.fail(node.place, f"{path}: either a distribution or an expression is needed")
    if distribution is not None and distribution.scalar and item.of:
        raise reader.fail(node.place, f"{path}: this distribution draws one number; leave 'of' out")
    if distribution is not None and distribution.function and not item.of:
        raise reader.fail(node.place, f"{path}: 'of' is missing: the coordinates it depends on")
    return item


def _list(reader: Reader, node: Node, section: str) -> tuple[Text, ...]:
    """A list of values, of which there must be one at least."""
    items = reader.items(node, section)
    if not items:
        raise reader.fail(node.place, f"{section}: the list is empty")
    found = []
    for item in items:
        with suppress(Bad):
            found.append(reader.text(item, section))
    return tuple(found)


def _equations(reader: Reader, node: Node, section: str) -> tuple[Text, ...]:
    """A list of equations, or the word ``data``: none are known, the solutions are."""
    if isinstance(node, ScalarNode) and node.text == NONE_KNOWN:
        return ()
    return _list(reader, node, section)


def _auxiliary(reader: Reader, node: Node, path: str) -> AuxiliarySpec:
    """An unknown that a linear elliptic equation fixes."""
    readers = {"equation": Reader.text, "mean": Reader.text}
    return AuxiliarySpec(**reader.record(node, path, readers, ["equation"]))


def _gauge(reader: Reader, node: Node, path: str) -> Text:
    """``{mean: 0}``."""
    return reader.record(node, path, {"mean": _constant}, ["mean"])["mean"]


def _constant(reader: Reader, node: Node, path: str) -> Text:
    reader.number(node, path)
    return reader.text(node, path)


def _sensor(reader: Reader, node: Node, path: str) -> SensorSpec:
    """Where an input is observed in training."""
    count = partial(Reader.integer, least=1, most=1_000_000)
    counts = partial(Reader.several, read=count)
    found = SensorSpec(**reader.record(node, path, {"count": counts, "place": _placement}))
    if len(found.count or ()) > 1 and found.place is not SensorPlacement.GRID:
        message = f"{path}: counts per axis need 'place: grid'"
        raise reader.fail(child(node, "count").place, message)
    return found


def _placement(reader: Reader, node: Node, path: str) -> SensorPlacement:
    return SensorPlacement(reader.word(node, path, SensorPlacement))


def _setting(reader: Reader, node: Node, path: str) -> Setting:
    """A setting of the recipe; ``piop solve --set`` checks it."""
    if isinstance(node, SequenceNode):
        return reader.several(node, path, _setting)
    scalar = reader.text(node, path)
    if scalar.boolean is not None:
        return scalar.boolean
    if not is_number(scalar):
        return scalar.text
    value = reader.number(scalar, path)
    return int(scalar.text) if scalar.text.lstrip("+-").isdigit() else value


def _learn(reader: Reader, node: Node, section: str) -> LearnSpec:
    """``{from: u, to: a, noise: [0, 0.01]}``: the inverse operator."""
    names = partial(Reader.several, read=_label)
    readers = {"from": names, "to": names, "noise": read_levels}
    found = reader.record(node, section, readers, ("from", "to"))
    return LearnSpec(found["from"], found["to"], found.get("noise", ()))


COUNTED = frozenset(("unknowns", "auxiliary", "inputs", "definitions", "equations", "infer"))
"""Sections that hold at most ``MAX_ENTRIES``."""
SECTIONS: Mapping[str, Callable[[Reader, Node, str], Any]] = MappingProxyType(
    {
        "piop": _version,
        "name": Reader.label,
        "title": _label,
        "source": _label,
        "time": partial(_coordinates, most=1),
        "space": partial(_coordinates, most=3),
        "parameters": _parameters,
        "unknowns": _list,
        "inputs": partial(Reader.entries, read=_input, declares=True),
        "definitions": partial(Reader.entries, read=Reader.text),
        "equations": _equations,
        "auxiliary": partial(Reader.entries, read=_auxiliary, declares=True),
        "gauge": partial(Reader.entries, read=_gauge),
        "initial": partial(Reader.entries, read=Reader.text),
        "boundary": partial(Reader.entries, read=read_conditions),
        "domain": read_domain,
        "sensors": partial(Reader.entries, read=_sensor),
        "save": partial(Reader.entries, read=partial(Reader.integer, least=2, most=100_000)),
        "units": partial(Reader.entries, read=_unit),
        "solve": partial(Reader.entries, read=_setting),
        "infer": _list,
        "learn": _learn,
    }
)
"""Keyword → what reads the section; in the order in which a spec is written."""

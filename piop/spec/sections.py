"""The sections of a spec, one function each: from a tree to the parts of a `Spec`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from piop.expression import Refusal, Scope, parse
from piop.spec.distributions import DISTRIBUTIONS, Distribution
from piop.spec.model import (
    AuxiliarySpec,
    InputSpec,
    LearnSpec,
    SensorPlacement,
    SensorSpec,
    Setting,
    Text,
)
from piop.spec.read_distributions import distribution_keys, read_distribution
from piop.spec.reader import Bad, Reader, is_number
from piop.spec.tree import MappingNode, Node, ScalarNode, SequenceNode

NONE_KNOWN = "data"
"""What stands in place of equations where there are none."""


def read_parameters(
    reader: Reader, node: Node, folder: Path | None
) -> dict[str, Text | Distribution]:
    """Read constants, which may use earlier ones, or distributions, which make scalar inputs."""
    result: dict[str, Text | Distribution] = {}
    for key, value, place in reader.mapping(node, "parameters"):
        path = f"parameters.{key}"
        try:
            reader.name(ScalarNode(key, place), "parameters")
            if isinstance(value, MappingNode):
                distribution = _distribution_of(reader, value, path, folder, ())[0]
                if distribution is None or not distribution.scalar:
                    raise reader.fail(
                        value.place, f"{path}: a parameter is a number; use a scalar distribution"
                    )
                result[key] = distribution
            else:
                result[key] = _constant(reader, reader.text(value, path), key, path)
        except Bad:
            broken = reader.constants.broken | {key}
            reader.constants = Scope(
                reader.constants.values, broken=broken, used=reader.constants.used
            )
    return result


def _constant(reader: Reader, text: ScalarNode, name: str, path: str) -> Text:
    try:
        value = parse(text.text, reader.constants)
    except Refusal as refusal:
        if not refusal.message:
            raise Bad from None
        raise reader.fail(
            text.at(refusal.offset), f"{path}: {refusal.message}", refusal.hint
        ) from None
    if isinstance(value, tuple):
        raise reader.fail(text.place, f"{path}: a parameter is one number, not a vector")
    values = {**reader.constants.values, name: value}
    reader.constants = Scope(values, broken=reader.constants.broken, used=reader.constants.used)
    return text


def _distribution_of(
    reader: Reader, node: Node, path: str, folder: Path | None, extra: tuple[str, ...]
) -> tuple[Distribution | None, dict[str, Node]]:
    """Read the distribution of a mapping, if it names one; other keys must be in ``extra``."""
    named = (
        {k.text: v for k, v in node.items if isinstance(k, ScalarNode)}
        if isinstance(node, MappingNode)
        else {}
    )
    name = reader.word(named["law"], f"{path}.law", DISTRIBUTIONS) if "law" in named else None
    own = distribution_keys(name) if name else ()
    found = reader.keys(node, path, (*extra, "law", *own))
    distribution = None
    if name:
        distribution = read_distribution(
            reader, name, {k: v for k, v in found.items() if k in own}, path, node, folder
        )
    elif not extra:
        raise reader.fail(
            node.place, f"{path}: 'law' is missing", f"One of {', '.join(DISTRIBUTIONS)}."
        )
    return distribution, {k: v for k, v in found.items() if k in extra}


def read_coordinates(
    reader: Reader, node: Node, section: str, most: int
) -> dict[str, tuple[Text, Text]]:
    """``{x: [low, high]}`` with low < high."""
    result = {}
    entries = reader.mapping(node, section)
    if not 1 <= len(entries) <= most:
        raise reader.fail(
            node.place, f"{section}: {len(entries)} coordinates; 1 to {most} are possible"
        )
    for key, value, place in entries:
        path = f"{section}.{key}"
        try:
            reader.name(ScalarNode(key, place), section)
            low, high = reader.interval(value, path)
            if low == high:
                raise reader.fail(value.place, f"{path}: the interval has no length")
            first, last = reader.items(value, path)
            result[key] = (reader.text(first, path), reader.text(last, path))
        except Bad:
            continue
    return result


def read_inputs(reader: Reader, node: Node, folder: Path | None) -> dict[str, InputSpec]:
    """The random functions and numbers that the operator takes."""
    result = {}
    for key, value, place in reader.mapping(node, "inputs"):
        if reader.attempt(reader.name, ScalarNode(key, place), "inputs") is not None:
            found = reader.attempt(_input, reader, value, f"inputs.{key}", folder)
            if found is not None:
                result[key] = found
    return result


def _input(reader: Reader, node: Node, path: str, folder: Path | None) -> InputSpec:
    distribution, rest = _distribution_of(
        reader, node, path, folder, ("of", "expression", "hidden", "smooth")
    )
    of: tuple[Text, ...] = ()
    if "of" in rest:
        items = (
            (rest["of"],)
            if isinstance(rest["of"], ScalarNode)
            else reader.items(rest["of"], f"{path}.of")
        )
        of = tuple(reader.text(n, f"{path}.of") for n in items)
    expression = (
        reader.text(rest["expression"], f"{path}.expression") if "expression" in rest else None
    )
    if (distribution is None) == (expression is None):
        raise reader.fail(node.place, f"{path}: either a distribution or an expression is needed")
    if distribution is not None and distribution.scalar and of:
        raise reader.fail(node.place, f"{path}: this distribution draws one number; leave 'of' out")
    if distribution is not None and distribution.function and not of:
        raise reader.fail(node.place, f"{path}: 'of' is missing: the coordinates it depends on")
    flags = {k: reader.boolean(rest[k], f"{path}.{k}") for k in ("hidden", "smooth") if k in rest}
    return InputSpec(of, distribution, expression, flags.get("hidden", False), flags.get("smooth"))


def read_texts(reader: Reader, node: Node, section: str) -> dict[str, Text]:
    """A mapping of names to expressions."""
    found = {}
    for key, value, _ in reader.mapping(node, section):
        text = reader.attempt(reader.text, value, f"{section}.{key}")
        if text is not None:
            found[key] = text
    return found


def read_list(reader: Reader, node: Node, section: str) -> tuple[Text, ...]:
    """A list of values, of which there must be one at least."""
    items = reader.items(node, section)
    if not items:
        raise reader.fail(node.place, f"{section}: the list is empty")
    texts = [reader.attempt(reader.text, item, section) for item in items]
    return tuple(t for t in texts if t is not None)


def read_equations(reader: Reader, node: Node) -> tuple[Text, ...]:
    """A list of equations, or the word ``data``: none are known, the solutions are."""
    if isinstance(node, ScalarNode) and node.text == NONE_KNOWN:
        return ()
    return read_list(reader, node, "equations")


def read_auxiliary(reader: Reader, node: Node) -> dict[str, AuxiliarySpec]:
    """Unknowns that a linear elliptic equation fixes."""
    result = {}
    for key, value, place in reader.mapping(node, "auxiliary"):
        path = f"auxiliary.{key}"
        try:
            reader.name(ScalarNode(key, place), "auxiliary")
            found = reader.keys(value, path, ("equation", "mean"))
            if "equation" not in found:
                raise reader.fail(value.place, f"{path}: 'equation' is missing")
            equation = reader.text(found["equation"], f"{path}.equation")
            mean = reader.text(found["mean"], f"{path}.mean") if "mean" in found else None
            result[key] = AuxiliarySpec(equation, mean)
        except Bad:
            continue
    return result


def read_gauge(reader: Reader, node: Node) -> dict[str, Text]:
    """``{p: {mean: 0}}``."""
    result = {}
    for key, value, _ in reader.mapping(node, "gauge"):
        found = reader.attempt(reader.keys, value, f"gauge.{key}", ("mean",))
        if found and "mean" in found:
            reader.attempt(reader.number, found["mean"], f"gauge.{key}.mean")
            text = reader.attempt(reader.text, found["mean"], f"gauge.{key}.mean")
            if text is not None:
                result[key] = text
        elif found is not None and not found:
            reader.fail(value.place, f"gauge.{key}: 'mean' is missing")
    return result


def read_sensors(reader: Reader, node: Node) -> dict[str, SensorSpec]:
    """Where inputs are seen in training."""
    result = {}
    for key, value, _ in reader.mapping(node, "sensors"):
        found = reader.attempt(_sensor, reader, value, f"sensors.{key}")
        if found is not None:
            result[key] = found
    return result


def _sensor(reader: Reader, node: Node, path: str) -> SensorSpec:
    found = reader.keys(node, path, ("count", "place"))
    count, place = None, SensorPlacement.UNIFORM
    if "place" in found:
        place = SensorPlacement(reader.word(found["place"], f"{path}.place", SensorPlacement))
    if "count" in found:
        items = (
            found["count"].items if isinstance(found["count"], SequenceNode) else (found["count"],)
        )
        count = tuple(reader.integer(n, f"{path}.count", 1, 1_000_000) for n in items)
        if len(count) > 1 and place is not SensorPlacement.GRID:
            raise reader.fail(found["count"].place, f"{path}: counts per axis need 'place: grid'")
    return SensorSpec(count, place)


def read_save(reader: Reader, node: Node) -> dict[str, int]:
    """Points per axis of references and evaluations."""
    found = {}
    for key, value, _ in reader.mapping(node, "save"):
        count = reader.attempt(reader.integer, value, f"save.{key}", 2, 100_000)
        if count is not None:
            found[key] = count
    return found


def read_units(reader: Reader, node: Node) -> dict[str, str]:
    """Labels."""
    return {k: t.text for k, t in read_texts(reader, node, "units").items()}


def read_solve(reader: Reader, node: Node) -> dict[str, Setting]:
    """The recipe known to work; its keys are those of ``piop solve --set``, which checks them."""
    return {k: _setting(reader, v, f"solve.{k}") for k, v, _ in reader.mapping(node, "solve")}


def _setting(reader: Reader, node: Node, path: str) -> Setting:
    if isinstance(node, SequenceNode):
        return tuple(_setting(reader, n, path) for n in node.items)
    scalar = reader.text(node, path)
    if scalar.boolean is not None:
        return scalar.boolean
    if not is_number(scalar):
        return scalar.text
    value = reader.number(scalar, path)
    return int(scalar.text) if scalar.text.lstrip("+-").isdigit() else value


def read_learn(reader: Reader, node: Node) -> LearnSpec:
    """``{from: u, to: a, noise: [0, 0.01]}``: the inverse operator."""
    found = reader.keys(node, "learn", ("from", "to", "noise"))
    names: dict[str, Any] = {}
    for key in ("from", "to"):
        if key not in found:
            raise reader.fail(node.place, f"learn: '{key}' is missing")
        value = found[key]
        items = (value,) if isinstance(value, ScalarNode) else reader.items(value, f"learn.{key}")
        names[key] = tuple(reader.text(n, f"learn.{key}").text for n in items)
    noise: tuple[float, ...] = ()
    if "noise" in found:
        value = found["noise"]
        items = (value,) if isinstance(value, ScalarNode) else reader.items(value, "learn.noise")
        noise = tuple(reader.number(n, "learn.noise") for n in items)
        if any(n < 0 for n in noise):
            raise reader.fail(value.place, "learn.noise: a noise level is not negative")
    return LearnSpec(names["from"], names["to"], noise)

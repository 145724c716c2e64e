"""A spec as YAML, and the hash of what it means."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping as Dict
from dataclasses import fields, is_dataclass
from typing import Any

from piop.errors import Issue
from piop.expression import write
from piop.spec import distributions
from piop.spec.distributions import NAMES
from piop.spec.model import AuxiliarySpec, ConditionSpec, InputSpec, LearnSpec, SensorSpec, Spec
from piop.spec.read_domain import alternatives, chooser
from piop.spec.reader import raise_issues
from piop.spec.resolve import Resolved, resolve
from piop.spec.sections import NONE_KNOWN, SECTIONS
from piop.spec.tree import MappingNode, Node, ScalarNode, SequenceNode

_NAMES: dict[type, str] = dict(NAMES)


def canonical_hash(spec: Spec) -> str:
    """SHA-256 of what a spec means, as 64 hexadecimal digits.

    Spelling does not enter: the order of keys and terms, ``1e-3`` or ``0.001``, ``dxx(u)`` or
    ``d(u, x, 2)``, constant parameters and definitions or the same written out. Labels (name,
    title, source, units) and the recipe (solve) do not enter either.

    Raises:
        SpecError: If a formula of the spec cannot be read.
    """
    issues: list[Issue] = []
    resolved = resolve(spec, issues)
    raise_issues(issues)
    return hash_of(spec, resolved)


def hash_of(spec: Spec, resolved: Resolved) -> str:
    """The hash, given the formulas."""
    text = json.dumps(_meaning(spec, resolved), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _meaning(spec: Spec, resolved: Resolved) -> dict[str, Any]:
    infer = [t.text for t in spec.infer]
    drawn = {
        k: _canonical(v) for k, v in spec.parameters.items() if k not in resolved.names.constants
    }
    return {
        "format": 1,
        "coordinates": [
            [n, *map(repr, resolved.names.bounds[n])] for n in (*spec.time, *spec.space)
        ],
        "time": list(spec.time),
        "laws": drawn,
        "unknowns": [u.text for u in spec.unknowns],
        "inputs": {k: _input_meaning(k, v, resolved) for k, v in spec.inputs.items()},
        "equations": [write(e.left - e.right) for e in resolved.equations],
        "auxiliary": {
            k: [write(e.left - e.right), repr(resolved.means.get(k))]
            for k, e in resolved.auxiliary.items()
        },
        "gauge": {k: repr(v) for k, v in resolved.gauge.items()},
        "initial": {f"{k},{n}": write(e) for (k, n), (e, _) in resolved.initial.items()},
        "boundary": {
            face: sorted([c.keyword, c.unknown, *map(write, c.values)] for c in conditions)
            for face, conditions in resolved.boundary.items()
        },
        "domain": _domain(spec.domain),
        "sensors": {k: _canonical(v) for k, v in spec.sensors.items()},
        "save": dict(spec.save),
        "infer": {k: repr(resolved.names.constants.get(k)) for k in infer},
        "learn": _canonical(spec.learn),
    }


def _input_meaning(name: str, item: Any, resolved: Resolved) -> Any:
    expression = write(resolved.inputs[name]) if name in resolved.inputs else None
    return [
        [t.text for t in item.of],
        _canonical(item.distribution),
        expression,
        item.hidden,
        item.smooth,
    ]


def _canonical(value: Any) -> Any:
    """Configurations as JSON; numbers by ``repr`` of the double they are."""
    if isinstance(value, (str, bool)) or value is None:
        return value
    if is_dataclass(value):
        named = {f.name: getattr(value, f.name) for f in fields(value) if f.compare}
        parts = {
            k: _canonical(v) for k, v in named.items() if v != ()
        }  # a list left empty says nothing
        return {"": _NAMES.get(type(value), type(value).__name__), **parts}
    if isinstance(value, (int, float)):
        return repr(float(value))
    if hasattr(value, "items"):
        return {k: _canonical(v) for k, v in value.items()}
    return [_canonical(v) for v in value]


def _domain(node: Node | None) -> Any:
    """The shape, or those to choose from in their order, by which they are chosen."""
    if node is None:
        return None
    by = chooser(node)
    shapes = [_tree(shape) for shape in alternatives(node).values()]
    return shapes[0] if by is None else {"choose": by.text, "of": shapes}


def _tree(node: Node) -> Any:
    if isinstance(node, MappingNode):
        return {k.text: _tree(v) for k, v in node.items}
    if isinstance(node, SequenceNode):
        return [_tree(v) for v in node.items]
    return node.text


_SAFE = re.compile(r"[A-Za-z][A-Za-z0-9_.]*\Z")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\Z")
_AMBIGUOUS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n", "inf", "nan"}


def spec_to_yaml(spec: Spec) -> str:
    """YAML text with the keys in the order of the documentation."""
    lines = ["piop: 1"]
    for key in [*SECTIONS][1:]:
        value = _section(spec, key)
        if value is None:
            continue
        if key == "equations" and value != NONE_KNOWN:
            lines += [f"{key}:", *(f"  - {_flow(v)}" for v in value)]
        elif isinstance(value, dict):
            lines += [f"{key}:", *(f"  {_word(k)}: {_flow(v)}" for k, v in value.items())]
        else:
            lines.append(f"{key}: {_flow(value)}")
    return "\n".join(lines) + "\n"


def _section(spec: Spec, key: str) -> Any:
    value = getattr(spec, key)
    if key == "equations" and not value:
        return NONE_KNOWN
    if value is None or (
        not isinstance(value, (ScalarNode, MappingNode, SequenceNode)) and not value
    ):
        return None
    if key == "gauge":
        return {name: {"mean": mean} for name, mean in spec.gauge.items()}
    return _plain(value)


def _plain(value: Any) -> Any:
    """Configurations as dicts and lists of texts and numbers."""
    match value:
        case ScalarNode():
            return value
        case MappingNode():
            return {k.text: _plain(v) for k, v in value.items}
        case SequenceNode():
            return [_plain(v) for v in value.items]
        case InputSpec():
            return _input(value)
        case ConditionSpec():
            return value.kind.words(value.unknown, value.values)
        case AuxiliarySpec():
            return _drop_empty({"equation": value.equation, "mean": value.mean})
        case SensorSpec():
            count = value.count
            short = count[0] if count and len(count) == 1 else _plain(count)
            return _drop_empty({"count": short, "place": value.place})
        case LearnSpec():
            noise = list(value.noise) or None
            return _drop_empty(
                {"from": list(value.source), "to": list(value.target), "noise": noise}
            )
        case Dict():
            return {k: _plain(v) for k, v in value.items()}
        case tuple() | list():
            return [_plain(v) for v in value]
    return _distribution(value) if type(value) in distributions.NAMES else value


def _drop_empty(found: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in found.items() if v is not None}


def _distribution(distribution: Any) -> dict[str, Any]:
    result: dict[str, Any] = {"law": distributions.NAMES[type(distribution)]}
    for item in fields(distribution):
        value = getattr(distribution, item.name)
        empty = value is None or (isinstance(value, Dict) and not value)
        if item.compare and not empty and value != item.default:
            result[item.name] = (
                _matern(value) if isinstance(value, distributions.Matern) else _plain(value)
            )
    return result


def _matern(value: distributions.Matern) -> dict[str, float]:
    return {f.name: getattr(value, f.name) for f in fields(value)}


def _input(item: InputSpec) -> dict[str, Any]:
    result: dict[str, Any] = {"of": list(item.of)} if item.of else {}
    if item.distribution is not None:
        result |= _distribution(item.distribution)
    if item.expression is not None:
        result["expression"] = item.expression
    if item.hidden:
        result["hidden"] = True
    if item.smooth is not None:
        result["smooth"] = item.smooth
    return result


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_word(k)}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, ScalarNode):
        plain = not value.quoted and (_NUMBER.match(value.text) or value.boolean is not None)
        return value.text if plain else _word(value.text)
    return _word(str(value))


def _word(text: str) -> str:
    """A text as YAML, quoted unless it is a plain word."""
    if _SAFE.match(text) and text.lower() not in _AMBIGUOUS:
        return text
    escaped = (
        text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    )
    return f'"{escaped}"'

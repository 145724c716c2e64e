"""A `Spec` to YAML that reads back as the same spec."""

from __future__ import annotations

import re
from collections.abc import Mapping as Dict
from dataclasses import fields
from typing import Any

from piop.spec import distributions as laws
from piop.spec.model import AuxiliarySpec, ConditionSpec, InputSpec, LearnSpec, SensorSpec, Spec
from piop.spec.parse import KEYS
from piop.spec.sections import NONE_KNOWN
from piop.spec.tree import MappingNode, ScalarNode, SequenceNode

_SAFE = re.compile(r"[A-Za-z][A-Za-z0-9_.]*\Z")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\Z")
_AMBIGUOUS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n", "inf", "nan"}


def spec_to_yaml(spec: Spec) -> str:
    """YAML text with the keys in the order of the documentation."""
    lines = ["piop: 1"]
    for key in KEYS[1:]:
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
    return _law(value) if type(value) in laws.NAMES else value


def _drop_empty(found: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in found.items() if v is not None}


def _law(law: Any) -> dict[str, Any]:
    result: dict[str, Any] = {"law": laws.NAMES[type(law)]}
    for item in fields(law):
        value = getattr(law, item.name)
        empty = value is None or (isinstance(value, Dict) and not value)
        if item.compare and not empty and value != item.default:
            result[item.name] = _matern(value) if isinstance(value, laws.Matern) else _plain(value)
    return result


def _matern(value: laws.Matern) -> dict[str, float]:
    return {f.name: getattr(value, f.name) for f in fields(value)}


def _input(item: InputSpec) -> dict[str, Any]:
    result: dict[str, Any] = {"of": list(item.of)} if item.of else {}
    if item.law is not None:
        result |= _law(item.law)
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
        plain = not value.quoted and (_NUMBER.match(value.text) or value.text in ("true", "false"))
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

"""A spec as YAML, and the hash of what it means."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping as Dict
from dataclasses import fields, is_dataclass
from operator import attrgetter
from typing import Any

from piop.expression import write
from piop.spec.distributions import NAMES, Distribution, Matern
from piop.spec.formulas import Resolved
from piop.spec.model import AuxiliarySpec, ConditionSpec, InputSpec, LearnSpec, SensorSpec, Spec
from piop.spec.read_domain import alternatives, chooser
from piop.spec.reader import is_number
from piop.spec.sections import NONE_KNOWN, SECTIONS
from piop.spec.tree import MappingNode, Node, ScalarNode, SequenceNode


def hash_of(spec: Spec, resolved: Resolved) -> str:
    """SHA-256 of what a spec and its formulas mean, as 64 hexadecimal digits.

    Spelling does not enter: the order of keys and terms, ``1e-3`` or ``0.001``, ``dxx(u)`` or
    ``d(u, x, 2)``, constant parameters and definitions or the same written out. Labels (name,
    title, source, units) and the recipe (solve) do not enter either.
    """
    meaning = _meaning(spec, resolved)
    text = json.dumps(meaning, sort_keys=True, separators=(",", ":"), default=attrgetter("text"))
    return hashlib.sha256(text.encode()).hexdigest()


def _meaning(spec: Spec, resolved: Resolved) -> dict[str, Any]:
    names, expressions = resolved.names, resolved.inputs
    return {
        "format": 1,
        "coordinates": [[n, *map(repr, names.bounds[n])] for n in (*spec.time, *spec.space)],
        "time": list(spec.time),
        "laws": {k: _canonical(v) for k, v in spec.parameters.items() if k not in names.constants},
        "unknowns": [u.text for u in spec.unknowns],
        "inputs": {
            k: [
                [t.text for t in v.of],
                _canonical(v.distribution),
                write(expressions[k]) if k in expressions else None,
                v.hidden,
                v.smooth,
            ]
            for k, v in spec.inputs.items()
        },
        "equations": [write(e.residual) for e in resolved.equations],
        "auxiliary": {
            k: [write(e.residual), repr(resolved.means.get(k))]
            for k, e in resolved.auxiliary.items()
        },
        "gauge": {k: repr(v) for k, v in resolved.gauge.items()},
        "initial": {f"{k},{n}": write(e) for (k, n), (e, _) in resolved.initial.items()},
        "boundary": {
            face: sorted([c.keyword, c.unknown, *map(write, c.values)] for c in conditions)
            for face, conditions in resolved.boundary.items()
        },
        "domain": _domain(spec.domain, names.constants),
        "sensors": {k: _canonical(v) for k, v in spec.sensors.items()},
        "save": dict(spec.save),
        "infer": {t.text: repr(names.constants.get(t.text)) for t in spec.infer},
        "learn": _canonical(spec.learn),
    }


def _canonical(value: Any) -> Any:
    """Configurations as JSON; numbers by ``repr`` of the double they are."""
    if isinstance(value, (str, bool)) or value is None:
        return value
    if is_dataclass(value):
        named = {f.name: getattr(value, f.name) for f in fields(value) if f.compare}
        parts = {k: _canonical(v) for k, v in named.items() if v != ()}  # nothing in a list: no key
        return {"": NAMES.get(type(value), type(value).__name__), **parts}
    if isinstance(value, (int, float)):
        return repr(float(value))
    if hasattr(value, "items"):
        return {k: _canonical(v) for k, v in value.items()}
    return [_canonical(v) for v in value]


def _domain(node: Node | None, constants: Dict[str, float]) -> Any:
    """The shape, or those to choose from in their order, by which they are chosen.

    With the parameters that are named in it, where there are any.
    """
    if node is None:
        return None
    by = chooser(node)
    shapes = [plain(shape) for shape in alternatives(node).values()]
    found = shapes[0] if by is None else {"choose": by.text, "of": shapes}
    words = {*re.findall(r"[A-Za-z_]\w*", json.dumps(found, default=attrgetter("text")))}
    named = {name: repr(constants[name]) for name in sorted(words & constants.keys())}
    return {"shape": found, "parameters": named} if named else found


_SAFE = re.compile(r"[A-Za-z][A-Za-z0-9_.]*\Z")
_AMBIGUOUS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n", "inf", "nan"}


def spec_to_yaml(spec: Spec) -> str:
    """YAML text with the keys in the order of the documentation."""
    lines = ["piop: 1"]
    for key in [*SECTIONS][1:]:
        value = plain(getattr(spec, key))
        if key == "gauge":
            value = {name: {"mean": mean} for name, mean in value.items()}
        elif key == "equations":
            value = value or NONE_KNOWN
        if not value:
            continue
        if key == "equations" and value != NONE_KNOWN:
            lines += [f"{key}:", *(f"  - {flow(v)}" for v in value)]
        elif isinstance(value, dict):
            lines += [f"{key}:", *(f"  {_word(k)}: {flow(v)}" for k, v in value.items())]
        else:
            lines.append(f"{key}: {flow(value)}")
    return "\n".join(lines) + "\n"


def plain(value: Any) -> Any:
    """Configurations as dicts and lists of texts and numbers."""
    match value:
        case MappingNode():
            return {k.text: plain(v) for k, v in value.items}
        case SequenceNode():
            return [plain(v) for v in value.items]
        case InputSpec():
            return _drop_empty(
                {
                    "of": list(value.of) or None,
                    **(plain(value.distribution) if value.distribution is not None else {}),
                    "expression": value.expression,
                    "hidden": value.hidden or None,
                    "smooth": value.smooth,
                }
            )
        case Distribution():
            own = [(getattr(value, f.name), f) for f in fields(value) if f.compare]
            given = {f.name: plain(v) for v, f in own if v not in (None, {}, f.default)}
            return {"law": NAMES[type(value)], **given}
        case ConditionSpec():
            return value.kind.words(value.unknown, value.values)
        case AuxiliarySpec() | Matern():
            return _drop_empty(vars(value))
        case SensorSpec():
            count = value.count
            short = count[0] if count and len(count) == 1 else plain(count)
            return _drop_empty({"count": short, "place": value.place})
        case LearnSpec():
            noise = [*value.noise] or None
            return _drop_empty({"from": [*value.source], "to": [*value.target], "noise": noise})
        case Dict():
            return {k: plain(v) for k, v in value.items()}
        case tuple() | list():
            return [plain(v) for v in value]
    return value


def _drop_empty(found: Dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in found.items() if v is not None}


def flow(value: Any) -> str:
    """Write a value as YAML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_word(k)}: {flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, ScalarNode):
        plain = is_number(value) or value.boolean is not None
        return value.text if plain else _word(value.text)
    return _word(str(value))


def _word(text: str) -> str:
    """A text as YAML, quoted unless it is a plain word."""
    if _SAFE.match(text) and text.lower() not in _AMBIGUOUS:
        return text
    return json.dumps(text, ensure_ascii=False)

"""One hash per problem, however it is written."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from typing import Any

from piop.errors import Issue
from piop.expression import write
from piop.spec.distributions import NAMES
from piop.spec.model import Spec
from piop.spec.read_domain import alternatives, chooser
from piop.spec.reader import raise_issues
from piop.spec.resolve import Resolved, resolve
from piop.spec.tree import MappingNode, Node, SequenceNode

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
    laws = {k: _plain(v) for k, v in spec.parameters.items() if k not in resolved.names.constants}
    return {
        "format": 1,
        "coordinates": [
            [n, *map(repr, resolved.names.bounds[n])] for n in (*spec.time, *spec.space)
        ],
        "time": list(spec.time),
        "laws": laws,
        "unknowns": [u.text for u in spec.unknowns],
        "inputs": {k: _input(k, v, resolved) for k, v in spec.inputs.items()},
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
        "sensors": {k: _plain(v) for k, v in spec.sensors.items()},
        "save": dict(spec.save),
        "infer": {k: repr(resolved.names.constants.get(k)) for k in infer},
        "learn": _plain(spec.learn),
    }


def _input(name: str, item: Any, resolved: Resolved) -> Any:
    expression = write(resolved.inputs[name]) if name in resolved.inputs else None
    return [[t.text for t in item.of], _plain(item.law), expression, item.hidden, item.smooth]


def _plain(value: Any) -> Any:
    """Configurations as JSON; numbers by ``repr`` of the double they are."""
    if isinstance(value, (str, bool)) or value is None:
        return value
    if is_dataclass(value):
        named = {f.name: getattr(value, f.name) for f in fields(value) if f.compare}
        parts = {
            k: _plain(v) for k, v in named.items() if v != ()
        }  # a list left empty says nothing
        return {"": _NAMES.get(type(value), type(value).__name__), **parts}
    if isinstance(value, (int, float)):
        return repr(float(value))
    if hasattr(value, "items"):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value]


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

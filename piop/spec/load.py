"""Specs from files, text and Python objects, with every issue and its place."""

from __future__ import annotations

import difflib
import stat
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from piop.errors import Issue, SpecError
from piop.spec.builtin import builtin_names as builtin_names
from piop.spec.builtin import find_builtin as find_builtin
from piop.spec.check_units import check_units
from piop.spec.formulas import Resolved, resolve
from piop.spec.model import Spec
from piop.spec.reader import Bad, Reader, raise_issues
from piop.spec.sections import COUNTED, MAX_ENTRIES, SECTIONS
from piop.spec.tree import MAX_SIZE, Node, entries, read_yaml

_DECLARING = ("time", "space", "parameters", "inputs", "definitions", "auxiliary")
REQUIRED = ("equations", "name", "unknowns")


def _lost(tree: Node, values: dict[str, Any]) -> frozenset[str]:
    """Names that are written as keys of a declaring section but could not be read."""
    lost = set()
    for key, node in entries(tree):
        if key.text in _DECLARING or key.text not in SECTIONS:
            kept = values.get(key.text, {})
            lost |= {name.text for name, _ in entries(node)} - {*kept}
    return frozenset(lost)


class Draft(NamedTuple):
    """A spec, its formulas, and what is wrong with it so far."""

    spec: Spec
    resolved: Resolved
    issues: list[Issue]


def draft_file(path: str | Path, units: bool = True) -> Draft:
    """Read a file as far as it can be read, with the issues in the draft.

    Args:
        path: The file.
        units: Whether to check its units.

    Raises:
        SpecError: If the file cannot be read, or nothing useful can be said of it.
    """
    path = Path(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe or a device might never end
            raise SpecError(Issue("is not a regular file, and a spec is one", str(path)))
        with path.open("rb") as stream:
            data = stream.read(4 * MAX_SIZE + 1)
    except OSError as error:
        raise SpecError(Issue(f"cannot be read: {error.strerror}", str(path))) from None
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise SpecError(Issue("this is not UTF-8 text", str(path), line, column)) from None
    return draft_tree(read_yaml(text, str(path)), path.parent, units)


def draft_spec(spec: Spec) -> Draft:
    """Resolve the formulas of a spec that is there already, as one with other parameters."""
    issues: list[Issue] = []
    return Draft(spec, resolve(spec, issues), issues)


def draft_tree(tree: Node, folder: Path | None, units: bool = True) -> Draft:
    """Understand the words of a spec, and its formulas.

    Args:
        tree: From YAML or Python objects.
        folder: Folder that paths in the spec must lie in; None allows any path.
        units: Whether to check its units.

    Raises:
        SpecError: If nothing useful can be said of it.
    """
    issues: list[Issue] = []
    reader = Reader(issues, folder)
    try:
        found = reader.keys(tree, "", SECTIONS)
    except Bad:
        raise SpecError(tuple(issues)) from None
    unknown = [k.text for k, _ in entries(tree) if k.text not in SECTIONS]
    failed = {n for key in unknown for n in difflib.get_close_matches(key, [*SECTIONS], 1, 0.5)}
    values: dict[str, Any] = {}
    for key in dict.fromkeys(("parameters", *SECTIONS)):  # constants first
        before = len(issues)
        if key in found:
            with suppress(Bad):
                count = len(getattr(found[key], "items", ()))
                if key in COUNTED and count > MAX_ENTRIES:
                    message = f"{key}: {count} of them; at most {MAX_ENTRIES} are possible"
                    raise reader.fail(found[key].place, message)
                value = SECTIONS[key](reader, found[key], key)
                values[key] = MappingProxyType(value) if isinstance(value, dict) else value
        if len(issues) > before:
            failed.add(key)
        reader.dimensions = len(values.get("space", ()))
    if ordinary := "time" in found and not {"space"} & (found.keys() | failed):
        for key in [key for key in ("boundary", "domain") if key in found]:
            hint = "Give 'space', or leave it out for ordinary differential equations."
            failed.add(key)
            reader.fail(reader.places[key], f"{key}: there is none without 'space'", hint)
    required = {*REQUIRED} if ordinary else {*REQUIRED, "space"}
    for key in sorted(required - found.keys() - failed):
        hint = "Ordinary differential equations have 'time' alone." * (key == "space")
        reader.fail(tree.place, f"'{key}' is missing", hint)
    # Without coordinates every derivative and every axis would be refused, too.
    unread = failed & {"time", "space"} or not values.keys() >= required
    if unread or (failed & {"boundary", "domain"} and ordinary):
        raise_issues(issues)
    values.pop("piop", None)
    spec = Spec(**values, places=MappingProxyType(reader.places))
    broken = _lost(tree, values) | reader.constants.broken
    resolved = resolve(spec, issues, broken, frozenset(failed))
    if units and not issues:
        check_units(spec, resolved, issues)
    return Draft(spec, resolved, issues)

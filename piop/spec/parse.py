"""A tree to a `Spec`: every key is understood or refused, and all issues are kept."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

from piop.errors import Issue, Place
from piop.spec import sections
from piop.spec.model import Spec
from piop.spec.read_boundary import read_boundary
from piop.spec.read_domain import read_domain
from piop.spec.reader import Bad, Reader
from piop.spec.tree import Node

_DECLARING = ("time", "space", "parameters", "inputs", "definitions", "auxiliary")
FORMAT = 1
REQUIRED = frozenset({"name", "space", "unknowns", "equations"})
KEYS = (
    "piop", "name", "title", "source", "time", "space", "parameters", "unknowns", "inputs",
    "definitions", "equations", "auxiliary", "gauge", "initial", "boundary", "domain", "sensors",
    "save", "units", "solve", "infer", "learn",
)  # fmt: skip


def read_spec(
    tree: Node, issues: list[Issue], folder: Path | None
) -> tuple[Spec, frozenset[str], frozenset[str]] | None:
    """Understand the words of a spec.

    Args:
        tree: From YAML or Python objects.
        issues: Takes what is wrong.
        folder: Folder that paths in the spec must lie in; None allows any path.

    Returns:
        The spec, the names whose declaration was refused, and the sections with an issue; None
        where nothing useful can be said of it.
    """
    reader = Reader(issues)
    found = reader.attempt(reader.keys, tree, "", KEYS)
    if found is None:
        return None
    unknown = [k.text for k, _ in getattr(tree, "items", ()) if k.text not in KEYS]
    meant = {near for key in unknown for near in difflib.get_close_matches(key, KEYS, 1, 0.5)}
    sections_ = _Sections(reader, found, folder, tree.place, meant)
    values = sections_.read()
    if not values.keys() >= REQUIRED:
        return None
    values["places"] = MappingProxyType(reader.places)
    broken = _lost(tree, values) | reader.constants.broken
    return Spec(**values), broken, frozenset(sections_.failed)


class _Sections:
    """Calls the reader of each section that is written, in an order that has constants first."""

    def __init__(
        self,
        reader: Reader,
        found: dict[str, Node],
        folder: Path | None,
        place: Place,
        misspelt: set[str],
    ) -> None:
        self.reader, self.found, self.folder, self.place = reader, found, folder, place
        self.values: dict[str, Any] = {}
        self.failed = misspelt

    def read(self) -> dict[str, Any]:
        self._version()
        folder = self.folder
        for key in ("name", "title", "source"):
            self._section(key, lambda r, n, key=key: r.text(n, key).text)
        self._section("parameters", lambda r, n: sections.read_parameters(r, n, folder))
        self._section("time", lambda r, n: sections.read_coordinates(r, n, "time", 1))
        self._section("space", lambda r, n: sections.read_coordinates(r, n, "space", 3))
        self._section("inputs", lambda r, n: sections.read_inputs(r, n, folder))
        for key in ("unknowns", "infer"):
            self._section(key, lambda r, n, key=key: sections.read_list(r, n, key))
        self._section("equations", sections.read_equations)
        for key in ("definitions", "initial"):
            self._section(key, lambda r, n, key=key: sections.read_texts(r, n, key))
        for key, read in _PLAIN.items():
            self._section(key, read)
        dimensions = len(self.values.get("space", ()))
        self._section("domain", lambda r, n: read_domain(r, n, dimensions))
        for key in sorted(REQUIRED):
            if key not in self.found and key not in self.failed:
                self.reader.fail(self.place, f"'{key}' is missing")
        return self.values

    def _section(self, key: str, read: Callable[[Reader, Node], Any]) -> None:
        if key not in self.found:
            return
        before = len(self.reader.issues)
        try:
            value = read(self.reader, self.found[key])
        except Bad:
            return
        finally:
            if len(self.reader.issues) > before:
                self.failed.add(key)
        self.values[key] = MappingProxyType(value) if isinstance(value, dict) else value

    def _version(self) -> None:
        if "piop" not in self.found:
            return
        version = self.reader.attempt(self.reader.integer, self.found["piop"], "piop", 1)
        if version not in (None, FORMAT):
            place = self.found["piop"].place
            self.reader.fail(
                place, f"piop: format {version} is newer than this version reads ({FORMAT})"
            )


_PLAIN: dict[str, Callable[[Reader, Node], Any]] = {
    "auxiliary": sections.read_auxiliary,
    "gauge": sections.read_gauge,
    "boundary": read_boundary,
    "sensors": sections.read_sensors,
    "save": sections.read_save,
    "units": sections.read_units,
    "solve": sections.read_solve,
    "learn": sections.read_learn,
}


def _lost(tree: Node, values: dict[str, Any]) -> frozenset[str]:
    """Names that are written as keys of a declaring section but could not be read."""
    lost = set()
    for key, node in getattr(tree, "items", ()):
        if key.text in _DECLARING or key.text not in KEYS:
            kept = values.get(key.text, {})
            names = [n[0].text for n in getattr(node, "items", ()) if isinstance(n, tuple)]
            lost |= {name for name in names if name not in kept}
    return frozenset(lost)

"""Specs from files, text and Python objects, with every issue and its place."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from piop.errors import Issue, Place, SpecError
from piop.spec import sections
from piop.spec.model import Spec
from piop.spec.read_domain import read_boundary, read_domain
from piop.spec.reader import Bad, Reader, raise_issues
from piop.spec.resolve import Resolved, resolve
from piop.spec.tree import MAX_SIZE, Node, entries, read_objects, read_yaml

_PACKAGE = Path(__file__).resolve().parent.parent


def _folder() -> Path:
    """``pdes/`` inside an installed package, or beside it in a checkout."""
    inside = _PACKAGE / "pdes"
    return inside if inside.is_dir() else _PACKAGE.parent / "pdes"


def builtin_names() -> tuple[str, ...]:
    """Names such as ``burgers``."""
    return tuple(sorted(p.stem for p in _folder().glob("*.yaml")))


def find_builtin(name: str | Path) -> Path | None:
    """The file of a built-in problem; None if the name is a path or unknown."""
    text = str(name)
    if "/" in text or "\\" in text or "." in text or text not in builtin_names():
        return None
    return _folder() / f"{text}.yaml"


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
    unknown = [k.text for k, _ in entries(tree) if k.text not in KEYS]
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
    for key, node in entries(tree):
        if key.text in _DECLARING or key.text not in KEYS:
            kept = values.get(key.text, {})
            names = {k.text for k, _ in entries(node)}
            lost |= names - set(kept)
    return frozenset(lost)


class Draft(NamedTuple):
    """A spec, its formulas, and what is wrong with it so far."""

    spec: Spec
    resolved: Resolved
    issues: list[Issue]


def load_spec(path: str | Path) -> Spec:
    """Read a spec from a file; paths in it must stay inside its folder.

    Raises:
        SpecError: With every issue, if it cannot be used; also if it cannot be read.
    """
    return _only_spec(draft_file(path))


def parse_spec(text: str, file: str = "<text>", folder: Path | None = None) -> Spec:
    """Read a spec from YAML text.

    Args:
        text: YAML.
        file: Its name, for messages.
        folder: Folder that paths in it must stay inside; None means the current one.

    Raises:
        SpecError: With every issue.
    """
    return _only_spec(draft_text(text, file, folder))


def draft_file(path: str | Path) -> Draft:
    """Read a file as far as it can be read, with the issues in the draft.

    Raises:
        SpecError: If the file cannot be read, or nothing useful can be said of it.
    """
    path = Path(path)
    try:
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
    return draft_text(text, str(path), path.parent)


def draft_text(text: str, file: str, folder: Path | None) -> Draft:
    """The same for YAML text."""
    return _draft(read_yaml(text, file), folder or Path())


def draft_spec(spec: Spec) -> Draft:
    """Resolve the formulas of a spec that is there already, as one with other parameters."""
    issues: list[Issue] = []
    return Draft(spec, resolve(spec, issues), issues)


def draft_words(words: Mapping[str, Any]) -> Draft:
    """The same for the words of ``piop.Problem(...)``, in which any path may be given."""
    return _draft(read_objects(words), None)


def _draft(tree: Node, folder: Path | None) -> Draft:
    issues: list[Issue] = []
    found = read_spec(tree, issues, folder)
    if found is None:
        raise_issues(issues)
        raise AssertionError("a spec without issues is complete")
    spec, broken, failed = found
    return Draft(spec, resolve(spec, issues, broken, failed), issues)


def _only_spec(draft: Draft) -> Spec:
    raise_issues(draft.issues)
    return draft.spec

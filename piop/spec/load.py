"""From a file, a text or Python words to a checked `Spec`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from piop.errors import Issue, SpecError
from piop.spec.model import Spec
from piop.spec.parse import read_spec
from piop.spec.reader import raise_issues
from piop.spec.resolve import Resolved, resolve
from piop.spec.tree import Node, read_objects
from piop.spec.yaml import MAX_SIZE, read_yaml


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

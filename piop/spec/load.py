"""From a file, a text or Python words to a checked `Spec`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from piop.errors import Issue, SpecError
from piop.spec.model import Spec
from piop.spec.objects import read_objects
from piop.spec.parse import read_spec
from piop.spec.reader import raise_issues
from piop.spec.resolve import Resolved, resolve
from piop.spec.tree import Node
from piop.spec.yaml import MAX_SIZE, read_yaml


def load_spec(path: str | Path) -> Spec:
    """Read a spec from a file; paths in it must stay inside its folder.

    Raises:
        SpecError: With every issue, if it cannot be used; also if it cannot be read.
    """
    return resolve_file(path)[0]


def parse_spec(text: str, file: str = "<text>", folder: Path | None = None) -> Spec:
    """Read a spec from YAML text.

    Args:
        text: YAML.
        file: Its name, for messages.
        folder: Folder that paths in it must stay inside; None means the current one.

    Raises:
        SpecError: With every issue.
    """
    return resolve_text(text, file, folder)[0]


def resolve_file(path: str | Path) -> tuple[Spec, Resolved]:
    """`load_spec`, with the formulas."""
    path = Path(path)
    try:
        with path.open("rb") as stream:
            data = stream.read(4 * MAX_SIZE + 1)
        text = data.decode()
    except OSError as error:
        raise SpecError(Issue(f"cannot be read: {error.strerror}", str(path))) from None
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        raise SpecError(Issue("this is not UTF-8 text", str(path), line, column)) from None
    return resolve_text(text, str(path), path.parent)


def resolve_text(text: str, file: str, folder: Path | None) -> tuple[Spec, Resolved]:
    """`parse_spec`, with the formulas."""
    return _resolve(read_yaml(text, file), folder or Path())


def resolve_words(words: Mapping[str, Any]) -> tuple[Spec, Resolved]:
    """The words of ``piop.Problem(...)`` to a spec and its formulas; any path may be given."""
    return _resolve(read_objects(words), None)


def _resolve(tree: Node, folder: Path | None) -> tuple[Spec, Resolved]:
    issues: list[Issue] = []
    spec, broken = read_spec(tree, issues, folder)
    if spec is None:
        raise_issues(issues)
        raise AssertionError("a spec without issues is complete")
    resolved = resolve(spec, issues, broken)
    raise_issues(issues)
    return spec, resolved

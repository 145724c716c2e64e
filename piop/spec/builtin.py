"""The problems that come with piop, by name."""

from __future__ import annotations

from pathlib import Path

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
    return _folder() / f"{name}.yaml" if str(name) in builtin_names() else None

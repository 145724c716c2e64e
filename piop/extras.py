"""Optional dependencies: packages that an extra of piop installs, imported where they are used."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from piop.errors import UsageError


def require_extra(extra: str, packages: Sequence[str], use: str) -> None:
    """Make sure that the packages of an extra are installed, without importing them.

    Args:
        extra: Its name in ``pyproject.toml``.
        packages: The packages needed.
        use: What needs them, as a message begins.

    Raises:
        UsageError: Naming those that are missing, and the command that installs them.
    """
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"{use} needs {', '.join(missing)}; install the extra: pip install 'piop[{extra}]'"
        )

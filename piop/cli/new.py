"""``piop new``: a commented spec to start from."""

from __future__ import annotations

import re
from pathlib import Path

import click

from piop.cli.console import debugging
from piop.cli.template import TEMPLATE
from piop.errors import PiopError, UsageError


@click.command()
@click.argument("name")
@debugging
def new(name: str) -> None:
    """Write NAME.yaml, a commented spec to start from.

    What is there is never overwritten.
    """
    path = Path(name) if name.endswith((".yaml", ".yml")) else Path(f"{name}.yaml")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", path.stem):
        allowed = "letters, digits and underscores, a letter first"
        raise UsageError(f"'{path.stem}' cannot name a problem; allowed: {allowed}")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(TEMPLATE.replace("NAME", path.stem))
    except FileExistsError:
        raise UsageError(f"{path} exists already and is not overwritten; choose a name") from None
    except OSError as error:
        if not path.parent.is_dir():
            raise UsageError(f"{path}: there is no folder {path.parent}") from None
        path.unlink(missing_ok=True)
        raise PiopError(f"{path}: cannot be written: {error.strerror}") from None
    print(f"Wrote {path}. Next:\n  piop check {path}\n  piop solve {path} --time 2m")

"""The names that shells complete, ``piop/cli/names.json``: ``python docs/list_names.py``."""

from __future__ import annotations

from piop.cli.completion import NAMES
from piop.cli.name_table import as_text

if __name__ == "__main__":
    NAMES.write_text(as_text(), encoding="utf-8")

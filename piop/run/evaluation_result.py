"""The result of an evaluation: a dict, which a notebook shows as a table."""

from __future__ import annotations

from typing import Any, final

from piop.evaluation_text import error_rows, error_title, other_lines
from piop.notebook_html import table_html, text_html


@final
class Evaluation(dict[str, Any]):
    """The content of ``evaluation.json``, a dict in every respect.

    Example:
        >>> error = {"mean": 0.02, "std": 0.01, "per_sample": [0.01, 0.03]}
        >>> Evaluation({"relative_l2": error, "samples": 2})["relative_l2"]["mean"]
        0.02
    """

    def _repr_html_(self) -> str:
        """Return the table of errors, as notebooks show it."""
        rows = error_rows(self)
        head = [f"<b>{text_html(error_title(self))}</b>", table_html(rows)] if rows else []
        lines = [text_html(line) for line in other_lines(self)]
        return "\n".join([*head, f"<div>{'<br>'.join(lines)}</div>"])

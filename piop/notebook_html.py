"""HTML that notebooks show. What it holds comes from specs and files, and is escaped."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from html import escape


def text_html(text: str) -> str:
    """Escape text, so that it is neither read as HTML nor typeset as mathematics.

    Example:
        >>> text_html("a < $b")
        'a &lt; <span>$</span>b'
    """
    return re.sub(r"[$\\\\]", lambda match: f"<span>{match[0]}</span>", escape(text))


def table_html(rows: Sequence[tuple[str, str]]) -> str:
    """Return a table of names and values; a name's leading spaces indent it."""
    cells = "".join(
        f'<tr><td style="text-align: left">{"&emsp;" * name.startswith(" ")}'
        f'{text_html(name.strip())}</td><td style="text-align: left">{text_html(value)}</td></tr>'
        for name, value in rows
    )
    return f"<table>{cells}</table>"


def image_html(png: bytes, alternative: str) -> str:
    """Return an image that the page holds itself.

    Args:
        png: The content of the file.
        alternative: What it shows, in words.
    """
    data = base64.b64encode(png).decode()
    return f'<img src="data:image/png;base64,{data}" alt="{escape(alternative)}">'

"""Docstrings as the site needs them: examples as code, references as names."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_ROLE = re.compile(r":(?:meth|func|class|mod):`~?([^`]+)`")
_EXAMPLE = re.compile(r"^([ ]*)>>> (?:.*\n?)(?:\1.*\S.*\n?)*", re.MULTILINE)


def rewrite(text: str) -> str:
    """Fence examples and name what is referred to."""
    text = _ROLE.sub(r"`\1`", text)
    return _EXAMPLE.sub(lambda m: f"{m[1]}```python\n{m[0].rstrip()}\n{m[1]}```\n", text)


class Docstrings(Extension):
    """Rewrites docstrings as they are collected."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite one."""
        if obj.docstring:
            obj.docstring.value = rewrite(obj.docstring.value)

"""What the site adds to the pages: files beside ``docs/``, and mathematics without a script.

The pages are plain Markdown, readable where the repository is shown. There a link such as
``../benchmarks/results/floor.json`` leads out of ``docs/`` and ``$…$`` is typeset. The site gets a
copy of each linked file, and MathML, which browsers typeset themselves.
"""

from __future__ import annotations

import html
import posixpath
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
_LINK = re.compile(r"\]\(((?:\.\./)+[^)#\s]+)")
_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def _outside(page: str, link: str) -> str | None:
    """Return the path from the root of the repository if a link leads out of ``docs/``."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    return None if path.startswith("docs/") else path


def on_files(files: Files, config: Any) -> Files:
    """Add a copy of each file that a page links to outside of ``docs/``."""
    linked = set()
    for file in files.documentation_pages():
        found = _LINK.findall(Path(file.abs_src_path or "").read_text())
        linked |= {_outside(file.src_uri, link) for link in found}
    for path in sorted(filter(None, linked)):
        if (ROOT / path).is_file():
            files.append(File(path, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Point such links to the copies."""

    def inside(match: re.Match[str]) -> str:
        path = _outside(page.file.src_uri, match[1])
        here = posixpath.dirname(page.file.src_uri) or "."
        return match[0] if path is None else f"]({posixpath.relpath(path, here)}"

    return _LINK.sub(inside, markdown)


def on_page_content(content: str, page: Any, config: Any, files: Files) -> str:
    """Replace formulas by MathML."""

    def formula(match: re.Match[str]) -> str:
        display = "block" if match[2] == "[" else "inline"
        return convert(html.unescape(match[3]), display=display)

    return _FORMULA.sub(formula, content)

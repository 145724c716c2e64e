"""What the site adds to the pages: files beside ``docs/``, mathematics, and nothing from elsewhere.

The pages are plain Markdown, readable where the repository is shown. There a link such as
``../benchmarks/results/floor.json`` leads out of ``docs/`` and ``$…$`` is typeset. The site gets a
copy of each linked file, and MathML, which browsers typeset themselves. The one script that the
theme would load from the network, for searching pages that are opened as files, is our copy.
"""

from __future__ import annotations

import html
import posixpath
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).resolve().parent.parent
_SCRIPT = "https://unpkg.com/iframe-worker/shim"
_COPY = "assets/iframe-worker.js"
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


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Take our copy of the theme's script."""
    return output.replace(_SCRIPT, get_relative_url(_COPY, page.url))


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    """Take it on the page for addresses that do not exist, too."""
    return output_content.replace(_SCRIPT, _COPY)

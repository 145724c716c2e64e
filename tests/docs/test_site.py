"""The pages are linked, small, and as their generators write them."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import yaml

from piop.spec.load import builtin_names
from tests.docs.pages import DOCS, ROOT


def test_the_gallery_is_that_of_the_results():
    found = runpy.run_path(str(DOCS / "make_gallery.py"))
    text = found["page"]()
    assert (DOCS / "gallery.md").read_text() == text, "run: python docs/make_gallery.py"
    assert all(f"[`{name}`]" in text for name in builtin_names())


def test_pictures_are_small():
    for path in DOCS.glob("images/*/*.png"):
        assert path.stat().st_size < 150_000, path


def test_every_page_has_a_place_in_the_navigation():
    text = (ROOT / "mkdocs.yml").read_text()
    for path in DOCS.glob("**/*.md"):
        assert path.relative_to(DOCS).as_posix() in text, path


def test_nothing_is_loaded_from_the_network():
    found = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    assert found["theme"]["font"] is False
    assert "offline" in found["plugins"]
    assert not {"extra_javascript", "repo_url", "site_url"} & {*found}


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mkdocs") is None, reason="needs pip install 'piop[docs]'")
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    for page in tmp_path.glob("**/*.html"):
        text = page.read_text()
        assert not re.search(r'(<(script|img|iframe)[^>]* src|<link[^>]* href)="?https?:', text), (
            page
        )
        assert "unpkg.com" not in text, page
    assert "<math" in (tmp_path / "guide" / "how_it_works.html").read_text()
    assert (tmp_path / "benchmarks" / "results" / "floor.json").is_file()


def test_docstrings_are_fenced_and_name_what_they_refer_to():
    pytest.importorskip("griffe")
    rewrite = runpy.run_path(str(DOCS / "docstrings.py"))["rewrite"]
    text = (
        "See :meth:`piop.run.Run.predict`.\n\nExample:\n    >>> f(\n    ...     1)\n    2\n\nEnd.\n"
    )
    fenced = "    ```python\n    >>> f(\n    ...     1)\n    2\n    ```\n"
    assert rewrite(text) == f"See `piop.run.Run.predict`.\n\nExample:\n{fenced}\nEnd.\n"


def test_links_that_leave_the_pages_lead_to_copies_and_formulas_become_mathml():
    pytest.importorskip("mkdocs")
    pytest.importorskip("latex2mathml")
    site = runpy.run_path(str(DOCS / "site.py"))
    page = SimpleNamespace(file=SimpleNamespace(src_uri="guide/a.md"), url="guide/a.html")
    text = "[a](../../pdes/heat.yaml) and [b](../limits.md#specs)"
    found = site["on_page_markdown"](text, page, None, None)
    assert found == "[a](../pdes/heat.yaml) and [b](../limits.md#specs)"
    formula = '<span class="arithmatex">\\(a &lt; b\\)</span>'
    assert "<mo>&#x0003C;</mo>" in site["on_page_content"](formula, page, None, None)
    script = '<script src="https://unpkg.com/iframe-worker/shim"></script>'
    own = '<script src="../assets/iframe-worker.js"></script>'
    assert site["on_post_page"](script, page, None) == own

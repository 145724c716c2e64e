"""Every code block of the guide runs, and prints what the page shows."""

from __future__ import annotations

import pytest

from tests.docs.pages import DOCS, RUN, Page, blocks, commands

PAGES = [DOCS / "index.md", *sorted((DOCS / "guide").glob("*.md"))]
SLOW = [page for page in PAGES if any(block.slow for block in blocks(page))]
LANGUAGES = {*RUN, "text"}


def _run(page, tmp_path, monkeypatch, slow):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(
        "DDE_BACKEND", "pytorch"
    )  # DeepXDE would write its choice to the home folder
    state = Page()
    for block in blocks(page):
        if block.language in RUN and (slow or not block.slow):
            state.run(block)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_of_the_page_runs(page, tmp_path, monkeypatch):
    _run(page, tmp_path, monkeypatch, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("page", SLOW, ids=lambda page: page.stem)
def test_the_slow_blocks_of_the_page_run_after_all_before_them(page, tmp_path, monkeypatch):
    _run(page, tmp_path, monkeypatch, slow=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_names_its_language_and_what_is_not_run_says_why(page):
    fences = [line for line in page.read_text().splitlines() if line.startswith("```")]
    assert all(line != "```" for line in fences[::2]), "a block without a language"
    found = blocks(page)
    assert len(found) == len(fences) // 2
    for block in found:
        assert block.language in LANGUAGES, block.place
        word, _, reason = block.directive.replace(",", "").partition(" ")
        assert word in ("", "skip", "slow", "needs", "differs", "error"), block.place
        assert word not in ("skip", "needs") or reason, f"{block.place}: why is it not run?"


def test_console_blocks_are_commands_with_the_output_that_follows():
    text = "$ piop check a\nline\n\nother\n$ piop new \\\n  b\n"
    assert list(commands(text)) == [("piop check a", ["line", "other"]), ("piop new    b", [])]
    assert list(commands("piop check a\npiop new b\n")) == [
        ("piop check a", []),
        ("piop new b", []),
    ]


def test_a_page_that_shows_other_output_fails(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("```console\n$ piop check heat\n  domain      t in [0, 7]\n```\n")
    with pytest.raises(AssertionError, match="the output lacks"):
        _run(page, tmp_path, monkeypatch, slow=False)
    page.write_text("```console\n$ piop check heat\n…\n  solver      Fourier…\n```\n")
    _run(page, tmp_path, monkeypatch, slow=False)


def test_a_page_with_broken_code_fails(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n")
    with pytest.raises(AssertionError):
        _run(page, tmp_path, monkeypatch, slow=False)

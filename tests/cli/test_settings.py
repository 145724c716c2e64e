"""`settings`: every setting with its meaning, and the page of the documentation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from piop.cli import cli
from piop.cli.settings import page, sections

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def output(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["settings", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_page_of_the_documentation_is_what_the_command_writes():
    assert PAGE.read_text() == output("--markdown") == page(sections())


def test_lines_of_the_page_end_by_column_120():
    assert max(len(line) for line in page(sections()).splitlines()) <= 120


@pytest.mark.parametrize(
    ("topic", "present", "absent"),
    [
        ("optimiser", "learning_rate (number above zero; default 0.01; changeable)", "functions"),
        ("bins", "Applies to weighting=ntk_local, residual_attention or causal.", "space_bins"),
        ("pit", "width (int; default 64)", "functions"),
    ],
)
def test_a_topic_is_a_section_a_setting_or_a_backbone(topic, present, absent):
    found = " ".join(output(topic).split())
    assert present in found
    assert f"{absent} (" not in found


def test_an_unknown_topic_is_answered_with_the_nearest():
    result = CliRunner().invoke(cli, ["settings", "lerning_rate"])
    assert result.exit_code == 2
    assert "Did you mean 'learning_rate'" in result.output


def test_one_json_object_holds_all_settings():
    found = json.loads(output("--json"))["settings"]
    entry = next(e for e in found["points"] if e["name"] == "functions")
    assert (entry["default"], entry["changeable"]) == (8, True)
    assert entry["applies"] == ["training on the equations"]

"""`backbones`: one row for each preset, the reasons below, and all of it as one JSON object."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import replace

import pytest

from piop.cli import backbones as module
from piop.cli.backbones import nested, plain_table, reason_lines, table_rows
from piop.errors import NotSupportedError
from piop.models.core.base import GRID_FIELD, POINT_FIELD, ROLLOUT_FIELD, Backbone
from piop.problem import Problem
from piop.spec.load import builtin_names
from piop.training import backbone_catalogue as catalogue
from piop.training.backbone_catalogue import Entry

SERVED = {"burgers": None, "heat": None}
REFUSED = {"burgers": "no", "heat": "no"}


class Points(Backbone):
    """Evaluated pointwise."""

    field = POINT_FIELD


class FinalGrid(Backbone):
    """Evaluated on a grid at the final time."""

    field, end_only = GRID_FIELD, True


class Steps(Backbone):
    """Evaluated in steps."""

    field = ROLLOUT_FIELD


ENTRIES = [
    Entry("pit", "default", Points, 94_146, "", SERVED, SERVED),
    Entry("fno", "paper_x", FinalGrid, 5, "a", REFUSED, SERVED),
    Entry("fno", "code_x", FinalGrid, 5, "a", REFUSED, SERVED),
    Entry("fno", "march", Steps, 7, "", SERVED, {"burgers": None, "heat": "why"}),
]


@pytest.fixture
def listed(monkeypatch):
    monkeypatch.setattr(catalogue, "catalogue", lambda: (ENTRIES, ["'z' of a 1.0 is broken"]))


def test_equal_columns_of_paper_and_code_share_a_row():
    assert table_rows(ENTRIES) == [
        ("pit", "default", "94,146", "pointwise", "any", "2 of 2", "2 of 2", ""),
        ("fno", "paper_x, code_x", "5", "on a grid", "the end", "0 of 2", "2 of 2", "a"),
        ("fno", "march", "7", "in steps", "any", "2 of 2", "1 of 2", ""),
    ]


def test_two_names_of_one_preset_share_a_row():
    first = ENTRIES[3]
    rows = table_rows([first, replace(first, preset="old", same_as=first.preset)])
    assert [row[:2] for row in rows] == [("fno", "march, old")]


def test_columns_are_aligned_and_numbers_to_the_right():
    lines = plain_table(table_rows(ENTRIES)).splitlines()
    words = ("evaluated", "pointwise", "on a grid", "in steps")
    starts = {line.index(word) for line, word in zip(lines, words, strict=True)}
    assert len(starts) == 1
    assert len({re.search(r"(parameters|94,146|5|7)  ", line).end() for line in lines}) == 1


def test_reasons_are_told_once_for_all_presets_they_hold_for():
    assert reason_lines(ENTRIES) == [
        "",
        "Not from physics, any problem: no",
        "  fno: paper_x, code_x",
        "",
        "Not from data, heat: why",
        "  fno: march",
    ]


def test_the_plain_list_ends_with_the_reasons_and_tells_of_broken_packages(piop, listed):
    code, out, err = piop("backbones")
    assert code == 0
    assert out.startswith("backbone  preset")
    assert "Not from data, heat: why" in out
    assert err == "piop: 'z' of a 1.0 is broken\n"


def test_a_terminal_gets_every_row_too(piop, listed, monkeypatch):
    monkeypatch.setattr(module, "is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "140")
    code, out, _ = piop("backbones")
    assert code == 0
    for row in table_rows(ENTRIES):
        assert all(cell in out for cell in row)


def test_json_nests_backbone_preset_and_the_rest(piop, listed):
    code, out, _ = piop("backbones", "--json")
    body = json.loads(out)
    assert code == 0
    assert body["faults"] == ["'z' of a 1.0 is broken"]
    assert list(body["backbones"]) == ["pit", "fno"]
    assert body["backbones"]["pit"]["default"] == {
        "network": "Points",
        "parameters": 94_146,
        "field": "point",
        "times": "any",
        "source": "",
        "physics": SERVED,
        "data": SERVED,
    }
    assert nested(ENTRIES)["fno"]["march"]["data"]["heat"] == "why"


def test_the_real_table_is_listed(piop):
    code, out, err = piop("backbones")
    assert (code, err) == (0, "")
    counts = " +".join(_served(purpose) for purpose in ("equations", "data"))
    assert re.search(rf"^pit +default +94,146  pointwise  any +{counts}$", out, re.M)
    assert "Not from physics, darcy: darcy: not supported yet: div of a flux with the rough" in out


def _served(purpose):
    named = [Problem.from_file(name) for name in builtin_names()]
    problems = [p if p.learn is None else p.inverse() for p in named]
    count = 0
    for problem in problems:
        with suppress(NotSupportedError):
            getattr(problem.capabilities, purpose).require()
            count += 1
    return f"{count} of {len(problems)}"

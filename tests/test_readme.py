"""The list of problems in the README is that of the specs."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LIST = runpy.run_path(str(ROOT / "docs" / "list_problems.py"))


@pytest.fixture(scope="module")
def groups():
    return LIST["grouped_problems"]()


def test_the_list_of_problems_is_that_of_the_specs(groups):
    text = (ROOT / "README.md").read_text()
    assert LIST["BEGIN"] in text
    assert LIST["END"] in text
    assert LIST["replaced"](text, groups) == text, "run: python docs/list_problems.py"


def test_every_problem_is_listed_once_and_every_group_has_some(groups):
    listed = [name for names in groups.values() for name in names]
    assert sorted(listed) == sorted(p.stem for p in (ROOT / "pdes").glob("*.yaml"))
    assert all(groups.values())

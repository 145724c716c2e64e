"""What docs/llms.txt tells assistants is what the code has."""

from __future__ import annotations

import re

from click.testing import CliRunner

from piop.boundary import CONDITIONS
from piop.cli import cli
from piop.expression.functions import FUNCTIONS
from piop.problem import Problem
from piop.spec.distributions import DISTRIBUTIONS
from piop.spec.model import SensorPlacement
from piop.spec.sections import SECTIONS
from piop.spec.shapes import OPERATIONS, SHAPES
from tests.docs.pages import DOCS, Page, blocks

PATH = DOCS / "llms.txt"
TEXT = PATH.read_text()


def test_every_command_and_no_other_is_named_with_options_that_exist():
    listed = TEXT.split("## Commands")[1].split("## Python")[0]
    found = re.findall(r"`piop (\w+)([^`]*)`", listed)
    assert {name for name, _ in found} == {*cli.commands}
    for name, rest in found:
        options = {o for p in cli.commands[name].params for o in p.opts}
        assert {*re.findall(r"--?[a-z]\w*", rest)} <= options, name
    for option in re.findall(r"`(--[a-z-]+)", TEXT):
        assert any(
            option in [*p.opts, *p.secondary_opts] for c in cli.commands.values() for p in c.params
        ), option
    assert CliRunner().invoke(cli, ["--help"]).exit_code == 0


def test_every_key_law_function_condition_and_shape_is_named():
    keys = TEXT.split("Keys: ")[1].split("Expressions: ")[0]
    assert {*re.findall(r"`(\w+)`", keys)} - {"data"} == {*SECTIONS}
    laws = TEXT.split("Laws and their keys:")[1].split("Boundary: ")[0]
    assert {*re.findall(r"`(\w+)`", laws)} - {"of"} == {*DISTRIBUTIONS}
    words = {*re.findall(r"\w+", TEXT)}
    assert words >= {*FUNCTIONS, *CONDITIONS, *SHAPES, *OPERATIONS, *map(str, SensorPlacement)}


def test_keys_of_each_law_are_those_of_the_code():
    for names, keys in re.findall(r"^- (`[a-z_`, ]+`): ([a-z_, ]+(?:; [a-z_, ]+)?)", TEXT, re.M):
        for name in re.findall(r"\w+", names):
            if name in DISTRIBUTIONS:
                own = {*DISTRIBUTIONS[name].__annotations__} or {"low", "high"}
                said = {*re.findall(r"\w+", keys)} - {"or"}
                assert said == own - {"file", "scalar", "function", "derivatives"}, name


def test_its_spec_loads_and_its_code_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = Page()
    for block in blocks(PATH):
        page.run(block)
    assert isinstance(page.names["problem"], Problem)


def test_its_links_lead_to_pages():
    for link in re.findall(r"\]\(([^)]+)\)", TEXT):
        assert (DOCS / link).is_file()

"""The page on the spec language has every word of it, with the defaults of the code."""

from __future__ import annotations

import keyword
import re
from dataclasses import MISSING, fields
from typing import get_type_hints

import pytest
import yaml

from piop.boundary import CONDITIONS
from piop.expression.functions import BY_SYNTAX, FUNCTIONS
from piop.expression.parse import RESERVED
from piop.problem.build import _SAVE, _SAVE_TIMES
from piop.problem.inputs import _SENSORS
from piop.spec.distributions import DISTRIBUTIONS, Matern
from piop.spec.load import REQUIRED
from piop.spec.model import InputSpec, SensorPlacement
from piop.spec.sections import MAX_ENTRIES, SECTIONS
from piop.spec.shapes import OPERATIONS, SHAPES
from tests.docs.pages import DOCS, blocks

PATH = DOCS / "guide" / "spec_language.md"
PAGE = PATH.read_text()
SCALARS = [name for name, kind in DISTRIBUTIONS.items() if kind.scalar]
EXAMPLES = [yaml.load(b.text, yaml.BaseLoader) for b in blocks(PATH) if b.language == "yaml"]


def section(heading):
    """The text below a heading, up to the next of its level or above."""
    level = heading.split(" ")[0]
    found = re.search(
        rf"^{re.escape(heading)}$\n(.*?)(?=^#{{1,{len(level)}}} |\Z)", PAGE, re.M | re.S
    )
    assert found, heading
    return found[1]


def rows(text):
    """The cells of every row of every table."""
    lines = [line for line in text.splitlines() if line.startswith("|") and "---" not in line]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def words(cell):
    """What stands in backquotes."""
    return re.findall(r"`([^`]+)`", cell)


def keys(text):
    return [key for row in rows(text) for key in words(row[0])]


def drawn_by(law):
    """The inputs and parameters of the examples that are drawn by a law."""
    for example in EXAMPLES:
        for entry in (*example.get("inputs", {}).values(), *example.get("parameters", {}).values()):
            if isinstance(entry, dict) and entry.get("law") == law:
                yield entry


def test_every_key_of_a_spec_is_explained_and_used_in_an_example():
    assert sorted(keys(section("## Every key"))) == sorted(SECTIONS)
    assert {key for example in EXAMPLES for key in example} == {*SECTIONS}
    assert f"At most {MAX_ENTRIES} unknowns" in PAGE


def test_the_keys_that_are_needed_are_those_of_the_code():
    never = [words(row[0])[0] for row in rows(section("## Every key")) if row[2] == "never"]
    assert sorted(never) == sorted(REQUIRED)


def own_keys(kind):
    return [f for f in fields(kind) if f.compare]


@pytest.mark.parametrize("law", [name for name in DISTRIBUTIONS if name not in SCALARS])
def test_every_key_of_the_law_has_its_default(law):
    text, kind = section(f"### `{law}`"), DISTRIBUTIONS[law]
    stated = {key: row[2] for row in rows(text) for key in words(row[0])}
    assert sorted(stated) == sorted(f.name for f in own_keys(kind))
    for item in own_keys(kind):
        said = stated[item.name]
        if item.default is MISSING and item.default_factory is MISSING:
            assert said == "needed"
        elif isinstance(item.default, bool):
            assert said == f"`{str(item.default).lower()}`"
        elif isinstance(item.default, int | float):
            assert float(said.strip("`")) == item.default
        else:
            assert said != "needed"
    used = {key for entry in drawn_by(law) for key in entry}
    assert used >= {f.name for f in own_keys(kind)}, "keys without an example"


def test_defaults_that_are_no_numbers():
    assert DISTRIBUTIONS["fourier_series"](1, (0, 1), (0, 1)).phase == (0, 2 * 3.141592653589793)
    assert {f.name: f.default for f in fields(Matern)}["variance"] == 1
    text = section("### `gaussian_random_field`")
    assert all(f"{f.name}: " in text for f in fields(Matern))


def test_laws_of_numbers_have_their_keys():
    table = {words(row[0])[0]: words(row[1]) for row in rows(section("### Laws of numbers"))[1:]}
    assert sorted(table) == sorted(SCALARS)
    for law, stated in table.items():
        found = [f.name for f in own_keys(DISTRIBUTIONS[law])] or [
            *get_type_hints(DISTRIBUTIONS[law])
        ]
        assert stated == [name for name in found if name in ("low", "high", "mean", "std", "value")]
        assert list(drawn_by(law)), law


def test_keys_of_an_input():
    text = section("## Inputs").split("###")[0]
    assert sorted(keys(text)) == sorted(
        f.name if f.name != "distribution" else "law" for f in fields(InputSpec)
    )
    used = {
        key for example in EXAMPLES for entry in example.get("inputs", {}).values() for key in entry
    }
    assert used >= {*keys(text)}


def test_every_function_is_explained_and_used():
    text = section("## Expressions")
    named = {key.partition("(")[0] for key in keys(text)}
    shorts = {"dt", "dx", "dxx", "dxy"}
    language = {*FUNCTIONS, *(RESERVED - {*FUNCTIONS, "pi"} - {*keyword.kwlist})}
    assert named == language | shorts
    example = next(e for e in EXAMPLES if e["name"] == "every_function")
    formulas = " ".join([*example["definitions"].values(), *example["equations"]])
    assert {*re.findall(r"([a-z]+)\(", formulas)} >= language
    assert all(f"`{relation.word}`" in text for relation in BY_SYNTAX.values())


def test_every_condition_is_explained_and_used():
    text = section("## Boundary conditions")
    assert {word for word in CONDITIONS if re.search(rf"`x: {{?{word}", text)} == {*CONDITIONS}
    written = " ".join(str(e.get("boundary", "")) for e in EXAMPLES)
    assert all(word in written for word in CONDITIONS)
    assert "nx" in written
    for face in ("rest", "outline", "x.min"):
        assert f"'{face}'" in written


def test_every_shape_is_explained_and_used():
    named = {word.split(":")[0] for word in keys(section("## Shapes"))}
    assert named == {*SHAPES, *OPERATIONS, "holes", "choose", "of"}
    written = " ".join(str(e.get("domain", "")) for e in EXAMPLES)
    assert all(f"'{word}'" in written for word in named)


def test_every_placement_of_sensors_is_explained_and_used():
    assert sorted(keys(section("## Sensors"))) == sorted(SensorPlacement)
    used = {s.get("place") for e in EXAMPLES for s in e.get("sensors", {}).values()}
    assert used >= {*SensorPlacement}


def test_numbers_of_sensors_and_points_are_those_of_the_code():
    numbers = [_SENSORS[n] for n in (1, 2, 3)]
    text = " ".join(PAGE.split())
    assert "`count` is {}, {} or {} in one, two or three".format(*numbers) in text
    grid = [_SAVE[n] for n in (1, 2, 3)]
    assert "By default {} times and {}, {} or {} points".format(_SAVE_TIMES, *grid) in text


def test_the_page_is_read_as_it_is_written():
    assert rows("| a | b |\n|---|---|\n| `c` | d |") == [["a", "b"], ["`c`", "d"]]
    assert keys("| a |\n|---|\n| `c`, `d` |") == ["c", "d"]

"""YAML's traps are closed: values stay text until their key says what they are."""

import pytest

from piop.errors import SpecError
from piop.problem import Problem
from piop.spec.tree import read_yaml

BASE = """piop: 1
name: heat
time: {t: [0, 1]}
space: {x: [0, 1]}
parameters: {nu: 0.01}
unknowns: [u]
inputs:
  u0: {of: [x], law: fourier_series, terms: 3, amplitude: [-1, 1], wavenumber: [1, 3]}
equations:
  - dt(u) = nu*dxx(u)
initial: {u: u0}
boundary: {x: periodic}
"""


def issues_of(text):
    with pytest.raises(SpecError) as caught:
        Problem.from_yaml(text, "f.yaml")
    return [(i.line, i.column, f"{i.message} {i.hint}") for i in caught.value.issues]


def number(text):
    return Problem.from_yaml(BASE.replace("0.01", text)).spec.parameters["nu"].text


@pytest.mark.parametrize("text", ["1e-3", "1E5", ".5", "2.", "1.5e+2", "2*pi"])
def test_numbers_are_numbers(text):
    assert number(text) == text


@pytest.mark.parametrize(
    ("old", "new", "line", "column", "message"),
    [
        ("nu: 0.01", "nu: 1:30", 5, 19, "cannot be read|not an expression"),
        ("nu: 0.01", "nu: 010", 5, 18, "leading zeros"),
        ("nu: 0.01", "nu: 2020-01-01", 5, 23, "leading zeros"),
        ("nu: 0.01", "nu: on", 5, 18, "'on' is not declared"),
        ("nu: 0.01", "nu: .inf", 5, 18, "not an expression"),
        ("nu: 0.01", "nu: ", 5, 17, "a value is missing"),
        ("nu: 0.01", "nu: ~", 5, 18, "a value is missing"),
        ("[u]", "&a [u]", 6, 11, "anchors such as '&a'"),
        ("- dt(u)", "- *u", 10, 5, "must be quoted"),
        ("- dt(u)", "- !!python/object/apply:os.system dt(u)", 10, 5, "tags such as"),
        ("- dt(u)", "- !x dt(u)", 10, 5, "tags such as"),
        ("- dt(u)", "- - dt(u)", 10, 5, "nested list"),
        ("- dt(u)", "- {a: dt(u)", 11, 8, "quoted"),
        ("- dt(u) = nu*dxx(u)", "- dt(u) = nu*where(x: 1)", 10, 5, "must be quoted"),
        ("{u: u0}", "{u: max(u0, 1)}", 11, 22, "half of an expression"),
        ("name: heat", "name: heat\nname: b", 3, 1, "given twice; first in line 2"),
        ("name: heat", "name: heat\n<<: {a: 1}", 3, 1, "'<<' is not a key"),
        ("name: heat", "[a]: b", 2, 1, "plain word"),
        ("name: heat", "name: heat\n\tx: 1", 3, 1, "tabs"),
        ("name: heat", "name: h\x07eat", 2, 8, "'\\x07' is not allowed"),
        ("piop: 1", "piop: 2", 1, 7, "format 2 is newer"),
        ("piop: 1", "%YAML 9.9", 1, 1, ""),
    ],
)
def test_traps_of_yaml_are_told_with_their_place(old, new, line, column, message):
    found = issues_of(BASE.replace(old, new, 1))
    assert any(
        row == line and any(part in text for part in message.split("|")) for row, _, text in found
    ), found
    if column and message not in ("", "quoted"):
        assert any(row == line and col == column for row, col, _ in found), found


def test_other_structures_are_refused():
    assert issues_of("")[0][:2] == (1, 1)
    assert "'key: value'" in issues_of("- a\n- b")[0][2]
    assert "another document" in issues_of(BASE + "---\nname: b\n")[0][2]
    assert "nested deeper" in issues_of("a: " + "[" * 50 + "]" * 50)[0][2]
    assert "at most 65536" in issues_of("#" * 70_000)[0][2]
    assert "more than 5000 values" in issues_of("a: [" + "1," * 6000 + "1]")[0][2]


def test_only_true_and_false_are_booleans():
    text = BASE.replace("of: [x],", "of: [x], hidden: no,")
    assert issues_of(text)[0][:2] == (8, 25)
    assert "neither true nor false" in issues_of(text)[0][2]


def test_places_reach_into_quoted_folded_and_block_texts():
    for new, place in (
        ('- "dt(u) = nu*dxy(u)"', (10, 17)),
        ("- 'dt(u) = nu*dxy(u)'", (10, 17)),
        ("- dt(u) =\n      nu*dxy(u)", (11, 10)),
        ("- >\n    dt(u) =\n    nu*dxy(u)", (12, 8)),
        ("- |\n    dt(u) =\n    nu*dxy(u)", (12, 8)),
    ):
        assert issues_of(BASE.replace("- dt(u) = nu*dxx(u)", new))[0][:2] == place


def test_every_scalar_knows_where_its_characters_stand():
    tree = read_yaml("a: 'it''s (b)'", "f")
    scalar = tree.items[0][1]
    assert scalar.text == "it's (b)"
    assert scalar.at(0).column == 5
    assert scalar.at(100).column == 4

# ruff: noqa: E501 - tables are read by row
"""Any text loads or is refused with a place, in bounded time, and nothing of it is ever run."""

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from piop.errors import SpecError
from piop.problem import Problem
from piop.spec.load import builtin_names, find_builtin

SPECS = [find_builtin(name).read_text() for name in builtin_names()]
PIECES = [
    "u", "dx(", ")", "(", "**", "*", "-", "1e400", "9**9**9", "^", "=", ",", ": ", "{", "}", "[", "]",
    "\n", "  ", "- ", "&a ", "*a", "!!python/object/apply:os.system", "'", '"', "#", "|", ">", "%",
    "\t", "\0", "é", "where(", "<", "lap(", "div(", "exp(exp(", "periodic", "{dirichlet: {u: 0}}",
    "null", "~", "true", "nan", "1:30", "010", "x", "t", "psi", "from_file", "path: ../../x", "sphere",
    "domain: {disk: [0, 0, 1]}", "rest", "robin", "outflow", "infer: [nu]", "learn: {from: u, to: u0}",
]  # fmt: skip
edits = st.lists(
    st.tuples(
        st.floats(0, 1), st.integers(0, 12), st.one_of(st.sampled_from(PIECES), st.text(max_size=4))
    ),
    min_size=1,
    max_size=4,
)


def loads_or_refuses(text):
    start = time.process_time()
    try:
        problem = Problem.from_yaml(text, "fuzz.yaml")
    except SpecError as error:
        for issue in error.issues:
            assert issue.message
            assert issue.file == "fuzz.yaml"
            assert issue.line >= 1
            assert issue.column >= 1
            assert issue.line <= text.count("\n") + text.count("\r") + 2
    else:
        again = Problem.from_yaml(problem.to_yaml())
        assert again.hash == problem.hash
        assert again.spec == problem.spec
    assert time.process_time() - start < 5.0


@settings(max_examples=300)
@given(st.text(max_size=200))
def test_any_text_is_loaded_or_refused(text):
    loads_or_refuses(text)


@settings(max_examples=600)
@given(st.sampled_from(SPECS), edits)
def test_any_edit_of_a_valid_spec_is_loaded_or_refused(text, changes):
    for where, length, piece in changes:
        start = int(where * len(text))
        text = text[:start] + piece + text[start + length :]
    loads_or_refuses(text)


@settings(max_examples=300)
@given(st.sampled_from(SPECS), st.integers(0, 30), st.integers(0, 30), st.booleans())
def test_any_shuffle_of_lines_is_loaded_or_refused(text, first, second, double):
    lines = text.split("\n")
    a, b = first % len(lines), second % len(lines)
    lines[a], lines[b] = lines[b], lines[a]
    loads_or_refuses("\n".join(lines + lines[a : a + 1] * double))


@pytest.mark.parametrize(
    "attack",
    [
        "__import__('os').system('touch {}')",
        "__import__('pathlib').Path('{}').touch()",
        "(lambda: open('{}', 'w'))()",
        "sin(open('{}', 'w'))",
        "().__class__.__bases__[0].__subclasses__()",
        "!!python/object/apply:os.system ['touch {}']",
        "!!python/name:os.system",
        "open('{}','w')*0 + u",
        "exec(\"open('{}','w')\")",
    ],
)
@pytest.mark.parametrize("where", ["dt(u) = nu*dxx(u)", "{u: u0}", "0.01", "[0, 1]"])
def test_nothing_is_ever_executed(attack, where, tmp_path):
    trace = tmp_path / "trace"
    text = Path(find_builtin("heat")).read_text()
    hostile = attack.replace("{}", str(trace))
    new = {"{u: u0}": "{u: QQ}", "[0, 1]": "[0, QQ]"}.get(where, "QQ").replace("QQ", hostile)
    assert where in text
    with pytest.raises(SpecError):
        Problem.from_yaml(text.replace(where, new, 1))
    with pytest.raises(SpecError):
        Problem(
            name="a", time={"t": [0, 1]}, space={"x": [0, 1]}, unknowns=["u"],
            equations=[f"dt(u) = {hostile}"], initial={"u": 0}, boundary={"x": "periodic"},
        )  # fmt: skip
    assert not trace.exists()

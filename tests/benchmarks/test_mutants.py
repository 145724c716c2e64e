"""Random changes of the code: which there are, and that they hit code alone."""

import importlib
from pathlib import Path

import pytest

SOURCE = '''"""A docstring of 3 words."""
LIMIT: int = 3


def f(a: int, b: int = 2) -> int:
    """Return 1."""
    if a < b:
        raise ValueError(f"{a + 1} is below 2")
    return g(a, b[1:])
'''


@pytest.fixture
def mutants(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return importlib.import_module("mutants")


def test_changes_leave_docstrings_annotations_and_messages_alone(mutants):
    found = mutants._Changes("spec/a.py", SOURCE.encode()).found
    assert {m.new for m in found} == {
        "LIMIT: int = 4",
        "def f(a: int, b: int = 3) -> int:",
        "if a <= b:",
        "if (not (a < b)):",
        "pass",
        "return None",
        "return g(b[1:], a)",
        "return g(a, b[2:])",
        "return g(a, b[:])",
    }


def test_what_cannot_change_the_result_is_left_out(mutants):
    source = "if TYPE_CHECKING:\n    import a\nm = torch.maximum(a, b) + max(c, d)\n"
    found = mutants._Changes("spec/a.py", source.encode()).found
    assert [m.new for m in found] == ["m = torch.maximum(a, b) - max(c, d)"]


def test_a_draw_does_not_depend_on_other_lines(mutants, tmp_path):
    folder = tmp_path / "piop" / "spec"
    folder.mkdir(parents=True)
    (folder / "a.py").write_text(SOURCE)
    before = [m.name for m in mutants.draw(tmp_path, 10, seed=0)]
    (folder / "a.py").write_text("import os\n" + SOURCE + "    os.remove(a)\n")
    after = [m.name for m in mutants.draw(tmp_path, 10, seed=0)]
    assert len(before) == 5
    assert [name for name in after if "remove" not in name] == before

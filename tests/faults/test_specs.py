"""Hostile specs are refused with a place, in bounded time and memory, and nothing is executed."""

from pathlib import Path

import pytest

from tests.faults import specs


def test_generated_specs_are_accepted_or_refused(tmp_path):
    lost = [o.detail for o in specs.attack(25, 0, tmp_path) if not o.survived]
    assert not lost


@pytest.mark.parametrize("kind", specs.KINDS)
def test_generators_repeat_themselves(kind):
    draw = specs.KINDS[kind]
    assert [draw(specs.Draw(n)) for n in range(5)] == [draw(specs.Draw(n)) for n in range(5)]


def test_the_worker_notices_what_an_injector_must_not_miss(monkeypatch, tmp_path):
    """A spec is checked in a process of its own, so the fault is in a file that it imports."""
    from piop.problem import Problem

    def lost(fault):
        with monkeypatch.context() as patch:
            patch.setattr(Problem, "from_file", fault)
            return specs._check(Path("any.yaml"))

    def raises(path):
        raise KeyError("g")

    def another(path):
        words = {
            "name": "p",
            "space": {"x": [0, 1]},
            "unknowns": ["u"],
            "equations": ["dxx(u) = 1"],
        }
        problem = Problem(**words, boundary={"x": {"dirichlet": {"u": 0}}})
        object.__setattr__(problem, "hash", "0")
        return problem

    assert "KeyError: 'g'" in lost(raises)
    assert lost(another) == "another problem when written and read"
    seen = []
    specs._audit("os.system", ("ls",), seen)
    specs._audit("open", ("x", "r", 0), seen)
    specs._audit("open", ("x", "wb", 0), seen)
    assert [entry.split()[0] for entry in seen] == ["os.system", "open"]

"""Coarse reference solutions are solved once, and kept for later runs of the same problem."""

import pytest
import torch

from piop import user_cache
from piop.problem import Problem
from piop.training import coarse_references
from piop.training.coarse_references import POINTS, SAMPLES, coarse_inputs, solve_coarsely


@pytest.fixture
def heat(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return Problem.from_file("heat")


@pytest.fixture
def solved(monkeypatch):
    """List the calls of the solver."""
    calls, solve = [], coarse_references.solve_reference

    def recorded(*args, **settings):
        calls.append(settings)
        return solve(*args, **settings)

    monkeypatch.setattr(coarse_references, "solve_reference", recorded)
    return calls


def test_a_second_run_takes_what_the_first_kept(heat, solved):
    first = solve_coarsely(heat, [0.0, 1.0])
    second = solve_coarsely(heat, [0.0, 1.0])
    assert len(solved) == 1
    assert first["u"].shape == (SAMPLES, 2, POINTS[1])
    assert torch.equal(first["u"], second["u"])
    start = coarse_inputs(heat)["u0"](torch.linspace(0, 1, POINTS[1] + 1)[:-1, None].double())
    torch.testing.assert_close(second["u"][:, 0], start.reshape(SAMPLES, -1), rtol=0, atol=1e-6)


def test_other_seeds_times_tolerances_and_equations_are_solved_anew(heat, solved):
    other = Problem.from_yaml(heat.to_yaml().replace("0.01", "0.06"))
    found = [
        solve_coarsely(heat, [0.0, 1.0]),
        solve_coarsely(heat, [0.0, 0.5]),
        solve_coarsely(heat, [0.0, 1.0], seed=1),
        solve_coarsely(heat, [0.0, 1.0], tolerance=1e-3),
        solve_coarsely(other, [0.0, 1.0]),
    ]
    assert len(solved) == len(found)
    assert not torch.equal(found[0]["u"], found[4]["u"])


def test_what_is_damaged_is_solved_again(heat, solved):
    first = solve_coarsely(heat, [0.0, 1.0])
    for file in user_cache.folder().iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    assert torch.equal(solve_coarsely(heat, [0.0, 1.0])["u"], first["u"])
    assert len(solved) == 2


def test_what_would_fill_the_cache_is_not_kept(heat, solved, monkeypatch):
    monkeypatch.setattr(coarse_references, "MOST_KEPT", 1000)
    solve_coarsely(heat, [0.0, 1.0])
    solve_coarsely(heat, [0.0, 1.0])
    assert len(solved) == 2

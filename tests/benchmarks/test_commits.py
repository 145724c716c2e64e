"""Budgets are searched until one misses an error and the next one reaches it."""

import pytest


def search(script, error_after, start):
    errors = {}
    while (budget := script.next_budget(errors, 0.01, start)) is not None:
        assert budget not in errors
        errors[budget] = error_after(budget)
    return errors


@pytest.mark.parametrize("start", [20.0, 100.0, 700.0])
def test_the_budget_of_an_error_is_found_from_either_side(load, start):
    script = load("commits")
    errors = search(script, lambda seconds: 1 / seconds, start)
    assert {e > 0.01 for e in errors.values()} == {True, False}
    assert script.time_to(errors, 0.01) == pytest.approx(100, rel=1e-3)


def test_no_time_without_a_budget_that_reaches_the_error(load):
    script = load("commits")
    assert script.time_to({50.0: 0.02, 70.0: 0.015}, 0.01) is None


def test_a_table_has_a_row_for_each_seed_and_commit(load):
    runs = {"100": {"relative_l2": 0.02, "steps": 5}, "200": {"relative_l2": 0.005, "steps": 10}}
    table = load("commits").table({"0": {"now": runs}}, 0.01).splitlines()
    assert table[2] == "| 0 | now | 141.4 | 100: 0.0200, 5, 200: 0.0050, 10 |"

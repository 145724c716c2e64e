"""Recipes take turns, each within its own budget; errors are timed by the recipe's own steps."""

import time

import pytest


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_races_take_turns_within_their_budgets(load):
    script, order = load("time_to_error"), []

    def race(name, seconds):
        def step(index, fraction):
            assert fraction < 1
            order.append(name)
            burn(0.002)

        def measure():
            burn(0.01)  # not counted
            return 1 / (1 + order.count(name))

        return script.Race(step, measure, seconds)

    short, long = race("short", 0.1), race("long", 0.2)
    script.alternate([short, long])
    assert short.spent == pytest.approx(0.1, abs=0.02)
    assert long.spent == pytest.approx(0.2, abs=0.02)
    assert "long" in order[: 2 * script.CHUNK]
    half = order[: len(order) // 2]
    assert half.count("long") > half.count("short") > 0  # both are half way there
    for own in (short, long):
        times = [seconds for seconds, _, _ in own.errors]
        assert times == sorted(times)
        assert times[-1] == pytest.approx(own.seconds, abs=0.02)  # the last one is at the end
        assert own.errors[-1][1] == own.steps
    assert script.time_to(short.errors, 0.0) is None
    first = short.errors[0]
    assert script.time_to(short.errors, first[2]) == first[:2]


def test_a_table_has_a_row_for_each_budget(load):
    common = {"steps": 10, "relative_l2": 0.02, "errors": [(1.0, 5, 0.02)]}
    rows = [{**common, "seconds": 1.0}, {**common, "seconds": 2.0, "errors": [(2.0, 9, 0.01)]}]
    table = load("time_to_error").table({"default": rows}, 0.01).splitlines()
    assert table[2] == "| default | 1 | 10 | 0.0200 | – | – |"
    assert table[3] == "| default | 2 | 10 | 0.0200 | 2 | 9 |"

import pytest

from tests.faults.kills import attack


@pytest.mark.parametrize("count", [2, pytest.param(12, marks=pytest.mark.slow)])
def test_kills_and_second_writers_lose_and_change_nothing(tmp_path, count):
    lost = [outcome for outcome in attack(count, 1, tmp_path) if not outcome.survived]
    assert lost == []

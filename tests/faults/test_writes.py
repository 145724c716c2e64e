from tests.faults.writes import FAULTS, attack


def test_writing_that_fails_is_told_and_loses_nothing(tmp_path):
    lost = [outcome for outcome in attack(len(FAULTS), 1, tmp_path) if not outcome.survived]
    assert lost == []

"""A few damaged and hostile data files; ``python benchmarks/faults.py`` reads thousands."""

from tests.faults.files import attack


def test_damaged_and_hostile_data_files_are_refused_or_read_right(tmp_path):
    outcomes = list(attack(25, 3, tmp_path))
    assert len({outcome.fault for outcome in outcomes}) > 5
    assert not [outcome.detail for outcome in outcomes if not outcome.survived]

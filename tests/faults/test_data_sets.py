from tests.faults.data_sets import attack


def test_no_damage_to_a_data_set_goes_unnoticed(tmp_path):
    lost = [outcome for outcome in attack(20, 1, tmp_path) if not outcome.survived]
    assert lost == []

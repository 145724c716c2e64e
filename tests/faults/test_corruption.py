from tests.faults.corruption import attack


def test_no_damage_to_a_run_folder_goes_unnoticed(tmp_path):
    lost = [outcome for outcome in attack(12, 1, tmp_path) if not outcome.survived]
    assert lost == []

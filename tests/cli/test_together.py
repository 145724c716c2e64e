"""Commands in several processes: one file, one voice, one exit code."""

from __future__ import annotations


def test_data_of_two_processes_are_those_of_one_to_the_last_bit(together, piop, tmp_path):
    arguments = ("data", "heat", "-n", 40, "--seed", 3, "--output")  # 16, 16 and 8 samples
    assert piop(*arguments, tmp_path / "one.nc")[0] == 0
    first, second = together.run(2, "-m", "piop", *arguments, tmp_path / "two.nc", "--json")
    assert (first[0], second[0]) == (0, 0)
    assert '"samples": 40' in first[1]
    assert "40 of 40 samples" in first[2]
    assert second[1:] == ("", "")
    assert (tmp_path / "one.nc").read_bytes() == (tmp_path / "two.nc").read_bytes()


def test_an_error_of_all_is_told_once(together, tmp_path):
    missing = tmp_path / "nowhere" / "d.nc"
    command = ("-m", "piop", "data", "heat", "-n", 2, "--output", missing)
    ends = together.run(2, *command)
    assert [code for code, _, _ in ends] == [2, 2]
    told = ends[0][2] + ends[1][2]
    assert told.count("there is no such folder") == 1
    assert "Traceback" not in told


def test_an_error_of_one_ends_all_with_its_exit_code(together, tmp_path):
    """The second process finds no spec; the first waits for its samples."""
    script = """
import os, sys
from piop.cli import main
spec = "heat" if os.environ["RANK"] == "0" else "nowhere.yaml"
main(["data", spec, "-n", "40", "--output", sys.argv[1]])
"""
    ends = together.run(2, "-c", script, tmp_path / "d.nc")
    assert [code for code, _, _ in ends] == [2, 2]
    assert ends[0][2] == ""
    assert "nowhere.yaml" in ends[1][2]
    assert not (tmp_path / "d.nc").exists()


def test_commands_that_share_no_work_are_run_by_the_first(together):
    first, second = together.run(2, "-m", "piop", "check", "heat")
    assert (first[0], second[0]) == (0, 0)
    assert "heat" in first[1]
    assert second[1:] == ("", "")

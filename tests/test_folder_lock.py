import json
import os
import subprocess
import sys
import time

import pytest

from piop import folder_lock
from piop.errors import UsageError
from piop.folder_lock import LOCK, Holder, one_writer, require_own_lock

ELSEWHERE = {"user": "ada", "host": "far", "system": "b", "pid": 1, "started": "1", "since": "now"}


def leave(folder, **changes):
    """Write a lock as a killed process leaves it: by default one of this very process."""
    holder = {**vars(Holder.this_process()), **changes}
    (folder / LOCK).write_text(json.dumps(holder))


def ended_process():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(folder_lock, "BEAT", 0.05)
    monkeypatch.setattr(folder_lock, "PATIENCE", 0.4)


def test_the_second_writer_is_refused_and_told_who_writes(tmp_path):
    with (
        one_writer(tmp_path),
        pytest.raises(UsageError, match=rf"written by .* on .* \(process {os.getpid()}, since 20"),
        one_writer(tmp_path),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_another_process_is_refused(tmp_path):
    code = (
        "import sys; from pathlib import Path; from piop.folder_lock import one_writer\n"
        "with one_writer(Path(sys.argv[1])): pass"
    )
    with one_writer(tmp_path):
        found = subprocess.run(
            [sys.executable, "-c", code, tmp_path], capture_output=True, text=True
        )
    assert f"(process {os.getpid()}, since" in found.stderr


def test_a_lock_goes_with_its_block_however_that_ends(tmp_path):
    with pytest.raises(ZeroDivisionError), one_writer(tmp_path):
        raise ZeroDivisionError
    with one_writer(tmp_path):
        assert (tmp_path / LOCK).exists()


def test_a_lock_of_a_process_that_has_ended_is_taken_at_once(tmp_path, caplog):
    leave(tmp_path, pid=ended_process())
    began = time.monotonic()
    with one_writer(tmp_path):
        assert time.monotonic() - began < 1
    assert "was left behind by" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_a_lock_of_a_killed_process_that_nobody_has_waited_for_is_taken(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", ""])
    time.sleep(1)  # it has ended, and is kept as a zombie
    leave(tmp_path, pid=process.pid)
    with one_writer(tmp_path):
        pass
    process.wait()


def test_another_process_with_the_same_number_does_not_hold_the_lock(tmp_path):
    leave(tmp_path, started="17")
    with one_writer(tmp_path):
        pass


@pytest.mark.parametrize("shift", [-1e9, 1e9])
def test_no_clock_frees_a_lock_of_this_machine(tmp_path, quick, monkeypatch, shift):
    clock = time.time
    with one_writer(tmp_path):
        monkeypatch.setattr(time, "time", lambda: clock() + shift)
        os.utime(tmp_path / LOCK, (clock() + shift, clock() + shift))
        with pytest.raises(UsageError, match="is being written by"), one_writer(tmp_path):
            pass


@pytest.mark.parametrize("machine", [{"host": "far"}, {"system": "another boot"}])
def test_a_lock_of_another_machine_is_taken_when_its_heartbeat_has_stopped(
    tmp_path, quick, machine
):
    leave(tmp_path, pid=ended_process(), **machine)
    began = time.monotonic()
    with one_writer(tmp_path):
        assert time.monotonic() - began > 0.4


@pytest.mark.parametrize("shift", [-1e5, 1e5])
def test_a_lock_of_another_machine_is_judged_by_changes_whatever_its_clock_shows(
    tmp_path, quick, monkeypatch, shift
):
    """A writer whose clock jumps keeps its lock; one that has ended does not keep it for ever."""
    lock, clock = tmp_path / LOCK, time.time
    lock.write_text(json.dumps(ELSEWHERE))
    os.utime(lock, (clock() + shift, clock() + shift))
    touched = lock.stat().st_mtime_ns
    monkeypatch.setattr(folder_lock.time, "time", lambda: clock() - shift)
    monkeypatch.setattr(folder_lock, "_touched", lambda _: touched + round(shift * clock()))
    with pytest.raises(UsageError, match="written by ada on far"), one_writer(tmp_path):
        pass
    monkeypatch.setattr(folder_lock, "_touched", lambda _: touched)
    with one_writer(tmp_path):
        assert json.loads(lock.read_text()) != ELSEWHERE


def test_a_lock_of_another_machine_holds_while_it_is_touched(tmp_path, quick):
    with one_writer(tmp_path):
        (tmp_path / LOCK).write_text(json.dumps(ELSEWHERE))
        with pytest.raises(UsageError, match="written by ada on far"), one_writer(tmp_path):
            pass
    assert json.loads((tmp_path / LOCK).read_text()) == ELSEWHERE, "it is not ours to remove"


@pytest.mark.parametrize("content", ["", "{", "3", "{}", "\0\0"])
def test_a_damaged_lock_is_taken_when_its_heartbeat_has_stopped(tmp_path, quick, content):
    (tmp_path / LOCK).write_text(content)
    with one_writer(tmp_path):
        pass


def test_a_folder_that_was_taken_over_is_noticed(tmp_path):
    require_own_lock(tmp_path)
    with one_writer(tmp_path):
        require_own_lock(tmp_path)
        leave(tmp_path, pid=ended_process())
        with pytest.raises(UsageError, match="is being written by"):
            require_own_lock(tmp_path)


def test_a_lock_that_cannot_be_made_is_told(tmp_path):
    with (
        pytest.raises(UsageError, match=r"lock: cannot be written \(No such file"),
        one_writer(tmp_path / "absent"),
    ):
        pass


def test_of_many_that_find_a_lock_left_behind_one_at_a_time_holds_it(tmp_path):
    leave(tmp_path, pid=ended_process())
    code = """
import sys, time
from pathlib import Path
from piop.errors import UsageError
from piop.folder_lock import one_writer
folder = Path(sys.argv[1])
while not (folder / "go").exists():
    pass
for _ in range(300):
    try:
        with one_writer(folder):
            (folder / "inside").open("x").close()
            (folder / "inside").unlink()
    except UsageError:
        pass
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    time.sleep(1)
    (tmp_path / "go").touch()
    for process in processes:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    assert [p.name for p in tmp_path.iterdir()] == ["go"]

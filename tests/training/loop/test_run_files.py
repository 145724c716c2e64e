import errno
import json
import os

import pytest

from piop.errors import DamagedFileError, TrainingError, UsageError
from piop.training.loop.run_files import RunFiles, checksum


@pytest.fixture
def files(tmp_path):
    return RunFiles(tmp_path)


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_a_written_file_holds_its_content_and_leaves_nothing_else(files):
    files.write({"a": b"one"})
    files.write({"a": b"two"})
    assert files.read("a") == b"two"
    assert names(files.folder) == ["a", "checksums.json"]


@pytest.mark.parametrize("change", [b"twO", b"tw", b"twos", b"", b"\0\0\0", b"one"])
def test_a_change_is_noticed_and_the_file_named(files, change):
    files.write({"a": b"one"})
    files.write({"a": b"two"})
    (files.folder / "a").write_bytes(change)
    with pytest.raises(DamagedFileError, match=r"/a: is damaged, or was changed.* Do this"):
        files.read("a", "Do this")


def test_files_that_were_swapped_are_noticed(files):
    files.write({"a": b"one", "b": b"two"})
    (files.folder / "a").write_bytes(b"two")
    with pytest.raises(DamagedFileError, match="/a: is damaged"):
        files.read("a")


def test_a_moved_file_keeps_its_checksum(files):
    files.write({"a": b"one"})
    files.write({"a": b"two"}, moved={"a": "b"})
    assert (files.read("a"), files.read("b")) == (b"two", b"one")
    (files.folder / "b").write_bytes(b"two")
    with pytest.raises(DamagedFileError, match="/b: is damaged"):
        files.read("b")


def test_a_file_that_grows_is_covered_as_far_as_it_was_written(files):
    (files.folder / "a").write_bytes(b"one")
    files.write({}, covered={"a": checksum(b"on")})
    assert files.read("a", grows=True) == b"one"
    with pytest.raises(DamagedFileError):
        files.read("a")
    (files.folder / "a").write_bytes(b"One")
    with pytest.raises(DamagedFileError):
        files.read("a", grows=True)


def test_files_without_checksums_are_read_as_they_are(files):
    (files.folder / "a").write_bytes(b"old")
    assert not files.covered
    assert files.read("a") == b"old"
    files.write({"b": b"new"})
    assert files.covered
    assert files.read("a") == b"old"


@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff", b'{"files": {}, "checksum": "0"}', b"[]"])
def test_damaged_checksums_are_told(files, damage):
    files.write({"a": b"one"})
    (files.folder / "checksums.json").write_bytes(damage)
    with pytest.raises(DamagedFileError, match=r"checksums.json: is damaged.*remove it"):
        files.read("a")
    (files.folder / "checksums.json").unlink()
    assert files.read("a") == b"one"


def test_a_kill_between_any_two_steps_leaves_files_that_match(files, monkeypatch):
    """Each call to the operating system is the last one in turn."""
    files.write({"a": b"one", "s": b"state"})
    files.write({"a": b"one", "s": b"state 1"}, moved={"s": "t"})
    before = {p.name: p.read_bytes() for p in files.folder.iterdir()}
    good = {name: getattr(os, name) for name in ("fsync", "replace")}

    class Killed(BaseException):
        pass

    def until(last):
        count = 0

        def counted(name):
            def call(*args, **kwargs):
                nonlocal count
                count += 1
                if count > last:
                    raise Killed
                return good[name](*args, **kwargs)

            return call

        for name in good:
            monkeypatch.setattr(os, name, counted(name))

    seen = set()
    for last in range(100):
        for name, content in before.items():
            (files.folder / name).write_bytes(content)
        until(last)
        try:
            files.write({"a": b"two", "s": b"state 2"}, moved={"s": "t"})
        except Killed:
            killed = True
        else:
            killed = False
        for name, call in good.items():
            monkeypatch.setattr(os, name, call)
        state = files.read("s") if (files.folder / "s").exists() else None
        seen.add((files.read("a"), state, files.read("t")))
        if not killed:
            break
    assert (b"one", b"state 1", b"state") in seen
    assert (b"one", None, b"state 1") in seen
    assert seen >= {(b"two", b"state 2", b"state 1")}
    assert last > 8


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_full_disk_keeps_the_version_before(files, monkeypatch, failing):
    files.write({"a": b"one"})

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, failing, full)
    with pytest.raises(TrainingError, match=r"No space left.*version before is kept.*Free some"):
        files.write({"a": b"two"})
    monkeypatch.undo()
    assert files.read("a") == b"one"


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "Free some space, then"),
        (errno.EDQUOT, "raise your quota"),
        (errno.EFBIG, "limit on file sizes"),
        (errno.EROFS, "Give write permission, or use another disk"),
        (errno.EACCES, "Give write permission"),
    ],
)
def test_the_remedy_is_that_of_the_cause(files, monkeypatch, number, remedy):
    def fail(*args):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(TrainingError, match=rf"/a: cannot be written .*{remedy}.*same command"):
        files.write({"a": b"one"})
    (files.folder / "config.json").write_text("{}")
    with pytest.raises(TrainingError, match=rf"{remedy}.*go on with: piop resume"):
        files.write({"a": b"one"})
    assert names(files.folder) == ["config.json"]


def test_a_folder_that_another_process_has_taken_over_is_not_written(files):
    holder = {"user": "ada", "host": "far", "system": "", "pid": 1, "started": "", "since": "now"}
    (files.folder / "lock").write_text(json.dumps(holder))
    with pytest.raises(UsageError, match="is being written by ada on far"):
        files.write({"a": b"one"})
    assert names(files.folder) == ["lock"]

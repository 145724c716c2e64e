import errno

import pytest

from piop.errors import DamagedFileError, TrainingError
from piop.training.loop.checkpoint import MetricsFile, read_metrics
from piop.training.loop.run_files import RunFiles


@pytest.fixture
def files(tmp_path):
    return RunFiles(tmp_path)


def written(files, *rows, size=0):
    """Append rows; return the size of the file, which the checksum covers."""
    file = MetricsFile(files, size)
    for row in rows:
        file.write(row)
    covered = file.flush()
    files.write({}, covered={"metrics.jsonl": covered})
    file.close()
    return covered[0]


def test_rows_are_read_back(files):
    written(files, {"step": 1, "loss": 0.1}, {"step": 2, "loss": 1e-9})
    assert read_metrics(files) == [{"step": 1, "loss": 0.1}, {"step": 2, "loss": 1e-9}]


def test_rows_after_the_checkpoint_are_cut(files):
    size = written(files, {"step": 1})
    file = MetricsFile(files, size)
    file.write({"step": 2})
    file.close()
    assert read_metrics(files) == [{"step": 1}, {"step": 2}]
    written(files, {"step": 20}, size=size)
    assert read_metrics(files) == [{"step": 1}, {"step": 20}]


def test_going_on_from_the_checkpoint_before_cuts_what_was_covered(files):
    first = written(files, {"step": 1})
    written(files, {"step": 2}, size=first)
    file = MetricsFile(files, first)  # killed before its first checkpoint
    file.write({"step": 3})
    file.close()
    assert read_metrics(files) == [{"step": 1}, {"step": 3}]


def test_a_line_cut_short_by_a_kill_is_left_out(files):
    (files.folder / "metrics.jsonl").write_text('{"step": 1}\n{"ste')
    assert read_metrics(files) == [{"step": 1}]


def test_without_a_file_there_are_no_rows(files, caplog):
    MetricsFile(files).close()  # as a run that is killed before its first row
    (files.folder / "metrics.jsonl").unlink()
    assert read_metrics(files) == []
    assert not caplog.text


@pytest.mark.parametrize("line", [b'{"step": 2,,}', b"\xff\xfe", b"3", b"\0\0"])
def test_a_damaged_line_is_named(files, line):
    (files.folder / "metrics.jsonl").write_bytes(b'{"step": 1}\n' + line + b'\n{"step": 3}\n')
    with pytest.raises(DamagedFileError, match=r"metrics.jsonl:2: is damaged.*piop resume"):
        read_metrics(files)


def test_a_changed_digit_is_noticed(files):
    size = written(files, {"step": 1, "loss": 0.1})
    path = files.folder / "metrics.jsonl"
    path.write_text(path.read_text().replace("0.1", "0.2"))
    for action in (read_metrics, lambda f: MetricsFile(f, size)):
        with pytest.raises(DamagedFileError, match=r"metrics.jsonl: is damaged"):
            action(files)


def test_rows_that_are_gone_are_told(files, caplog):
    size = written(files, {"step": 1})
    (files.folder / "metrics.jsonl").unlink()
    assert read_metrics(files) == []
    assert "metrics.jsonl: is gone" in caplog.text
    caplog.clear()
    written(files, {"step": 2}, size=size)
    assert "metrics.jsonl: is gone" in caplog.text
    assert read_metrics(files) == [{"step": 2}]


def test_a_file_shorter_than_at_the_checkpoint_is_damaged_without_checksums_too(files):
    size = written(files, {"step": 1})
    (files.folder / "checksums.json").unlink()
    (files.folder / "metrics.jsonl").write_text("{")
    with pytest.raises(DamagedFileError, match="shorter than at the checkpoint"):
        MetricsFile(files, size)


def test_an_unwritable_place_is_named(tmp_path):
    with pytest.raises(TrainingError, match=r"absent.*cannot be written"):
        MetricsFile(RunFiles(tmp_path / "absent"))


@pytest.mark.parametrize("action", ["write", "flush"])
def test_a_full_disk_is_told(files, action):
    metrics = MetricsFile(files)

    class Full:
        def write(self, content):
            raise OSError(errno.ENOSPC, "No space left on device")

        flush = close = lambda self: self.write(b"")

    metrics.file = Full()
    with pytest.raises(TrainingError, match=r"metrics.jsonl: cannot be written .*Free some space"):
        metrics.write({}) if action == "write" else metrics.flush()
    metrics.close()

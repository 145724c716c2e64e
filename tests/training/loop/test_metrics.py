import errno

import pytest

from piop.errors import TrainingError
from piop.training.loop.checkpoint import MetricsFile, read_metrics


def test_rows_are_read_back(tmp_path):
    path = tmp_path / "m"
    file = MetricsFile(path)
    file.write({"step": 1, "loss": 0.1})
    file.write({"step": 2, "loss": 1e-9})
    file.flush()
    file.close()
    assert read_metrics(path) == [{"step": 1, "loss": 0.1}, {"step": 2, "loss": 1e-9}]


def test_rows_after_the_checkpoint_are_cut(tmp_path):
    path = tmp_path / "m"
    file = MetricsFile(path)
    file.write({"step": 1})
    size = file.flush()
    file.write({"step": 2})
    file.close()
    again = MetricsFile(path, size)
    again.write({"step": 20})
    again.close()
    assert read_metrics(path) == [{"step": 1}, {"step": 20}]


def test_a_line_cut_short_by_a_kill_is_left_out(tmp_path):
    (tmp_path / "m").write_text('{"step": 1}\n{"ste')
    assert read_metrics(tmp_path / "m") == [{"step": 1}]


def test_without_a_file_there_are_no_rows(tmp_path):
    assert read_metrics(tmp_path / "m") == []


def test_an_unwritable_place_is_named(tmp_path):
    with pytest.raises(TrainingError, match="cannot be written"):
        MetricsFile(tmp_path / "absent" / "m")


@pytest.mark.parametrize("action", ["write", "flush"])
def test_a_full_disk_is_told(tmp_path, action):
    metrics = MetricsFile(tmp_path / "m")

    class Full:
        def write(self, content):
            raise OSError(errno.ENOSPC, "No space left on device")

        def flush(self):
            raise OSError(errno.ENOSPC, "No space left on device")

    metrics.file = Full()
    with pytest.raises(TrainingError, match="No space left"):
        metrics.write({}) if action == "write" else metrics.flush()

import pytest

from piop.errors import UsageError
from piop.training.setting_declarations import parse_time


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("5m", 300), ("1.5h", 5400), ("2min", 120), (7, 7)]
)
def test_times_are_read_with_their_units(text, seconds):
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["9" * 400, "", "5 days", "-3s", "0", "nan", "m"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(UsageError, match="not a length of time"):
        parse_time(text)

import pytest

from piop.errors import UsageError
from piop.training.setting_declarations import convert, parse_time


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("5m", 300), ("1.5h", 5400), ("2min", 120), (7, 7)]
)
def test_times_are_read_with_their_units(text, seconds):
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["9" * 400, "", "5 days", "-3s", "0", "nan", "m"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(UsageError, match="not a length of time"):
        parse_time(text)


@pytest.mark.parametrize("value", ["1000001", 10**20, "1e300"])
def test_whole_numbers_that_no_memory_holds_are_refused(value):
    with pytest.raises(UsageError, match=r"queries: .* is more than 1000000"):
        convert("queries", value, int)
    assert convert("queries", "1000000", int) == 10**6

"""Messages: frames keep their numbers, and malformed requests are refused."""

import json

import pytest
import torch

from piop.errors import UsageError
from piop.explore.limits import MESSAGE_BYTES
from piop.explore.messages import ShowRequest, frame_bytes, read_frame


def test_a_frame_holds_its_header_and_arrays():
    arrays = {"values": torch.arange(6.0).reshape(2, 3), "sensors/ü": torch.tensor([[0.5]])}
    header, found = read_frame(frame_bytes({"type": "answer", "bound": float("nan")}, arrays))
    assert header["type"] == "answer"
    assert header["bound"] is None
    assert found["values"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found["sensors/ü"].tolist() == [[0.5]]


def test_arrays_begin_where_four_bytes_can_be_read():
    for text in ("", "a", "ab", "abc"):
        size = int.from_bytes(frame_bytes({"text": text}, {})[:4], "little")
        assert size % 4 == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[1]", "is not an object"),
        ("[" * 100_000, "is not JSON"),
        ('{"type": "show", "id": NaN}', "is not JSON"),
        ("x" * (MESSAGE_BYTES + 1), f"at most {MESSAGE_BYTES}"),
        ('{"type": "run"}', "the type 'run' is not 'show'"),
        ('{"type": "show"}', "id: None is not a whole number"),
        ('{"type": "show", "id": 1, "frame": 5}', "frame: 5"),
        ('{"type": "show", "id": 1, "frame": "0"}', "frame: '0' is not a whole number"),
        ('{"type": "show", "id": -1}', "id: -1"),
    ],
)
def test_a_malformed_request_is_refused(text, message):
    with pytest.raises(UsageError) as error:
        ShowRequest.read(text, 5)
    assert message in str(error.value)


def test_a_request_is_read():
    text = json.dumps({"type": "show", "id": 3, "inputs": {"a": 1}, "sensors": {}, "frame": 4})
    assert ShowRequest.read(text, 5) == ShowRequest(3, {"a": 1}, {}, 4)

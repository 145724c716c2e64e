"""The page on a real loopback socket: who may call it, what it refuses, how many it serves."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from piop.errors import UsageError
from piop.explore import limits, server
from piop.explore.limits import MESSAGE_BYTES, SENSORS, SOCKETS, UPLOAD_BYTES
from piop.explore.messages import read_frame
from piop.run import Run

ROOT = Path(__file__).resolve().parents[2]
DRAWN = {"u0": {"kind": "draw", "seed": 2}}


def page(served, origin=None, **settings):
    own = f"http://127.0.0.1:{served.port}" if origin is None else origin
    address = f"ws://127.0.0.1:{served.port}/socket"
    return connect(address, origin=own or None, max_size=None, open_timeout=30, **settings)


def show(number, inputs=DRAWN, **more):
    return json.dumps({"type": "show", "id": number, "inputs": inputs, **more})


def receive(socket, kind, number=None, seconds=60):
    """Wait for a message of a kind: header and arrays."""
    end = time.monotonic() + seconds
    while True:
        data = socket.recv(timeout=end - time.monotonic())
        header, arrays = (json.loads(data), {}) if isinstance(data, str) else read_frame(data)
        if header["type"] == kind and number in (None, header.get("id")):
            return header, arrays


def get(served, path="/", **headers):
    request = urllib.request.Request(f"http://127.0.0.1:{served.port}{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.status, answer.headers, answer.read()


def test_a_request_is_answered_in_all_stages(served, run_path, explored):
    with page(served) as socket:
        hello, _ = receive(socket, "hello")
        assert hello["name"] == "small_heat"
        socket.send(show(1, frame=2))
        _, answer = receive(socket, "answer", 1)
        trust, _ = receive(socket, "trust", 1)
        _, whole = receive(socket, "whole", 1)
        compared, reference = receive(socket, "reference", 1)
    inputs = explored.read(DRAWN, None)
    observed = inputs.observe(inputs.functions())
    predicted = Run.load(run_path).predict(observed, explored.display.queries().axes)
    expected = predicted["u"].values
    np.testing.assert_allclose(answer["values"][0, 0], expected[0, 2], atol=1e-6)
    np.testing.assert_allclose(whole["values"], expected, atol=1e-6)
    assert trust["bound"] == pytest.approx(predicted["error_bound"].values[0], rel=1e-6)
    error = np.linalg.norm(whole["values"] - reference["values"])
    error /= np.linalg.norm(reference["values"])
    assert compared["error"] == pytest.approx(error, rel=1e-3)
    assert compared["error_estimate"] < 1e-5


def test_the_page_comes_with_its_assets_and_names_no_other_place(served):
    _, headers, text = get(served)
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    linked = re.findall(r'(?:src|href)="([^"#]+)"', text.decode())
    scripts = ["connection.js", "link.js", "inputs.js", "answers.js"]
    for name in [name for name in linked if not name.startswith("data:")] + scripts:
        status, headers, content = get(served, f"/{name}")
        assert status == 200
        assert headers["x-content-type-options"] == "nosniff"
        found = re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", content.decode())
        assert set(found) <= {"http://www.w3.org"}


def test_there_are_no_other_files(served):
    for path in ("/../server.py", "/%2e%2e/server.py", "/assets/page.js", "/spec.yaml"):
        with pytest.raises(urllib.error.HTTPError) as error:
            get(served, path)
        assert error.value.code == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:1"},
        {"Origin": "http://evil.example"},
    ],
)
def test_pages_of_other_sites_get_nothing(headers, served):
    with pytest.raises(urllib.error.HTTPError) as error:
        get(served, **headers)
    assert error.value.code == 403


def test_the_page_may_be_called_by_either_name(served):
    assert get(served, Host=f"localhost:{served.port}")[0] == 200
    with page(served, f"http://localhost:{served.port}") as socket:
        receive(socket, "hello")


@pytest.mark.parametrize(
    "origin", ["", "http://evil.example", "null", "http://127.0.0.1", "https://127.0.0.1:{port}"]
)
def test_sockets_of_other_sites_are_refused(origin, served):
    with pytest.raises(InvalidStatus) as error, page(served, origin.format(port=served.port)):
        pass
    assert error.value.response.status_code == 403


MALFORMED = [
    "",
    "{",
    "null",
    "[" * 10_000,
    '{"type": "show"}',
    '{"type": "close"}',
    '{"type": "show", "id": 1e400}',
    "x" * (MESSAGE_BYTES + 1),
]


def test_malformed_messages_are_told_and_do_no_harm(served):
    with page(served) as socket:
        receive(socket, "hello")
        for text in MALFORMED:
            socket.send(text)
            error, _ = receive(socket, "error")
            assert error["stage"] == "message"
            assert "bug" not in error["message"]
        socket.send(show(7))
        receive(socket, "answer", 7)


def test_definitions_that_do_not_fit_are_told(served):
    outside = {"u0": {"kind": "sensors", "points": [[9.0]], "values": [1.0]}}
    with page(served) as socket:
        for number, inputs in enumerate([{}, {"u0": 3}, {"u0": {"kind": "values"}}], 1):
            socket.send(show(number, inputs))
            error, _ = receive(socket, "error", number)
            assert error["stage"] == "answer"
            assert "bug" not in error["message"]
        socket.send(show(9, outside))
        error, _ = receive(socket, "error", 9)
        assert "outside [0, 2]" in error["message"]


def test_a_message_that_is_far_too_large_closes_the_socket_alone(served):
    with page(served) as socket:
        receive(socket, "hello")
        with pytest.raises(ConnectionClosed) as closed:
            socket.send(b"0" * (UPLOAD_BYTES + 1))
            receive(socket, "never", seconds=10)
        assert closed.value.rcvd.code == 1009
    with page(served) as socket:
        receive(socket, "hello")


def test_a_file_of_sensors_becomes_a_definition(served):
    rows = "\n".join(
        f"{s},{x},{np.sin(3.14159 * x + s):.6f}" for s in (0, 1) for x in (0.1, 0.9, 1.4)
    )
    with page(served) as socket:
        socket.send(f"sample,x,u0\n{rows}\n".encode())
        found, _ = receive(socket, "uploaded")
        assert found["samples"] == 2
        definition = found["inputs"]["u0"]
        assert definition["points"] == [[0.1], [0.9], [1.4]]
        socket.send(show(1, found["inputs"]))
        _, arrays = receive(socket, "answer", 1)
        np.testing.assert_allclose(arrays["observed/u0"], definition["values"], rtol=1e-6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file"),
        (b"\x00\x01\x02", "the file"),
        (b"x,v\n1,2\n", "no column 'u0'"),
        (b"x,u0\n9,2\n", "outside"),
        (b"\x89HDF\r\n\x1a\n" + b"0" * 100, "the file"),
        (b"x,u0\n" + b"".join(b"%.7f,1\n" % (i / SENSORS) for i in range(SENSORS + 1)), "at most"),
    ],
)
def test_a_file_that_does_not_fit_is_told_without_its_place(content, message, served):
    with page(served) as socket:
        socket.send(content)
        error, _ = receive(socket, "error")
        assert error["stage"] == "upload"
        assert message in error["message"]
        assert "piop-explore" not in error["message"]
        assert "bug" not in error["message"]


def test_fifty_pages_at_once_are_answered(served):
    """All ask for something else at once, again and again; the bound is for slow machines."""
    slowest, failed = [], []

    def use(number):
        try:
            with page(served) as socket:
                receive(socket, "hello")
                for step in range(4):
                    begun = time.monotonic()
                    seed = {"u0": {"kind": "draw", "seed": 10 * number + step}}
                    socket.send("{")  # malformed ones in between
                    socket.send(show(step, seed))
                    receive(socket, "answer", step)
                    slowest.append(time.monotonic() - begun)
        except Exception as error:
            failed.append(error)

    pages = [threading.Thread(target=use, args=(number,)) for number in range(50)]
    for thread in pages:
        thread.start()
    for thread in pages:
        thread.join(60)
    assert not failed
    assert len(slowest) == 200
    assert max(slowest) < 10


def test_more_pages_than_allowed_are_told_so(serve_page, explored):
    with serve_page(explored) as served, ExitStack() as opened:
        pages = [opened.enter_context(page(served)) for _ in range(SOCKETS)]
        for socket in pages:
            receive(socket, "hello")
        with page(served) as socket:
            error, _ = receive(socket, "error")
            assert f"{SOCKETS} pages are connected already" in error["message"]
        pages[0].close()
        time.sleep(0.2)
        with page(served) as socket:
            receive(socket, "hello")


def test_messages_that_come_too_fast_wait():
    import asyncio

    async def timed(count):
        pace = server.Pace(100)
        begun = time.monotonic()
        for _ in range(count):
            await pace()
        return time.monotonic() - begun

    assert asyncio.run(timed(100)) < 0.5
    assert asyncio.run(timed(101)) > 0.9


def test_a_port_in_use_is_refused(served):
    with pytest.raises(UsageError, match=f"--port: {served.port} cannot be used .*leave it out"):
        server.listen(served.port)


def test_a_missing_extra_is_named_with_its_command(monkeypatch, tmp_path):
    monkeypatch.setattr("piop.extras.find_spec", lambda name: None if name == "uvicorn" else name)
    with pytest.raises(UsageError, match=r"needs uvicorn; .* pip install 'piop\[explore\]'"):
        server.serve("burgers")


def test_the_documentation_states_the_limits_of_the_code():
    text = " ".join((ROOT / "docs" / "explore.md").read_text().split())
    shown = limits.SHOWN_POINTS
    for stated in (
        f"{shown[1][0]} times and {shown[1][1]} points",
        f"{shown[2][0]} times and {shown[2][1]} × {shown[2][1]} points",
        f"{shown[3][0]} times and {shown[3][1]} × {shown[3][1]} × {shown[3][1]} points",
        f"longer than {limits.REFERENCE_SECONDS:g} seconds",
        f"the {limits.WAVES} strongest waves",
        f"{SOCKETS} pages at once",
        f"messages of {MESSAGE_BYTES // 1024} KiB, and {limits.MESSAGES_PER_SECOND} of them",
        f"{SENSORS} sensors or painted values",
        f"at most {UPLOAD_BYTES // 2**20} MiB",
    ):
        assert stated in text
    page = (ROOT / "piop/explore/assets/link.js").read_text()
    assert "more than 16,000 characters" in text
    assert "LONGEST = 16000" in page
    own = (ROOT / "piop/explore/assets/page.js").read_text()
    assert f"LARGEST_FILE = {UPLOAD_BYTES // 2**20} * 2 ** 20" in own


def free_port():
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return own.getsockname()[1]


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_a_spec_and_ends_with_its_signal(stop, tmp_path, heat):
    file, port = tmp_path / "heat.yaml", free_port()
    file.write_text(heat.to_yaml())
    command = [
        sys.executable,
        "-m",
        "piop",
        "explore",
        str(file),
        "--no-browser",
        "--port",
        str(port),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as own:
        first = own.stdout.readline()
        assert first == f"Exploring small_heat: http://127.0.0.1:{port}/\n"
        served = type("Command", (), {"port": port})
        with page(served) as socket:
            hello, _ = receive(socket, "hello")
            assert hello["mode"] == "spec"
            if stop == signal.SIGINT:
                socket.send(show(1))
                _, arrays = receive(socket, "reference", 1)
                assert arrays["values"].shape == (1, 5, 16)
            own.send_signal(stop)
            out, err = own.communicate(timeout=30)
        assert own.returncode == 0
        assert "Traceback" not in out + err


def test_the_command_refuses_what_it_cannot_show(tmp_path):
    from piop.cli import cli
    from piop.cli.failures import run_command

    assert run_command(cli, ["explore", str(tmp_path / "none")]) == 2
    assert run_command(cli, ["explore", "era5", "--no-browser"]) == 2
    assert run_command(cli, ["explore", "burgers", "--port", "0"]) == 2

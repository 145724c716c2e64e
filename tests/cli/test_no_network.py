"""No command needs a network, and none uses one: no download, no telemetry."""

import socket

from tests.cli.conftest import SMALL


class Refused:
    def __init__(self, *_, **__):
        raise AssertionError("a socket was opened")


def test_no_command_opens_a_socket(piop, sensors, tmp_path, monkeypatch):
    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, Refused)
    run, data = tmp_path / "run", tmp_path / "d.nc"
    for arguments in (
        ["check", "heat"],
        ["data", "heat", "-n", 2, "--output", data],
        ["solve", "heat", "--steps", 2, "--data", data, "--out", run, *SMALL],
        ["evaluate", run],
        ["predict", run, "--input", sensors, "--output", tmp_path / "p.nc"],
    ):
        code, _, err = piop(*arguments)
        assert code == 0, err

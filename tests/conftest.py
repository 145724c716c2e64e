"""Settings shared by every test: one thread per worker, slow tests last, reproducible examples."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two workers share the machine

settings.register_profile(
    "piop", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("piop")


@pytest.fixture(scope="session", autouse=True)
def user_cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the user's own cache out of the tests, also those in processes of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("user_cache")))
        yield


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Give torch so many threads in a block, in place of the one of a worker."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Give torch one thread."""
    with torch_threads(1):
        yield


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Give torch two threads."""
    with torch_threads(2):
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run fast tests first, so that a broken build says so early."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)


class Together:
    """Starts a command in several processes, as torchrun does, without its seconds of start-up.

    The store is kept here, as torchrun's agent keeps it, so that no port has to be guessed.
    """

    def __init__(self) -> None:
        self.running: list[subprocess.Popen[str]] = []
        self.stores: list[object] = []

    def start(self, count: int, *command: object) -> list[subprocess.Popen[str]]:
        from torch.distributed import TCPStore

        store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self.stores.append(store)
        shared = {
            "WORLD_SIZE": str(count),
            "LOCAL_WORLD_SIZE": str(count),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(store.port),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "TORCHELASTIC_RESTART_COUNT": "0",
            "OMP_NUM_THREADS": "1",
        }
        for rank in range(count):
            own = {**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            arguments = [sys.executable, *map(str, command)]
            self.running.append(
                subprocess.Popen(
                    arguments, env=own, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
                )
            )
        return self.running[-count:]

    def run(self, count: int, *command: object, timeout: float = 240) -> list[tuple[int, str, str]]:
        """Give exit code, stdout and stderr of each rank."""
        started = self.start(count, *command)
        said = [process.communicate(timeout=timeout) for process in started]
        return [(p.returncode, *words) for p, words in zip(started, said, strict=True)]

    def close(self) -> None:
        for process in self.running:
            if process.poll() is None:
                process.kill()
                process.communicate()


@pytest.fixture(scope="module")
def together() -> Iterator[Together]:
    """Several processes at once; those left over are killed at the end."""
    processes = Together()
    yield processes
    processes.close()

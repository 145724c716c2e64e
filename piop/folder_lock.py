"""One writer at a time in a folder, also on a file system that several machines share."""

from __future__ import annotations

import contextlib
import datetime
import getpass
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self, final

from piop.errors import UsageError

logger = logging.getLogger(__name__)

LOCK = "lock"
BEAT, PATIENCE = 5.0, 60.0
"""Seconds between heartbeats, and without one until a writer of another machine counts as ended."""


@final
@dataclass(frozen=True)
class Holder:
    """The process that holds a lock.

    Attributes:
        user: Whose process it is.
        host: Name of its machine.
        system: Boot and process namespace within which ``pid`` has a meaning.
        pid: Its number there.
        started: When it started, in ticks since the boot, which no other process with its number
            has; empty where the system does not tell.
        since: When it took the lock, by the clock of its machine.
    """

    user: str
    host: str
    system: str
    pid: int
    started: str
    since: str

    @classmethod
    def this_process(cls) -> Self:
        """Describe this process."""
        try:
            user = getpass.getuser()
        except (KeyError, OSError):  # no name belongs to the number of the user
            user = str(os.getuid())
        since = datetime.datetime.now().astimezone().isoformat(sep=" ")
        pid = os.getpid()
        return cls(user, socket.gethostname(), _system(), pid, _start_of(pid) or "", since)

    @property
    def is_local(self) -> bool:
        """Whether this process can see the holder."""
        return (self.host, self.system) == (socket.gethostname(), _system())

    @property
    def runs(self) -> bool:
        """Whether the holder, of this machine, is running still: no clock decides that."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # it runs, and is another user's
        return _start_of(self.pid) in (None, self.started)

    def __str__(self) -> str:
        return f"{self.user} on {self.host} (process {self.pid}, since {self.since[:19]})"


def _system() -> str:
    """Name what gives a process number its meaning: this boot, and this container."""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    return ""


def _start_of(pid: int) -> str | None:
    """Return when a process started; None if unknown, and another text once it has ended."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return "ended" if state == "Z" else fields[18]


@contextmanager
def one_writer(folder: Path) -> Iterator[None]:
    """Be the only process that writes in a folder, for the length of a block.

    The lock is a file that names its holder and is touched every ``BEAT`` seconds. That of a
    process of this machine is left behind once the process has ended; that of another machine once
    it was not touched for ``PATIENCE`` seconds, by this machine's monotonic clock.

    Raises:
        UsageError: Another process is writing, or the folder cannot be written.
    """
    path = folder / LOCK
    own = json.dumps(asdict(Holder.this_process())).encode()
    while not _create(path, own):
        _remove_stale(path)
    ended = threading.Event()
    threading.Thread(target=_keep_touching, args=(path, ended), daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        with contextlib.suppress(OSError):
            if path.read_bytes() == own:
                path.unlink()


def require_own_lock(folder: Path) -> None:
    """Make sure that no other process has taken a folder over, such as after a long suspension.

    Raises:
        UsageError: If one has.
    """
    holder = _holder(folder / LOCK)
    if holder is not None and holder != replace(Holder.this_process(), since=holder.since):
        raise _refusal(folder, holder)


def _create(path: Path, content: bytes) -> bool:
    """Make a lock; False where there is one."""
    try:
        with path.open("xb") as file:
            try:
                file.write(content)
                file.flush()
            except OSError:
                path.unlink(missing_ok=True)
                raise
    except FileExistsError:
        return False
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be written ({error.strerror}), and so nothing else in {path.parent}. "
            "Give write permission or free some space"
        ) from error
    return True


def _holder(path: Path) -> Holder | None:
    """Read who holds a lock; None where it is gone, half written or damaged."""
    try:
        return Holder(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def _remove_stale(path: Path) -> None:
    """Remove a lock that was left behind.

    Raises:
        UsageError: If its holder is running.
    """
    seen = _touched(path)
    holder = _holder(path)
    if holder is not None and holder.is_local:
        stale = not holder.runs
    else:
        stale = seen is not None and not _is_touched_again(path, seen, holder)
    if _touched(path) is None:
        return
    if not stale:
        raise _refusal(path.parent, holder)
    logger.warning("%s: was left behind by %s", path, holder or "a process that was killed")
    aside = path.with_name(f"{LOCK}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):  # another process was faster
        path.rename(aside)
        if _holder(aside) != holder:  # and has its own lock by now
            aside.rename(path)
        aside.unlink(missing_ok=True)


def _refusal(folder: Path, holder: Holder | None) -> UsageError:
    return UsageError(
        f"{folder}: is being written by {holder or 'another process'}. Wait until it has ended, or "
        "stop it first"
    )


def _is_touched_again(path: Path, seen: int, holder: Holder | None) -> bool:
    """Wait for a heartbeat, or for the lock to go."""
    who = f"written by {holder}" if holder else "being written"
    logger.info("%s: %s; waiting up to %g s for a heartbeat", path.parent, who, PATIENCE)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        time.sleep(min(1.0, BEAT))
        if _touched(path) != seen:
            return True
    return False


def _touched(path: Path) -> int | None:
    """Return when a file was touched; None where it is gone. Opening it asks the file server."""
    try:
        with path.open("rb") as file:
            return os.fstat(file.fileno()).st_mtime_ns
    except OSError:
        return None


def _keep_touching(path: Path, ended: threading.Event) -> None:
    while not ended.wait(BEAT):
        with contextlib.suppress(OSError):  # a lock that was taken away is noticed when writing
            os.utime(path)

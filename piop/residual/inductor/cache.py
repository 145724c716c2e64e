"""What Inductor's cache of compiled graphs holds, and what tells its entries apart."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule


def fresh_cache() -> AbstractContextManager[Any]:
    """Give the compiler an empty cache in a block."""
    from torch._inductor.utils import fresh_cache

    return fresh_cache()


def instruction_set() -> str:
    """Return for which processor code is compiled: what torch uses of it, and what it can do.

    The compiler makes use of all that the processor can do, torch's own code within kernels of no
    more than ``ATEN_CPU_CAPABILITY`` lets it.
    """
    can = (name for name, found in torch.cpu.get_capabilities().items() if found is True)
    machine = torch.cpu.get_capabilities().get("architecture", "")
    return " ".join([torch.backends.cpu.get_cpu_capability(), str(machine), *sorted(can)])


@contextmanager
def keyed_by_instruction_set() -> Iterator[None]:
    """Let Inductor's cache tell processors apart in a block, which its own key does not."""
    from torch.compiler import config

    own: Any = config
    with own.patch(cache_key_tag=f"{own.cache_key_tag} {instruction_set()}"):
        yield


def graph_digest(graph: GraphModule, examples: list[Tensor], threads: int | None = None) -> str:
    """Return what identifies a compiled graph.

    These are its operations, shapes and constants, torch's version, the number of threads and the
    instruction set.

    Args:
        graph: The graph.
        examples: Tensors of the shapes to come.
        threads: Threads of each of its kernels; by default as many as torch uses now.
    """
    found = hashlib.sha256(graph.code.encode())
    known = torch.__version__, str(threads or torch.get_num_threads()), instruction_set()
    found.update(repr([(t.shape, t.stride(), t.dtype) for t in examples]).encode())
    found.update(", ".join(known).encode())
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            constant = getattr(graph, node.target).detach().cpu().contiguous().reshape(-1)
            found.update(constant.view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def _note(digest: str) -> Path:
    """Return the file that says that a graph is in the cache, within that cache."""
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    return Path(cache_dir()) / "piop" / digest


def is_cached(digest: str) -> bool:
    """Whether a graph was compiled before, and the cache of the compiler was not cleared since."""
    return _note(digest).exists()


def note_cached(digest: str) -> None:
    """Note that a graph was compiled; a cache that cannot be written to is left as it is."""
    with suppress(OSError):
        _note(digest).parent.mkdir(exist_ok=True)
        _note(digest).touch()

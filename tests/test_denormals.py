"""Denormal numbers count as zero in a block, on its thread and on those that start in it."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from piop.denormals import flush_denormals
from tests.denormals import is_flushed


def test_denormals_are_zero_within_blocks_alone():
    assert not is_flushed()
    with flush_denormals():
        assert is_flushed()
        with flush_denormals():
            pass
        assert is_flushed()
    assert not is_flushed()
    with pytest.raises(KeyError), flush_denormals():
        raise KeyError
    assert not is_flushed()


def test_threads_that_start_in_a_block_flush_too():
    with flush_denormals(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(is_flushed).result()


OWN_THREADS = """
import torch
from piop.denormals import flush_denormals
torch.set_num_threads(2)
with flush_denormals():
    products = torch.full((2**20,), 1e-30) * 1e-10
assert (products == 0).all()
"""


def test_torchs_own_threads_flush_where_they_start_in_a_block():
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", OWN_THREADS], check=True, env=environment)

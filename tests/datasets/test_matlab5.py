"""MATLAB files of version 5, against SciPy's reader."""

import numpy as np
import pytest
from scipy.io import loadmat, savemat
from scipy.sparse import eye_array

from piop.datasets import inspect_file
from piop.datasets.formats.matlab5 import matlab5_arrays
from piop.errors import DataError


@pytest.mark.parametrize("packed", [False, True])
def test_arrays_are_those_that_scipy_reads(tmp_path, packed):
    rng = np.random.default_rng(0)
    kinds = ("f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")
    arrays = {f"a_{kind}": (100 * rng.random((3, 4, 5))).astype(kind) for kind in kinds}
    arrays |= {"b": np.array([[True, False]]), "x": np.arange(5.0)[None], "s": np.array([[7.0]])}
    cell = np.empty((1, 2), dtype=object)
    cell[0, 0], cell[0, 1] = "a", np.ones(3)
    others = {"c": cell, "d": {"a": 1.0}, "n": "text", "m": eye_array(5).tocsc(), "z": [[1j, 2]]}
    savemat(tmp_path / "d.mat", {**arrays, **others}, do_compression=packed)
    expected, found = loadmat(tmp_path / "d.mat"), matlab5_arrays(tmp_path / "d.mat")
    assert set(found) == set(arrays)
    for name, array in found.items():
        assert array.shape == expected[name].shape
        assert array.dtype == expected[name].dtype
        assert np.array_equal(array[(slice(None),) * len(array.shape)], expected[name])


def test_a_flipped_bit_of_a_packed_array_is_noticed(tmp_path):
    path = tmp_path / "d.mat"
    savemat(path, {"u": np.random.default_rng(0).random((30, 4))}, do_compression=True)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"cannot be read: .*Is it damaged"):
        inspect_file(path)


def test_every_cut_is_refused(tmp_path):
    path = tmp_path / "d.mat"
    savemat(path, {"u": np.ones((3, 4)), "a": np.ones((3, 4))})
    whole = path.read_bytes()
    for length in range(129, len(whole), 5):
        if length != 128 + (len(whole) - 128) // 2:  # there the first array ends
            path.write_bytes(whole[:length])
            with pytest.raises(DataError):
                inspect_file(path)

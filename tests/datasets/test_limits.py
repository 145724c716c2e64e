"""Files of unknown origin: what they declare is judged, and nothing beside them is read."""

import h5py
import numcodecs
import numpy as np
import pytest

from piop.datasets import inspect_file, read_dataset, read_sensors
from piop.datasets.formats.limits import EXPANSION, SMALL, check_sizes
from piop.errors import DataError
from tests.faults import files


def test_declared_sizes_are_compared_with_the_file(tmp_path):
    most = (SMALL + 1000 * EXPANSION) // 8
    check_sizes("F", 1000, {"u": most - 5, "x": 5})
    with pytest.raises(DataError, match=r"'u' declares 2,062,500 numbers, .* holds 1,000 bytes"):
        check_sizes("F", 1000, {"u": most, "x": 5})


HUGE = "compressed too far: '.*' declares [0-9,]+ numbers"
REFUSED = [
    ("d.h5", files.declares, HUGE),
    ("d.npz", files.npz_declares, r"shape \(3, 1000000000000\) with 0 bytes"),
    ("d.npz", files.bomb, HUGE),
    ("d.mat", files.matlab_declares, r"of shape \(3, 1000000000\) with 120 bytes"),
    ("d.mat", files.matlab_bomb, HUGE),
    ("d.pt", files.torch_expanded, HUGE),
    ("d.zarr", files.changed_zarr(3, "u0/zarr.json", shape=[3, 10**12]), HUGE),
    ("d.h5", files.many_arrays, "holds 2000 arrays; expected at most 1000"),
    ("d.h5", files.external_storage, "numbers lie in other files; copy them into one"),
    ("d.h5", files.virtual, "numbers lie in other files"),
    ("d.h5", files.external_link, "'there|u' is a link to another file"),
    ("d.h5", files.external_group, "is a link to another file"),
    ("d.zarr", lambda p: files.zarr_changed(p, 2, files.linked_chunk), "u0/0.0, which is a link"),
    ("d.zarr", lambda p: files.zarr_changed(p, 3, files.linked_array), "u0, which is a link"),
    ("d.zarr", lambda p: files.zarr_changed(p, 2, files.fifo_chunk), "is a link, pipe or device"),
    ("d.zarr", lambda p: files.zarr_changed(p, 2, files.pickled_chunks), "pickle"),
    ("d.zarr", files.changed_zarr(2, "u0/.zarray", compressor={"id": "base64"}), "by 'base64'"),
    ("d.zarr", files.changed_zarr(2, "u0/.zattrs", _ARRAY_DIMENSIONS=["x", "x"]), "different name"),
    ("d.npz", files.npz_bomb, "'v.npy' is packed by method 12 of zip"),
    ("d.h5", files.endless_list, "its attributes cannot be read: "),
    ("d.h5", files.endless_text(files.the_well), "its attributes cannot be read: "),
    ("d.h5", files.endless_text(files.pdebench_named), "its attributes cannot be read: "),
    ("d.npz", files.npz_doubled, "two arrays are called 'u'"),
    ("d.nc", files.unix_socket, "is a pipe, socket or device"),
    ("x" * 5000, lambda _: None, "File name too long"),
]


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(("name", "make", "message"), REFUSED)
def test_hostile_files_are_refused(tmp_path, monkeypatch, name, make, message):
    monkeypatch.chdir(tmp_path)
    make(tmp_path / name)
    with pytest.raises(DataError, match=message):
        inspect_file(tmp_path / name)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("packed", files.PACKED)
def test_chunks_are_judged_before_they_are_unpacked(tmp_path, line, packed):
    files.packed_chunk(*packed)(tmp_path / "d.zarr")
    with pytest.raises(
        DataError, match=r"u0/0.0: is damaged: (it unpacks to more|a chunk of|several)"
    ):
        read_sensors(tmp_path / "d.zarr", line)


CODECS = ["zstd", "blosc", "lz4", "gzip", "zlib", "bz2", "lzma"]


@pytest.mark.parametrize("codec", CODECS)
def test_packed_chunks_are_read(tmp_path, line, codec):
    files.packed_chunk(codec, numcodecs.get_codec({"id": codec}).encode)(tmp_path / "d.zarr")
    read = read_sensors(tmp_path / "d.zarr", line)["u0"].values
    np.testing.assert_array_equal(read[..., 0], files.arrays()["u0"])


def test_nested_groups_are_read_past(tmp_path):
    files.nested(tmp_path / "d.h5")
    assert inspect_file(tmp_path / "d.h5")["as_spec"]["samples"] == 3


def test_names_in_a_list_beside_the_arrays_are_not_followed(tmp_path):
    files.zarr_changed(tmp_path / "d.zarr", 3, files.consolidated)
    assert set(inspect_file(tmp_path / "d.zarr")["variables"]) == set(files.DIMENSIONS)


def test_a_part_that_cannot_be_unpacked_is_refused_where_it_is_read(line, tmp_path):
    path = tmp_path / "d.h5"
    with h5py.File(path, "w") as file:
        files.scaled(file, u=None)
        made = file.create_dataset("u", data=files.arrays()["u"], compression="gzip")
        for axis, name in enumerate(files.DIMENSIONS["u"]):
            made.dims[axis].attach_scale(file[name])
        start = made.id.get_chunk_info(0).byte_offset
    content = bytearray(path.read_bytes())
    content[start + 20 : start + 60] = bytes(40)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"d.h5: .* cannot be read: .*Is it damaged"):
        read_dataset(path, line)


def test_samples_of_very_different_length_take_no_table_of_gaps(line, tmp_path):
    lines = ["sample,x,u0", *["0,0.5,1"] * 10000, *(f"{i},0,1" for i in range(1, 10000))]
    (tmp_path / "s.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match="10000 samples, and one of them has 10000 of the 19999"):
        read_sensors(tmp_path / "s.csv", line)


def test_files_without_samples_are_refused(line, tmp_path):
    np.savez(tmp_path / "s.npz", u0=np.zeros((0, 3)), x=[0.0, 0.5, 1.0])
    with pytest.raises(DataError, match="'u0' holds no samples"):
        read_sensors(tmp_path / "s.npz", line)

"""Damaged and hostile data files, read as the commands read them."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import pickle
import random
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numcodecs
import numpy as np
import torch
import xarray
import zarr
from scipy.io import loadmat, savemat

from tests.faults.file_reader import SECRET
from tests.faults.outcome import Outcome

SAMPLES, TIMES, POINTS = 3, 5, 9
PATIENCE = 40.0
"""Seconds of the clock after which a file counts as one that blocks the reader."""
Make = Callable[[Path], None]


def arrays() -> dict[str, np.ndarray]:
    """Sound data of the problem that the reader has."""
    rng = np.random.default_rng(0)
    u = rng.normal(size=(SAMPLES, TIMES, POINTS))
    t, x = np.linspace(0, 1, TIMES), np.linspace(0, 1, POINTS)
    return {"t": t, "x": x, "u": u, "u0": u[:, 0].copy(), "error_estimate": np.full(SAMPLES, 1e-7)}


DIMENSIONS = {
    "t": ("t",),
    "x": ("x",),
    "u": ("sample", "t", "x"),
    "u0": ("sample", "x"),
    "error_estimate": ("sample",),
}


# Sound files of every format


def netcdf(path: Path, engine: Any, **encoding: Any) -> None:
    """NetCDF by xarray."""
    data = xarray.Dataset({name: (DIMENSIONS[name], v) for name, v in arrays().items()})
    data.attrs = {"title": "A title", "piop_spec": "name: line\n", "piop_hash": "c0ffee"}
    data.to_netcdf(path, engine=engine, encoding={"u": encoding} if encoding else None)


def hdf5(path: Path, write: Callable[[h5py.File], None]) -> None:
    """HDF5 by h5py."""
    with h5py.File(path, "w") as file:
        write(file)


def scaled(file: h5py.File, **changed: Any) -> None:
    """Write the arrays with named dimensions; None leaves one out."""
    for name, values in {"sample": np.arange(SAMPLES), **arrays(), **changed}.items():
        if values is not None:
            file[name] = values
    for name in ("sample", "t", "x"):
        if name in file:
            file[name].make_scale(name)
    for name, along in DIMENSIONS.items():
        for axis, dimension in enumerate(along):
            if name in file and axis < file[name].ndim and name != dimension:
                file[name].dims[axis].attach_scale(file[dimension])


def matlab5(path: Path, **more: Any) -> None:
    """MATLAB 5 by SciPy."""
    found = arrays()
    del found["error_estimate"]  # it would be a matrix
    savemat(path, {**more.pop("others", {}), **found}, appendmat=False, **more)


def matlab7(file: h5py.File) -> None:
    """Write the arrays as MATLAB 7.3 does: axes in the opposite order."""
    for name, values in arrays().items():
        file[name] = values.T
        file[name].attrs["MATLAB_class"] = np.bytes_("double")


def pdebench(file: h5py.File) -> None:
    """PDEBench's one array of all samples."""
    data = arrays()
    file["tensor"], file["x-coordinate"], file["t-coordinate"] = data["u"], data["x"], data["t"]


def pdebench_named(file: h5py.File) -> None:
    """The same with a text beside it."""
    pdebench(file)
    file.attrs["config"] = "a text"


def pdebench_groups(file: h5py.File) -> None:
    """PDEBench's group for each sample."""
    data = arrays()
    for i, u in enumerate(data["u"]):
        group = file.create_group(f"{i:04d}")
        group["data"] = u[..., None]
        group["grid/x"], group["grid/t"] = data["x"], data["t"]


def the_well(file: h5py.File) -> None:
    """The Well's groups."""
    data = arrays()
    dimensions = file.create_group("dimensions")
    dimensions.attrs["spatial_dims"] = ["x"]
    dimensions["time"], dimensions["x"] = data["t"], data["x"]
    field = file.create_group("t0_fields").create_dataset("u", data=data["u"], compression="gzip")
    field.attrs.update({"time_varying": True, "sample_varying": True, "dim_varying": [True]})
    file["scalars/nu"] = 0.1
    wall = file.create_group("boundary_conditions/wall")
    wall.attrs["associated_dims"], wall.attrs["bc_type"] = ["x"], "WALL"


def zarr_folder(path: Path, version: Any) -> None:
    """Zarr by its library."""
    group = zarr.open_group(path, mode="w", zarr_format=version)
    for name, values in arrays().items():
        named: dict[str, Any] = {"dimension_names": DIMENSIONS[name]} if version == 3 else {}
        made = group.create_array(name, shape=values.shape, dtype=values.dtype, **named)
        made[...] = values
        if version == 2:
            made.attrs["_ARRAY_DIMENSIONS"] = list(DIMENSIONS[name])


def csv(path: Path) -> None:
    """Sensors as a table."""
    data = arrays()
    rows = [
        f"{i},{x!r},0.5,{v!r}"
        for i, row in enumerate(data["u0"].tolist())
        for x, v in zip(data["x"].tolist(), row, strict=True)
    ]
    path.write_text("\n".join(["# sensors", "sample,x,t,u0", *rows]) + "\n")


def numpy_folder(path: Path) -> None:
    """Geo-FNO's airfoils."""
    path.mkdir()
    for end, shape in {"X": (3, 5, 4), "Y": (3, 5, 4), "Q": (3, 5, 5, 4)}.items():
        np.save(path / f"airfoil_{end}.npy", np.ones(shape))


def torch_file(path: Path) -> None:
    """Tensors by name."""
    torch.save({name: torch.from_numpy(v) for name, v in arrays().items()}, path)


def torch_layout(path: Path) -> None:
    """neuraloperator's Burgers data."""
    y = torch.arange(2 * 17 * 16).reshape(2, 17, 16).double()
    torch.save({"x": y[:, 0].clone(), "y": y, "visc": torch.tensor([[0.01]])}, path)


SOUND: dict[str, Make] = {
    "d.nc": lambda p: netcdf(p, "h5netcdf"),
    "packed.nc": lambda p: netcdf(p, "h5netcdf", zlib=True, chunksizes=(1, 5, 9)),
    "classic.nc": lambda p: netcdf(p, "scipy"),
    "d.h5": lambda p: hdf5(p, scaled),
    "d7.mat": lambda p: hdf5(p, matlab7),
    "pdebench.h5": lambda p: hdf5(p, pdebench),
    "groups.h5": lambda p: hdf5(p, pdebench_groups),
    "well.h5": lambda p: hdf5(p, the_well),
    "d.mat": lambda p: matlab5(p),
    "packed.mat": lambda p: matlab5(p, do_compression=True),
    "d.npz": lambda p: np.savez(p, **arrays()),
    "packed.npz": lambda p: np.savez_compressed(p, **arrays()),
    "d.pt": torch_file,
    "burgers.pt": torch_layout,
    "d.csv": csv,
    "d.zarr": lambda p: zarr_folder(p, 3),
    "two.zarr": lambda p: zarr_folder(p, 2),
    "airfoil": numpy_folder,
}


# Damage


def damaged_part(path: Path, rng: random.Random) -> Path:
    """The file itself, or one of the files of a folder."""
    return rng.choice(sorted(f for f in path.rglob("*") if f.is_file())) if path.is_dir() else path


def somewhere(size: int, rng: random.Random) -> int:
    """A position, more often near the ends of a file, where its headers are."""
    low, high = rng.choice([(0, 64), (0, 512), (0, size), (0, size), (size - 512, size)])
    return rng.randrange(max(0, low), max(1, min(high, size)))


def flipped(content: bytearray, rng: random.Random) -> None:
    """Flip one to eight bits."""
    for _ in range(rng.choice([1, 1, 2, 4, 8])):
        content[somewhere(len(content), rng)] ^= 1 << rng.randrange(8)


def overwritten(content: bytearray, rng: random.Random) -> None:
    """Replace up to 64 bytes in a row."""
    at, length = somewhere(len(content), rng), rng.choice([1, 2, 4, 8, 64])
    fill = rng.choice([b"\0", b"\xff", b"\x7f", b"\x80", b"9", b"(", rng.randbytes(1)])
    content[at : at + length] = fill * len(content[at : at + length])


def cut(content: bytearray, rng: random.Random) -> None:
    """Lose the end, or a piece from the middle, or have one twice."""
    at, length = rng.randrange(len(content)), rng.randrange(1, 600)
    match rng.randrange(3):
        case 0:
            del content[at:]
        case 1:
            del content[at : at + length]
        case _:
            content[at:at] = content[at : at + length]


def declared(content: bytearray, rng: random.Random) -> None:
    """Let a header tell another size: every or one number that may be one is replaced."""
    old = rng.choice([SAMPLES, TIMES, POINTS, 8 * POINTS, 8 * SAMPLES * POINTS, 8])
    new = rng.choice([0, 1, 7, 10**4, 10**6, 10**8, 2**31 - 1, 2**40, 2**62, -1])
    form, limit = rng.choice([("<Q", 64), ("<I", 32), (">I", 32), ("text", 0)])
    if form == "text":
        before, after = str(old).encode(), str(new).encode()
    else:
        before = struct.pack(form, old)
        after = struct.pack(form, new % 2**limit)
    places = [i for i in range(len(content)) if content.startswith(before, i)]
    if not places:
        return flipped(content, rng)
    chosen = places if rng.random() < 0.2 else [rng.choice(places)]
    for at in reversed(chosen):
        content[at : at + len(before)] = after
    return None


def endless_lists(content: bytearray, rng: random.Random) -> None:
    """Change what tells which dimensions an array of HDF5 has."""
    places = [m.end() for m in re.finditer(b"DIMENSION_LIST|GCOL", content)]
    if not places:
        return flipped(content, rng)
    at = rng.choice(places)
    for _ in range(rng.choice([1, 1, 2, 4])):
        content[at + rng.randrange(100)] = rng.choice([0, 1, 2, 16, 127, 128, 255])
    return None


DAMAGE = {
    "lists of dimensions": endless_lists,
    "flipped bits": flipped,
    "overwritten bytes": overwritten,
    "lost or doubled pieces": cut,
    "declared sizes": declared,
}


def swapped(rng: random.Random, folder: Path) -> Path:
    """The name of one format on the content of another, or the beginning of one and its end."""
    files = [name for name in SOUND if "." in name and not name.endswith(".zarr")]
    one, other = rng.sample(files, 2)
    path = folder / f"x{Path(other).suffix}"
    SOUND[one](folder / one)
    SOUND[other](folder / other)
    first, second = (folder / one).read_bytes(), (folder / other).read_bytes()
    half = rng.choice([len(first), rng.randrange(len(first)), 512, 8])
    path.write_bytes(first[:half] + (second[half:] if rng.random() < 0.5 else b""))
    return path


# Hostile files


class Payload:
    """An object whose pickle leaves a mark when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, (f"touch {self.mark}",))


def secret(folder: Path) -> Path:
    """A file of the system that is no data."""
    path = folder / "secret"
    np.full(SAMPLES * TIMES * POINTS, SECRET).tofile(path)
    return path


def external_storage(path: Path) -> None:
    """Numbers that lie in another file."""
    file = str(secret(path.parent).resolve())
    with h5py.File(path, "w") as out:
        scaled(out, u=None, u0=None)
        out.create_dataset("u0", (SAMPLES, POINTS), "f8", external=[(file, 0, h5py.h5f.UNLIMITED)])
        out["u"] = arrays()["u"]


def elsewhere(path: Path) -> Path:
    """An HDF5 file beside, which is not the one that was given."""
    other = path.with_name("other.h5")
    hdf5(other, lambda f: scaled(f, u=np.full((3, 5, 9), SECRET), u0=np.full((3, 9), SECRET)))
    return other


def external_link(path: Path) -> None:
    """A name that stands for an array of another file, straight or behind a soft link."""
    other = elsewhere(path)
    with h5py.File(path, "w") as out:
        scaled(out, u=None, u0=None)
        out["u"] = h5py.ExternalLink(str(other), "u")
        out["there"] = h5py.ExternalLink(str(other), "/")
        out["u0"] = h5py.SoftLink("/there/u0")


def external_group(path: Path) -> None:
    """The groups of a published layout, each in another file."""
    other = path.with_name("other.h5")
    hdf5(other, the_well)
    with h5py.File(path, "w") as out:
        for name in ("dimensions", "t0_fields"):
            out[name] = h5py.ExternalLink(str(other), name)


def virtual(path: Path) -> None:
    """An array put together of another file."""
    other = elsewhere(path)
    layout = h5py.VirtualLayout((SAMPLES, POINTS), "f8")
    layout[:] = h5py.VirtualSource(str(other), "u0", (SAMPLES, POINTS))
    with h5py.File(path, "w") as out:
        scaled(out, u0=None)
        out.create_virtual_dataset("u0", layout)


def soft_loop(path: Path) -> None:
    """Soft links that lead nowhere, and in a circle."""
    with h5py.File(path, "w") as out:
        scaled(out)
        out["a"], out["b"], out["c"] = map(h5py.SoftLink, ("/b", "/a", "/nowhere"))
        out["self"] = h5py.SoftLink("/")
        out["hard"] = out["/"]


def endless_list(path: Path) -> None:
    """A list of dimensions that tells two thousand million, which HDF5 goes through."""
    hdf5(path, scaled)
    content = bytearray(path.read_bytes())
    at = content.index(struct.pack("<IQ", 1, content.index(b"GCOL")))
    content[at : at + 4] = struct.pack("<I", 2**31 - 1)
    path.write_bytes(content)


def endless_text(write: Callable[[h5py.File], None]) -> Make:
    """A text among the attributes whose length and place are all ones."""

    def make(path: Path) -> None:
        hdf5(path, write)
        content = bytearray(path.read_bytes())
        place = struct.pack("<Q", content.index(b"GCOL"))
        at = content.rindex(place) - 4
        content[at : at + 16] = b"\xff" * 16
        path.write_bytes(content)

    return make


def nested(path: Path) -> None:
    """Thousands of groups, each within the one before."""
    with h5py.File(path, "w") as out:
        scaled(out)
        group = out
        for _ in range(3000):
            group = group.create_group("g")


def many_arrays(path: Path) -> None:
    """Thousands of arrays beside each other."""
    with h5py.File(path, "w", libver="latest") as out:
        for i in range(2000):
            out.create_dataset(f"v{i}", (), "f8")


def declares(path: Path, shape: tuple[int, ...] = (3, 10**8), **options: Any) -> None:
    """A file of a few kB whose array is huge."""
    with h5py.File(path, "w") as out:
        scaled(out, u0=None)
        out.create_dataset("u0", shape, "f8", **options)


def bomb(path: Path) -> None:
    """Zeros that are packed to a thousandth."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("u", "u0"):
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array_header_1_0(
                    member, {"descr": "<f8", "fortran_order": False, "shape": (3, 10**6)}
                )
                for _ in range(24):
                    member.write(bytes(10**6))


def npz_bomb(path: Path) -> None:
    """Zeros that bzip2 packs to a forty thousandth, and Python unpacks whole."""
    np.savez(path, **arrays())
    with zipfile.ZipFile(path, "a", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("v.npy", bytes(10**6))


def npz_declares(path: Path, shape: str = "(3, 1000000000000)", descr: str = "<f8") -> None:
    """A header that tells a size that the member has not."""
    np.savez(path, **arrays())
    with zipfile.ZipFile(path, "a") as archive:
        header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
        archive.writestr("v.npy", b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header)


def npz_pickled(path: Path) -> None:
    """An array of objects."""
    mark = path.parent / "executed"
    np.savez(path, **arrays(), v=np.array([Payload(mark)], dtype=object))


def npz_doubled(path: Path) -> None:
    """Two arrays of one name."""
    np.savez(path, **arrays())
    np.save(path.parent / "u.npy", np.full((SAMPLES, TIMES, POINTS), 7.0))
    with zipfile.ZipFile(path, "a") as archive:
        archive.write(path.parent / "u.npy", "u.npy")


def torch_pickled(path: Path) -> None:
    """A pickle that calls."""
    torch.save({"u": Payload(path.parent / "executed")}, path)


def torch_expanded(path: Path) -> None:
    """A tensor of one number that counts as 10¹²."""
    data = {name: torch.from_numpy(v) for name, v in arrays().items()}
    torch.save({**data, "u0": torch.zeros(1, 1).expand(3, 10**12)}, path)


def matlab_declares(path: Path) -> None:
    """An array of MATLAB's whose packed header tells 10⁹ numbers."""
    savemat(path, {"u": np.zeros((3, 5))}, appendmat=False)
    body = bytearray(path.read_bytes()[128:])
    body[32:40] = struct.pack("<ii", 3, 10**9)
    packed = zlib.compress(bytes(body))
    head = path.read_bytes()[:128]
    path.write_bytes(head + struct.pack("<II", 15, len(packed)) + packed)


def matlab_bomb(path: Path) -> None:
    """Zeros that are packed to a thousandth."""
    count = 6 * 10**6
    savemat(path, {"u": np.zeros((3, 5))}, appendmat=False)
    body = bytearray(path.read_bytes()[128:])
    body[32:40] = struct.pack("<ii", 3, count // 3)
    body[4:8] = struct.pack("<I", 48 + 8 + 8 * count)
    body[52:56] = struct.pack("<I", 8 * count)
    packed = zlib.compress(bytes(body[:56]) + bytes(8 * count))
    head = path.read_bytes()[:128]
    path.write_bytes(head + struct.pack("<II", 15, len(packed)) + packed)


def matlab_others(path: Path) -> None:
    """Cells, structures, text, sparse and complex arrays beside numbers."""
    from scipy.sparse import eye_array

    cell = np.empty((1, 2), dtype=object)
    cell[0, 0], cell[0, 1] = "a", np.ones(3)
    others = {"c": cell, "s": {"a": 1.0}, "n": "text", "m": eye_array(5).tocsc(), "z": [1j, 2]}
    matlab5(path, others=others)


def zarr_changed(path: Path, version: int, change: Callable[[Path], None]) -> None:
    """A sound folder, changed."""
    zarr_folder(path, version)
    change(path)


def metadata(name: str, **changed: Any) -> Callable[[Path], None]:
    """Change what a JSON file of a folder tells."""

    def change(path: Path) -> None:
        file = path / name
        file.write_text(json.dumps({**json.loads(file.read_text()), **changed}))

    return change


def changed_zarr(version: int, name: str, **changed: Any) -> Make:
    """A sound folder of which a JSON file tells something else."""
    return lambda path: zarr_changed(path, version, metadata(name, **changed))


def pickled_chunks(path: Path) -> None:
    """Chunks that are unpacked by loading pickles."""
    metadata("u0/.zarray", filters=None, compressor={"id": "pickle"})(path)
    for file in (path / "u0").glob("[0-9]*"):
        file.write_bytes(pickle.dumps(Payload(path.parent / "executed")))


def packed_chunk(codec: str, pack: Callable[[bytes], bytes]) -> Make:
    """A chunk packed by a codec with something else in its place."""

    def make(path: Path) -> None:
        zarr_folder(path, 2)
        metadata("u0/.zarray", filters=None, compressor={"id": codec})(path)
        (path / "u0" / "0.0").write_bytes(pack(arrays()["u0"].tobytes()))

    return make


def untold(blocks: int) -> bytes:
    """Zeros as zstd packs a stream, which does not tell how long it is."""
    runs = [(i == blocks - 1) | 1 << 1 | 2**17 << 3 for i in range(blocks)]
    return b"\x28\xb5\x2f\xfd\0\x38" + b"".join(struct.pack("<I", run) for run in runs)


def linked_chunk(path: Path) -> None:
    """A chunk that is a link to another file."""
    metadata("u0/.zarray", compressor=None, filters=None)(path)
    (chunk, *_) = (path / "u0").glob("[0-9]*")
    chunk.unlink()
    chunk.symlink_to(secret(path.parent).resolve())


def linked_array(path: Path) -> None:
    """An array that is a link to another folder."""
    other = path.with_name("other.zarr")
    zarr_folder(other, 3)
    shutil.rmtree(path / "u0")
    (path / "u0").symlink_to(other.resolve() / "u0")


def consolidated(path: Path) -> None:
    """Names in a list of arrays that lead out of the folder."""
    outside = path.with_name("outside")
    zarr_folder(outside, 3)
    found = json.loads((outside / "u0" / "zarr.json").read_text())
    inside = {"kind": "inline", "must_understand": False, "metadata": {"../outside/u0": found}}
    metadata("zarr.json", consolidated_metadata=inside)(path)


def fifo_chunk(path: Path) -> None:
    """A chunk that is a pipe."""
    (chunk, *_) = (path / "u0").glob("[0-9]*")
    chunk.unlink()
    os.mkfifo(chunk)


def fifo_array(path: Path) -> None:
    """An array in a folder that is a pipe."""
    path.mkdir()
    os.mkfifo(path / "airfoil_X.npy")


def table(*lines: str) -> Make:
    """A table of these lines."""
    return lambda path: path.write_text("\n".join(lines) + "\n") and None


def typed(**changed: Any) -> Make:
    """An npz file with other arrays."""

    def make(path: Path) -> None:
        found = {k: v for k, v in {**arrays(), **changed}.items() if v is not None}
        np.savez(path, **found)

    return make


def odd_values(values: np.ndarray) -> list[tuple[str, Make]]:
    """An array as HDF5 and as npz in place of u0."""
    return [
        ("d.h5", lambda path: hdf5(path, lambda f: scaled(f, u0=values))),
        ("d.npz", typed(u0=values)),
    ]


def unix_socket(path: Path) -> None:
    """A socket."""
    os.chdir(path.parent)  # the names of sockets are short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)


U0 = arrays()["u0"]
ODD = [
    U0 * np.nan, U0 * np.inf, U0 * 1e200, U0[:0], U0[:, :0], U0[:2], U0[0], U0[0, 0], U0[..., None],
    U0 + 0j, U0.astype("S4"), U0.astype("f2"), U0.astype("g"), U0.astype(">f4"), U0 > 0,
    U0.astype("u8"), U0.astype("i1"), np.full((3, 9), np.longdouble("1e4000")),
    np.zeros(3, [("a", "f8"), ("b", "i4")]), np.zeros(3, [("a", "f8", (9,))]),
]  # fmt: skip
MANY = range(30000)
ZEROS = bytes(3 * 10**7)
PACKED: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("zstd", lambda _: numcodecs.Zstd().encode(ZEROS)),
    ("zstd", lambda _: untold(10**4)),
    ("zstd", lambda _: untold(2) + untold(10**4)),
    ("blosc", lambda _: numcodecs.Blosc("zstd").encode(ZEROS)),
    ("blosc", lambda values: numcodecs.Blosc("lz4").encode(values)[:100]),
    ("lz4", lambda _: struct.pack("<I", 2**31 - 1) + bytes(9)),
    ("gzip", lambda _: 2 * gzip.compress(ZEROS, 1)),
    ("bz2", lambda _: bz2.compress(ZEROS)),
    ("lzma", lambda _: lzma.compress(ZEROS, preset=0)),
]
"""Codec of Zarr → what stands in the place of a packed chunk."""
NAMED_WRONG = [["x", "sample"], ["sample", "sample"], ["sample"], ["t", "t"], [], None, ["", ""]]
HOSTILE: dict[str, list[tuple[str, Make]]] = {
    "links and external storage": [
        ("d.h5", external_storage),
        ("d.h5", external_link),
        ("d.h5", external_group),
        ("d.h5", virtual),
        ("d.h5", soft_loop),
        ("d.zarr", lambda p: zarr_changed(p, 2, linked_chunk)),
        ("d.zarr", lambda p: zarr_changed(p, 3, linked_array)),
        ("d.zarr", lambda p: zarr_changed(p, 3, consolidated)),
    ],
    "pickles": [
        ("d.npz", npz_pickled),
        ("d.pt", torch_pickled),
        ("d.zarr", lambda p: zarr_changed(p, 2, pickled_chunks)),
        ("d.npz", typed(u0=np.array([Payload(Path("/tmp/executed"))], dtype=object))),
        ("d.pt", lambda p: p.write_bytes(pickle.dumps(Payload(p.parent / "executed"))) and None),
    ],
    "bombs": [
        ("d.h5", declares),
        ("d.h5", lambda p: declares(p, chunks=(3, 10**6), compression="gzip")),
        ("d.h5", lambda p: declares(p, (3, 9), maxshape=(None, None), chunks=(4000, 10**5))),
        ("d.h5", lambda p: declares(p, (10**6, 10**6, 10**5), chunks=(1, 10, 10))),
        ("d.h5", lambda p: declares(p, (2**29,) * 2, fillvalue=1.0)),
        ("d.h5", endless_list),
        ("d.h5", endless_text(the_well)),
        ("d.h5", endless_text(pdebench_named)),
        ("d.h5", nested),
        ("d.h5", many_arrays),
        ("d.npz", bomb),
        ("d.npz", npz_declares),
        ("d.npz", lambda p: npz_declares(p, "(-3, 9)")),
        ("d.npz", lambda p: npz_declares(p, "(3, 9)", "|V2000000000")),
        ("d.npz", lambda p: npz_declares(p, "(" * 4000 + ")" * 4000)),
        ("d.npz", npz_bomb),
        ("d.pt", torch_expanded),
        ("d.mat", matlab_declares),
        ("d.mat", matlab_bomb),
        *(("d.zarr", packed_chunk(*packed)) for packed in PACKED),
        ("d.zarr", changed_zarr(3, "u0/zarr.json", shape=[3, 10**12])),
        ("d.zarr", changed_zarr(2, "u0/.zarray", shape=[3, 10**12])),
        ("d.csv", table("sample,x,t,u0", *["0,0.5,0,1"] * 20000, *map("{},0,0,1".format, MANY))),
        ("d.csv", table(",".join(map("c{}".format, MANY)), ",".join("1" for _ in MANY))),
        ("d.csv", table("sample,x,t,u0", "9" * 300000)),
    ],
    "pipes, devices, folders and names": [
        ("d.nc", lambda p: os.mkfifo(p)),
        ("d.nc", lambda p: p.symlink_to("/dev/zero")),
        ("d.nc", lambda p: p.symlink_to("/dev/tty")),
        ("d.nc", lambda p: p.symlink_to(p)),
        ("d.nc", lambda p: p.mkdir()),
        ("d.nc", unix_socket),
        ("d.zarr", lambda p: zarr_changed(p, 2, fifo_chunk)),
        ("airfoil", fifo_array),
        ("x" * 5000, lambda p: None),
        ("x" * 255, lambda p: None),
        ("a\0b", lambda p: None),
        ("d.nc", lambda p: p.touch()),
    ],
    "odd types, names and values": [
        *(case for values in ODD for case in odd_values(values)),
        *(
            ("d.zarr", changed_zarr(3, "u0/zarr.json", dimension_names=names))
            for names in NAMED_WRONG
        ),
        *(
            ("d.zarr", changed_zarr(2, "u0/.zattrs", _ARRAY_DIMENSIONS=names))
            for names in [*NAMED_WRONG, 3, {"a": 1}, [["x"], "y"]]
        ),
        ("d.npz", npz_doubled),
        ("d.mat", matlab_others),
        ("d.npz", typed(t=arrays()["t"][::-1])),
        ("d.npz", typed(x=arrays()["x"] * np.nan)),
        ("d.npz", typed(error_estimate=np.full(3, np.nan))),
        ("d.npz", typed(t=None)),
        ("d.csv", table("sample,x,t,u0", "0,0.5,0,nan")),
        ("d.csv", table("sample,x,t,u0", "0,0.5,0,1", '0,"0.5\n",0,1', "0,0.5,0,1")),
        ("d.csv", table("sample,x,t,u0", "0,0.5,0,\0")),
        ("d.csv", table("sample,x,t,u0,u0", "0,0.5,0,1,1")),
        ("d.csv", table("sample,x,t,u0", "inf,0.5,0,1", "1e400,0,0,1")),
        ("d.csv", table("sample,x,t,u0", "1e300,0.5,0,1", "-1,0,0,1", ",,,")),
        ("d.csv", table("sample,x,t,u0")),
        ("d.csv", table("")),
        ("d.csv", table("sample;x;t;u0", "0;0,5;0;1")),
    ],
}  # fmt: skip


# The attack


class Reader:
    """The process that reads, started again where it has died."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def read(self, path: Path) -> dict[str, Any]:
        """What came of one file: ``faults`` and whether it was ``loaded`` as data."""
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.file_reader"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                text=True, cwd=Path(__file__).parents[2],
            )  # fmt: skip
            assert self._answer() is not None, "the reader does not start"
        process = self.process
        assert process.stdin is not None
        process.stdin.write(json.dumps(str(path)) + "\n")
        process.stdin.flush()
        answer = self._answer()
        if answer is None:
            code = process.wait()
            self.process = None
            name = signal.Signals(-code).name if code < 0 else f"exit {code}"
            return {"faults": [f"the process ended: {name}"], "loaded": False}
        if answer["faults"]:
            self.close()  # its peak of memory, and what it holds open, count for this file alone
        return answer

    def _answer(self) -> dict[str, Any] | None:
        assert self.process is not None and self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        if not ready:
            self.process.kill()
        line = self.process.stdout.readline()
        return json.loads(line) if line.endswith("\n") else None

    def close(self) -> None:
        """End it."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


def own_values(path: Path) -> dict[str, np.ndarray] | None:
    """What the library of a format reads of u, u0; None where the file is of a published layout."""
    try:
        head = path.read_bytes()[:8] if path.is_file() else b""
        if path.is_dir():
            group = zarr.open_group(path, mode="r")
            return {n: np.asarray(group[n]) for n in ("u", "u0")}
        if h5py.is_hdf5(path):
            with h5py.File(path) as file:
                return {n: file[n][()] for n in ("u", "u0")} if "u" in file else None
        if head.startswith(b"CDF"):
            with xarray.open_dataset(path, engine="scipy", decode_times=False) as data:
                return {n: data[n].values for n in ("u", "u0")}
        if head.startswith(b"MATLAB"):
            found = loadmat(path)
            return {n: found[n] for n in ("u", "u0")}
        if path.suffix == ".npz":
            with np.load(path) as found:
                return {n: found[n] for n in ("u", "u0")}
        if path.suffix == ".pt":
            tensors = torch.load(path, weights_only=True)
            return {n: tensors[n].numpy() for n in ("u", "u0")}
    except Exception:
        return None
    return None


def compared(path: Path) -> list[str]:
    """How the values that were read differ from those of the format's own library."""
    own = own_values(path)
    if own is None:
        return []
    faults = []
    for reader, name in (("data", "u"), ("input", "u0")):
        file = path.parent / f"read.{reader}.npy"
        if file.exists():
            read, there = np.load(file), own[name].astype(np.float64)
            if not np.isin(read, there).all():
                faults.append(f"{reader}: {name} is not what the library of the format reads")
    return faults


def damages(seed: int) -> Iterator[tuple[str, str, Callable[[Path], Path]]]:
    """Kinds of damage without end: a class, how it is repeated, and what makes the file."""
    for number in range(10**9):
        rng = random.Random(f"{seed}.{number}")
        kind = rng.choice([*DAMAGE, *DAMAGE, "swapped contents", *HOSTILE])
        if kind in DAMAGE:
            name = rng.choice(list(SOUND))

            def make(folder: Path, name: str = name, kind: str = kind, rng: Any = rng) -> Path:
                path = folder / name
                SOUND[name](path)
                part = damaged_part(path, rng)
                content = bytearray(part.read_bytes())
                DAMAGE[kind](content, rng)
                part.write_bytes(content)
                return path

        elif kind in HOSTILE:
            name, build = rng.choice(HOSTILE[kind])

            def make(folder: Path, name: str = name, build: Make = build) -> Path:
                build(folder / name)
                return folder / name

        else:
            name = "x"

            def make(folder: Path, rng: Any = rng) -> Path:
                return swapped(rng, folder)

        yield kind, f"{number}: {name[:20]}", make


def attack(count: int, seed: int, folder: Path) -> Iterator[Outcome]:
    """Give damaged and hostile files to all that reads files."""
    reader = Reader()
    try:
        for number, (kind, name, make) in zip(range(count), damages(seed), strict=False):
            own = folder / str(number)
            own.mkdir()
            path = make(own)
            answer = reader.read(path)
            faults = list(answer["faults"])
            if (own / "executed").exists() or Path("/tmp/executed").exists():
                faults.append("executed code")
            if not faults and answer["loaded"]:
                faults += compared(path)
            yield Outcome(f"data file: {kind}", not faults, f"{name}: {'; '.join(faults)}")
            shutil.rmtree(own)
    finally:
        reader.close()

"""Files of sensors that are sent by the page, read as those of ``piop predict`` are."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from piop.datasets import read_sensors
from piop.errors import DataError, UsageError
from piop.explore.limits import SENSORS, UPLOAD_BYTES
from piop.problem import Problem
from piop.run.user_inputs import read_inputs


def read_upload(problem: Problem, content: bytes) -> dict[str, Any]:
    """Read the sensors of the first sample of a file.

    Args:
        problem: Whose inputs it holds.
        content: NetCDF, npz or CSV; the content tells which.

    Returns:
        ``inputs``, for each visible input a definition as the page sends it, and ``samples``, how
        many the file holds.

    Raises:
        DataError: If the file cannot be read, or does not fit.
        UsageError: If it is too large.
    """
    if len(content) > UPLOAD_BYTES:
        raise UsageError(f"the file has {len(content)} bytes; at most {UPLOAD_BYTES} are read")
    with TemporaryDirectory(prefix="piop-explore-") as folder:
        file = Path(folder) / "file"  # whatever its name was for the page
        file.write_bytes(content)
        try:
            found = read_inputs(problem, read_sensors(file, problem))
        except DataError as error:
            raise DataError(str(error).replace(str(file), "the file")) from None
    inputs, samples = {}, 1
    for item in problem.visible_inputs:
        own = found[item.name]
        samples = len(own.values)
        real = slice(None) if own.mask is None else own.mask[0]
        points, values = own.points[0, real], own.values[0, real, 0]
        if len(values) > SENSORS:
            message = f"has {len(values)} sensors; the page takes at most {SENSORS}"
            raise UsageError(f"the file: {item.name!r} {message}")
        if item.of:
            definition = {"kind": "sensors", "points": points.tolist(), "values": values.tolist()}
        else:
            definition = {"kind": "number", "value": float(values[0])}
        inputs[item.name] = definition
    return {"inputs": inputs, "samples": samples}

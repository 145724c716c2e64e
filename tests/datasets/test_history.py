"""The past of a solution is cut from whole trajectories, and nothing of it is asked for."""

import numpy as np
import pytest
import torch
import xarray as xr

from piop.datasets import StoredDataset, read_dataset, read_sensors, write_dataset
from piop.errors import DataError
from piop.problem import Problem

N, SAMPLES = 6, 4


def flow(unknowns=("w",), times=3, until=3):
    """Transport in the plane that is seen at t = 1, 2, 3 and asked for up to 6."""
    return Problem(
        name="flow",
        time={"t": [0, 6]},
        space={"x": [0, 1], "y": [0, 1]},
        unknowns=list(unknowns),
        inputs={
            "start": {"of": ["x", "y"], "law": "fourier_series", "terms": 2,
                      "amplitude": [-1, 1], "wavenumber": [1, 2], "hidden": True},
            "past": {"of": ["x", "y"], "law": "history", "until": until, "times": times},
        },
        equations=[f"dt({u}) + dx({u}) = 0.01*lap({u})" for u in unknowns],
        initial=dict.fromkeys(unknowns, "start"),
        boundary={"x": "periodic", "y": "periodic"},
        sensors={"past": {"count": [N, N], "place": "grid"}},
        save={"t": 7, "x": N, "y": N},
    )  # fmt: skip


def value(sample, t, x, y, channel=0):
    """Where and when it is, to be read off."""
    return 1000 * channel + 100 * sample + 10 * t + x + 0.1 * y


def write(path, times, unknowns=("w",)):
    t, ticks = np.asarray(times, dtype=float), np.arange(N) / N
    mesh = np.meshgrid(np.arange(SAMPLES), t, ticks, ticks, indexing="ij")
    along = ("sample", "t", "x", "y")
    arrays = {u: (along, value(*mesh, channel=c)) for c, u in enumerate(unknowns)}
    xr.Dataset(arrays, {"t": t, "x": ticks, "y": ticks}).to_netcdf(path, engine="h5netcdf")
    return path


@pytest.mark.parametrize("times", [range(1, 7), range(7), np.arange(13) / 2])
def test_it_is_cut_at_its_times_and_the_rest_is_asked_for(tmp_path, times):
    data = read_dataset(write(tmp_path / "d", times), flow())
    past = data.inputs["past"]
    assert past.values.shape == (SAMPLES, N * N, 3)
    x, y = past.points[..., 0], past.points[..., 1]
    for c, t in enumerate((1, 2, 3)):
        for sample in range(SAMPLES):
            expected = value(sample, t, x[sample], y[sample])
            assert torch.allclose(past.values[sample, :, c], expected)
    assert data.axes["t"].tolist() == [t for t in np.asarray(times, float).tolist() if t >= 3]
    ticks = torch.arange(N).double() / N
    assert torch.allclose(data.values["w"][2, 0], value(2, 3, ticks[:, None], ticks))


def test_every_unknown_has_a_past(tmp_path):
    problem = flow(("u", "v"), times=2, until=4)
    data = read_dataset(write(tmp_path / "d", range(7), ("u", "v")), problem)
    found = data.inputs["past"].values[1, 0]
    assert found.tolist() == [value(1, t, 0, 0, c) for t in (2, 4) for c in (0, 1)]


def test_sensors_for_a_prediction_are_cut_from_the_past_alone(tmp_path):
    seen = read_sensors(write(tmp_path / "d", (1, 2, 3)), flow())
    assert seen["past"].values.shape == (SAMPLES, N * N, 3)


def test_a_file_that_stays_on_disk_says_the_same(tmp_path):
    path = write(tmp_path / "d", range(1, 7))
    whole, stored = read_dataset(path, flow()), StoredDataset.open(path, flow())
    index = torch.tensor([3, 1])
    found = stored.take(index)
    assert torch.equal(found.inputs["past"].values, whole.inputs["past"].values[index])
    assert torch.equal(found.values["w"], whole.values["w"][index])
    assert stored.axes["t"].tolist() == [3, 4, 5, 6]


def test_what_is_written_is_the_whole_trajectory(tmp_path):
    data = read_dataset(write(tmp_path / "d", range(1, 7)), flow())
    write_dataset(data, tmp_path / "e.nc", flow())
    with xr.open_dataset(tmp_path / "e.nc") as found:
        assert found["t"].values.tolist() == [1, 2, 3, 4, 5, 6]
        assert set(found.data_vars) == {"w"}
    again = read_dataset(tmp_path / "e.nc", flow())
    assert torch.equal(again.inputs["past"].values, data.inputs["past"].values)
    assert torch.equal(again.values["w"], data.values["w"])


def test_what_a_file_lacks_is_said(tmp_path):
    with pytest.raises(DataError, match=r"'past' is the solution at t = 1, 2, 3, .* none at 2; it"):
        read_dataset(write(tmp_path / "a", (1, 3, 4, 5)), flow())
    with pytest.raises(DataError, match="end at 3, and the history reaches to 3: nothing"):
        read_dataset(write(tmp_path / "b", (1, 2, 3)), flow())
    (tmp_path / "c.csv").write_text("x,y,past\n0,0,1\n")
    with pytest.raises(DataError, match="'past' is a history, which a table does not hold"):
        read_sensors(tmp_path / "c.csv", flow())

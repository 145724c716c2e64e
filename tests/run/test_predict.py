import numpy as np
import pytest
import torch
import xarray as xr
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from piop.datasets import Queries
from piop.errors import DataError, UsageError
from piop.fields import FunctionSamples
from piop.problem import Problem
from piop.run import Run, fit
from piop.run import prediction as module
from piop.run.user_inputs import read_inputs

X = np.arange(8) / 4
U0 = np.cos(np.pi * X + 0.3)
AT = {"t": [1.0, 1.5], "x": [0.0, 0.5, 1.9]}


def test_a_prediction_is_named_and_labelled(trained):
    found = trained.predict({"u0": U0}, AT)
    assert found["u"].dims == ("sample", "t", "x")
    assert found["u"].shape == (1, 2, 3)
    assert found["x"].values.tolist() == AT["x"]
    assert found["u"].attrs["units"] == "K"
    assert found["t"].attrs["units"] == "s"


def test_a_prediction_says_whether_its_inputs_are_of_the_distribution(trained):
    found = trained.predict({"u0": np.stack([U0, 30 * U0])}, AT)
    assert found["in_distribution"].values.tolist() == [1, 0]
    assert found["p_value"].dims == ("sample",)
    assert found["p_value"].values[1] < 0.001 < found["p_value"].values[0]
    assert found["p_value"].attrs["long_name"].startswith("probability")


def test_the_error_of_few_sensors_is_stated_apart(trained):
    """Of a wave of amplitude and phase, two sensors at a node and its mirror see half."""
    enough = trained.predict({"u0": U0}, AT)
    assert "sensor_error" not in enough
    three = trained.predict({"u0": (X[:3], U0[:3])}, AT)["sensor_error"].values
    one = trained.predict({"u0": (X[:1], U0[:1])}, AT)["sensor_error"].values
    assert three == pytest.approx([0], abs=0.02)  # they determine it
    assert 0.3 < one[0] < 1.2
    several = trained.predict({"u0": (X[:1], np.stack([U0[:1], -U0[:1]]))}, AT)
    assert several["sensor_error"].values.tolist() == [one[0]] * 2


def test_a_prediction_begins_with_the_initial_data(trained):
    found = trained.predict({"u0": U0}, AT)["u"].sel(t=1.0).values[0]
    assert np.allclose(found, np.cos(np.pi * np.array(AT["x"]) + 0.3), atol=1e-6)


def test_a_prediction_is_near_the_solution(trained):
    found = trained.predict({"u0": U0})["u"]
    decay = np.exp(-0.05 * np.pi**2 * (found["t"].values - 1))[:, None]
    truth = decay * np.cos(np.pi * found["x"].values + 0.3)
    error = np.linalg.norm(found.values[0] - truth) / np.linalg.norm(truth)
    assert error < 0.05


def test_every_way_of_giving_inputs_says_the_same(trained):
    points = torch.tensor(X)[None, :, None]
    samples = FunctionSamples(points, torch.tensor(U0)[None, :, None])
    array = xr.DataArray(U0, dims="x", coords={"x": X})
    scattered = xr.DataArray(U0, dims="point", coords={"x": ("point", X)})
    ways = [
        {"u0": U0},
        {"u0": U0[None]},
        {"u0": (X, U0)},
        {"u0": (X[:, None], U0)},
        {"u0": (X[:, None], U0[:, None])},
        {"u0": (X, U0[:, None])},
        {"u0": (X[None, :, None], U0[None, :, None])},
        {"u0": U0[:, None]},
        {"u0": U0[None, :, None]},
        {"u0": samples},
        xr.Dataset({"u0": array}),
        xr.Dataset({"u0": scattered}),
        xr.Dataset({"u0": array.expand_dims("sample")}),
    ]
    expected = trained.predict(ways[0], AT)["u"].values
    for way in ways[1:]:
        assert np.allclose(trained.predict(way, AT)["u"].values, expected, atol=1e-12)


def test_the_order_of_the_sensors_does_not_matter(trained):
    order = np.random.default_rng(0).permutation(8)
    one = trained.predict({"u0": (X, U0)}, AT)["u"].values
    two = trained.predict({"u0": (X[order], U0[order])}, AT)["u"].values
    assert np.allclose(one, two, atol=1e-9)


def test_points_and_grids_say_the_same(trained):
    grid = trained.predict({"u0": U0}, AT)["u"].values.reshape(-1)
    points = np.stack(np.meshgrid(AT["t"], AT["x"], indexing="ij"), -1).reshape(-1, 2)
    found = trained.predict({"u0": U0}, points)
    assert found["u"].dims == ("sample", "point")
    assert found["x"].values[0].tolist() == points[:, 1].tolist()
    assert np.allclose(found["u"].values[0], grid)
    queries = Queries(points=torch.tensor(points)[None])
    assert np.allclose(trained.predict({"u0": U0}, queries)["u"].values[0], grid)


def test_many_samples_and_queries_equal_few(trained, monkeypatch):
    inputs = np.stack([U0, 2 * U0, -U0])
    monkeypatch.setattr("piop.run.prediction.QUERIES_AT_ONCE", 10**6)
    whole = trained.predict({"u0": inputs})["u"].values
    monkeypatch.setattr("piop.run.prediction.QUERIES_AT_ONCE", 7)
    monkeypatch.setattr("piop.run.prediction.FEWEST_QUERIES", 1)
    found = trained.predict({"u0": inputs})["u"].values
    assert np.abs(found - whole).max() < 1e-14  # products of other heights round otherwise


def test_inputs_of_many_samples_are_interpolated_together(trained, monkeypatch):
    inputs = np.stack([(i + 1) * U0 for i in range(6)])
    whole = trained.predict({"u0": inputs})["u"].values
    counts, interpolate = [], module.interpolate_inputs

    def counting(problem, observed):
        counts.append(len(observed["u0"].values))
        return interpolate(problem, observed)

    monkeypatch.setattr(module, "interpolate_inputs", counting)
    monkeypatch.setattr(module, "QUERIES_AT_ONCE", 1)  # one sample at a time
    assert np.abs(trained.predict({"u0": inputs})["u"].values - whole).max() < 1e-14
    assert counts == [6]
    monkeypatch.setattr(module, "COVARIANCES_AT_ONCE", 4 * len(X) ** 2)
    assert np.abs(trained.predict({"u0": inputs})["u"].values - whole).max() < 1e-14
    assert counts == [6, 4, 2]


def test_sensors_read_in_pieces_equal_those_read_at_once(trained, monkeypatch):
    x = np.sort(np.random.default_rng(0).uniform(0, 2, 300))
    given = {"u0": (x, np.cos(np.pi * x + 0.3))}
    whole = trained.predict(given, AT)["u"].values
    monkeypatch.setattr("piop.models.core.harmonic_fit.MOST_VALUES", 400)
    monkeypatch.setattr("piop.sampling.kriging._POINT_CHUNK", 400)
    found = trained.predict(given, AT)["u"].values
    assert np.abs(found - whole).max() < 1e-11


class LargestTensor(TorchDispatchMode):
    """Notes how many numbers the largest tensor made by any operation holds."""

    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                held = tensor.untyped_storage().nbytes() // max(1, tensor.element_size())
                self.largest = max(self.largest, held)
        return out


@pytest.mark.parametrize("backbone", ["pit", "deeponet"])
def test_memory_is_bounded_whatever_the_number_of_sensors_and_queries(heat, tmp_path, backbone):
    run = fit(heat, steps=1, backbone=backbone, out=tmp_path / "r", samples=0)
    sensors, queries = 2**18, 10**5
    generator = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(sensors, dtype=torch.float64, generator=generator)
    at = torch.rand(queries, 2, dtype=torch.float64, generator=generator)
    at = torch.tensor([1.0, 0.0], dtype=torch.float64) + torch.tensor([1.0, 1.9]) * at
    with LargestTensor() as memory:
        found = run.predict({"u0": (x, torch.cos(torch.pi * x))}, at)["u"].values
    assert np.isfinite(found).all()
    assert sensors <= memory.largest < 2**23  # 64 MB, however many sensors or queries


def test_a_million_queries_are_answered_in_pieces(trained, monkeypatch):
    sizes = []
    operator = trained.model.operator

    def spy(inputs, queries, lift=None):
        sizes.append(queries.shape[0] * queries.shape[1])
        return torch.zeros(*queries.shape[:2], 1, dtype=queries.dtype)

    monkeypatch.setattr(operator, "forward", spy)
    at = {"t": np.linspace(1, 2, 1000), "x": np.linspace(0, 1.999, 1000)}
    assert trained.predict({"u0": U0}, at)["u"].shape == (1, 1000, 1000)
    assert sum(sizes) == 10**6
    assert max(sizes) <= 2**14


def test_a_loaded_run_predicts_the_same(trained):
    one = trained.predict({"u0": U0}, AT)["u"].values
    two = Run.load(trained.path).predict({"u0": U0}, AT)["u"].values
    assert np.array_equal(one, two)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "'u0' is missing"),
        ({"u0": U0, "u_0": U0}, "'u_0' is not an input.*Did you mean 'u0'"),
        ({"u0": np.where(X == 0.5, np.nan, U0)}, "sensor 2 of sample 0 is nan"),
        ({"u0": (X + 1, U0)}, r"sensor 5 of sample 0 is at x = 2.25, outside \[0, 2\]"),
        ({"u0": (X[:4], U0)}, "do not fit"),
        ({"u0": (X, U0, U0)}, "got 3 parts"),
        ({"u0": (np.stack([X, X], -1), U0)}, "do not fit"),
        ({"u0": (X[None, :, None], np.stack([U0, U0], -1)[None])}, "has 2 channels"),
        ({"u0": np.zeros((2, 2, 2))}, "got shape"),
        ({"u0": ["a"]}, "not an array of numbers"),
        (xr.Dataset({"u0": ("y", U0)}), "has dimensions y"),
        ("in.csv", "inputs: 'in.csv' does not name its inputs; give a mapping"),
        ((X, U0), "does not name its inputs"),
        (U0, "does not name its inputs"),
        ({"u0": U0 + 1j}, "not an array of numbers, but of complex128"),
        ({"u0": torch.tensor(U0 + 1j)}, "but a complex tensor"),
        ({"u0": (X, np.ma.array(U0, mask=X > 1))}, "'u0': holds masked values"),
        ({"u0": [np.ma.array(U0, mask=X > 1)]}, "'u0': holds masked values"),
        ({"u0": X.astype("M8[s]")}, "but of datetime64"),
        ({"u0": X.astype("m8[s]")}, "but of timedelta64"),
        ({"u0": np.zeros(8, [("a", float)])}, "not an array of numbers"),
        ({"u0": ["1"] * 8}, "not an array of numbers"),
        ({"u0": torch.empty(8, device="meta")}, "but a meta tensor"),
        ({"u0": torch.tensor(U0).to_sparse()}, "but a sparse tensor"),
        ({"u0": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])}, "but a nested"),
        ({"u0": FunctionSamples(torch.ones(8, device="meta"), torch.ones(8))}, "but a meta"),
        ({"u0": []}, "has no values"),
        ({"u0": np.zeros((0, 8))}, "has no values"),
        ({"u0": (X[:0], U0[:0])}, "has no values"),
        ({"u0": (0.5, 0.5)}, "points and values are arrays"),
        ({"u0": 1.0}, "got shape"),
        ({"u0": ([0, 1, 1], [0, 1, 2])}, "1 and 2 of sample 0 are both at x = 1, .* 1 and 2;"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(trained, inputs, message):
    with pytest.raises(DataError, match=message):
        trained.predict(inputs, AT)


@pytest.mark.parametrize(
    ("at", "error", "message"),
    [
        ({"t": [1.0]}, UsageError, "give each of t, x"),
        ({"t": [1.0], "x": [0.1], "y": [0.0]}, UsageError, "give each of t, x"),
        ({"t": [3.0], "x": [0.1]}, DataError, r"t = 3 is outside \[1, 2\]"),
        (np.zeros((4, 3)), DataError, "expected"),
        (np.array([[1.0, 5.0]]), DataError, "x = 5 is outside"),
        ({"t": ["soon"], "x": [0.1]}, DataError, "not an array of numbers"),
        ({"t": [], "x": [0.1]}, DataError, r"at: t has shape \[0\]"),
        ({"t": [[1.0]], "x": [0.1]}, DataError, r"at: t has shape \[1, 1\]"),
        ({3: [1.0]}, UsageError, "at: has 3; give each of t, x"),
        (np.zeros((0, 2)), DataError, "at: holds no points"),
        (Queries(), DataError, "at: is not an array"),
        (Queries(points=torch.ones(1, 1, 2, device="meta")), DataError, "but a meta tensor"),
        (np.ones((3, 5, 2)), DataError, "the points of 3 samples, and the inputs have 2"),
    ],
)
def test_places_that_do_not_fit_are_refused(trained, at, error, message):
    with pytest.raises(error, match=message):
        trained.predict({"u0": np.stack([U0, U0])}, at)


def test_points_of_each_sample_are_those_of_one_input(trained, monkeypatch):
    points = 1 + torch.rand(3, 5, 2, dtype=torch.float64)
    whole = trained.predict({"u0": U0}, points)["u"].values
    monkeypatch.setattr("piop.run.prediction.SENSORS_AT_ONCE", 8)
    assert np.allclose(trained.predict({"u0": U0}, points)["u"].values, whole, atol=1e-12)


BOOLEANS = np.array(U0) > 0


@pytest.mark.parametrize(
    "given",
    [
        BOOLEANS,
        BOOLEANS.tolist(),
        torch.tensor(BOOLEANS),
        BOOLEANS.astype(object),
        (X, BOOLEANS),
        xr.DataArray(BOOLEANS, {"x": X}),
        FunctionSamples(torch.tensor(X)[None, :, None], torch.tensor(BOOLEANS)[None, :, None]),
    ],
)
def test_truth_values_are_no_values_of_an_input(trained, given):
    with pytest.raises(DataError, match="input 'u0': holds truth values; give real numbers"):
        trained.predict({"u0": given}, AT)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (torch.ones(1, 3), r"has shape \[1, 3\]; expected truth values \[1, 8\]"),
        (torch.zeros(1, 8), "leaves sample 0 no sensor"),
        (torch.full((1, 8), 2), "expected truth values"),
        ("all", "not an array of numbers"),
    ],
)
def test_masks_that_do_not_fit_are_refused(trained, mask, message):
    points, values = torch.tensor(X)[None, :, None], torch.tensor(U0)[None, :, None]
    with pytest.raises(DataError, match=message):
        trained.predict({"u0": FunctionSamples(points, values, mask)}, AT)


def test_a_position_may_be_repeated_with_its_value(trained):
    expected = trained.predict({"u0": (X, U0)}, AT)["u"].values
    found = trained.predict({"u0": ([*X, X[3]], [*U0, U0[3]])}, AT)["u"].values
    assert np.allclose(found, expected, atol=1e-6)


def test_functions_of_different_batches_are_refused():
    problem = Problem.from_file("darcy")
    one, two = problem.sample(2), problem.sample(3)
    with pytest.raises(DataError, match="has 2 samples, others have 3"):
        read_inputs(problem, {name: (one if i else two)[name] for i, name in enumerate(one)})

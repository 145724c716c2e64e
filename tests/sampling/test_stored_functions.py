"""Functions from files: exact where they should be, refused where they do not fit."""

import math

import numpy as np
import pytest
import torch
import xarray
from scipy.interpolate import CubicSpline

from piop.errors import DataError
from piop.sampling import sample_inputs
from piop.sampling.stored_functions import stored_functions, sum_of_waves
from piop.spec.distributions import FromFile

N = 16
X = np.arange(N) / N


def waves(x, shift=0.0):
    return 1.0 + np.sin(2 * math.pi * (x + shift)) + 0.3 * np.cos(6 * math.pi * x)


def waves_slope(x, shift=0.0):
    two_pi = 2 * math.pi
    return two_pi * np.cos(two_pi * (x + shift)) - 1.8 * math.pi * np.sin(6 * math.pi * x)


@pytest.fixture
def read(tmp_path, item, axis):
    def make(write, of=("x",), axes=None, smooth=True, variable=None, name="f.npz"):
        file = tmp_path / name
        if callable(write):
            write(file)
        elif name.endswith(".csv"):
            file.write_text(write)
        else:
            np.savez(file, **write)
        axes = tuple(axis(n) for n in of) if axes is None else axes
        law = FromFile(file.name, variable, file)
        return stored_functions(item("u0", of, law, smooth=smooth), law, axes)

    return make


def at(*points):
    return torch.tensor(points, dtype=torch.float64).reshape(1, len(points), -1)


def test_a_periodic_function_is_interpolated_without_error_with_its_derivatives(read):
    f = read({"x": X, "u0": np.stack([waves(X), waves(X, 0.2)])})
    places = np.array([0.013, 0.5, 0.97, 1.3])
    exact = np.stack([waves(places), waves(places, 0.2)])
    np.testing.assert_allclose(f(at(*places)).numpy(), exact, atol=1e-12)
    slope = np.stack([waves_slope(places), waves_slope(places, 0.2)])
    np.testing.assert_allclose(f.derivative(at(*places), (1,)).numpy(), slope, atol=1e-10)


@pytest.mark.parametrize("n", [15, 16])
def test_the_values_at_the_points_are_kept_whatever_they_are(n, read):
    values = np.random.default_rng(0).normal(size=(3, n))
    f = read({"x": np.arange(n) / n, "u0": values})
    np.testing.assert_allclose(
        f.on_grid([torch.arange(n).double() / n]).numpy(), values, atol=1e-12
    )


def test_a_grid_may_start_anywhere_and_repeat_its_right_end(read):
    for x in (X + 0.5 / N, np.append(X, 1.0)):
        f = read({"x": x, "u0": waves(x)[None]})
        np.testing.assert_allclose(
            f(at(0.2, 0.9)).numpy()[0], waves(np.array([0.2, 0.9])), atol=1e-12
        )


def test_cubics_are_interpolated_without_error_on_walls(read, axis):
    x = np.sort(np.append([0.0, 1.0], np.random.default_rng(0).random(6)))
    f = read({"x": x, "u0": (x**3 - x)[None]}, axes=(axis("x", periodic=False),))
    places = np.array([0.0, 0.3, 0.77, 1.0])
    np.testing.assert_allclose(f(at(*places)).numpy()[0], places**3 - places, atol=1e-12)
    np.testing.assert_allclose(f.derivative(at(*places), (2,)).numpy()[0], 6 * places, atol=1e-9)


def test_splines_on_walls_are_those_of_scipy(read, axis):
    x = np.sort(np.random.default_rng(1).random(9))
    x[[0, -1]] = 0.0, 1.0
    f = read({"x": x, "u0": np.sin(9 * x)[None]}, axes=(axis("x", periodic=False),))
    oracle, places = CubicSpline(x, np.sin(9 * x)), np.linspace(0, 1, 23)
    for order in range(3):
        ours = f.derivative(at(*places), (order,)).numpy()[0]
        np.testing.assert_allclose(ours, oracle(places, order), atol=1e-10)


@pytest.mark.parametrize("smooth", [True, False])
def test_few_points_or_rough_functions_are_joined_by_lines(smooth, read, axis):
    x = np.array([0.0, 0.5, 1.0]) if smooth else np.linspace(0, 1, 9)
    f = read(
        {"x": x, "u0": np.abs(x - 0.5)[None]}, axes=(axis("x", periodic=False),), smooth=smooth
    )
    np.testing.assert_allclose(f(at(0.1, 0.5, 0.75)).numpy()[0], [0.4, 0.0, 0.25], atol=1e-12)


def test_one_point_makes_a_constant(read, axis):
    f = read({"x": np.array([0.5]), "u0": np.array([[7.0]])}, axes=(axis("x", periodic=False),))
    assert f(at(0.0, 0.9)).tolist() == [[7.0, 7.0]]


def test_netcdf_dimensions_may_come_in_any_order(read, axis):
    axes = (axis("x"), axis("y", periodic=False))
    y = np.linspace(0, 1, 5)
    values = waves(X)[:, None] * (1 + y**3)
    data = xarray.Dataset(
        {"a": (("y", "sample", "x"), np.stack([values.T, 2 * values.T], 1))}, {"x": X, "y": y}
    )
    f = read(data.to_netcdf, ("x", "y"), axes, variable="a", name="f.nc")
    assert f.batch == 2
    value = f(at(0.3, 0.4).reshape(1, 1, 2)).numpy()[:, 0]
    np.testing.assert_allclose(value, waves(0.3) * 1.064 * np.array([1, 2]), atol=1e-12)


def test_a_table_holds_a_grid_in_any_order_of_rows(read):
    order = np.random.default_rng(0).permutation(N)
    rows = "\n".join(f"{s},{X[i]!r},{waves(X[i], s)!r}" for i in order for s in (0.0, 0.25))
    f = read("sample,x,u0\n" + rows.replace("np.float64(", "").replace(")", ""), name="f.csv")
    exact = [waves(0.3), waves(0.3, 0.25)]
    np.testing.assert_allclose(f(at(0.3)).numpy()[:, 0], exact, atol=1e-12)


def test_scalars_are_read_as_numbers(read):
    f = read({"u0": np.array([1.0, 2.0])}, of=())
    assert f(torch.zeros(2, 1, 0)).tolist() == [[1.0], [2.0]]
    f = read("sample,u0\n0,1.0\n1,2.0\n", of=(), name="f.csv")
    assert f(torch.zeros(2, 1, 0)).tolist() == [[1.0], [2.0]]


def test_draws_pick_functions_of_the_file(tmp_path, item, problem, many):
    file = tmp_path / "f.npz"
    np.savez(file, x=X, u0=np.arange(4.0)[:, None] + waves(X))
    p = problem(item("u0", ["x"], FromFile("f.npz", None, file)))
    f = sample_inputs(p, many(200))["u0"]
    means = f.on_grid([torch.from_numpy(X)]).mean(1) - 1.0
    picked = means.round().long()
    torch.testing.assert_close(means, picked.double(), atol=1e-10, rtol=0)
    assert sorted(set(picked.tolist())) == [0, 1, 2, 3]


def test_a_changed_file_is_read_again(read):
    assert float(read({"x": X, "u0": waves(X)})(at(0.0))) == pytest.approx(1.3)
    assert float(read({"x": X, "u0": 2 * waves(X)})(at(0.0))) == pytest.approx(2.6)


def broken(**more):
    return {"x": X, "u0": waves(X)[None], **more}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"x": X, "v": waves(X)}, r"no variable 'u0' \(a function of x\); found: x, v"),
        ({"u0": waves(X)}, "no variable 'x'"),
        (broken(u0=np.full((1, N), np.nan)), "'u0' is nan in sample 0, index 0"),
        (broken(u0=np.zeros((1, 7))), r"has shape \(1, 7\), which does not fit"),
        (broken(x=X**2), "16 points that are not evenly spaced over"),
        (broken(x=2 * X), "outside"),
        (broken(x=np.linspace(0, 1, N)), "values at both ends of the periodic axis 'x' differ"),
        (
            broken(x=np.stack([X, X + 0.01]), u0=np.zeros((2, N))),
            "expected a grid along",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_refused(content, message, read):
    with pytest.raises(DataError, match=message):
        read(content)


def test_netcdf_of_other_dimensions_is_refused(read):
    data = xarray.Dataset({"u0": (("sample", "z"), np.zeros((2, 3)))}, {"x": X})
    with pytest.raises(
        DataError, match="'u0' is given along sample, z; expected a grid along sample, x"
    ):
        read(data.to_netcdf, name="f.nc")


def test_a_coordinate_of_another_length_is_refused(read):
    data = xarray.Dataset({"u0": (("sample", "x"), np.zeros((2, 3))), "u0_x": ("p", X)})
    with pytest.raises(DataError, match=r"'u0' has shape \(2, 3\); expected \(len\(x\) = 16\)"):
        read(data.to_netcdf, name="f.nc")


def test_a_table_that_is_no_grid_is_refused(read, axis):
    rows = "x,y,u0\n0,0,1\n0,1,2\n0.5,0,3\n"
    axes = (axis("x"), axis("y", periodic=False))
    with pytest.raises(DataError, match="are no grid: 3 rows in a sample, but 2 × 2"):
        read(rows, ("x", "y"), axes, name="f.csv")


def test_a_missing_file_is_refused(tmp_path, item, axis):
    gone = FromFile("gone.npz", None, tmp_path / "gone.npz")
    with pytest.raises(DataError, match=r"gone.npz: no such file, given for inputs.u0"):
        stored_functions(item("u0", ["x"], gone), gone, (axis("x"),))


def test_a_sum_of_waves_drops_those_with_longer_vectors(axis):
    """(3, 4) has the length 5, (4, 4) a larger one."""
    axes = (axis("x"), axis("y"))
    x, y = (2 * math.pi * (g - a.low) / a.length for g, a in zip(grid(axes, 13), axes, strict=True))
    kept = 1 + torch.sin(3 * x) * torch.cos(4 * y) + torch.cos(5 * y)
    values = kept + 0.7 * torch.cos(4 * x - 4 * y) + torch.sin(6 * x)
    found = sum_of_waves(torch.stack([values, kept]), axes, 5)
    on_grid = found.on_grid([g.unique() for g in grid(axes, 13)])
    torch.testing.assert_close(on_grid, torch.stack([kept, kept]), rtol=0, atol=1e-12)


def grid(axes, count):
    ticks = [a.low + a.length * torch.arange(count, dtype=torch.float64) / count for a in axes]
    return torch.meshgrid(*ticks, indexing="ij")

"""DeepXDE's data on the L-shape: what they solve, and how near the finite elements come."""

from pathlib import Path

import numpy as np
import pytest
from scipy.interpolate import BarycentricInterpolator

from piop.problem import Problem
from piop.reference import solve_reference

FILE = Path(__file__).parents[4] / "shared/data/deepxde_poisson_lshape.npz"
NODES = 10  # intervals of an element: eight by eight squares of 11 x 11 Gauss-Lobatto nodes each

pytestmark = pytest.mark.skipif(not FILE.exists(), reason=f"{FILE} is not there")


@pytest.fixture(scope="module")
def published():
    """Nodes along an axis ``[161]`` and values ``[161, 161]``, NaN outside."""
    data = np.load(FILE)
    places = np.round(data["X_test"], 12)
    axis = np.unique(places[:, 0])
    values = np.full((len(axis), len(axis)), np.nan)
    values[tuple(np.searchsorted(axis, places.T - 1e-9))] = data["y_ref"][:, 0]
    return axis, values


def elements(axis, values):
    """Nodes along both axes and values of each element inside."""
    for i in range(0, len(axis) - 1, NODES):
        for j in range(0, len(axis) - 1, NODES):
            own = slice(i, i + NODES + 1), slice(j, j + NODES + 1)
            if not np.isnan(values[own]).any():
                yield axis[own[0]], axis[own[1]], values[own]


def differentiation(nodes):
    """The matrix that differentiates the polynomial through values at nodes."""
    gaps = nodes[:, None] - nodes + np.eye(len(nodes))
    weights = 1 / gaps.prod(1)
    matrix = weights / weights[:, None] / gaps
    np.fill_diagonal(matrix, 0)
    np.fill_diagonal(matrix, -matrix.sum(1))
    return matrix


def test_the_published_solution_has_another_equation(published):
    """In every element −Δu + u = 1 and not −Δu = 1, which DeepXDE's example trains on."""
    off = {0: 0.0, 1: 0.0}
    for x, y, u in elements(*published):
        if np.hypot(np.abs(x).min(), np.abs(y).min()) < 0.2:
            continue  # near the corner second derivatives are not resolved
        along, across = differentiation(x), differentiation(y)
        laplacian = (along @ along @ u + u @ (across @ across).T)[2:-2, 2:-2]
        for reaction in off:
            residual = -laplacian + reaction * u[2:-2, 2:-2] - 1
            off[reaction] = max(off[reaction], float(np.abs(residual).max()))
    assert off[1] < 5e-3
    assert off[0] > 0.1


def test_finite_elements_meet_it_to_its_own_error(published):
    spec = Problem.from_file("poisson_lshape").to_yaml()
    problem = Problem.from_yaml(spec.replace("-lap(u) = 1", "-lap(u) + u = 1"))
    solution = solve_reference(problem, {}, shape=(17, 17), tolerance=1e-5)
    points, found = solution.points[0].numpy(), solution.values["u"][0].numpy()
    truth = np.full(len(points), np.nan)
    for x, y, u in elements(*published):
        inside = (points >= (x[0], y[0])) & (points <= (x[-1], y[-1]))
        for k in np.flatnonzero(inside.all(1)):
            truth[k] = BarycentricInterpolator(y, BarycentricInterpolator(x, u)(points[k, 0]))(
                points[k, 1]
            )
    assert not np.isnan(truth).any()
    assert float(solution.error_estimate) < 1e-5
    # the published values are 4e-5 off, most near the corner; ours differ by 1e-6 between meshes
    assert np.linalg.norm(found - truth) < 6e-5 * np.linalg.norm(truth)

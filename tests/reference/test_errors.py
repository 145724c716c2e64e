"""What the reference solver refuses, and how it says so."""

import math

import pytest
import torch

from piop.errors import DataError, SolverError
from piop.reference import Limits, solve_reference
from piop.reference.fourier.time_stepping import SpectralStepper

from .cases import Scalars, Waves, periodic, random_waves


def test_blow_up_names_sample_and_time():
    # u' = u² from u0: infinite at t = 1/u0.
    problem = periodic(
        "dt(u) = u**2 + 0.001*dxx(u)",
        time=2.0,
        initial={"u": "c + 0*x"},
        inputs={"c": {"of": [], "law": "uniform", "low": 0.1, "high": 3}},
    )
    limits = Limits(steps=20_000)
    with pytest.raises(SolverError, match=r"sample 1: not finite from t = "):
        solve_reference(problem, {"c": Scalars([0.2, 2.0])}, limits=limits)


@pytest.mark.parametrize("term", ["u**0.5", "u**u", "exp(exp(exp(8*u)))"])
def test_terms_without_a_value_at_the_start_are_told_at_once(term, monkeypatch):
    steps, usual = [], SpectralStepper.scheme
    monkeypatch.setattr(SpectralStepper, "scheme", lambda s, h: steps.append(h) or usual(s, h))
    with pytest.raises(SolverError, match="sample 0: not finite from t = "):
        solve_reference(periodic(f"dt(u) = dxx(u) + {term}"), {"u0": random_waves(1, [(0, 1)])})
    assert len(steps) < 1000


def test_nan_input_is_refused_at_the_start():
    problem = periodic("dt(u) + u*dx(u) = 0.1*dxx(u)")
    waves = random_waves(2, [(0, 1)])
    waves.amplitudes[1, 0] = math.nan
    with pytest.raises(SolverError, match="sample 1: the initial state is not finite"):
        solve_reference(problem, {"u0": waves})


def vorticity(**more):
    return periodic(
        "dt(w) + dy(psi)*dx(w) - dx(psi)*dy(w) = 0.05*lap(w)",
        ("w",),
        {"x": [0, 1], "y": [0, 1]},
        auxiliary={"psi": {"equation": "-lap(psi) = w", "mean": 0}},
        **more,
    )


def test_auxiliary_equation_without_solution():
    problem = vorticity()
    square = [(0, 1), (0, 1)]
    solve_reference(problem, {"w0": random_waves(1, square)}, times=[0.1], tolerance=1e-2)
    with pytest.raises(SolverError, match=r"sample 0.*'psi' has mean -?1\.000e-01"):
        solve_reference(problem, {"w0": random_waves(1, square, mean=0.1)})


def test_short_waves_of_the_initial_data_are_not_taken_for_a_mean():
    # as many periods as the first grids have points
    problem = vorticity(initial={"w": "w0 + 1e-5*(cos(64*pi*x) + cos(128*pi*y))"})
    waves = random_waves(1, [(0, 1), (0, 1)])
    found = solve_reference(problem, {"w0": waves}, times=[0.1], tolerance=1e-2)
    assert float(found.values["w"].mean().abs()) < 1e-12


def test_missing_input_and_unequal_batches():
    problem = periodic("dt(u) = u0*dxx(u)")
    with pytest.raises(DataError, match="need the input 'u0'; given: none"):
        solve_reference(problem, {})
    with pytest.raises(DataError, match="need the input 'u0'; given: a, b"):
        solve_reference(problem, dict.fromkeys("ba", random_waves(1, [(0, 1)])))
    two = periodic(
        "dt(u) = dxx(u) + f",
        inputs={
            "f": {
                "of": ["x"],
                "law": "fourier_series",
                "terms": 1,
                "amplitude": [0, 1],
                "wavenumber": [1, 1],
            }
        },
    )
    functions = {"u0": random_waves(2, [(0, 1)]), "f": random_waves(3, [(0, 1)])}
    with pytest.raises(DataError, match=r"different batch sizes: \[2, 3\]"):
        solve_reference(two, functions)


@pytest.mark.parametrize("times", [[], [0.5, 0.2], [0.5, 3.0], [-1.0]])
def test_times_must_ascend_inside_the_interval(times):
    problem = periodic("dt(u) = dxx(u)")
    with pytest.raises(DataError, match="times must ascend"):
        solve_reference(problem, {"u0": random_waves(1, [(0, 1)])}, times=times)


def test_shape_needs_a_size_per_axis():
    problem = periodic("dt(u) = dxx(u)")
    with pytest.raises(DataError, match="one size for each of 1 space axes"):
        solve_reference(problem, {"u0": random_waves(1, [(0, 1)])}, shape=(8, 8))


def test_waves_of_the_tests_are_right():
    waves = Waves([[1.0]], [[[1]]], [[0.0]], [0.0], [1.0])
    x = torch.tensor([[[0.1]]], dtype=torch.float64)
    assert float(waves.derivative(x, (1,))) == pytest.approx(2 * math.pi * math.cos(0.2 * math.pi))

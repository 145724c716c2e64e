"""Ordinary differential equations against closed forms, invariants and SciPy."""

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from scipy.special import erf

from piop.errors import NotSupportedError, SpecError
from piop.problem import Problem
from piop.reference.chebyshev.solve import CollocationSolver

from .cases import relative

DRAWN = {"s": {"law": "uniform", "low": 1, "high": 4}}


def ordinary(*equations, initial, inputs=DRAWN, end=5, **words):
    unknowns = list(dict.fromkeys(key.strip("dt()") for key in initial))
    return Problem(
        name="ordinary",
        time={"t": [0, end]},
        unknowns=unknowns,
        inputs=inputs,
        equations=list(equations),
        initial=initial,
        **words,
    )


def solved(problem, n=4, **settings):
    inputs = problem.sample(n)
    numbers = {
        k: f.on_grid(()).reshape(-1, 1).numpy() for k, f in inputs.items() if not f.dimension
    }
    return problem.solve_reference(inputs, **settings), numbers


def test_an_oscillator_equals_its_closed_form():
    problem = ordinary("dtt(u) + 0.2*dt(u) + s*u = 0", initial={"u": 1, "dt(u)": 0})
    solution, numbers = solved(problem)
    t, w = solution.times.numpy(), np.sqrt(numbers["s"] - 0.01)
    truth = np.exp(-0.1 * t) * (np.cos(w * t) + 0.1 / w * np.sin(w * t))
    assert solution.values["u"].shape == (4, 101)
    assert np.abs(solution.values["u"].numpy() - truth).max() < 1e-11
    slopes = solution.time_derivatives["u"].numpy()
    assert np.abs(slopes[:, 1:-1] - np.gradient(truth, t, axis=1)[:, 1:-1]).max() < 5e-3


def test_what_iterations_leave_over_hundreds_of_steps_is_within_the_estimate():
    problem = ordinary(
        "dt(u) = u*(1 - v)",
        "dt(v) = r*v*(u - 1)",
        initial={"u": 3, "v": 1},
        inputs={"r": {"law": "uniform", "low": 0.3, "high": 3.0}},
        end=20,
        save={"t": 9},
    )
    solution, drawn = solved(problem, 200, tolerance=1e-6)
    u = solution.values["u"].numpy()
    for row, r in enumerate(drawn["r"][:, 0]):
        truth = solve_ivp(
            lambda t, y, r=r: [y[0] * (1 - y[1]), r * y[1] * (y[0] - 1)],
            (0, 20),
            [3, 1],
            method="DOP853",
            t_eval=solution.times.numpy(),
            rtol=1e-13,
            atol=1e-14,
        ).y[0]
        error = np.abs(u[row] - truth).max() / np.sqrt((truth**2).mean())
        assert error <= 0.3 * float(solution.error_estimate[row])


def test_a_nonlinear_constraint_far_from_zero_starts_on_its_solution():
    """u' = −v, 2v + v³/5 = 2u + u³/5: v = u = e^−t s, of which the start of v is not given."""
    problem = Problem(
        name="constraint",
        time={"t": [0, 1]},
        unknowns=["u", "v"],
        inputs=DRAWN,
        equations=["dt(u) = -v", "2*v + v**3/5 = 2*u + u**3/5"],
        initial={"u": "s"},
    )
    solution, numbers = solved(problem)
    truth = np.exp(-solution.times.numpy()) * numbers["s"]
    assert bool(solution.accepted.all())
    for name in "uv":
        assert np.abs(solution.values[name].numpy() - truth).max() < 1e-6


def test_what_lotka_and_volterra_conserve_is_conserved():
    solution, numbers = solved(Problem.from_file("lotka_volterra"), 8)
    u, v = solution.values["u"].numpy(), solution.values["v"].numpy()
    kept = u - np.log(u) + v - numbers["a"] * np.log(v)
    assert bool(solution.accepted.all())
    assert np.abs(kept - kept[:, :1]).max() < 1e-7


@pytest.mark.parametrize("rate", [1, 1e6])
def test_what_starts_from_rest_as_a_power_of_time_is_solved(rate):
    """A step from t = 0 errs by the same part of ``t**4`` however short it is."""
    equations, rest = ("dt(a) = t**2", f"dt(b) = {rate}*a"), {"a": 0, "b": 0}
    problem = ordinary(*equations, initial=rest, inputs={}, end=1)
    solution = problem.solve_reference({}, tolerance=1e-8)
    exact = rate * solution.times**4 / 12
    assert bool(solution.accepted[0])
    assert relative(solution.values["b"].mT, exact[:, None]) < 1e-12


def test_the_rounding_of_a_larger_unknown_counts():
    """Two unknowns of 1000 differ by 1e-6, and drive a third one."""
    equations = "dt(u) = 0.1*(1000 - u)", "dt(w) = 0.1*(1000 - w)", "dt(v) = -0.1*v + u - w"
    start = {"u": 1001, "w": 1000.999999, "v": 0}
    problem = ordinary(*equations, initial=start, inputs={}, end=1)
    solution = problem.solve_reference({}, tolerance=1e-6)
    exact = 1e-6 * solution.times * torch.exp(-0.1 * solution.times)
    error = relative(solution.values["v"].mT, exact[:, None])
    assert 1e-8 < error < float(solution.error_estimate[0])
    assert not bool(solution.accepted[0])
    assert "it is the rounding of a larger unknown" in solution.notes[0]


def test_a_pulse_narrower_than_any_step_is_seen():
    width = 5e-5
    height = 1 / width
    pulse = f"{height}*exp(-((t - s)/{width})**2)"
    solution, numbers = solved(ordinary(f"dt(u) = -u + {pulse}", initial={"u": 1}), 2)
    t, s = solution.times.numpy(), numbers["s"]
    risen = erf((t - s) / width - width / 2) + erf(s / width + width / 2)
    truth = np.exp(-t) + np.sqrt(np.pi) / 2 * np.exp(s - t + width**2 / 4) * risen
    scale = np.sqrt((truth**2).mean(1))
    error = np.abs(solution.values["u"].numpy() - truth).max(1) / scale
    assert bool(solution.accepted.all())
    assert (error <= solution.error_estimate.numpy()).all()


PLACE = {"law": "uniform", "low": 0.5, "high": 4.5}


def test_a_kink_of_the_forcing_is_within_the_estimate():
    problem = ordinary("dt(u) = 10*abs(t - c)", initial={"u": 1}, inputs={"c": PLACE})
    solution, drawn = solved(problem, 12)
    t, c = solution.times.numpy(), drawn["c"]
    truth = 1 + 5 * (c**2 + (t - c) * np.abs(t - c))
    error = np.abs(solution.values["u"].numpy() - truth).max(1) / np.sqrt((truth**2).mean(1))
    assert (error <= solution.error_estimate.numpy()).all()
    assert error.max() < 3e-9  # steps over kinks are so short that levels cannot agree by chance


def test_fast_forcing_is_resolved():
    problem = ordinary("dt(u) = 20*cos(20*s*t)", initial={"u": 0})
    solution, drawn = solved(problem)
    truth = np.sin(20 * drawn["s"] * solution.times.numpy()) / drawn["s"]
    assert np.abs(solution.values["u"].numpy() - truth).max() < 1e-9
    assert bool(solution.accepted.all())


def test_levels_that_agree_by_chance_do_not_hide_errors_of_steps(monkeypatch):
    monkeypatch.setattr(CollocationSolver, "_difference", lambda *_: 0.0)
    solution, _ = solved(ordinary("dt(u) = u*cos(8*s*t)", initial={"u": 1}))
    assert bool(solution.accepted.all())
    assert float(solution.error_estimate.min()) > 0


def test_a_stiff_oscillator_and_random_forcing_agree_with_scipy():
    forcing = {"law": "fourier_series", "terms": 3, "amplitude": [-1, 1], "wavenumber": [1, 3]}
    problem = ordinary(
        "dtt(u) - 20*(1 - u**2)*dt(u) + u = f",
        initial={"u": 2, "dt(u)": 0},
        inputs={"f": {"of": ["t"], **forcing}},
    )
    inputs = problem.sample(1)
    solution = problem.solve_reference(inputs)

    def slopes(t, y):
        f = float(inputs["f"].on_grid([solution.times.new_tensor([t])])[0, 0])
        return [y[1], 20 * (1 - y[0] ** 2) * y[1] - y[0] + f]

    t = solution.times.numpy()
    truth = solve_ivp(slopes, (0, 5), [2, 0], "Radau", t, rtol=1e-9, atol=1e-10).y[0]
    assert np.abs(solution.values["u"][0].numpy() - truth).max() < 1e-6


def test_a_chaotic_solution_is_bounded_by_its_estimate():
    lorenz = ["dt(x) = 10*(y - x)", "dt(y) = x*(7*s - z) - y", "dt(z) = x*y - 8/3*z"]
    problem = ordinary(*lorenz, initial={"x": 1, "y": 1, "z": 1})
    solution, _ = solved(problem, 2)
    fine, _ = solved(problem, 2, tolerance=1e-9)
    assert bool(solution.accepted.all())
    for name in "xyz":
        scale = fine.values[name].square().mean(1).sqrt()
        error = (solution.values[name] - fine.values[name]).abs().amax(1) / scale
        assert bool((error <= solution.error_estimate).all())


def test_a_network_learns_and_predicts_over_time_alone(tmp_path):
    problem = Problem.from_file("lotka_volterra")
    run = problem.fit(steps=2, out=tmp_path / "run", settings={"functions": 2})
    drawn = problem.sample(3)
    found = run.predict({n: f.on_grid(()).flatten() for n, f in drawn.items()}, at={"t": [0, 1, 2]})
    assert found["u"].dims == ("sample", "t")
    start = found["u"].sel(t=0).to_numpy()
    assert np.allclose(start, drawn["u0"].on_grid(()).flatten(), atol=1e-5)


def test_jumps_in_time_are_refused():
    problem = ordinary("dt(u) = -u + where(t < s, 1, 0)", initial={"u": 1})
    with pytest.raises(NotSupportedError, match=r"jumps in time \(where\(t < s, 1, 0\)\)"):
        solved(problem)


def test_what_needs_space_is_refused_without_it():
    with pytest.raises(SpecError, match="boundary: there is none without 'space'"):
        ordinary("dt(u) = -s*u", initial={"u": 1}, boundary={"x": "periodic"})
    with pytest.raises(SpecError, match="lap needs space coordinates"):
        ordinary("dt(u) = s*lap(u)", initial={"u": 1})
    with pytest.raises(SpecError, match=r"'space' is missing. Ordinary differential equations"):
        Problem(name="steady", unknowns=["u"], equations=["u**2 = 2"])

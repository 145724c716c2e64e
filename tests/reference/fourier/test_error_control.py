"""Refinement of trajectories: estimates are bounds, samples independent, limits reported."""

import math
from dataclasses import replace

import pytest
import torch

from piop.errors import NotSupportedError
from piop.reference import Limits, solve_reference
from piop.reference.fourier.error_control import (
    Assessment,
    Measurements,
    after_failure,
    assess,
    next_level,
    round_up,
)
from piop.reference.fourier.solve import SpectralSolver
from piop.reference.fourier.step_lengths import SpectralLevel

from ..cases import Waves, evolve, periodic, random_waves

TAU = {"x": [0, "2*pi"]}
BURGERS = periodic("dt(u) + u*dx(u) = 0.01*dxx(u)", space=TAU, time=2.475)


def true_errors(solution, waves, points, steps):
    """Errors against a run with fixed, much finer settings."""
    times = len(solution.times) - 1
    spectra, grid = evolve(BURGERS, {"u0": waves}, (points,), steps, saves=times)
    stride = points // solution.values["u"].shape[-1]
    fine = grid.backward(spectra[:, :, 0])[..., ::stride]
    gap = (solution.values["u"][:, 1:] - fine).norm(dim=-1).amax(1)
    return gap / fine.square().sum(-1).mean(1).sqrt()


def check_bound(count, seed):
    waves = random_waves(
        count, [(0, 2 * math.pi)], terms=10, amplitude=0.5, wavenumber=3, seed=seed
    )
    solution = solve_reference(BURGERS, {"u0": waves}, shape=(256,))
    errors = true_errors(solution, waves, 2048, 3200)
    assert bool(solution.accepted.all())
    assert float((errors <= solution.error_estimate).double().mean()) >= 0.99
    assert float(errors.max()) <= 1e-6


@pytest.mark.slow
def test_estimate_is_an_upper_bound_on_burgers():
    check_bound(200, seed=11)


def test_estimate_is_an_upper_bound_on_a_few_burgers():
    check_bound(2, seed=13)


def test_batch_does_not_matter():
    waves = random_waves(5, [(0, 2 * math.pi)], seed=2)
    options = {"times": [0.5, 1.0], "tolerance": 1e-4}
    together = solve_reference(BURGERS, {"u0": waves}, **options)
    for b in (0, 3):
        alone = solve_reference(BURGERS, {"u0": waves.take(torch.tensor([b]))}, **options)
        # Vector instructions may round the last digit differently at the ends of rows.
        assert torch.allclose(alone.values["u"][0], together.values["u"][b], rtol=0, atol=1e-12)
        assert torch.equal(alone.modes[0], together.modes[b])


def test_chunks_of_the_batch_do_not_matter(monkeypatch):
    waves = random_waves(5, [(0, 2 * math.pi)], seed=2)
    options = {"times": [0.5], "tolerance": 1e-4}
    together = solve_reference(BURGERS, {"u0": waves}, **options)
    monkeypatch.setattr("piop.reference.fourier.solve.MEMORY", 1)
    apart = solve_reference(BURGERS, {"u0": waves}, **options)
    assert torch.allclose(apart.values["u"], together.values["u"], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("modes", "together"), [(64, 5), (2048, 1)])
def test_memory_is_shared_by_as_many_samples_as_the_finest_grid_allows(
    monkeypatch, modes, together
):
    waves = random_waves(5, [(0, 2 * math.pi)], seed=2)
    groups, solve = [], SpectralSolver.solve

    def observed(self, level, samples, earlier):
        groups.append(len(samples))
        return solve(self, level, samples, earlier)

    monkeypatch.setattr(SpectralSolver, "solve", observed)
    monkeypatch.setattr("piop.reference.fourier.solve.MEMORY", 5 * 16 * 64)  # bytes
    limits = Limits(modes=(modes, 64, 16))
    solve_reference(BURGERS, {"u0": waves}, times=[0.5], tolerance=1e-1, limits=limits)
    assert max(groups) == together


def test_any_output_shape_samples_the_same_solution():
    waves = random_waves(1, [(0, 2 * math.pi)], seed=2)
    fine = solve_reference(BURGERS, {"u0": waves}, times=[1.0], shape=(3000,))
    for n in (7, 100, 1000):
        some = solve_reference(BURGERS, {"u0": waves}, times=[1.0], shape=(n,))
        if 3000 % n == 0:
            expected = fine.values["u"][..., :: 3000 // n]
            assert torch.allclose(some.values["u"], expected, rtol=0, atol=1e-12)
        assert some.values["u"].shape == (1, 1, n)


def test_lands_on_uneven_save_times():
    waves = random_waves(1, [(0, 2 * math.pi)], seed=2)
    many = solve_reference(BURGERS, {"u0": waves}, times=[0.0, 0.013, 0.7, 1.0, 2.4])
    one = solve_reference(BURGERS, {"u0": waves}, times=[1.0])
    assert torch.allclose(many.values["u"][:, 3], one.values["u"][:, 0], rtol=0, atol=2e-6)
    start = waves.on_grid(many.axes)
    assert torch.allclose(many.values["u"][:, 0], start, rtol=0, atol=1e-12)


def test_time_derivative_is_the_right_side():
    waves = random_waves(1, [(0, 2 * math.pi)], seed=2)
    h = 1e-3
    times = [1 - 2 * h, 1 - h, 1.0, 1 + h, 1 + 2 * h]
    solution = solve_reference(BURGERS, {"u0": waves}, times=times, tolerance=1e-9)
    u = solution.values["u"][0]
    centred = (u[0] - 8 * u[1] + 8 * u[3] - u[4]) / (12 * h)
    scale = float(centred.abs().max())
    assert float((solution.time_derivatives["u"][0, 2] - centred).abs().max()) < 1e-6 * scale


def test_finest_level_is_reported():
    sharp = Waves([[1.0], [0.01]], [[[3]], [[1]]], [[0.0], [0.0]], [0.0], [2 * math.pi])
    limits = Limits(modes=(128, 64, 16))
    solution = solve_reference(BURGERS, {"u0": sharp}, limits=limits)
    assert solution.accepted.tolist() == [False, True]
    assert solution.error_estimate[0] > 1e-6
    assert len(solution.notes) == 1
    assert "sample 0" in solution.notes[0]
    assert "128" in solution.notes[0]
    assert "spectrum is not resolved" in solution.notes[0]


def test_jump_in_data_of_kdv_is_an_error_of_what_it_leaves():
    """Its waves run everywhere; those that turn in less than a step have no phase."""
    start = "1/exp(5*sin(pi*(x + 3)/20)**2) + 1e-4*where(x < -20, 1, x/20)"
    words = {"space": {"x": [-10, 10]}, "initial": {"u": start}}
    kdv = periodic("dt(u) + 6*u*dx(u) + dxxx(u) = 0", time=0.5, **words)
    solution = solve_reference(kdv, {}, times=[0.5], shape=(128,), tolerance=1e-4)
    spectra, grid = evolve(kdv, {}, (1024,), 4000)
    exact = grid.backward(spectra[:, :, 0])[..., ::8]
    error = float((solution.values["u"] - exact).norm() / exact.norm())
    assert error <= float(solution.error_estimate[0]) <= 10 * error


def test_discontinuous_coefficient_is_not_called_accurate():
    problem = periodic("dt(u) = 0.1*dxx(u) + where(x < 0.3, 1, 0)", initial={"u": "0"}, time=0.2)
    solution = solve_reference(problem, {}, times=[0.2], limits=Limits(modes=(512, 1, 1)))
    assert not bool(solution.accepted[0])
    assert 1e-6 < float(solution.error_estimate[0]) < 0.1


@pytest.mark.parametrize("jump", ["0.1*sign(u)", "where(u < 0.1, u, 0)", "dx(where(u < x, u, 0))"])
def test_jumps_at_a_value_of_an_unknown_are_refused(jump):
    """Steps of 1/20 and 1/40 both leave 0.0011 of 0.0311, where friction leaves nothing."""
    problem = periodic(f"dt(u) + {jump} = dxx(u)", initial={"u": "0.0311"})
    with pytest.raises(NotSupportedError, match=r"jumps at a value .* as by tanh\(u/0.01\)"):
        solve_reference(problem, {}, times=[1.0])


def test_a_term_that_ends_at_a_place_is_solved():
    """At each point u = exp(−t), and exp(1 − exp(−t) − t) where x < 1/2."""
    problem = periodic("dt(u) = where(x < 0.5, exp(-t)*u, 0) - abs(u)", initial={"u": "1"})
    solution = solve_reference(problem, {}, times=[1.0], shape=(4,), limits=Limits(levels=2))
    exact = torch.tensor([math.exp(-math.exp(-1)), math.exp(-1)], dtype=torch.float64)
    torch.testing.assert_close(solution.values["u"][0, 0, [1, 3]], exact, rtol=0.05, atol=0)


def test_more_steps_on_one_grid_do_not_hide_what_two_grids_show():
    words = {"initial": {"u": "sin(2*pi*x)"}}
    equation = "dt(u) = 0.01*dxx(u) + 20*where(abs(x - 0.5) < 0.11, 1, 0)"
    problem = periodic(equation, **words)
    limits = Limits(levels=6)  # which ends with two step lengths on one grid
    coarse = solve_reference(problem, {}, times=[1.0], shape=(64,), limits=limits)
    fine = solve_reference(problem, {}, times=[1.0], shape=(64,))
    error = float((coarse.values["u"] - fine.values["u"]).norm() / fine.values["u"].norm())
    assert not bool(coarse.accepted[0])
    assert 2e-6 < error <= float(coarse.error_estimate[0])


LEVEL = SpectralLevel((64,), 0.1, 4, False)


def measured(level, difference, tail=1e-12, rough=1e-12):
    return Measurements(level, (tail,), (1e-3,), (rough,), difference)


def test_time_error_is_credited_at_order_three_and_a_half():
    first = assess(measured(LEVEL, None), None, 3.5, 1e-6)
    assert first.error == math.inf
    finer = SpectralLevel((64,), 0.1, 8, False)
    second = assess(measured(finer, 1e-6), first, 3.5, 1e-6)
    assert second.error == pytest.approx(2 * 1e-6 / (2**3.5 - 1), rel=1e-3)
    assert second.time_error_at(16) == pytest.approx(second.time_error_at(8) * 2**-3.5)


@pytest.mark.parametrize("order", [0.75, 1.3, 2.0])
def test_stiff_products_are_credited_the_order_they_show(order):
    """Runs of 4, 8 and 32 steps whose errors are multiple^−order."""
    before = assess(measured(LEVEL, None), None, 2.0, 1e-6)
    for coarse, fine, credited in ((4, 8, 1.0), (8, 32, order)):
        level = SpectralLevel((64,), 0.1, fine, False)
        difference = 1e-4 * (coarse**-order - fine**-order)
        before = assess(measured(level, difference), before, 2.0, 1e-6)
        assert before.order == pytest.approx(credited, abs=1e-6)
    assert before.time_error == pytest.approx(2 * 1e-4 * 32**-order)


def test_another_problem_on_the_same_level_tells_nothing_of_its_steps():
    first = assess(measured(LEVEL, None), None, 3.5, 1e-6)
    second = assess(measured(SpectralLevel((64,), 0.1, 8, False), 1e-6), first, 3.5, 1e-6)
    third = assess(measured(second.measured.level, 0.1), second, 3.5, 1e-6)
    assert third.error == second.error
    assert third.measured.difference == 0.1


@pytest.mark.parametrize(("order", "beyond"), [(1, 6.0), (0.63, 12.2), (2, 6.0), (12, 2.5)])
def test_slow_decay_is_summed_beyond_the_cutoff(order, beyond):
    """Jumps leave 1/k, kinks 1/k²; what is smooth decays exponentially."""
    slow = Measurements(LEVEL, (1e-9,), (1e-9 * (0.95 / 0.45) ** order,), (1e-12,))
    assert slow.decay[0] == pytest.approx(order)
    assert slow.beyond[0] == pytest.approx(beyond * 1e-9, rel=0.05)


def test_modes_without_phase_err_by_what_they_hold():
    first = assess(measured(LEVEL, None), None, 3.5, 1e-6)
    run = measured(SpectralLevel((64,), 0.1, 8, False), 1e-6)
    few = assess(replace(run, phaseless=1e-7), first, 3.5, 1e-6)
    assert few.time_error == pytest.approx(4e-7)
    assert few.time_error_at(32) == pytest.approx(2e-7)
    assert assess(replace(run, phaseless=1e-12), first, 3.5, 1e-6).order == 3.5


def test_unresolved_spectrum_earns_no_credit():
    first = assess(measured(LEVEL, None, tail=1e-2), None, 3.5, 1e-6)
    same = assess(measured(SpectralLevel((64,), 0.1, 8, False), 1e-9, tail=1e-2), first, 3.5, 1e-6)
    assert same.error == math.inf
    grown = assess(measured(SpectralLevel((96,), 0.1, 8, False), 1e-4, tail=1e-4), same, 3.5, 1e-6)
    assert grown.space_error == pytest.approx(4e-4)


@pytest.mark.parametrize(("apart", "moved"), [(1e-8, 1e-3), (1e-3, 0.02)])
def test_surprise_on_a_finer_grid_discards_the_time_error(apart, moved):
    first = assess(measured(LEVEL, None), None, 3.5, 1e-6)
    pair = assess(measured(SpectralLevel((64,), 0.1, 8, False), apart), first, 3.5, 1e-6)
    surprise = assess(measured(SpectralLevel((96,), 0.1, 8, False), moved), pair, 3.5, 1e-6)
    assert surprise.timed is None
    assert surprise.pair is None
    assert surprise.error == math.inf


def test_next_level_grows_what_is_short():
    unresolved = Assessment(measured(LEVEL, 1e-3, tail=1e-4), 3.5, 4, 1e-9, math.inf)
    assert next_level(unresolved, 1e-6).sizes > (64,)
    assert next_level(unresolved, 1e-6).multiple == 4
    slow = Assessment(measured(LEVEL, 1e-3), 3.5, 4, 1e-4, 1e-9)
    assert next_level(slow, 1e-6).sizes == (64,)
    assert next_level(slow, 1e-6).multiple == 16
    assert after_failure(LEVEL).multiple == 16


@pytest.mark.parametrize(("n", "up"), [(64, 64), (65, 80), (100, 112), (113, 128), (1000, 1024)])
def test_sizes_come_from_a_short_list(n, up):
    assert round_up(n) == up

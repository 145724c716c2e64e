"""What data tell of parameters: values, and uncertainties that hold as often as they say."""

import math

import pytest
import torch

from piop.datasets import Dataset
from piop.errors import DataError, SolverError, UsageError
from piop.fields import FunctionSamples
from piop.problem import Problem
from piop.run import Run, fit
from piop.run.parameter_estimation import QUANTILE_95, infer, least_squares
from tests.report_page import data_of, text_of

TEXT = """
piop: 1
name: inverse_heat
time: {t: [0, 1]}
space: {x: [0, 2]}
parameters: {nu: 0.05}
unknowns: [u]
inputs:
  u0: {of: [x], law: fourier_series, terms: 2, amplitude: [-1, 1], wavenumber: [1, 2]}
equations: [dt(u) = nu*dxx(u)]
initial: {u: u0}
boundary: {x: periodic}
sensors: {u0: {count: 8, place: grid}}
save: {t: 5, x: 16}
solve: {width: 16, blocks: 1, heads: 2, functions: 4, queries: 32, data_functions: 4, data_queries: 32}
infer: [nu]
"""  # noqa: E501
TRUTH = 0.08


@pytest.fixture(scope="module")
def problem():
    return Problem.from_yaml(TEXT)


def solution(t, x, phase, speed=0.0):
    """Two waves that decay, and travel at a speed."""
    one = torch.cos(torch.pi * (x - speed * t) + phase) * torch.exp(-TRUTH * torch.pi**2 * t)
    two = torch.sin(2 * torch.pi * (x - speed * t)) * torch.exp(-TRUTH * 4 * torch.pi**2 * t)
    return one + 0.5 * two


def noisy(samples=4, noise=0.05, seed=0, speed=0.0):
    """Solutions on a grid, with noise of so much of their root mean square."""
    x = 2 * torch.arange(16, dtype=torch.float64) / 16
    t = torch.linspace(0, 1, 5).double()
    phase = torch.arange(samples).double()
    u = solution(t[None, :, None], x, phase[:, None, None], speed)
    random = torch.Generator().manual_seed(seed)
    u = u + noise * u.square().mean().sqrt() * torch.randn(u.shape, generator=random).double()
    seen = 2 * torch.arange(8, dtype=torch.float64) / 8
    values = solution(torch.zeros(1).double(), seen, phase[:, None])[..., None]
    points = seen[None, :, None].expand(samples, -1, -1)
    return Dataset({"u0": FunctionSamples(points, values)}, {"t": t, "x": x}, {"u": u})


def scattered(data, seed=1):
    """The same solutions at other points, 80 for each."""
    samples = len(data)
    random = torch.Generator().manual_seed(seed)
    points = torch.rand(samples, 80, 2, generator=random, dtype=torch.float64) * torch.tensor(
        [1, 2]
    )
    phase = torch.arange(samples).double()[:, None]
    u = solution(points[..., 0], points[..., 1], phase)
    u = u + 0.05 * u.square().mean().sqrt() * torch.randn(u.shape, generator=random).double()
    return Dataset(data.inputs, {}, {"u": u}, points)


def test_least_squares_of_a_linear_model_is_the_textbook_one():
    """Two channels of other noise: (Xᵀ W X)⁻¹ Xᵀ W y, W by the noise that is found."""
    random = torch.Generator().manual_seed(0)
    design = torch.randn(2, 3, 50, 2, generator=random, dtype=torch.float64)
    sigma = torch.tensor([0.1, 2.0]).double()
    truth = torch.tensor([1.5, -0.7]).double()
    y = torch.einsum("p,pnqc->nqc", truth, design)
    y = y + sigma * torch.randn(y.shape, generator=random, dtype=torch.float64)
    y[0, :7, 0] = torch.nan
    found = least_squares(lambda p: torch.einsum("p,pnqc->nqc", p, design), y, [0.1, 0.1])
    assert found.settled
    torch.testing.assert_close(found.noise, sigma, rtol=0.1, atol=0)
    known = y.isfinite()
    weight = (known / found.noise.square()).flatten()
    x, flat = design.flatten(1), torch.where(known, y, 0.0).flatten()
    covariance = torch.linalg.inv((x * weight) @ x.T)
    torch.testing.assert_close(found.covariance, covariance)
    torch.testing.assert_close(found.moved, covariance @ ((x * weight) @ flat), rtol=1e-3, atol=0)


def test_the_noise_is_not_underestimated_by_what_the_parameters_take_up():
    """The expected sum of squares is (n - p)σ²: over many small samples σ² comes out right."""
    random = torch.Generator().manual_seed(0)
    design = torch.randn(2, 1, 6, 1, generator=random, dtype=torch.float64)
    found = []
    for _ in range(400):
        y = torch.randn(1, 6, 1, generator=random, dtype=torch.float64)
        fitted = least_squares(lambda p: torch.einsum("p,pnqc->nqc", p, design), y, [0.1, 0.1])
        found.append(float(fitted.noise.square()))
    assert abs(sum(found) / len(found) - 1) < 0.1  # 0.035 is its standard error; n instead: 0.67


def test_intervals_hold_as_often_as_they_say_with_the_solution_in_closed_form():
    """300 draws of the noise: 285 expected within, 3.8 their standard deviation."""
    x, t = 2 * torch.arange(16, dtype=torch.float64) / 16, torch.linspace(0, 1, 5).double()

    def solve(moved):
        decay = 0.07 * math.exp(float(moved[0]))
        waves = torch.cos(torch.pi * x) * torch.exp(-decay * torch.pi**2 * t)[:, None]
        return waves.reshape(1, -1, 1)

    truth = solve(torch.tensor([math.log(TRUTH / 0.07)]))
    random, scores = torch.Generator().manual_seed(0), []
    for _ in range(300):
        noise = 0.1 * torch.randn(truth.shape, generator=random, dtype=torch.float64)
        found = least_squares(solve, truth + noise, [0.02])
        error = found.moved[0] - math.log(TRUTH / 0.07)
        scores.append(float(error / found.covariance[0, 0].sqrt()))
    scores = torch.tensor(scores)
    assert 0.915 < (scores.abs() < QUANTILE_95).double().mean() < 0.985
    assert 0.87 < scores.std() < 1.13
    assert abs(scores.mean()) < 0.25


@pytest.mark.slow
def test_intervals_hold_as_often_as_they_say_with_the_solver(problem):
    """40 draws of the noise: 38 expected within, and errors as large as stated."""
    scores, inside = [], 0
    for seed in range(100, 140):
        found, warnings = infer(problem, {"nu": 0.07}, noisy(samples=2, seed=seed))
        nu = found["inferred"]["nu"]
        assert not warnings
        scores.append((nu["value"] - TRUTH) / nu["std"])
        inside += nu["interval"][0] < TRUTH < nu["interval"][1]
    print(f"{inside} of 40")
    assert inside >= 35  # 34 or fewer come about once in 70
    spread = torch.tensor(scores).square().mean().sqrt()
    assert 0.75 < spread < 1.3  # 1 ± 0.11


def test_a_parameter_is_found_from_far_away_and_its_noise_too(problem):
    for start in (0.005, 0.6):
        found, _ = infer(problem, {"nu": start}, noisy())
        nu, noise = found["inferred"]["nu"], found["inference"]["noise"]["u"]
        assert abs(nu["value"] - TRUTH) < 3 * nu["std"] < 0.1 * TRUTH
        assert nu["trained"] == start
        assert nu["start"] == 0.05
        assert abs(noise["relative"] - 0.05) < 0.01
        low, high = nu["interval"]
        assert math.isclose(low * high, nu["value"] ** 2)  # the middle of a logarithm
        assert math.log(high / nu["value"]) == pytest.approx(QUANTILE_95 * nu["std"] / nu["value"])


def test_scattered_data_tell_the_same(problem):
    on_grid = noisy()
    found, warnings = infer(problem, {"nu": 0.07}, scattered(on_grid))
    nu = found["inferred"]["nu"]
    assert not warnings
    assert abs(nu["value"] - TRUTH) < 3 * nu["std"] < 0.1 * TRUTH
    assert found["inference"]["observations"] == 4 * 80


def test_two_parameters_at_once_one_of_them_of_either_sign():
    text = TEXT.replace("{nu: 0.05}", "{nu: 0.05, c: 0}").replace("[nu]", "[nu, c]")
    problem = Problem.from_yaml(text.replace("dt(u) =", "dt(u) + c*dx(u) ="))
    found, warnings = infer(problem, {"nu": 0.06, "c": 0.1}, noisy(speed=-0.3))
    assert not warnings
    for name, truth in (("nu", TRUTH), ("c", -0.3)):
        entry = found["inferred"][name]
        assert abs(entry["value"] - truth) < 3 * entry["std"] < 0.1
    (one, across), (again, other) = found["inference"]["correlation"]
    assert one == pytest.approx(1)
    assert other == pytest.approx(1)
    assert across == again
    assert abs(across) < 0.3


def test_parameters_that_no_data_tell_apart_get_no_uncertainty():
    text = TEXT.replace("{nu: 0.05}", "{nu: 0.05, k: 1}").replace("[nu]", "[nu, k]")
    problem = Problem.from_yaml(text.replace("nu*dxx(u)", "nu*k*dxx(u)"))
    found, warnings = infer(problem, {"nu": 0.06, "k": 1.0}, noisy())
    assert "the data do not tell nu and k apart" in warnings
    assert found["inferred"]["nu"]["std"] is None
    assert found["inferred"]["nu"]["interval"] is None


def test_equations_that_do_not_hold_are_told_by_misfits_that_go_together(problem):
    """The data travel, the equation does not."""
    _, warnings = infer(problem, {"nu": 0.07}, noisy(speed=0.3))
    assert any("misfits of neighbouring points are correlated" in w for w in warnings)


def test_without_a_solution_the_value_of_training_stays_and_says_so(problem, monkeypatch):
    def fail(*_, **__):
        raise SolverError("no step is small enough")

    monkeypatch.setattr("piop.run.parameter_estimation.solve_reference", fail)
    found, warnings = infer(problem, {"nu": 0.07}, noisy())
    assert found["inferred"]["nu"] == {
        "value": 0.07, "std": None, "interval": None, "trained": 0.07, "start": 0.05,
    }  # fmt: skip
    assert "no step is small enough" in warnings[0]


@pytest.fixture(scope="module")
def run(problem, tmp_path_factory):
    """A few steps on four noisy solutions."""
    path = tmp_path_factory.mktemp("runs") / "inverse"
    return fit(problem, steps=40, data=noisy(), out=path, samples=4, device="cpu")


def test_a_run_tells_its_parameter_with_an_uncertainty_that_holds(run):
    found = run.folder.read_json("evaluation.json")
    nu = found["inferred"]["nu"]
    assert abs(nu["value"] - TRUTH) < 3 * nu["std"] < 0.1 * TRUTH
    assert nu["trained"] == pytest.approx(run.metrics[-1]["inferred/nu"], rel=1e-6)
    assert found["inference"]["samples"] == 4
    assert run.inferred == {"nu": nu["value"]}
    # judged by the equation with what was found, which is not what the spec begins with
    assert run.solved == run.problem.at({"nu": nu["value"]})
    assert found["relative_l2"]["mean"] < found["baselines"]["stays at u0"]


def test_a_run_that_is_loaded_keeps_what_it_found(run):
    again = Run.load(run.path)
    assert again.inferred == run.inferred
    values = [r.predict({"u0": torch.zeros(8)}, {"t": [0.5], "x": [1.0]}).u for r in (run, again)]
    assert values[0].equals(values[1])
    # its data were given in Python and are gone
    found = again.evaluate(samples=2, write=False)
    assert found["inferred"]["nu"]["value"] == run.inferred["nu"]
    assert any("as before, because the data of this run" in w for w in found["warnings"])


def test_data_are_needed_and_the_equations_too(problem, tmp_path):
    with pytest.raises(UsageError, match=r"infer: nu: equations alone .* --data FILE"):
        fit(problem, steps=1, out=tmp_path / "r")
    with pytest.raises(UsageError, match=r"infer nu, because without the equations"):
        fit(problem, steps=1, data=noisy(), physics=False, out=tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_data_that_are_no_numbers_are_refused_with_their_place(problem, tmp_path):
    data = noisy()
    data.values["u"][2, 1, 3] = torch.nan
    with pytest.raises(DataError, match=r"'u' is nan in sample 2, index 1, 3"):
        fit(problem, steps=1, data=data, out=tmp_path / "r")


def test_a_single_solution_is_enough(problem, tmp_path):
    found = fit(problem, steps=2, data=noisy(samples=1), out=tmp_path / "r", samples=1)
    assert set(found.inferred) == {"nu"}


def test_a_killed_run_goes_on_to_the_same_parameter(problem, tmp_path):
    from piop.run import resume

    def stop(row):
        if row["step"] >= 5:
            raise KeyboardInterrupt

    data, rows = noisy(), []
    for name, progress in (("whole", None), ("part", stop)):
        found = fit(problem, steps=12, data=data, out=tmp_path / name, samples=0, progress=progress,
                    device="cpu", settings={"average": 0.9})  # fmt: skip
        if found.interrupted:
            assert found.metrics[-1]["step"] < 12
            found = resume(tmp_path / name, samples=0, data=data)
        rows.append([{k: v for k, v in row.items() if k != "seconds"} for row in found.metrics])
    assert rows[0] == rows[1]
    assert rows[0][-1]["inferred/nu"] != rows[0][4]["inferred/nu"]


def test_a_report_gives_the_parameter_with_its_interval(run):
    page = run.report().read_text()
    nu = run.folder.read_json("evaluation.json")["inferred"]["nu"]
    assert "Inferred nu" in text_of(page)
    assert f"{nu['interval'][0]:.4g} and {nu['interval'][1]:.4g} with 95 % confidence" in text_of(
        page
    )
    (drawn,) = data_of(page)["training"]["inferred"]
    assert (drawn["name"], drawn["y"]["shape"]) == ("nu", [len(run.metrics)])

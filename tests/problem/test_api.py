"""What a user calls on a problem: it describes itself, draws inputs, is solved and compiled."""

import math

import numpy as np
import pytest
import torch

import piop
from piop.errors import DataError, NotSupportedError, UsageError

TURN = 2 * math.pi


@pytest.fixture(scope="module")
def burgers():
    return piop.Problem.from_file("burgers")


@pytest.fixture(scope="module")
def drawn(burgers):
    return burgers.sample(2)


def test_a_description_is_what_check_prints(burgers):
    text = burgers.describe()
    assert text.startswith("burgers: Viscous")
    assert "3 streams: u, u_x, collapsed" in text


def test_equations_are_typeset(burgers):
    html = burgers._repr_html_()
    assert r"$$u u_{x} + u_{t} - \frac{u_{x x}}{100} = 0$$" in html
    assert "$u = u_{0}$ at $t = 0$" in html


def test_fluxes_and_markup_are_kept_in_typesetting():
    html = piop.Problem.from_file("shock_tube")._repr_html_()
    assert r"\frac{\partial}{\partial x} \left(" in html
    assert "$\\rho = \\rho_{0}$ at" in html
    assert "&#x27;" in piop.Problem.from_file("burgers")._repr_html_()


def test_samples_follow_the_seed(burgers, drawn):
    points = torch.linspace(0, 6, 7, dtype=torch.float64)[None, :, None]
    again, other = burgers.sample(2)["u0"], burgers.sample(2, seed=1)["u0"]
    assert torch.equal(drawn["u0"](points), again(points))
    assert not torch.allclose(drawn["u0"](points), other(points))


@pytest.mark.parametrize(
    ("n", "seed", "message"),
    [
        (0, 0, "n: 0 is not above zero"),
        ("3", 0, "n: '3' is not a whole number"),
        (None, 0, "n: None is not a whole number"),
        (1.5, 0, "n: 1.5 is not a whole number"),
        (2**70, 0, r"n: 1180591620717411303424 is not in \[1, 1000000000\]"),
        (1, -1, "seed: -1 is not in"),
        (1, "a", "seed: 'a' is not a whole number"),
    ],
)
def test_numbers_of_samples_and_seeds_are_whole(burgers, n, seed, message):
    with pytest.raises(UsageError, match=message):
        burgers.sample(n, seed=seed)


@pytest.mark.parametrize("path", [3, None, b"burgers", "a\0b"])
def test_what_is_no_path_is_no_problem(path):
    with pytest.raises(
        UsageError, match=r"path: .* (is not a path; give text|cannot be used as a path)"
    ):
        piop.Problem.from_file(path)


@pytest.mark.parametrize("text", [None, b"name: a"])
def test_a_problem_is_read_from_text_alone(text):
    with pytest.raises(UsageError, match=r"text: .* is not text"):
        piop.Problem.from_yaml(text)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        *(({"tolerance": t}, "tolerance: .* must be at least 1e-12 and") for t in (0, -1, 2)),
        *(({"tolerance": t}, "tolerance: .* is not a finite") for t in ("a", math.nan, math.inf)),
        ({"device": "tpu"}, "device: 'tpu' is not one of cpu, cuda"),
        ({"device": 3}, "device: 3 is not one of cpu, cuda"),
        ({"times": 3}, "times: 3 is not a list"),
        ({"times": [math.nan]}, "times: nan is not a finite number"),
        ({"times": ["a"]}, "times: 'a' is not a finite number"),
        ({"shape": 16}, "shape: 16 is not a list"),
        ({"shape": [1.5]}, "shape: 1.5 is not a whole number"),
        ({"shape": [0]}, "shape: 0 is not above zero"),
    ],
)
def test_wrong_settings_of_the_reference_are_refused(burgers, drawn, settings, message):
    with pytest.raises(UsageError, match=message):
        burgers.solve_reference(drawn, **settings)


@pytest.mark.parametrize("given", [3, "a", [1.0], np.zeros(8)])
def test_inputs_of_the_reference_are_named(burgers, given):
    with pytest.raises(DataError, match=r"inputs: .* does not name its inputs"):
        burgers.solve_reference(given)
    with pytest.raises(DataError, match=r"functions: .* is not a mapping"):
        piop.solve_reference(burgers, given)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 1.5}, "n: 1.5 is not a whole number"),
        ({"seed": "a"}, "seed: 'a' is not a whole number"),
        ({"tolerance": "a"}, "tolerance: 'a' is not a finite number"),
        ({"noise": -1}, "noise: -1 is below zero"),
        ({"path": 3}, "path: 3 is not a path"),
        ({"force": "no"}, "force: 'no' is neither"),
        ({"progress": 3}, "progress: 3 is not a function"),
    ],
)
def test_wrong_arguments_of_generation_are_refused(burgers, tmp_path, arguments, message):
    with pytest.raises(UsageError, match=message):
        piop.generate(burgers, **{"count": 1, "path": tmp_path / "d.nc", **arguments})
    assert not any(tmp_path.iterdir())


def test_hidden_inputs_are_drawn_too():
    assert set(piop.Problem.from_file("darcy").sample(1)) >= {"g", "a"}


def solved(problem, inputs):
    return problem.solve_reference(inputs, times=[0.5], shape=[32]).values["u"]


@pytest.mark.parametrize("count", [64, 65])
def test_values_on_a_grid_are_solved_for_like_the_function(burgers, drawn, count):
    x = np.arange(count) * TURN / count
    values = drawn["u0"](torch.from_numpy(x)[None, :, None])
    expected = solved(burgers, drawn)
    for given in ((x, values.numpy()), values.tolist(), (x[:, None], values)):
        found = solved(burgers, {"u0": given})
        assert (found - expected).abs().max() < 1e-9


def test_values_on_a_grid_need_not_follow_the_distribution(burgers):
    x = np.arange(64) * TURN / 64
    found = solved(burgers, {"u0": (x, np.cos(9 * x))})  # waves up to three are drawn
    assert found.abs().max() > 0.05


def test_scattered_values_are_interpolated_under_the_distribution(burgers, drawn):
    points = TURN * torch.rand(2, 40, 1, dtype=torch.float64)
    found = solved(burgers, {"u0": (points, drawn["u0"](points))})
    assert (found - solved(burgers, drawn)).abs().max() < 1e-3


def test_scattered_values_off_the_distribution_are_refused(burgers):
    points = TURN * torch.rand(40, dtype=torch.float64)
    with pytest.raises(DataError, match=r"'u0': .* do not follow its distribution, .* even grid"):
        burgers.solve_reference({"u0": (points, torch.cos(9 * points))})


def test_a_grid_in_any_order_with_walls_is_interpolated():
    problem = piop.Problem.from_file("poisson")
    functions = problem.sample(1)
    (name,) = functions
    axes = [torch.linspace(c.low, c.high, 41, dtype=torch.float64) for c in problem.space]
    points = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).flatten(0, -2)
    points = points[torch.randperm(len(points))]
    found = problem.solve_reference({name: (points, functions[name](points[None])[0])})
    expected = problem.solve_reference(functions)
    error = (found.values["u"] - expected.values["u"]).norm() / expected.values["u"].norm()
    assert error < 1e-3


def test_what_is_given_must_fit(burgers, drawn):
    with pytest.raises(DataError, match="'u0' is missing"):
        burgers.solve_reference()
    with pytest.raises(DataError, match="give all in one way"):
        burgers.solve_reference({"u0": drawn["u0"], "nu": 1.0})
    with pytest.raises(DataError, match=r"'u0' is no function; .* Problem.solve_reference"):
        piop.solve_reference(burgers, {"u0": np.zeros(8)})


def test_a_residual_trains_a_network_of_ones_own(burgers):
    residual = burgers.residual()
    network = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    points = torch.rand(1, 20, 2)
    inputs = residual.evaluate_inputs(burgers.sample(1), points)
    loss = residual(network, points, inputs).values.square().mean()
    loss.backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in network[:2].parameters())
    with pytest.raises(NotSupportedError, match="it has no equations"):
        piop.Problem.from_file("era5").residual()

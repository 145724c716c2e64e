"""The coefficients of Radau IIA are those of the theory, whatever the number of stages."""

import pytest
import torch

from piop.problem import Problem
from piop.reference import solve_reference
from piop.reference.chebyshev import time_stepping
from piop.reference.chebyshev.equations import Equations
from piop.reference.chebyshev.mesh import CollocationMesh
from piop.reference.chebyshev.radau import Radau
from piop.reference.chebyshev.system import CollocationSystem
from piop.reference.chebyshev.time_stepping import Stepper
from piop.reference.input_values import Sources


def test_three_stages_are_those_of_the_book():
    """Hairer and Wanner 1996, table IV.5.6."""
    method = Radau(3)
    root = 6**0.5
    assert method.nodes == pytest.approx([(4 - root) / 10, (4 + root) / 10, 1.0], rel=1e-14)
    a = torch.linalg.inv(method.inverse)
    book = [
        [(88 - 7 * root) / 360, (296 - 169 * root) / 1800, (-2 + 3 * root) / 225],
        [(296 + 169 * root) / 1800, (88 + 7 * root) / 360, (-2 - 3 * root) / 225],
        [(16 - root) / 36, (16 + root) / 36, 1 / 9],
    ]
    assert torch.allclose(a, torch.tensor(book, dtype=torch.float64), atol=1e-14, rtol=0)


@pytest.mark.parametrize("stages", [1, 2, 3, 5])
def test_quadrature_is_of_order_2s_minus_1(stages):
    method = Radau(stages)
    weights = torch.linalg.inv(method.inverse)[-1]
    nodes = torch.tensor(method.nodes, dtype=torch.float64)
    for k in range(1, 2 * stages):
        assert float(weights @ nodes ** (k - 1)) == pytest.approx(1 / k, rel=1e-12)
    k = 2 * stages
    assert abs(float(weights @ nodes ** (k - 1)) - 1 / k) > 1e-8  # and of no higher one


@pytest.mark.parametrize("stages", [2, 3, 5])
def test_it_is_stable_on_the_left_and_forgets_at_infinity(stages):
    a = torch.linalg.inv(Radau(stages).inverse).to(torch.complex128)
    ones = torch.ones(stages, dtype=torch.complex128)
    eye = torch.eye(stages, dtype=torch.complex128)
    for z in (1j, 10j, 100j, -1 + 5j, -1e8):
        growth = torch.linalg.solve(eye - z * a, ones)[-1].abs()
        assert float(growth) <= 1 + 1e-12
    assert float(growth) < 1e-6


@pytest.mark.parametrize("stages", [2, 3, 5])
def test_eigenvectors_give_back_the_inverse(stages):
    method = Radau(stages)
    shifts = torch.tensor(method.shifts, dtype=torch.complex128)
    whole = (method.back @ torch.diag(shifts) @ method.into).real
    assert torch.allclose(whole, method.inverse, atol=1e-11 * float(method.inverse.abs().max()))


def test_leading_coefficients_are_those_of_the_last_chebyshev_polynomials():
    method = Radau(3)
    points = torch.tensor([0.0, *method.nodes], dtype=torch.float64)
    s = 2 * points - 1
    values = 0.25 * (4 * s**3 - 3 * s) + 2 * s - 1
    assert torch.allclose(method.leading @ values, torch.tensor([-1, 2, 0, 0.25]).double())


def test_the_error_of_a_step_is_of_order_two_more_where_coefficients_fall_and_not_elsewhere():
    method, falling = Radau(5), 0.01 ** torch.arange(2, 6).double()
    assert float(method.step_error(falling)) == pytest.approx(0.01**7, rel=1e-9)
    assert float(method.step_error(torch.full((4,), 1e-6))) == pytest.approx(1e-5, rel=1e-3)


def test_inverses_of_many_equal_steps_change_nothing_but_rounding(monkeypatch):
    """Waves between a fixed and a free end, with a source that stays."""
    problem = Problem(
        name="string",
        time={"t": [0, 1]},
        space={"x": [0, 1]},
        unknowns=["u"],
        equations=["d(u, t, 2) = dxx(u) + x"],
        initial={"u": "sin(pi*x/2)", "dt(u)": "0"},
        boundary={"x.min": {"dirichlet": {"u": 0}}, "x.max": {"neumann": {"u": 0}}},
        save={"t": 11, "x": 9},
    )
    usual = solve_reference(problem, {})
    monkeypatch.setattr(time_stepping, "_MANY", 2)
    by_inverses = solve_reference(problem, {}).values["u"]
    assert not torch.equal(by_inverses, usual.values["u"])
    torch.testing.assert_close(by_inverses, usual.values["u"], rtol=0, atol=1e-10)


def stepper():
    """Steps dt(u) = −u³, with stages of order five."""
    problem = Problem(
        name="decay",
        time={"t": [0, 1]},
        unknowns=["u"],
        equations=["dt(u) = -u**3"],
        initial={"u": 1},
    )
    cpu = torch.device("cpu")
    mesh = CollocationMesh(problem.space, (), cpu)
    system = CollocationSystem(Equations(problem), Sources(problem, {}, cpu), mesh, {})
    return Stepper(system, Radau(3), 0.0)


def test_a_jacobian_of_another_state_is_renewed_where_iterations_fail_with_it():
    used, fresh = stepper(), stepper()
    small, large = (torch.full((1, 1), u, dtype=torch.float64) for u in (1.0, 40.0))
    ones = torch.ones(1, 1, dtype=torch.float64)
    _, good = used.stages(small, 0.0, 0.1, None, ones, 1e-12)
    assert bool(good.all())
    wanted, good = fresh.stages(large, 0.0, 3e-4, None, 40 * ones, 1e-10)
    assert bool(good.all())
    found, good = used.stages(large, 0.0, 3e-4, None, 40 * ones, 1e-10)
    assert bool(good.all())
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=0)
    exact = 40 / (1 + 2 * 40**2 * 3e-4) ** 0.5
    assert float(found[0, -1, 0]) == pytest.approx(exact, rel=1e-3)

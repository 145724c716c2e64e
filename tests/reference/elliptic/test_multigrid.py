"""Conjugate gradients: in how few steps, and what coarse networks are."""

import pytest
import torch

from piop.problem import Problem
from piop.reference.elliptic import linear_solve as multigrid
from piop.reference.elliptic.cells import dense
from piop.reference.elliptic.linear_solve import conjugate_gradients
from piop.sampling import Draws, sample_inputs

from .cases import at_centres, steady

FIELD = {"of": ["x", "y"], "law": "gaussian_random_field", "tau": 3, "alpha": 2, "hidden": True,
         "zero_mean": True}  # fmt: skip
FREE = {axis: {"neumann": {"u": 0}} for axis in "xy"}
DIRICHLET = {axis: {"dirichlet": {"u": 0}} for axis in "xy"}
WAVES = "cos(2*pi*x)*cos(pi*y)"


def jumps(high, equation="-div(a*grad(u)) = 1", boundary=None, **words):
    expression = {"of": ["x", "y"], "expression": f"where(g > 0, {high}, 1)", "smooth": False}
    inputs = {"g": FIELD, "a": expression}
    return steady(equation, "xy", boundary, inputs=inputs, **words)


CASES = {
    "darcy": (Problem.from_file("darcy"), (124, 124)),
    "fine": (jumps(4), (256, 256)),
    "odd": (jumps(4), (97, 61)),
    "robin": (jumps(4, boundary={"x": {"robin": {"u": [1, 2, 0]}}, "y": FREE["y"]}), (64, 64)),
    "periodic": (jumps(4, boundary={"x": "periodic", "y": DIRICHLET["y"]}), (48, 80)),
    "long box": (jumps(4, box={"x": [0, 1], "y": [0, 20]}), (64, 64)),
    "unequal axes": (steady("-d(dx(u), x) - d(100*dy(u), y) = 1", "xy"), (96, 96)),
    "free constant": (steady(f"-lap(u) = {WAVES}", "xy", FREE, gauge={"u": {"mean": 0}}),
                      (96, 96)),
    "one axis": (steady("-d((1 + x)*dx(u), x) = 1"), (1500,)),
    "three axes": (steady("-div((1 + x*y)*grad(u)) + u = 1", "xyz"), (32, 24, 20)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_twelve_steps_suffice_for_nine_digits(name, monkeypatch):
    problem, sizes = CASES[name]
    functions = sample_inputs(problem, Draws(4, 0, torch.arange(2)))
    system, _ = at_centres(problem, functions, sizes)
    monkeypatch.setattr(multigrid, "_ITERATIONS", 12)
    singular = name == "free constant"
    values, met = conjugate_gradients(system.operator, system.right, 1e-9, singular=singular)
    residual = system.operator.apply(values) - system.right
    assert bool(met.all())
    assert float(residual.norm() / system.right.norm()) < 1e-6


@pytest.mark.parametrize("sizes", [(6, 8), (7, 5)])
def test_a_coarse_network_carries_the_flux_of_the_fine_one(sizes):
    """Slabs across the flow: one value in, the same current through, whatever is merged."""
    problem = steady("-div((1 + x)*grad(u)) = 0", "xy", {"x": DIRICHLET["x"], "y": FREE["y"]})
    system, _ = at_centres(problem, {}, sizes)
    found = []
    for operator in (system.operator, system.operator.merge(0), system.operator.merge(1)):
        low, high = operator.walls[0]
        right = torch.zeros_like(operator.mass)
        right[:, -1:] = high  # the high wall at one, the low one at zero
        values = torch.linalg.solve(dense(operator)[0], right.flatten())
        found.append(float((low * values.reshape(operator.mass.shape)[:, :1]).sum()))
    assert found[1] == pytest.approx(found[0], rel=1e-12)
    assert found[2] == pytest.approx(found[0], rel=1e-12)

"""Values of a system's rows on one mesh."""

import torch

from piop.fields import InputFunction
from piop.problem import Problem
from piop.reference.chebyshev.equations import Equations
from piop.reference.chebyshev.mesh import CollocationMesh
from piop.reference.chebyshev.system import CollocationSystem
from piop.reference.input_values import Sources


class Counted(InputFunction):
    """The time itself, and how often it was asked for."""

    batch, dimension = 1, 1

    def __init__(self):
        self.count = 0

    def derivative(self, points, order):
        self.count += 1
        return points[..., 0]

    def take(self, index):
        return self

    def to(self, device=None, dtype=None):
        return self


def test_what_is_known_is_computed_once_for_each_time():
    problem = Problem(
        name="forced",
        time={"t": [0, 1]},
        unknowns=["u"],
        inputs={"f": {"of": ["t"], "law": "from_file", "path": "none"}},
        equations=["dt(u) = f - u"],
        initial={"u": 0},
    )
    known, cpu = Counted(), torch.device("cpu")
    mesh = CollocationMesh(problem.space, (), cpu)
    system = CollocationSystem(Equations(problem), Sources(problem, {"f": known}, cpu), mesh, {})
    counts = []
    for time, state in ((0.25, 1.0), (0.25, 2.0), (0.5, 2.0)):
        w = torch.full((1, 1, 1), state, dtype=torch.float64)
        assert float(system.value(w, (time,))) == state - time
        counts.append(known.count)
    assert counts[0] == counts[1] < counts[2]

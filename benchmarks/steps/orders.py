"""Higher orders with the default PIT: KdV (3), Kuramoto-Sivashinsky (4), Kirchhoff plate (mixed 4).

The plate is u_tt + κ²ΔΔu = 0 on a periodic square, so that its initial deflection is the input;
G. Kirchhoff 1850, doi:10.1515/crll.1850.40.51. In two dimensions ΔΔ holds u_xxyy.
"""

from __future__ import annotations

from piop.problem import Problem
from steps.case import build_case, compare
from steps.timing import Options

PLATE = """
piop: 1
name: plate
time: {t: [0, 1]}
space: {x: [0, 2*pi], y: [0, 2*pi]}
unknowns: [u]
inputs:
  u0: {of: [x, y], law: fourier_series, terms: 5, amplitude: [-0.5, 0.5], wavenumber: [1, 2]}
equations:
  - d(u, t, 2) + 0.01*(d(u, x, 4) + 2*d(u, x, x, y, y) + d(u, y, 4)) = 0
initial: {u: u0, "dt(u)": 0}
boundary: {x: periodic, y: periodic}
sensors: {u0: {count: 64, place: uniform}}
"""


def measure(options: Options) -> dict[str, float]:
    """Give the ratios of every problem."""
    problems = {
        "kdv": Problem.from_file("kdv"),
        "kuramoto_sivashinsky": Problem.from_file("kuramoto_sivashinsky"),
        "plate": Problem.from_yaml(PLATE),
    }
    figures = {}
    for name, problem in problems.items():
        case = build_case(problem, 64, options.device, attend=True)
        found = compare(case, options, nested_compiled=False)
        figures |= {f"pit_{name}/{k}": v for k, v in found.items()}
    return figures

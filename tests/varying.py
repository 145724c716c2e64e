"""Specs of linear evolutions whose coefficients vary in space."""

from piop.problem import Problem

SPEC = """
piop: 1
name: varying
time: {{t: [0.5, 1]}}
space: {{x: [0, 1]}}
unknowns: [{unknowns}]
inputs:
  a: {{of: [x], law: gaussian_random_field, scale: 1e4, tau: 7, alpha: 4, modes: 4{walls}}}
equations: [{equations}]
initial: {{{initial}}}
boundary: {{{boundary}}}
sensors: {{a: {{count: 32, place: grid}}}}
save: {{t: 5, x: 32}}
"""


def example(
    *equations: str, unknowns: str = "u", slope: str = "", boundary: str = "x: periodic"
) -> Problem:
    """Make a problem whose unknowns all start as the input a, and with a slope."""
    names = unknowns.split(", ")
    initial = [f"{name}: a" for name in names]
    initial += [f"dt({name}): {slope}" for name in names if slope]
    return Problem.from_yaml(
        SPEC.format(
            unknowns=unknowns,
            equations=", ".join(f'"{equation}"' for equation in equations),
            initial=", ".join(initial),
            boundary=boundary,
            walls="" if boundary == "x: periodic" else ", boundary: {x: dirichlet}",
        )
    )

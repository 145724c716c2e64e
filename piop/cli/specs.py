"""``piop new`` and ``piop check``: a spec to start from, and the analysis of a spec."""

from __future__ import annotations

from pathlib import Path

import click

from piop.cli.completion import SPEC
from piop.cli.console import common_options, debug_option, example, print_json
from piop.errors import PiopError, UsageError, check_file_name

TEMPLATE = """\
# A PDE problem for piop. Change what you like, then:  piop check NAME.yaml
piop: 1                                  # version of this format
name: NAME
title: A front that moves, spreads and steepens
source: none, an example                 # where the equation and its numbers come from

time: {t: [0, 1]}                        # leave out for a steady problem
space: {x: [0, 2*pi]}                    # one to three coordinates; none for an ODE

parameters:
  c: 0.5                                 # a constant
  nu: 0.05                               # a distribution (law: ...) makes it an input

unknowns: [u]                            # several: [u, v], with as many equations

# What the operator takes: functions (of some coordinates) or scalars (of: []), drawn at random.
# Laws: fourier_series, gaussian_random_field, piecewise_constant, uniform, log_uniform, integer,
# normal, constant, from_file.
inputs:
  u0: {of: [x], law: fourier_series, terms: 4, amplitude: [-0.5, 0.5], wavenumber: [1, 3]}

# Derivatives: dt(u), dx(u), dxx(u), dxy(u), or d(u, x, 2); vectors: grad div lap curl dot.
# Functions: sin cos tan atan sinh cosh tanh exp log sqrt abs sign min max, where(a < b, p, q);
# pi is a number.
equations:
  - dt(u) + (c + u)*dx(u) = nu*dxx(u)

initial: {u: u0}                         # second order in time needs "dt(u)" as well
boundary: {x: periodic}

# From here on everything is optional.
sensors: {u0: {count: 32, place: uniform}}   # where the input is observed: grid, uniform, ...
save: {t: 51, x: 64}                     # the grid of references and evaluations
units: {t: s, x: m, u: m/s}              # formulas must be consistent with them
"""


@click.command(epilog=example("piop new mine"))
@click.argument("name")
@debug_option
def new(name: str) -> None:
    """Write NAME.yaml, a commented spec to start from.

    An existing file is never overwritten.
    """
    from piop.spec.reader import NAME, NAME_HINT, shortened

    path = Path(name) if name.endswith((".yaml", ".yml")) else Path(f"{name}.yaml")
    if not NAME.match(path.stem):
        raise UsageError(f"'{shortened(path.stem)}' cannot name a problem. {NAME_HINT}")
    check_file_name(path.name)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(TEMPLATE.replace("NAME", path.stem))
    except FileExistsError:
        raise UsageError(f"{path} exists already and is not overwritten; choose a name") from None
    except OSError as error:
        if not path.parent.is_dir():
            raise UsageError(f"{path}: there is no folder {path.parent}") from None
        path.unlink(missing_ok=True)
        raise PiopError(f"{path}: cannot be written: {error.strerror}") from None
    steps = f"  piop check {path}\n  piop explore {path}\n  piop solve {path} --time 2m"
    print(f"Wrote {path}. Next:\n{steps}")


@click.command(epilog=example("piop check burgers"))
@click.argument("spec", type=SPEC)
@common_options
def check(spec: str, as_json: bool) -> None:
    """Analyse SPEC.

    Prints its equations, class, solver, streams and conditions, or all its mistakes. SPEC
    is a file, or the name of a problem that comes with piop, such as burgers.
    """
    from piop.problem import Problem
    from piop.problem.describe import to_json, to_text
    from piop.spec.load import find_builtin

    problem = Problem.from_file(spec)
    if problem.solve and find_builtin(spec) is None:  # it loads torch, which takes seconds
        from piop.run.configuration import check_recipe

        check_recipe(problem)
    if as_json:
        print_json(to_json(problem))
    else:
        print(to_text(problem))

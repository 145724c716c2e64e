"""``piop check``: what piop makes of a spec, without torch."""

from __future__ import annotations

import click

from piop.cli.console import common, print_json


@click.command()
@click.argument("spec")
@common
def check(spec: str, as_json: bool) -> None:
    """Say what piop makes of SPEC.

    Prints its equations, class, solver, streams and conditions, or all that is wrong with it. SPEC
    is a file, or the name of a problem that comes with piop, such as burgers.
    """
    from piop.problem import Problem
    from piop.problem.describe import to_json, to_text

    problem = Problem.from_file(spec)
    if as_json:
        print_json(to_json(problem))
    else:
        print(to_text(problem))

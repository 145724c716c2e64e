"""Signature of a problem for a backbone: the shapes and scales of its axes and inputs."""

from __future__ import annotations

import sympy as sp
from sympy.core.function import AppliedUndef

from piop.models import AxisSignature, InputSignature, Signature
from piop.problem import Problem
from piop.problem.constraints import Constraints
from piop.problem.inputs import asked_coordinates, channels_of
from piop.training.batches.input_grid import NEGLECTED_BY_TOKENS, gridded_inputs, highest_wavenumber
from piop.training.loss.statistics import Statistics


def signature_of(
    problem: Problem, constraints: Constraints, statistics: Statistics | None = None
) -> Signature:
    """Tell a backbone the shapes and scales of a problem.

    Args:
        problem: The problem.
        constraints: Which axes are periodic as hard constraints.
        statistics: Sizes of its inputs; without them the shapes alone are told, which is all that
            a refusal asks for, and takes milliseconds.
    """
    gridded = None if statistics is None else statistics.gridded
    if gridded is None:
        gridded = gridded_inputs(problem)
    return Signature(
        coordinates=tuple(
            AxisSignature(c.name, c.low, c.high, c.name in constraints.hard_periodic)
            for c in asked_coordinates(problem)
        ),
        inputs=tuple(
            InputSignature(
                item.name,
                () if item.name in problem.vectors else item.of,
                channels=problem.vectors.get(item.name) or channels_of(problem, item),
                mean=statistics.input_mean[item.name] if statistics else 0.0,
                std=statistics.input_std[item.name] if statistics else 1.0,
                smooth=item.smooth,
                waves=highest_wavenumber(problem, item),
                bulk=highest_wavenumber(problem, item, NEGLECTED_BY_TOKENS),
                gridded=item.name in gridded,
            )
            for item in problem.visible_inputs
        ),
        channels=len(problem.channels),
        time=None if problem.time is None else 0,
        homogeneous=homogeneous_axes(problem, constraints),
    )


def homogeneous_axes(problem: Problem, constraints: Constraints) -> tuple[str, ...]:
    """Find the periodic axes along which shifted inputs give the shifted solution.

    They are those whose coordinate no equation and no initial datum names by itself.
    """
    named: set[sp.Basic] = set()
    data = [e for entries in problem.initial.values() for e in entries]
    stated = [i.expression for i in problem.inputs if i.expression is not None]
    for expression in [*problem.residuals, *data, *stated]:
        atoms = expression.atoms(sp.Derivative) | expression.atoms(AppliedUndef)
        named |= expression.xreplace({atom: sp.Dummy() for atom in atoms}).free_symbols
    return tuple(
        c.name
        for c in problem.space
        if c.name in constraints.hard_periodic and c.symbol not in named
    )

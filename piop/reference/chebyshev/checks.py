"""What only the data of an instance show: a problem that has no solution, or not that one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from piop.errors import SolverError
from piop.reference.chebyshev.system import CollocationSystem

_JUMP = 1e-6
_MEAN = 1e-5


def check_start(system: CollocationSystem, w: Tensor, t: float, samples: Sequence[int]) -> None:
    """Refuse initial data that are not finite, or that jump at a wall of a wave.

    Diffusion forgets a jump at once; a wave carries it for ever, which no polynomial resolves.
    Also refuse a wall with a condition where a first-order equation flows out, and one without
    where it flows in.

    Raises:
        SolverError: Naming the sample.
    """
    finite = torch.isfinite(w).flatten(1).all(1)
    if not bool(finite.all()):
        sample = samples[int((~finite).nonzero()[0])]
        raise SolverError(f"sample {sample}: the initial state is not finite")
    space = system.program.problem.space
    for row, gap in system.gaps(w, t):
        size = system.mesh.norm(w[:, row.channel]).clamp_min(1e-300)
        gap = gap.abs().amax(1)
        bad = (
            (gap > _JUMP * torch.maximum(size, torch.ones_like(size))).nonzero().flatten().tolist()
        )
        if bad and row.face is not None:
            face = f"{space[row.face[0]].name}.{'max' if row.face[1] else 'min'}"
            raise SolverError(
                f"sample {samples[bad[0]]}: the initial data miss the condition at {face} by "
                f"{float(gap[bad[0]]):.2e}; a wave carries that jump into the domain, where its "
                "slopes do not exist. Let the data fit the condition"
            )
    _check_flow(system, t, samples)


def _check_flow(system: CollocationSystem, t: float, samples: Sequence[int]) -> None:
    """At every wall of an axis of first order, flow in where there is a condition, else out."""
    space = system.program.problem.space
    for row in system.equations.rows:
        if not row.mass or len(row.mass) > 1:
            continue
        for axis, coordinate in enumerate(space):
            own = {p: s for p, s in row.slopes.items() if p[0] == row.channel}
            if coordinate.periodic or max((p[1][axis] for p in own), default=0) != 1:
                continue
            place = next(p for p in own if p[1][axis] == 1)
            speed = system.coefficient(row, place, t)
            for end, sign in ((0, 1), (-1, -1)):
                inward = (sign * speed.select(axis + 1, end)).reshape(len(speed), -1)
                closed = any(
                    c.channel == row.channel and c.face == (axis, end)
                    for c in system.equations.conditions
                )
                wrong = (inward <= 0 if closed else inward > 0).any(1).nonzero().flatten().tolist()
                if wrong:
                    face = f"{coordinate.name}.{'min' if end == 0 else 'max'}"
                    does, has = ("out", "a condition") if closed else ("in", "no condition")
                    raise SolverError(
                        f"sample {samples[wrong[0]]}: at {face} characteristics run {does}, and "
                        f"there is {has}; an equation of first order needs one where they run in"
                    )


def check_steady(system: CollocationSystem, w: Tensor, samples: Sequence[int]) -> None:
    """Refuse data whose mean the conditions cannot balance, where a gauge fixes a constant.

    The gauge stands in its row as mean(u) − m; what is left of it is what has no balance.

    Raises:
        SolverError: Naming the sample and what is left.
    """
    size = (
        system.mesh.norm(system.value(torch.zeros_like(w).unsqueeze(1), (0.0,))[:, 0])
        .amax(1)
        .clamp_min(1e-300)
    )
    for channel, mean in system.gauges.items():
        left = (w[:, channel] * system.mesh.weights).flatten(1).sum(1) - mean
        bad = (left.abs() > _MEAN * size).nonzero().flatten().tolist()
        if bad and system.mesh.points > 12 ** len(system.mesh.sizes):
            name = system.equations.channels[channel].name
            raise SolverError(
                f"sample {samples[bad[0]]}: sources and wall fluxes of the equation of '{name}' "
                f"leave {float(left[bad[0]]):.2e} over, which no solution can balance; "
                "their integrals must cancel"
            )

"""The inverse operator as a problem of its own: inputs and outputs exchanged.

It has no equations: it is known from pairs of both, such as ``piop data`` makes for the problem
itself, and everything that trains, judges and predicts takes it like any other problem of data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from piop.errors import NotSupportedError
from piop.spec.distributions import FromData
from piop.spec.model import InputSpec, SensorPlacement, SensorSpec, Spec
from piop.spec.tree import ScalarNode

if TYPE_CHECKING:
    from piop.problem.problem import Problem


def inverse_spec(problem: Problem) -> Spec:
    """Turn the spec of a problem with ``learn`` round.

    Args:
        problem: ``learn: {from: u, to: a}`` makes u an input with the noise that is stated,
            observed on the grid of ``save``, and a an unknown, sought on the grid of its sensors.

    Raises:
        NotSupportedError: If it cannot be turned round, with the reason.
    """
    spec, learn = problem.spec, problem.learn
    reasons = list(inverse_obstacles(problem))
    if learn is None or reasons:
        raise NotSupportedError(f"{problem.name}: learn: " + "; ".join(reasons))
    names = [c.name for c in problem.coordinates]
    of = tuple(ScalarNode(name) for name in names)
    first = next(i for i in problem.inputs if i.name == learn.target[0])
    shape = first.sensor_shape if first.place is SensorPlacement.GRID else problem.save
    bounds = {c.name: (c.low, c.high) for c in problem.coordinates}
    ends = {n: (ScalarNode(repr(low)), ScalarNode(repr(high))) for n, (low, high) in bounds.items()}
    kept = {n: v for n, v in spec.boundary.items() if all(c.kind.whole_axis for c in v)}
    return replace(
        spec,
        time={n: ends[n] for n in spec.time},
        space={n: ends[n] for n in spec.space},
        unknowns=tuple(ScalarNode(name) for name in learn.target),
        inputs={n: InputSpec(of, FromData(tuple(learn.noise))) for n in learn.source},
        sensors={n: SensorSpec(problem.save, SensorPlacement.GRID) for n in learn.source},
        save=dict(zip(names, shape, strict=True)),
        boundary=kept,
        equations=(),
        parameters={},
        definitions={},
        auxiliary={},
        gauge={},
        initial={},
        infer=(),
        learn=None,
    )


def inverse_obstacles(problem: Problem) -> Iterator[str]:
    """Say why a problem cannot be turned round; nothing where it can."""
    if problem.learn is None:
        yield "there is none"
        return
    everything = [c.name for c in problem.coordinates]
    wanted = f"a function of all coordinates ({', '.join(everything)})"
    given = {item.name: item.of for item in problem.inputs}
    for name in problem.learn.target:
        if name in given and sorted(given[name]) != sorted(everything):
            own = f"of {', '.join(given[name])}" if given[name] else "a number"
            yield f"{name} is {own}, and what is learned is {wanted}"
    if problem.infer:
        yield f"infer ({', '.join(problem.infer)}) beside it: one at a time"

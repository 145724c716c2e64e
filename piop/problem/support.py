"""What the language knows but this version cannot run yet."""

from __future__ import annotations

from collections.abc import Iterator

from piop.errors import NotSupportedError
from piop.problem.problem import Problem
from piop.spec.laws import FromFile, History


def require_supported(problem: Problem, for_: str = "solve") -> None:
    """Refuse what cannot be run yet.

    Args:
        problem: Any problem that passed its checks.
        for_: ``solve`` (train and evaluate) or ``reference``.

    Raises:
        NotSupportedError: ``not supported yet: … because …``, with every reason.
    """
    reasons = list(_reasons(problem, for_))
    if reasons:
        raise NotSupportedError(f"{problem.name}: not supported yet: " + "; ".join(reasons))


def _reasons(problem: Problem, for_: str) -> Iterator[str]:
    if problem.spec.domain is not None:
        yield "domain, because meshes of shapes are not built yet"
    if problem.time is None:
        yield "steady problems, because the elliptic solver is not built yet"
    walls = [c.name for c in problem.space if not c.periodic]
    if walls:
        yield f"boundaries along {', '.join(walls)}, because only periodic axes are solved yet"
    if problem.infer:
        yield f"infer ({', '.join(problem.infer)}), because parameters are not trained from data yet"
    if problem.learn is not None:
        yield "learn, because inverse operators are not trained yet"
    if any(isinstance(i.law, History) for i in problem.inputs):
        yield "the law history, because operators from past solutions are not trained yet"
    if for_ == "solve" and any(isinstance(i.law, FromFile) for i in problem.inputs):
        return

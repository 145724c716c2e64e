"""Steady problems whose solutions are known, and the scheme on one grid."""

from __future__ import annotations

import sympy
import torch

from piop.expression import write
from piop.forms.linear_forms import divergence_form
from piop.problem import Problem
from piop.reference.elliptic.assemble import CellSystem
from piop.reference.elliptic.linear_solve import solve_cells
from piop.reference.elliptic.solve import CellSolver
from piop.reference.features import Features
from piop.reference.input_values import Sources
from piop.reference.solution import Limits, Request

X, Y, Z = (sympy.Symbol(n, real=True) for n in "xyz")


def steady(equation, space="x", boundary=None, box=None, **words):
    """A steady problem on the unit box, zero on its walls if not told otherwise."""
    return Problem(
        **{
            "name": "case",
            "space": box or {axis: [0, 1] for axis in space},
            "unknowns": ["u"],
            "equations": [equation],
            "boundary": boundary or {axis: {"dirichlet": {"u": 0}} for axis in space},
            **words,
        }
    )


def manufactured(u, a, c, kinds, **words):
    """−div(a grad u) + c u = f whose solution is u; conditions and f follow by calculus.

    Args:
        u: Of X, Y, Z.
        a: Coefficient; one per axis for a tuple.
        c: Reaction.
        kinds: Face, or periodic axis → kind of condition.
    """
    axes = (X, Y, Z)[: len({k[0] for k in kinds})]
    each = [sympy.sympify(k) for k in (a if isinstance(a, tuple) else (a,) * len(axes))]
    fluxes = [k * sympy.diff(u, s) for k, s in zip(each, axes, strict=True)]
    c = sympy.sympify(c)
    f = c * u - sum(sympy.diff(q, s) for q, s in zip(fluxes, axes, strict=True))
    divergence = " + ".join(
        f"d(({write(k)})*d(u, {s}), {s})" for k, s in zip(each, axes, strict=True)
    )
    boundary = {}
    for face, kind in kinds.items():
        if kind == "periodic":
            boundary[face] = "periodic"
            continue
        axis, end = face.split(".")
        symbol = sympy.Symbol(axis, real=True)
        position = {symbol: 0 if end == "min" else 1}
        slope = sympy.diff(u, symbol).subs(position) * (-1 if end == "min" else 1)
        value = u.subs(position)
        if kind == "robin":
            waves = [sympy.cos(2 * sympy.pi * s) for s in axes if s != symbol]
            alpha, beta = sympy.Add(2, *waves), sympy.Rational(1, 2)
            given = [write(e) for e in (alpha, beta, alpha * value + beta * slope)]
        else:
            given = write(value if kind == "dirichlet" else slope)
        boundary[face] = {kind: {"u": given}}
    equation = f"-({divergence}) + ({write(c)})*u = {write(f)}"
    return steady(equation, "".join(str(s) for s in axes), boundary, **words)


def exact(u, axes):
    """Values of an expression of X, Y, Z on a tensor grid."""
    symbols = (X, Y, Z)[: len(axes)]
    mesh = [m.numpy() for m in torch.meshgrid(*axes, indexing="ij")]
    return torch.as_tensor(sympy.lambdify(symbols, u, "numpy")(*mesh)).expand(mesh[0].shape)


def at_centres(problem, functions, sizes, tolerance=1e-12):
    """Finite volumes on one grid of cells: what was discretised, and values ``[B, *sizes]``."""
    sources = Sources(problem, functions, torch.device("cpu"))
    form, samples = divergence_form(problem.pde), list(range(sources.batch))
    with torch.no_grad():
        system = CellSystem(form, sources, samples, sizes, Features(sources))
        return system, solve_cells(system, tolerance, form.gauge, samples)


def on_one_grid(problem, functions, sizes, shape):
    """The same at the nodes ``[B, *shape]``."""
    system, cells = at_centres(problem, functions, sizes)
    return system.reconstruct(cells, shape)


def solve(problem, shape=(17, 17), tolerance=1e-4, limits=None):
    """The solution at the nodes, refined until the estimate meets the tolerance."""
    device = torch.device("cpu")
    request = Request((), shape, tolerance, device, limits or Limits())
    with torch.no_grad():
        return CellSolver(Sources(problem, {}, device), request).run()


def relative(found, truth):
    """‖found − truth‖ / ‖truth‖ over everything."""
    return float((found - truth).norm() / truth.norm())

"""Problems with walls whose solutions are known, and runs at fixed resolution."""

import sympy as sp
import torch

from piop.problem import Problem
from piop.reference.chebyshev.mesh import CollocationMesh
from piop.reference.chebyshev.radau import Radau
from piop.reference.chebyshev.solve import CollocationSolver
from piop.reference.chebyshev.system import CollocationSystem
from piop.reference.chebyshev.time_stepping import Stepper
from piop.reference.input_values import Sources
from piop.reference.solution import Limits, Request

T, X, Y = sp.symbols("t x y", real=True)
KINDS = ("dirichlet", "neumann", "robin")


def condition(kind, u, axis, end, name="u"):
    """The condition of a kind at a face that an exact solution meets, in the words of a spec."""
    if kind is None:
        return []
    low = end == "min"
    place = {axis: 0 if low else 1}
    slope = (-1 if low else 1) * sp.diff(u, axis).subs(place)
    value = u.subs(place)
    if kind == "dirichlet":
        return {"dirichlet": {name: str(value)}}
    if kind == "neumann":
        return {"neumann": {name: str(slope)}}
    return {"robin": {name: ["1.5", "0.5", str(sp.Rational(3, 2) * value + slope / 2)]}}


def manufactured(u, left, text, faces, space=("x",), time=1.0, order=1, periodic=(), **words):
    """A problem on the unit box that ``u`` solves.

    Args:
        u: The exact solution, of t, x, y.
        left: Function of it that gives the left side; the right side is made to fit.
        text: The same left side in the words of a spec.
        faces: Kinds of the walls, ``{"x": ("dirichlet", "robin")}``.
        space: Names of the axes.
        time: End; None for a steady problem.
        order: In time.
        periodic: Names of periodic axes.
    """
    boundary = dict.fromkeys(periodic, "periodic")
    for axis, (low, high) in faces.items():
        symbol = sp.Symbol(axis, real=True)
        boundary[f"{axis}.min"] = condition(low, u, symbol, "min")
        boundary[f"{axis}.max"] = condition(high, u, symbol, "max")
    evolution = {}
    if time:
        data = {"u": str(u.subs(T, 0))}
        if order == 2:
            data["dt(u)"] = str(sp.diff(u, T).subs(T, 0))
        evolution = {"time": {"t": [0, time]}, "initial": data}
    return Problem(
        name="case",
        space={s: [0, 1] for s in space},
        unknowns=["u"],
        equations=[f"{text} = {left(u).doit()}"],
        boundary=boundary,
        save={**({"t": 5} if time else {}), **dict.fromkeys(space, 33)},
        **evolution,
        **words,
    )


def exact_values(u, problem, axes, times):
    """``[T, *shape]`` of an exact solution (``[*shape]`` where steady)."""
    names = [T] + [sp.Symbol(c.name, real=True) for c in problem.space]
    evaluate = sp.lambdify(names, u, "numpy")
    mesh = torch.meshgrid(*axes, indexing="ij")
    arrays = [m.numpy() for m in mesh]
    rows = [
        torch.as_tensor(evaluate(t, *arrays), dtype=torch.float64).expand(mesh[0].shape)
        for t in times
    ]
    return torch.stack(rows) if problem.time else rows[0]


def evolve(problem, functions, n, steps, stages):
    """The state ``[B, C, *sizes]`` at the end of the time, on n points per axis, and the mesh."""
    device = torch.device("cpu")
    low, high = problem.time.low, problem.time.high
    request = Request((high,), (n,) * len(problem.space), 1e-6, device, Limits())
    sources = Sources(problem, functions, device)
    solver = CollocationSolver(sources, request)
    mesh = CollocationMesh(problem.space, request.shape, device)
    system = CollocationSystem(solver.equations, sources, mesh, solver.gauges)
    with torch.no_grad():
        stepper, w = Stepper(system, Radau(stages), low), solver.initial(system)
        h = (high - low) / steps
        for i in range(steps):
            found, good = stepper.stages(w, low + i * h, h, None, mesh.norm(w), 1e-12)
            assert bool(good.all())
            w = found[:, -1]
    return w, mesh


def relative(found, exact):
    """Relative L2."""
    return float((found - exact).norm() / exact.norm())

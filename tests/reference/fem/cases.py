"""Problems on shapes whose solutions are known, and the scheme on one mesh."""

from __future__ import annotations

from itertools import islice

import numpy as np
import sympy
import torch

from piop.domain.triangulation import triangulate
from piop.expression import write
from piop.forms.weak import weak_form
from piop.problem import Problem
from piop.reference.fem.meshes import MeshHierarchy
from piop.reference.fem.space import Space
from piop.reference.fem.system import FiniteElementSystem
from piop.reference.input_values import Sources

X, Y = (sympy.Symbol(n, real=True) for n in "xy")
U = sympy.Function("u", real=True)(X, Y)

CAVITY = {"box": [[0, 1], [0, 1]], "holes": {"cavity": {"disk": [0.5, 0.45, 0.22]}}}
SLANTED = {"polygon": [[0, 0], [1, 0.1], [0.8, 1], [0.1, 0.7]]}


def on_shape(equations, boundary, domain=None, **words):
    """A steady problem on a shape in the unit square."""
    equations = [equations] if isinstance(equations, str) else equations
    return Problem(
        **{
            "name": "case",
            "space": {"x": [0, 1], "y": [0, 1]},
            "unknowns": ["u"],
            "equations": equations,
            "boundary": boundary,
            "domain": domain or CAVITY,
            "save": {"x": 9, "y": 9},
            **words,
        }
    )


def manufactured(u, a=1, c=0, drift=(0, 0), kinds=None, domain=None):
    """−div(a grad u) + drift·grad u + c u = f whose solution is u; conditions follow by calculus.

    Args:
        u: Of X, Y.
        a: Diffusion.
        c: Reaction.
        drift: Along both axes.
        kinds: Face → kind of condition; the rest is Dirichlet's.
        domain: As in a spec.
    """
    u, a, c = (sympy.sympify(e) for e in (u, a, c))
    ux, uy = sympy.diff(u, X), sympy.diff(u, Y)
    f = -sympy.diff(a * ux, X) - sympy.diff(a * uy, Y) + drift[0] * ux + drift[1] * uy + c * u
    left = f"-div(({write(a)})*grad(u)) + ({drift[0]})*dx(u) + ({drift[1]})*dy(u) + ({write(c)})*u"
    slope, true_slope = "dx(u)*nx + dy(u)*ny", f"({write(ux)})*nx + ({write(uy)})*ny"
    given = {
        "dirichlet": {"dirichlet": {"u": write(u)}},
        "flux": f"({write(a)})*({slope}) = ({write(a)})*({true_slope})",
        "exchange": f"{slope} + 2*u = {true_slope} + {write(2 * u)}",
    }
    boundary = {face: given[kind] for face, kind in (kinds or {}).items()}
    return on_shape(f"{left} = {write(f)}", {**boundary, "rest": given["dirichlet"]}, domain)


def on_mesh(problem, functions, side, degree, level=0, curved=True, graded=True):
    """Solve on one mesh: space and coefficients ``[B, C, count]``."""
    form = weak_form(problem.pde)
    prescribed = {face: bool(given) for face, given in form.values.items()}
    meshes = MeshHierarchy(
        problem.domain.outline, triangulate(problem.domain.outline, side), prescribed, degree
    )
    meshes.cuts = meshes.cuts if graded else {}
    found = next(islice(meshes, level, None))
    mesh = found.curved(problem.domain.outline) if degree == 2 and curved else found.mesh
    space = Space(mesh, degree, found.faces(problem.domain.outline), list(form.faces))
    sources = Sources(problem, functions, torch.device("cpu"))
    with torch.no_grad():
        return space, FiniteElementSystem(problem, form, space).solve(sources, range(sources.batch))


def l2_error(space, coefficients, u):
    """‖found − u‖ / ‖u‖ over the shape, by quadrature."""
    found = space.volume.fields(coefficients)[0][0]
    truth = sympy.lambdify((X, Y), u, "numpy")(*space.volume.points.T)
    weights = space.volume.weights.ravel()
    return float(np.sqrt((weights * (found - truth) ** 2).sum() / (weights * truth**2).sum()))


def order(problem, u, degree, levels=(1, 2), functions=None, **options):
    """Observed order in L2, and the error on the finer mesh."""
    errors = []
    for level in levels:
        space, found = on_mesh(problem, functions or {}, 0.12, degree, level, **options)
        errors.append(l2_error(space, found[:, 0], u))
    return float(np.log2(errors[0] / errors[1])), errors[1]

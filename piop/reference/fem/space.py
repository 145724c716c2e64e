"""Finite elements on triangles: expressions at points, quadrature, basis functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, final

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.spatial import KDTree
from skfem import Basis, ElementTriP1, ElementTriP2, FacetBasis
from skfem.mapping import MappingIsoparametric
from skfem.mesh import MeshTri1
from skfem.quadrature import get_quadrature
from skfem.refdom import RefTri
from sympy import Expr, Symbol, Tuple
from torch import Tensor

from piop.lowering import compile_expressions
from piop.problem import Problem
from piop.reference.input_values import Sources, inputs_in

Array = np.ndarray[Any, np.dtype[Any]]
Evaluate = Callable[[Sequence[Tensor]], list[Array]]
"""Values ``[B or 1, n]`` of unknown atoms at points → each expression ``[B or 1, n or 1]``."""
_POINTS = 20_000  # at which an input function is evaluated at once


@final
class PointEvaluator:
    """Expressions of coordinates, inputs, the outward normal and unknowns, compiled once.

    Args:
        problem: The ``Problem``.
        expressions: What to evaluate.
        unknowns: Atoms whose values are given at each evaluation, in this order.
    """

    def __init__(
        self, problem: Problem, expressions: Sequence[Expr], unknowns: Sequence[Any]
    ) -> None:
        self.space = tuple(c.name for c in problem.space)
        self.inputs = inputs_in(Tuple(*expressions), problem)
        normal = [Symbol(name, real=True) for name in problem.domain.normal_names]
        axes = [c.symbol for c in problem.space]
        atoms = [*self.inputs, *axes, *normal, *unknowns]
        self.run = compile_expressions(expressions, atoms)

    def at(self, sources: Sources, points: Array, normals: Array | None = None) -> Evaluate:
        """Return the expressions at points as a function of the unknowns there.

        Args:
            sources: Inputs of B samples; their values are taken now.
            points: ``[n, 2]``.
            normals: Outward unit vectors ``[n, 2]``, on a boundary.
        """
        positions = torch.from_numpy(np.ascontiguousarray(points))
        parts = [
            dict(zip(self.space, part.T[:, None], strict=True))
            for part in positions.to(sources.device).split(_POINTS)
        ]
        found = []
        for atom in self.inputs:
            own = parts[:1] if atom.is_Symbol else parts  # a scalar has one value at all points
            found.append(torch.cat([sources.at_points(atom, part) for part in own], 1).cpu())
        outward = torch.zeros_like(positions) if normals is None else torch.from_numpy(normals)
        known = [*found, *(v[None] for v in (*positions.T, *outward.T))]

        def evaluate(unknowns: Sequence[Tensor]) -> list[Array]:
            values = self.run([*known, *unknowns])
            return [(v if v.ndim else v.expand(1, 1)).to(positions).numpy() for v in values]

        return evaluate


_MANY, _FEW = 2, 8000  # how often triangles with jumps are cut in four, up to how many of them


@final
class Quadrature:
    """Test functions and points of a quadrature over the shape or a part of its boundary.

    Args:
        basis: Of scikit-fem, over triangles or edges.
        count: Number of all basis functions.
        normals: Outward unit vectors at the points of a boundary ``[2, E, q]``.

    Attributes:
        points: Where functions are evaluated ``[n, 2]``, n = elements × points of each.
        normals: Outward unit vectors there ``[n, 2]``; None over the shape.
        weights: Times the measure ``[E, q]``.
        tests: Value and both derivatives of each basis function on each element ``[3, a, E, q]``.
        numbers: Which basis function that is ``[a, E]``.
    """

    def __init__(self, basis: Any, count: int, normals: Any = None) -> None:
        shape = basis.dx.shape
        self.weights: Array = basis.dx
        self.points: Array = np.asarray(basis.global_coordinates()).reshape(2, -1).T
        self.normals = None if normals is None else np.asarray(normals).reshape(2, -1).T.copy()
        fields = [(np.asarray(field), *field.grad) for field, *_ in basis.basis]
        self.tests = np.stack([[np.broadcast_to(v, shape) for v in f] for f in fields], 1)
        self.numbers: Array = basis.element_dofs
        entries = self.numbers.size
        indices = (self.numbers.ravel(), np.arange(entries))
        self.gather = csr_array((np.ones(entries), indices), (count, entries))

    def fields(self, values: Array) -> list[Array]:
        """Functions and their derivatives at the points, ``[B, n]`` each, from ``[B, count]``."""
        local = values[:, self.numbers]
        found = np.einsum("bae,kaeq->kbeq", local, self.tests, optimize=True)
        return list(found.reshape(3, len(values), -1))

    def vector(self, terms: dict[int, Array]) -> Array:
        """∫ Σ_k c_k D_k v for every test function ``[B, count]``, from c_k ``[B or 1, n or 1]``."""
        total: Any = 0.0
        for k, values in terms.items():
            integrand = self._whole(values) * self.weights
            total = total + np.einsum("beq,aeq->bae", integrand, self.tests[k], optimize=True)
        return (self.gather @ total.reshape(len(total), -1).T).T

    def matrix(self, slopes: dict[tuple[int, int], Array]) -> Array:
        """∫ Σ c_kl D_k v_a D_l v_b on every element ``[a, b, E]``, from c_kl ``[n or 1]``."""
        total: Any = 0.0
        for (k, m), values in slopes.items():
            weighted = self.tests[k] * (self._whole(values[None])[0] * self.weights)
            total = total + np.einsum("aeq,beq->abe", weighted, self.tests[m], optimize=True)
        return total

    def _whole(self, values: Array) -> Array:
        """``[B, n or 1]`` as ``[B, E, q]``."""
        whole = np.broadcast_to(values, (len(values), len(self.points)))
        return whole.reshape(-1, *self.weights.shape)


@final
class Space:
    """Functions on a mesh, the same for every unknown.

    Args:
        mesh: Of scikit-fem; with curved edges where the degree is two.
        degree: 1 or 2.
        faces: Face → facets on it.
        crossed: Faces that something is integrated over.

    Attributes:
        count: Number of basis functions.
        points: Where the function's value is its coefficient ``[count, 2]``.
        corners: Number of the basis function at each vertex of the mesh.
    """

    def __init__(
        self, mesh: Any, degree: int, faces: dict[str, Array], crossed: Collection[str]
    ) -> None:
        element = ElementTriP1() if degree == 1 else ElementTriP2()
        order = 2 * degree + 2
        basis: Any = Basis(mesh, element, intorder=order)
        self.basis = basis
        self.mesh, self.element, self.order = mesh, element, order
        self.count: int = basis.N
        self.points: Array = np.asarray(basis.doflocs).T
        self.corners: Array = basis.nodal_dofs[0]
        self.volume = Quadrature(basis, basis.N)
        facets = {f: _on_facets(mesh, element, faces[f], order) for f in crossed if f in faces}
        self.faces = {face: Quadrature(f, basis.N, f.normals) for face, f in facets.items()}
        self.on_face: dict[str, Array] = {
            face: np.unique(basis.get_dofs(f).flatten()) for face, f in faces.items()
        }

    def interpolation(self, points: Array) -> csr_array:
        """Give the matrix ``[P, count]`` of values at points of the shape ``[P, 2]``."""
        cells = nearest_triangles(self.mesh.p[:, self.mesh.t], points)
        mapping, wanted = self.basis.mapping, points.T[:, :, None]
        within = np.full_like(wanted, 1 / 3)
        for _ in range(_INWARD):  # scikit-fem's own iteration ends at edges, beyond which arcs go
            away = wanted - mapping.F(within, cells)
            within += np.einsum("ijkl,jkl->ikl", mapping.invDF(within, cells), away)
        numbers = self.basis.element_dofs[:, cells]
        values = np.array(
            [
                np.asarray(self.element.gbasis(mapping, within, a, tind=cells)[0])[:, 0]
                for a in range(len(numbers))
            ]
        )
        rows = np.broadcast_to(np.arange(len(points)), numbers.shape)
        indices = (rows.ravel(), numbers.ravel())
        return csr_array((values.ravel(), indices), (len(points), self.count))

    def divided(self, fine: Array) -> tuple[Quadrature, Quadrature]:
        """Quadratures over the shape that subdivide some triangles, for data that jump inside them.

        Args:
            fine: Which triangles ``[E]``.

        Returns:
            Over the other triangles, and over these by a rule for each of their parts.
        """
        parts = _MANY if np.count_nonzero(fine) < _FEW else 1
        rule = composite(self.order, parts)
        bases = (
            Basis(self.mesh, self.element, elements=np.flatnonzero(~fine), intorder=self.order),
            Basis(self.mesh, self.element, elements=np.flatnonzero(fine), quadrature=rule),
        )
        return Quadrature(bases[0], self.count), Quadrature(bases[1], self.count)


class _Mapping(MappingIsoparametric):
    """Stops its Newton iterations where the next one would be of the size of rounding."""

    def invF(
        self, x: Array, tind: Any = None, newton_max_iters: int = 50, newton_tol: float = 1e-7
    ) -> Array:
        """Find reference points; by default to 1e-12, which small triangles cannot reach."""
        return super().invF(x, tind, newton_max_iters, newton_tol)


def _on_facets(mesh: Any, element: Any, facets: Array, order: int) -> FacetBasis:
    mapping = mesh.mapping()
    if isinstance(mapping, MappingIsoparametric):
        mapping = _Mapping(mesh, mesh.elem(), mesh.bndelem)
    return FacetBasis(mesh, element, mapping, order, facets=facets)


_INWARD = 6  # Newton steps to a point of a bent triangle; one suffices in a straight one
_NEAR = 24  # triangles around a point among which its own is looked for first
_CHUNK = 200  # points compared with all triangles at once


def nearest_triangles(corners: Array, points: Array) -> Array:
    """Find the straight triangle that each point lies in, or is least far out of.

    Args:
        corners: Of the triangles ``[2, 3, E]``.
        points: ``[P, 2]``.

    Returns:
        Numbers of triangles ``[P]``.
    """
    origin = corners[:, 0]
    sides = np.moveaxis(corners[:, 1:] - origin[:, None], 2, 0)  # [E, 2, 2]
    inverse = np.linalg.inv(sides)

    def best(chosen: Array, candidates: Array) -> tuple[Array, Array]:
        """Triangle among the candidates ``[P', k]``, and its smallest barycentric coordinate."""
        away = points[chosen, None] - origin.T[candidates]
        within = np.einsum("pkij,pkj->pki", inverse[candidates], away)
        least = np.minimum(within.min(2), 1 - within.sum(2))
        own = least.argmax(1)
        rows = np.arange(len(chosen))
        return candidates[rows, own], least[rows, own]

    _, near = KDTree(corners.mean(1).T).query(points, k=min(_NEAR, len(inverse)))
    found, least = best(np.arange(len(points)), near.reshape(len(points), -1))
    outside = np.flatnonzero(least < -1e-9)
    every = np.arange(len(inverse))
    for low in range(0, len(outside), _CHUNK):
        chosen = outside[low : low + _CHUNK]
        found[chosen], _ = best(chosen, np.broadcast_to(every, (len(chosen), len(every))))
    return found


def composite(order: int, times: int) -> tuple[Array, Array]:
    """Points ``[2, n]`` and weights ``[n]`` of a rule on each of 4^times parts of a triangle."""
    points, weights = get_quadrature(RefTri, order)
    corners = MeshTri1.init_refdom().refined(times)
    a, b, c = (corners.p[:, corners.t[k]][:, :, None] for k in range(3))
    within = a + (b - a) * points[0] + (c - a) * points[1]
    return within.reshape(2, -1), np.tile(weights, corners.t.shape[1]) / 4**times

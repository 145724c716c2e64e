"""Continuous piecewise polynomials on triangles, with what integrals over them need."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from scipy.sparse import csr_array
from skfem import Basis, ElementTriP1, ElementTriP2, FacetBasis

from piop.reference.fem.pointwise import Array


@final
class Quadrature:
    """Test functions and points of a quadrature over the shape or a part of its boundary.

    Args:
        basis: Of scikit-fem, over triangles or edges.
        count: Number of all basis functions.

    Attributes:
        points: Where functions are evaluated ``[n, 2]``, n = elements × points of each.
        normals: Outward unit vectors there ``[n, 2]``; None over the shape.
        weights: Times the measure ``[E, q]``.
        tests: Value and both derivatives of each basis function on each element ``[3, a, E, q]``.
        numbers: Which basis function that is ``[a, E]``.
    """

    def __init__(self, basis: Any, count: int) -> None:
        shape = basis.dx.shape
        self.weights: Array = basis.dx
        self.points: Array = np.asarray(basis.global_coordinates()).reshape(2, -1).T
        normals = getattr(basis, "normals", None)
        self.normals = None if normals is None else np.asarray(normals).reshape(2, -1).T.copy()
        fields = [field[0] for field in basis.basis]
        self.tests = np.stack(
            [
                np.stack([np.broadcast_to(v, shape) for v in (np.asarray(f), f.grad[0], f.grad[1])])
                for f in fields
            ],
            1,
        )
        self.numbers: Array = basis.element_dofs
        entries = self.numbers.size
        place = (self.numbers.ravel(), np.arange(entries))
        self.gather = csr_array((np.ones(entries), place), (count, entries))

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

    Attributes:
        count: Number of basis functions.
        places: Where the function's value is its coefficient ``[count, 2]``.
        corners: Number of the basis function at each vertex of the mesh.
    """

    def __init__(self, mesh: Any, degree: int, faces: dict[str, Array]) -> None:
        element = ElementTriP1() if degree == 1 else ElementTriP2()
        order = 2 * degree + 2
        basis: Any = Basis(mesh, element, intorder=order)
        self.count: int = basis.N
        self.places: Array = np.asarray(basis.doflocs).T
        self.corners: Array = basis.nodal_dofs[0]
        self.volume = Quadrature(basis, basis.N)
        self.faces = {
            face: Quadrature(FacetBasis(mesh, element, facets=f, intorder=order), basis.N)
            for face, f in faces.items()
        }
        self.on_face: dict[str, Array] = {
            face: np.unique(basis.get_dofs(f).flatten()) for face, f in faces.items()
        }

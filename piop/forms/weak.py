"""Steady equations on shapes in weak form, derived from their symbols.

Every residual is sorted as R = S + Σ_a ∂_a Q_a, with second derivatives inside the fluxes Q alone.
Times a test function v, integrated over the shape and by parts (P. G. Ciarlet, The Finite Element
Method for Elliptic Problems, 1978, sec. 1.2), it says

    ∫ (S v − Σ_a Q_a ∂_a v) dx + ∮ H v ds = 0,

where H is the flux Q·n through the boundary as the condition there gives it. Prescribed values take
the place of their equation: v vanishes on those faces. An unknown that its own equation gives by
the others and their first derivatives, such as a stress, and that stands in no other equation, is
found after them: ∫ (w − value) v dx = 0 for every v.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import sympy
from sympy import Derivative, Expr, Symbol

from piop.boundary import normal_symbols
from piop.errors import NotSupportedError
from piop.expression.functions import JUMPS
from piop.forms.differentiate import differentiate, partial
from piop.forms.linear_forms import jumps
from piop.forms.pde import PDE
from piop.forms.terms import Term, additive_terms, read_terms


@final
class Sorter:
    """Sorts the terms of a residual into a source and fluxes.

    Args:
        pde: The equations and what they depend on.
        unknowns: Functions whose derivatives count.
    """

    def __init__(self, pde: PDE, unknowns: Sequence[Any]) -> None:
        self.pde, self.unknowns = pde, unknowns
        self.axes = [c.symbol for c in pde.space]

    def sort(self, residual: Expr) -> tuple[Expr, tuple[Expr, ...]]:
        """Give S and Q_a."""
        source: Expr = sympy.S.Zero
        fluxes: list[Expr] = [sympy.S.Zero for _ in self.axes]
        for term in read_terms(residual, self.unknowns):
            if self.order(term.expression) < 2:
                source += self.carried_out(term.expression)
                continue
            factor, outer, inner = self.take_apart(term)
            for part in additive_terms(inner):
                if self.order(part) < 1:
                    source += factor * self.carried_out(Derivative(part, outer, evaluate=False))
                else:
                    fluxes[self.axes.index(outer)] += factor * part
                    source -= part * self.along(factor, outer, term.expression)
        return source, tuple(fluxes)

    def order(self, expression: Any) -> int:
        """Highest derivative of an unknown, were all of them carried out."""
        if expression in self.unknowns:
            return 0
        if expression.is_Derivative:
            inner = self.order(expression.expr)
            return inner if inner < 0 else inner + int(expression.derivative_count)
        return max((self.order(a) for a in expression.args), default=-1)

    def take_apart(self, term: Term) -> tuple[Expr, Any, Expr]:
        """Give factor, axis and expression of a term factor · ∂(expression)."""
        steep = [f for f in term.derivatives if self.order(f) > 1]
        if len(steep) != 1 or any(self.order(f) > 1 for f in term.values):
            raise NotSupportedError(f"{term.expression} is not linear in second derivatives")
        if self.order(steep[0]) > 2:
            raise NotSupportedError(f"{term.expression} is of an order above two")
        *inner, outer = steep[0].variables
        held: Any = steep[0].expr
        within = self.carried_out(Derivative(held, *inner, evaluate=False)) if inner else held
        return term.expression / steep[0], outer, self.carried_out(within)

    def carried_out(self, expression: Expr) -> Expr:
        """Carry out derivatives; jumps have none."""
        for derivative in expression.atoms(Derivative):
            held: Any = derivative.expr
            if held not in self.unknowns and jumps(self.pde, held):
                raise NotSupportedError(f"{derivative} differentiates a jump")
        return differentiate(expression)

    def along(self, factor: Expr, axis: Symbol, term: Expr) -> Expr:
        """The slope of what stands before a second derivative."""
        inputs = [i.symbol for i in self.pde.inputs if i.of]
        if not factor.has(*self.axes, *self.unknowns, *inputs):
            return sympy.S.Zero
        if self.order(factor) > 0 or jumps(self.pde, factor):
            raise NotSupportedError(
                f"the coefficient of {term} stands outside the derivative; write it as a flux, "
                "div(a*grad(u))"
            )
        return differentiate(Derivative(factor, axis, evaluate=False))


def recovered_unknowns(pde: PDE) -> dict[int, Expr]:
    """Find the unknowns that their own equation gives by values and slopes of the others.

    One that stands in another equation or in a condition is no such unknown, nor one whose own
    slopes do.

    Returns:
        Channel → what gives it; none where nothing would be left to solve for.
    """
    found: dict[int, Expr] = {}
    functions = [pde.function(n) for n in pde.channels]
    conditions = [e for c in pde.boundary.values() for given in c for e in given.values]
    named = {c.unknown for given in pde.boundary.values() for c in given}
    sorter = Sorter(pde, functions)
    for channel, (name, own) in enumerate(zip(pde.channels, functions, strict=True)):
        residual = pde.residuals[channel]
        others = [r for c, r in enumerate(pde.residuals) if c != channel]
        mark = Symbol(f"own {name}", real=True)
        marked: Any = residual.xreplace({own: mark})
        if name in named or any(e.has(own) for e in (*others, *conditions)) or marked.has(own):
            continue
        if not residual.has(own) or sorter.order(residual) > 1:
            continue
        try:
            factor = partial(marked, mark)
        except ArithmeticError:
            continue
        if not factor.has(mark, *functions) and not factor.is_zero:
            found[channel] = -marked.xreplace({mark: sympy.S.Zero}) / factor
    return {} if len(found) == len(functions) else found


Slope = tuple[int, int, int, int, Expr]


@dataclass(frozen=True)
class Integrand:
    """What is integrated: Σ expression · D_k v_i, with D_0 v = v, D_1 v = ∂v/∂x, D_2 v = ∂v/∂y.

    Attributes:
        terms: (equation i, k, expression); of coordinates, inputs, scalars, the unknowns and their
            first derivatives, and on the boundary of the outward normal, whose components are the
            domain's ``normal_names``.
        slopes: (equation i, k, unknown j, l, ∂expression/∂(D_l u_j)), zeros left out.
    """

    terms: tuple[tuple[int, int, Expr], ...]
    slopes: tuple[Slope, ...]


@dataclass(frozen=True)
class WeakForm:
    """A steady problem on a shape in weak form; equation i is tested with unknown i's functions.

    Attributes:
        atoms: Per unknown: itself and its derivatives along both axes.
        volume: Over the shape.
        faces: Face → what is integrated over it; nothing where all values are prescribed.
        values: Face → unknown's index → its prescribed value.
        linear: Whether the unknowns enter linearly.
        shared: Whether slopes are the same for all inputs, so that one matrix serves all samples.
        jumps: What jumps in the integrals over the shape: rough inputs, ``where`` and ``sign``.
        kinked: Whether something jumps in the fluxes, so that slopes of the solution do.
        gauge: Unknown's index → its mean over the shape, where nothing else fixes the constant.
        solved: Channel of each unknown that all of this is said of, by its index.
        recovered: Channel → what gives it, of the atoms, for unknowns found after those.
    """

    atoms: tuple[tuple[Any, Any, Any], ...]
    volume: Integrand
    faces: Mapping[str, Integrand]
    values: Mapping[str, Mapping[int, Expr]]
    linear: bool
    shared: bool
    jumps: tuple[Expr, ...]
    kinked: bool
    gauge: Mapping[int, float]
    solved: tuple[int, ...]
    recovered: Mapping[int, Expr]


def weak_form(pde: PDE) -> WeakForm:
    """Derive it.

    Raises:
        NotSupportedError: If the problem has another form, with the term or face that stands out.
    """
    _require_covered(pde)
    recovered = recovered_unknowns(pde)
    solved = tuple(c for c in range(len(pde.channels)) if c not in recovered)
    names = [pde.channels[c] for c in solved]
    unknowns = [pde.function(n) for n in names]
    x, y = (c.symbol for c in pde.space)
    atoms = tuple((u, Derivative(u, x), Derivative(u, y)) for u in unknowns)
    sorter = Sorter(pde, unknowns)
    sorted_terms = [sorter.sort(pde.residuals_raw[c]) for c in solved]
    volume = []
    for i, (source, fluxes) in enumerate(sorted_terms):
        volume += [(i, 0, source), *((i, k + 1, -q) for k, q in enumerate(fluxes))]
        own = [_slope(q, atoms[i][k]) for q in fluxes for k in (1, 2)]
        if not any(own):
            raise NotSupportedError(
                f"{names[i]} has no second derivatives in equation {solved[i] + 1}, which is taken "
                "as its own"
            )
    values = {
        face: {names.index(c.unknown): c.prescribed for c in found if c.prescribed is not None}
        for face, found in pde.boundary.items()
    }
    natural = {
        face: _Face(pde, face, names, atoms).through([q for _, q in sorted_terms], given)
        for face, given in values.items()
    }
    integrands = [_integrand(volume, atoms), *(_integrand(n, atoms) for n in natural.values())]
    slopes = [s[-1] for integrand in integrands for s in integrand.slopes]
    known = [i.symbol for i in pde.inputs]
    return WeakForm(
        atoms,
        integrands[0],
        dict(zip(natural, integrands[1:], strict=True)),
        values,
        linear=not any(s.has(*unknowns) for s in slopes),
        shared=not any(s.has(*unknowns, *known) for s in slopes),
        jumps=tuple(dict.fromkeys(j for _, _, e in volume for j in _jumping(pde, e))),
        kinked=any(_jumping(pde, e) for _, k, e in volume if k),
        gauge={names.index(n): m for n, m in pde.means.items()},
        solved=solved,
        recovered=recovered,
    )


def _require_covered(pde: PDE) -> None:
    reasons = []
    if pde.domain.is_box:
        reasons.append("it covers shapes in the plane (domain)")
    if pde.time is not None:
        reasons.append("it covers steady problems")
    if not pde.residuals or not pde.channels:
        reasons.append("there are no equations")
    if periodic := [c.name for c in pde.space if c.periodic]:
        reasons.append(f"{', '.join(periodic)} is periodic, and it wraps no shapes")
    given = [c for found in pde.boundary.values() for c in found]
    if words := sorted({c.keyword for c in given if c.conservation_law}):
        reasons.append(f"the conditions {', '.join(words)} are for conservation laws")
    if reasons:
        raise NotSupportedError(", ".join(reasons))


def _integrand(
    terms: Sequence[tuple[int, int, Expr]], atoms: Sequence[tuple[Any, ...]]
) -> Integrand:
    kept = tuple(t for t in terms if not t[2].is_zero)
    found = [
        (i, k, j, m, _slope(e, atom))
        for i, k, e in kept
        for j, group in enumerate(atoms)
        for m, atom in enumerate(group)
    ]
    return Integrand(kept, tuple(s for s in found if not s[-1].is_zero))


def _slope(expression: Expr, atom: Any) -> Expr:
    try:
        return partial(expression, atom)
    except ArithmeticError as error:
        raise NotSupportedError(f"{expression} has no slope in {atom} ({error})") from None


def _jumping(pde: PDE, expression: Expr) -> list[Expr]:
    """Rough inputs in an expression, and its jumps that hold no unknowns."""
    rough = [i.symbol for i in pde.inputs if i.of and expression.has(i.symbol)]
    own = [*rough, *expression.atoms(*JUMPS)]
    unknowns = [pde.function(n) for n in pde.channels]
    return [e for e in own if jumps(pde, e) and not e.has(*unknowns)]


def _expanded(expression: Expr) -> Expr:
    return sympy.Add(*additive_terms(expression))


class _Face:
    """What the conditions of one face say of the fluxes through it."""

    def __init__(
        self, pde: PDE, face: str, names: Sequence[str], atoms: Sequence[tuple[Any, ...]]
    ) -> None:
        self.pde, self.face, self.names = pde, face, list(names)
        self.slopes = [d for group in atoms for d in group[1:]]
        self.normal: list[Any] = [Symbol(name, real=True) for name in pde.domain.normal_names]
        straight = pde.domain.normal(face)
        # the normal is known where it is along one axis on the whole face
        whole = all(n.is_Integer for n in straight)
        self.known = dict(zip(self.normal, straight, strict=True)) if whole else {}
        self.conditions = [
            (c.unknown, self._here(pde.condition_residual(face, c, self.normal)))
            for c in pde.boundary[face]
            if c.prescribed is None
        ]

    def through(
        self, fluxes: Sequence[tuple[Expr, ...]], given: Mapping[int, Expr]
    ) -> list[tuple[int, int, Expr]]:
        """Give the flux of each equation whose unknown is not prescribed: (equation, 0, H)."""
        return [(i, 0, self._flux(i, q)) for i, q in enumerate(fluxes) if i not in given]

    def _flux(self, i: int, q: Sequence[Expr]) -> Expr:
        outward = self._here(sympy.Add(*(a * n for a, n in zip(q, self.normal, strict=True))))
        own = [e for unknown, e in self.conditions if unknown == self.names[i]]
        given = [*own, *(e for unknown, e in self.conditions if not unknown)]
        for condition in given:
            for left in (outward - condition, outward + condition):
                if not left.has(*self.slopes):
                    return _expanded(left)
        for condition in given:
            found = self._without_slopes(outward, condition)
            if found is not None:
                return found
        written = normal_symbols(c.name for c in self.pde.space)
        shown = outward.xreplace(dict(zip(self.normal, written, strict=True)))
        raise NotSupportedError(
            f"on {self.face} no condition gives the flux {shown} of equation {i + 1}; write it "
            "as an equation there, with the normal nx, ny"
        )

    def _here(self, expression: Expr) -> Expr:
        here: Any = expression.xreplace(self.known)
        return _expanded(here)

    def _without_slopes(self, outward: Expr, condition: Expr) -> Expr | None:
        """Subtract that multiple of a condition which leaves no derivative of an unknown."""
        for atom in self.slopes:
            below = _slope(condition, atom)
            if below.is_zero:
                continue
            ratio = _slope(outward, atom) / below
            left = _expanded(outward - ratio * condition)
            if not ratio.is_zero and not left.has(*self.slopes):
                return left
        return outward if outward.is_zero else None

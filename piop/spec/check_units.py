"""Check that the units of a spec are known, and all its formulas consistent with them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any, final

from piop.boundary import Dirichlet, normal_symbols
from piop.errors import Issue
from piop.expression import Refusal, Scope
from piop.expression.dimensions import (
    Dimension,
    Dimensions,
    DimensionSystem,
    Operand,
    read_terms,
)
from piop.spec.formulas import Resolved
from piop.spec.model import ConditionSpec, Spec, Text
from piop.spec.names import declarations
from piop.spec.read_domain import stars
from piop.spec.reader import record
from piop.spec.tree import ScalarNode
from piop.spec.units import dimension_of

MAX_FREE = 200
"""Names without a unit, whose dimensions take time of the third power of their number."""


def check_units(spec: Spec, resolved: Resolved, issues: list[Issue]) -> None:
    """Refuse unknown units, and formulas that no dimensions of names without a unit can balance.

    Args:
        spec: As written; all its formulas can be read.
        resolved: Its formulas.
        issues: Takes what is wrong.
    """
    known: dict[str, Dimension] = {}
    for name, label in spec.units.items():
        try:
            known[name] = dimension_of(label)
        except Refusal as refusal:
            issues.append(spec.issue(f"units.{name}", refusal.message, refusal.hint))
    free = sum(name not in known for _, name, _ in declarations(spec))
    if known and free > MAX_FREE:
        message = f"{free} names have no unit; the units of at most {MAX_FREE} can be solved for"
        issues.append(spec.issue("units", message, "Give more of them, or none at all."))
    elif known and len(known) == len(spec.units):
        _Formulas(spec, resolved, known, issues).check()


@final
class _Formulas:
    """All formulas of a spec, read as dimensions one after the other."""

    def __init__(
        self, spec: Spec, resolved: Resolved, known: dict[str, Dimension], issues: list[Issue]
    ) -> None:
        self.spec, self.known, self.issues = spec, known, issues
        self.system, self.numbers = DimensionSystem(), resolved.names.numbers
        unknown = {name: {name: Fraction(1)} for _, name, _ in declarations(spec)}
        normals = {symbol.name: {} for symbol in normal_symbols(spec.space)}
        angles = {name: {} for name in resolved.names.angles}
        self.values: dict[str, Any] = {**normals, **unknown, **angles, **known}
        axes = resolved.names.coordinates
        self.scope = Scope(self.values, axes, tuple(axes[name] for name in spec.space))

    def check(self) -> None:
        """Read the formulas in the order of their sections."""
        spec = self.spec
        for name, value in spec.parameters.items():
            if isinstance(value, ScalarNode):
                self.equate(f"parameters.{name}", value, self.term(name))
        for name, text in spec.definitions.items():
            given = [self.term(name)] if name in spec.units else []
            value = self.equate(f"definitions.{name}", text, *given)
            if value is None:
                return  # nothing can be said of formulas that use it
            self.values[name] = value
        for text in spec.equations:
            self.equate("equations", text)
        for name, item in spec.auxiliary.items():
            self.equate(f"auxiliary.{name}.equation", item.equation)
        for name, item in spec.inputs.items():
            if item.expression is not None:
                self.equate(f"inputs.{name}.expression", item.expression, self.term(name))
        for key, text in spec.initial.items():
            self.equate(f"initial.{key}", text, *self.terms(key))
        for face, conditions in spec.boundary.items():
            for condition in conditions:
                self.condition(face, condition)
        for star in stars(spec.domain):
            self.equate(f"{star.path}.star.radius", star.radius, *map(self.term, spec.space))

    def equate(self, path: str, text: Text, *known: Operand) -> Dimensions | None:
        """Let a formula agree with what is known; its dimension, or None if it cannot."""
        try:
            return self.system.agree([*known, *self.terms(text.text)])
        except Refusal as refusal:
            record(refusal, text, self.issues, path)
            return None

    def terms(self, text: str) -> list[Operand]:
        """The terms of a formula."""
        return read_terms(text, self.scope, self.numbers, self.system)

    def term(self, name: str) -> Operand:
        """A name as a term."""
        return Operand(self.values[name], name, 0)

    def condition(self, face: str, condition: ConditionSpec) -> None:
        """Let both sides of an equation agree, or the parts of αu + β∂u/∂n = g."""
        path, u = f"boundary.{face}", condition.unknown
        if condition.kind.equation:
            self.equate(path, condition.values[0])
        if not u:
            return
        *factors, value = condition.values
        across = face.partition(".")[0]
        axes = [across] if across in self.spec.space else [*self.spec.space]
        slopes = [f"d({u}, {axis})" for axis in axes]
        if factors:
            alpha, beta = (factor.text for factor in factors)
            parts = [f"({alpha})*{u}", *(f"({beta})*{slope}" for slope in slopes)]
        else:
            parts = [u] if condition.kind is Dirichlet else slopes
        known = [replace(term, offset=None) for part in parts for term in self.terms(part)]
        self.equate(path, value, *known)

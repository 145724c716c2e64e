"""The names a spec declares: each once, none of them reserved, and what each stands for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sympy import Function, Symbol

from piop.errors import Issue, Place, did_you_mean
from piop.expression import Quantity, Scalar, Scope
from piop.expression.parse import RESERVED, short_derivative
from piop.spec.model import Spec, Text
from piop.spec.read_domain import stars
from piop.spec.reader import NAME, NAME_HINT, evaluate, refuse, shortened
from piop.spec.tree import ScalarNode


@dataclass
class Names:
    """What the names of a spec stand for.

    Attributes:
        coordinates: Time first where there is one, then space.
        angles: Angles of stars in the domain, which inputs may be of.
        bounds: Interval of each coordinate.
        values: Every name that an equation may use, except definitions.
        constants: Parameters that are numbers.
        broken: Names whose declaration was refused.
        used: Names that were looked up.
    """

    coordinates: dict[str, Symbol]
    bounds: dict[str, tuple[float, float]]
    values: dict[str, Quantity] = field(default_factory=dict)
    constants: dict[str, float] = field(default_factory=dict)
    broken: frozenset[str] = frozenset()
    used: set[str] = field(default_factory=set)
    angles: dict[str, Symbol] = field(default_factory=dict)

    def scope(
        self, spec: Spec, extra: Mapping[str, Quantity], without: Sequence[str] = ()
    ) -> Scope:
        """A scope of all names but those of the sections in ``without``, and inputs of angles."""
        hidden = {n: section for section, n, _ in declarations(spec) if section in without}
        nowhere = "which a point of space has not"
        around = {n: self.angle_of(spec, n) for n in spec.inputs}
        why = {n: f"is declared under '{s}' and has no value here" for n, s in hidden.items()}
        why |= {n: f"depends on the angle {a}, {nowhere}" for n, a in around.items() if a}
        why |= dict.fromkeys(self.angles, f"is the angle of a star, {nowhere}")
        values = {k: v for k, v in self.values.items() if k not in why}
        space = tuple(self.coordinates[n] for n in spec.space if n in self.coordinates)
        return Scope({**values, **extra}, self.coordinates, space, self.broken, self.used, why)

    @property
    def numbers(self) -> Scope:
        """A scope of the parameters that are numbers, and of those to infer."""
        known = {n: self.values[n] for n in self.constants if n in self.values}
        return Scope(known, broken=self.broken, used=self.used)

    def angle_of(self, spec: Spec, name: str) -> str | None:
        """The angle that an input is of; None for one of coordinates, and for numbers."""
        return next((t.text for t in spec.inputs[name].of if t.text in self.angles), None)

    def around(self, spec: Spec, angle: str) -> Scope:
        """A scope of an angle, the inputs of it, and numbers."""
        own = [n for n, i in spec.inputs.items() if not i.of or self.angle_of(spec, n) == angle]
        known = {*own, *spec.parameters}
        values = {n: v for n, v in self.values.items() if n in known}
        axis = {angle: self.angles[angle]}
        values[angle] = Scalar(self.angles[angle])
        return Scope(values, axis, (), self.broken, self.used)


def declarations(spec: Spec) -> Iterator[tuple[str, str, Place]]:
    """Every (section, name, place) that declares a name."""
    for section in ("time", "space", "parameters"):
        for name in getattr(spec, section):
            yield section, name, spec.place(f"{section}.{name}")
    for unknown in spec.unknowns:
        yield "unknowns", unknown.text, unknown.place
    for section in ("auxiliary", "inputs", "definitions"):
        for name in getattr(spec, section):
            yield section, name, spec.place(f"{section}.{name}")
    for angle in {star.angle.text: star.angle for star in stars(spec.domain)}.values():
        yield "domain", angle.text, angle.place


def declare(
    spec: Spec, issues: list[Issue], broken: frozenset[str], failed: frozenset[str]
) -> Names:
    """Check all declarations and build the symbols.

    Args:
        spec: As written.
        issues: Takes what is wrong.
        broken: Names whose declaration was refused already.
        failed: Sections in which something was refused; a domain may have had angles.
    """
    order = [*spec.time, *spec.space]
    names = Names({n: Symbol(n, real=True) for n in order}, {}, broken=broken)
    names.angles = {s.angle.text: Symbol(s.angle.text, real=True) for s in stars(spec.domain)}
    _check_names(spec, issues)
    names.values.update({n: Scalar(s) for n, s in names.coordinates.items()})
    _declare_parameters(spec, names, issues)
    everywhere = tuple(names.coordinates.values())
    for unknown in [*(u.text for u in spec.unknowns), *spec.auxiliary]:
        if NAME.match(unknown):
            names.values[unknown] = Scalar(Function(unknown, real=True)(*everywhere))
    for name, item in spec.inputs.items():
        axes = [_axis(names, text, name, [] if "domain" in failed else issues) for text in item.of]
        if None not in axes and len(set(axes)) < len(axes):
            refuse(issues, item.of[0].place, f"inputs.{name}.of: a coordinate is repeated")
        if None in axes or len(set(axes)) < len(axes):
            names.broken |= {name}
            continue
        if len(axes) > 1 and set(axes) & set(names.angles.values()):
            message = f"inputs.{name}.of: an input of an angle depends on nothing else"
            refuse(issues, item.of[0].place, message)
        is_function = Function(name, real=True)
        names.values[name] = Scalar(is_function(*axes) if axes else Symbol(name, real=True))
    _declare_bounds(spec, names, issues)
    return names


def _axis(names: Names, text: Text, name: str, issues: list[Issue]) -> Symbol | None:
    known = {**names.coordinates, **names.angles}
    axis = known.get(text.text)
    if axis is None and text.text not in names.broken:
        hint = did_you_mean(text.text, list(known))
        message = f"inputs.{name}.of: '{text.text}' is not a coordinate"
        refuse(issues, text.place, message, hint)
    return axis


def _check_names(spec: Spec, issues: list[Issue]) -> None:
    first: dict[str, tuple[str, Place]] = {}
    coordinates = (*spec.time, *spec.space)
    for section, name, place in declarations(spec):
        if not NAME.match(name):
            refuse(issues, place, f"{section}: '{shortened(name)}' is not a name", NAME_HINT)
        elif name in RESERVED or short_derivative(name, coordinates):
            refuse(issues, place, f"{section}: '{name}' is reserved", "Choose another name.")
        elif name in first:
            where = f" in line {first[name][1].line}" if first[name][1].line else ""
            message = f"{section}: '{name}' is declared twice; first under {first[name][0]}{where}"
            refuse(issues, place, message)
        else:
            first[name] = (section, place)


def _declare_parameters(spec: Spec, names: Names, issues: list[Issue]) -> None:
    infer = {t.text for t in spec.infer}
    known: dict[str, Quantity] = {}
    for name, value in spec.parameters.items():
        if not isinstance(value, ScalarNode):
            names.values[name] = Scalar(Symbol(name, real=True))
            continue
        quantity = evaluate(value, Scope(known, broken=names.broken, used=names.used), issues, name)
        if quantity is None or isinstance(quantity, tuple):
            names.broken |= {name}
        elif quantity.number is None:
            message = f"parameters.{name}: depends on a parameter that is to be inferred"
            refuse(issues, value.place, message, "Write it out where it is used.")
            names.broken |= {name}
        else:
            known[name] = Scalar(Symbol(name, real=True)) if name in infer else quantity
            names.constants[name] = quantity.number
            names.values[name] = known[name]


def _declare_bounds(spec: Spec, names: Names, issues: list[Issue]) -> None:
    for section, intervals in (("time", spec.time), ("space", spec.space)):
        for name, ends in intervals.items():
            found = []
            for end in ends:
                value = evaluate(end, names.numbers, issues, f"{section}.{name}")
                number = None if value is None or isinstance(value, tuple) else value.number
                if number is not None:
                    found.append(number)
                elif value is not None:
                    message = f"{section}.{name}: depends on a parameter that is to be inferred"
                    refuse(issues, end.place, message, "The domain must be known.")
            if len(found) == 2:
                names.bounds[name] = (found[0], found[1])

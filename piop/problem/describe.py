"""A problem described in words: as text, as JSON, and with typeset equations for notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, cast, final, get_args

from sympy import Derivative, Expr, Symbol
from sympy.core.function import AppliedUndef
from sympy.printing.latex import LatexPrinter

from piop.domain import Coordinate
from piop.errors import NotSupportedError
from piop.expression import write
from piop.forms.pde import Input
from piop.forms.stream_plan import plan_streams
from piop.forms.terms import name_of
from piop.notebook_html import text_html
from piop.problem.classify import classify
from piop.problem.constraints import decide_constraints
from piop.problem.linear_part import LinearPartMode, decide_linear_part
from piop.problem.residual_form import FormMode, decide_form
from piop.problem.time_windows import decide_windows
from piop.spec.distributions import NAMES, Distribution
from piop.spec.writer import flow, plain

if TYPE_CHECKING:
    from piop.problem.problem import Problem

WITHOUT = (
    "training works without one, and piop evaluate RUN --data FILE gives errors against solutions "
    "of your own"
)
"""The remedy for a problem that no solver covers."""


def equation_texts(problem: Problem) -> list[str]:
    """Give each equation as it is written in the spec, in the order of the residuals."""
    spec = problem.spec
    auxiliary = [item.equation.text for item in spec.auxiliary.values()]
    return [text.text for text in spec.equations] + auxiliary


def to_json(problem: Problem) -> dict[str, Any]:
    """Everything that a reader of the spec wants to know, as plain dicts, lists, texts and numbers.

    Returns:
        Keys ``name``, ``title``, ``source``, ``hash``, ``class``, ``coordinates``, ``shape`` (in
        the words of the spec; empty for a box), ``choice`` (the shapes of which every sample has
        one, with their faces), ``unknowns``, ``auxiliary``,
        ``parameters``, ``infer`` (those unknown, and where their search begins),
        ``learn``, ``equations`` (as written), ``definitions``, ``residuals`` (as trained on),
        ``inputs``, ``initial``, ``boundary``, ``conditions``, ``linear_part``, ``windows``,
        ``form``, ``solver``, ``streams``, ``save``, ``units``, ``notes`` and ``supported``.
    """
    spec = problem.spec
    return {
        "name": problem.name,
        "title": spec.title,
        "source": spec.source,
        "hash": problem.hash,
        "class": classify(problem),
        "coordinates": [
            {"name": c.name, "low": c.low, "high": c.high, "periodic": c.periodic}
            for c in problem.coordinates
        ],
        "shape": _shape(problem),
        "choice": _selection(problem),
        "unknowns": list(problem.unknowns),
        "auxiliary": [{"name": a.name, "mean": a.mean} for a in problem.pde.auxiliaries],
        "parameters": dict(problem.parameters),
        "infer": dict(problem.infer),
        "learn": _inverse(problem),
        "equations": equation_texts(problem),
        "definitions": {name: text.text for name, text in spec.definitions.items()},
        "residuals": [write(residual) for residual in problem.residuals],
        "inputs": [_input(item) for item in problem.inputs],
        "initial": {name: [write(e) for e in data] for name, data in problem.initial.items()},
        "boundary": _boundary(problem),
        "conditions": [
            {"condition": c.what, "built_in": c.hard, "why": c.why}
            for c in decide_constraints(problem)
        ],
        "linear_part": _linear_part(problem),
        "windows": _windows(problem),
        "form": _form(problem),
        "solver": _solver(problem),
        "streams": _streams(problem),
        "save": _saved(problem),
        "units": dict(problem.units),
        "notes": list(problem.notes),
        "supported": problem.capabilities.equations.refusal or True,
    }


def to_text(problem: Problem) -> str:
    """The same for a reader at a terminal."""
    spec = problem.spec
    lines = [problem.name + (f": {spec.title}" if spec.title else "")]
    if spec.source:
        lines.append(f"source: {spec.source}")
    for title, values in rows_of_text(problem).items():
        lines += [f"  {'' if n else title:<11} {value}" for n, value in enumerate(values)]
    return "\n".join(lines)


def rows_of_text(problem: Problem) -> dict[str, list[str]]:
    """Describe a problem in rows: what they are about → their lines, which may be none."""
    found = to_json(problem)
    rows = [
        ("class", [found["class"]]),
        ("domain", [_interval(c, problem.units) for c in problem.coordinates]),
        ("shape", _shapes(found["choice"]) or [found["shape"]] * bool(found["shape"])),
        ("equations", found["equations"]),
        ("definitions", [f"{k} = {v}" for k, v in found["definitions"].items()]),
        ("parameters", [_parameter(problem, k, v) for k, v in found["parameters"].items()]),
        ("inputs", [_sentence(item) for item in found["inputs"]]),
        ("learn", _learned(found["learn"])),
        ("initial", [_given(problem, n, d) for n, d in found["initial"].items()]),
        ("boundary", [f"{face}: {what}" for face, what in found["boundary"].items()]),
        ("conditions", [_constraint(c) for c in found["conditions"]]),
        ("linear part", [found["linear_part"]] if found["linear_part"] else []),
        ("windows", [found["windows"]] if found["windows"] else []),
        ("residual", [found["form"]] if found["form"] else []),
        ("solver", [f"{found['solver']['name']}: {found['solver']['why']}"]),
        ("streams", [found["streams"]]),
        ("save", [", ".join(f"{n} {k}" for n, k in found["save"].items())]),
        ("hash", [found["hash"]]),
        ("note", [t for t in (*found["notes"], found["supported"]) if t is not True]),
    ]
    return dict(rows)


def _shape(problem: Problem) -> str:
    """The region as the spec has it; empty for a box."""
    return "" if problem.spec.domain is None else flow(plain(problem.spec.domain))[1:-1]


def _selection(problem: Problem) -> dict[str, Any] | None:
    if problem.domain.selection is None:
        return None
    by, faces = problem.domain.selection
    return {"by": by, "of": {name: list(own) for name, own in faces.items()}}


def _shapes(choice: dict[str, Any] | None) -> list[str]:
    """The shapes of which every sample has one, and their faces."""
    if choice is None:
        return []
    shapes = [f"{k} {name} ({', '.join(f)})" for k, (name, f) in enumerate(choice["of"].items())]
    return [f"{choice['by']} chooses:", *shapes]


def _saved(problem: Problem) -> dict[str, int]:
    """Points along each axis, or of the clouds that solutions on a shape are at."""
    if problem.points is not None:
        return {"points": problem.points}
    return dict(zip([c.name for c in problem.coordinates], problem.save, strict=True))


def _inverse(problem: Problem) -> dict[str, Any] | None:
    learn = problem.learn
    if learn is None:
        return None
    return {"from": list(learn.source), "to": list(learn.target), "noise": list(learn.noise)}


def _learned(learn: dict[str, Any] | None) -> list[str]:
    if learn is None:
        return []
    operator = f"the operator from {', '.join(learn['from'])} to {', '.join(learn['to'])}"
    levels = ", ".join(f"{100 * n:g} %" for n in learn["noise"])
    noise = f", observed with noise of {levels}" if levels else ""
    return [f"{operator}{noise}; from pairs of both (--data FILE)"]


def _parameter(problem: Problem, name: str, value: float) -> str:
    unknown = f"unknown, from data (--data FILE); the search begins at {value:g}"
    return f"{name}: {unknown}" if name in problem.infer else f"{name} = {value:g}"


def _input(item: Input) -> dict[str, Any]:
    return {
        "name": item.name,
        "of": list(item.of),
        "law": None if item.distribution is None else _distribution(item.distribution),
        "expression": None if item.expression is None else write(item.expression),
        "hidden": item.hidden,
        "smooth": item.smooth,
        "sensors": {"count": list(item.sensor_shape), "place": item.place.value},
    }


def _distribution(distribution: Distribution) -> dict[str, Any]:
    """Its keyword, and every value that it draws with, those by default too."""
    values = {f.name: getattr(distribution, f.name) for f in fields(distribution) if f.compare}
    given = {key: plain(value) for key, value in values.items() if value is not None}
    if "matern" in given:  # which takes the place of it
        del given["scale"]
    return {"law": NAMES[type(distribution)], **given}


def _boundary(problem: Problem) -> dict[str, str]:
    found = {c.name: "periodic" for c in problem.space if c.periodic}
    for face, conditions in problem.boundary.items():
        found[face] = "; ".join(c.summary for c in conditions) or "none"
    return found


def _solver(problem: Problem) -> dict[str, str]:
    """Which reference solver covers the problem, and why."""
    found = problem.capabilities
    if found.method is None or not found.reference:
        refusal = found.reference.refusal
        return {"name": "none yet", "why": f"{WITHOUT}; {refusal}" if found.equations else refusal}
    return {"name": found.method.name, "why": found.method.why}


def _linear_part(problem: Problem) -> str:
    """Say what solves the linear part by default; empty without equations in space."""
    if not problem.space or not problem.residuals:
        return ""
    return str(decide_linear_part(problem, decide_constraints(problem)))


def _windows(problem: Problem) -> str:
    """Say into how many time windows an operator divides an evolution; empty for other problems."""
    if problem.time is None or not problem.space or not problem.residuals:
        return ""
    requested = problem.solve.get("windows", 0)
    return str(decide_windows(problem, requested=requested if isinstance(requested, int) else 0))


def _form(problem: Problem) -> str:
    """Say in which form the equations are trained; empty where they are not, or without space."""
    if not problem.space or not problem.residuals or not problem.capabilities.equations:
        return ""
    found = problem.solve.get("form")
    requested = cast("FormMode", found) if found in get_args(FormMode) else "auto"
    found = problem.solve.get("linear_part")
    linear = cast("LinearPartMode", found) if found in get_args(LinearPartMode) else "auto"
    return str(decide_form(problem, requested=requested, linear_part=linear))


def _streams(problem: Problem) -> str:
    try:
        return plan_streams(problem.pde).describe() if problem.residuals else "none: no equations"
    except NotSupportedError as error:
        return str(error)


def _interval(axis: Coordinate, units: Mapping[str, str]) -> str:
    unit = f" {units[axis.name]}" if axis.name in units else ""
    return f"{axis.name} in [{axis.low:g}, {axis.high:g}]{unit}{', periodic' * axis.periodic}"


def _sentence(item: dict[str, Any]) -> str:
    name = f"{item['name']}({', '.join(item['of'])})" if item["of"] else item["name"]
    if item["law"]:
        drawn = dict(item["law"])
        rule = drawn.pop("law")
        settings = ", ".join(_value(k, v) for k, v in drawn.items() if v != {} and v is not False)
        rule += f" ({settings})" if settings else ""
    else:
        rule = f"= {item['expression']}"
    counts = " × ".join(map(str, item["sensors"]["count"]))
    sensors = f"observed at {counts} sensors, {item['sensors']['place']}"
    if item["hidden"]:
        return f"{name}: {rule}; hidden"
    return f"{name}: {rule}; {sensors}" if item["of"] else f"{name}: {rule}"


def _value(key: str, value: Any) -> str:
    if isinstance(value, dict):
        return f"{key} {{{', '.join(_value(k, v) for k, v in value.items())}}}"
    if isinstance(value, list):
        return f"{key} [{', '.join(f'{v:g}' for v in value)}]"
    return f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}"


def _given(problem: Problem, name: str, data: list[str]) -> str:
    return ", ".join(f"{problem.derivative_text(name, n)} = {e}" for n, e in enumerate(data))


def _constraint(found: dict[str, Any]) -> str:
    how = "hard constraint" if found["built_in"] else "soft constraint"
    return f"{found['condition']}: {how}, {found['why']}"


def to_html(problem: Problem) -> str:
    """The equations and conditions typeset, for a notebook."""
    title = problem.spec.title
    lines = [f"<b>{text_html(problem.name + (f': {title}' if title else ''))}</b>"]
    lines.append(f"<p>{text_html(classify(problem))}</p>")
    lines += [f"$${typeset(residual)} = 0$$" for residual in problem.pde.residuals_raw]
    domain = [_interval(c, problem.units) for c in problem.coordinates]
    given = [f"${typeset(problem.function(i.name))}$" for i in problem.inputs]
    at = f"at ${problem.time.name} = {problem.time.low:g}$" if problem.time else ""
    start = [
        f"${typeset(_slope(problem, name, order))} = {typeset(e)}$ {at}"
        for name, data in problem.initial.items()
        for order, e in enumerate(data)
    ]
    walls = [text_html(f"{face}: {text}") for face, text in _boundary(problem).items()]
    rows = [("domain", map(text_html, domain)), ("inputs", given), ("initial", start)]
    rows.append(("boundary", walls))
    items = [f"<li>{title}: {', '.join(texts)}</li>" for title, texts in rows]
    return "\n".join([*lines, "<ul>", *items, "</ul>"])


def _slope(problem: Problem, name: str, order: int) -> Expr:
    """The derivative of an unknown in time."""
    function = problem.function(name)
    return Derivative(function, problem.coordinates[0].symbol, order) if order else function


def typeset(expression: Expr) -> str:
    r"""Write an expression in LaTeX, derivatives as subscripts and functions without arguments.

    >>> from sympy import Function, sin
    >>> t, x = Symbol("t"), Symbol("x")
    >>> u = Function("u")(t, x)
    >>> typeset(Derivative(u, x, x) + sin(u))
    '\\sin{\\left(u \\right)} + u_{xx}'
    """
    return _Typesetter().doprint(expression)


@final
class _Typesetter(LatexPrinter):
    """Prints functions as the papers do, u(t, x) as u and its derivatives as u_x."""

    def _print_AppliedUndef(self, expr: AppliedUndef, exp: str | None = None) -> str:
        name = self._print(Symbol(name_of(expr)))
        return name if exp is None else f"{name}^{{{exp}}}"

    def _print_Derivative(self, expr: Derivative) -> str:
        if not expr.expr.is_Function:
            return super()._print_Derivative(expr)
        return f"{self._print(expr.expr)}_{{{' '.join(map(self._print, expr.variables))}}}"

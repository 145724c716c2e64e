"""Specs that nobody would write: random bytes, words, formulas, mutations, and sizes without end.

Each goes through what ``piop check`` does, in a worker with limits on processor time and memory
and an audit hook that notices whatever is executed, opened for writing or connected to.
"""

from __future__ import annotations

import inspect
import json
import math
import multiprocessing
import random
import re
import resource
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.faults.file_reader import peak_memory
from tests.faults.outcome import Outcome

SECONDS = 2.0
"""Of processor time for one spec."""
_TOO_LONG = " s of processor time"
_HUNG = 300.0
"""Seconds after which a worker that uses no processor time is taken to wait for ever."""
MEGABYTES = 500
"""Of memory that a process has at most while it checks specs."""
SHIPPED = tuple(sorted((Path(__file__).parents[2] / "pdes").glob("*.yaml")))

Draw = random.Random

_FORBIDDEN = ("os.system", "os.exec", "os.posix_spawn", "os.remove", "os.rename", "os.mkdir")
_FORBIDDEN += ("subprocess.", "socket.", "pickle.", "ctypes.", "shutil.", "webbrowser.")


def attack(count: int, seed: int, folder: Path) -> Iterator[Outcome]:
    """Check so many generated specs."""
    worker = _Worker()
    try:
        for i in range(count):
            kind = list(KINDS)[i % len(KINDS)]
            data = KINDS[kind](Draw(f"{seed}/{i}"))
            path = folder / "spec.yaml"
            path.write_bytes(data if isinstance(data, bytes) else data.encode())
            problem = worker.check(path)
            if problem.endswith(_TOO_LONG):  # as other work on the machine may cause, but not twice
                problem = worker.check(path)
            if problem:
                kept = folder / f"lost-{i}.yaml"
                path.replace(kept)
                problem = f"seed {seed}, number {i}: {problem}"
            yield Outcome(kind, not problem, problem)
    finally:
        worker.end()


class _Worker:
    """A process that checks one spec after the other, started anew after one that was lost."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other,), daemon=True)
        self.process.start()
        other.close()
        self.pipe.recv()

    def end(self) -> None:
        self.pipe.close()
        self.process.join(10)

    def check(self, path: Path) -> str:
        """What is wrong with how piop took a spec; empty where nothing is."""
        self.pipe.send(str(path))
        try:
            found = self.pipe.recv() if self.pipe.poll(_HUNG) else "no end"
        except (EOFError, ConnectionResetError):
            self.process.join()
            found = f"the process died ({self.process.exitcode})"
        if found:
            self.process.kill()
            self.end()
            self.start()
        return found


def _serve(pipe: Connection) -> None:
    warnings.simplefilter("error")
    for name in ("burgers", "elasticity"):
        _check(Path(name))
    seen: list[str] = []
    sys.addaudithook(lambda event, args: _audit(event, args, seen))
    resource.setrlimit(resource.RLIMIT_DATA, (MEGABYTES << 20, resource.RLIM_INFINITY))
    pipe.send("ready")
    while True:
        try:
            path = Path(pipe.recv())
        except EOFError:
            return
        seen.clear()
        start = _processor_time()
        limit = math.ceil(start + 2 * SECONDS)  # a signal ends what no exception could
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
        problem = _check(path)
        seconds = _processor_time() - start
        if seconds > SECONDS:
            problem = problem or f"{seconds:.1f}{_TOO_LONG}"
        megabytes = peak_memory() >> 20
        if megabytes > MEGABYTES:
            problem = problem or f"{megabytes} MB"
        if seen:
            problem = problem or f"executed: {seen[:3]}"
        pipe.send(problem)


def _processor_time() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _audit(event: str, args: tuple[Any, ...], seen: list[str]) -> None:
    written = event == "open" and isinstance(args[1], str) and args[1].strip("rbtU")
    evaluated = event == "exec" and not _expected()
    if written or evaluated or event.startswith(_FORBIDDEN):
        seen.append(f"{event} {args[:2]}"[:200])


def _expected() -> bool:
    """Whether the code being run is that of a module, or SymPy's own for polynomials of a size."""
    frame = inspect.currentframe()
    known = ("importlib._bootstrap", "sympy.polys.monomials")
    while frame is not None and frame.f_globals.get("__name__") not in known:
        frame = frame.f_back
    return frame is not None


def _check(path: Path) -> str:
    """Do what ``piop check`` does; what is accepted must be the same when written and read."""
    from piop.errors import PiopError, SpecError
    from piop.problem import Problem
    from piop.problem.describe import to_text

    try:
        problem = Problem.from_file(path)
        to_text(problem)
        if Problem.from_yaml(problem.to_yaml(), folder=path.parent).hash != problem.hash:
            return "another problem when written and read"
    except SpecError as error:
        lines = str(error).splitlines()
        placed = all(issue.file and issue.line for issue in error.issues)
        return "" if placed else f"a refusal without a place: {lines[0][:300]}"
    except PiopError as error:
        return f"no refusal of a spec: {type(error).__name__}: {str(error)[:300]}"
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)
        own = [f"{Path(f.filename).name}:{f.lineno}" for f in where if "/piop/" in f.filename]
        return f"{type(error).__name__}: {str(error)[:200]} at {' '.join(own[-3:])}"
    return ""


def _bytes(draw: Draw) -> bytes:
    """Bytes of any kind, alone or inside of a spec."""
    alphabets = [*range(256)], [*range(32, 127)], [*b"\x00\x07\x1b\x7f\r\n\t {}[]:,-&*!|>'\"%@`#"]
    noise = bytes(draw.choices(draw.choice(alphabets), k=draw.choice([1, 4, 30, 300, 3000])))
    whole = draw.choice(SHIPPED).read_bytes()
    at = draw.randrange(len(whole))
    form = draw.randrange(6)
    if form == 0:
        return noise
    if form == 1:
        return whole.decode().encode(draw.choice(["utf-16", "utf-32", "utf-8-sig", "cp037"]))
    if form == 2:
        return whole[:at]
    return whole[:at] + noise[: draw.choice([1, 2, 5, 3000])] + whole[at + draw.choice([0, 1, 9]) :]


_SECTIONS = """piop name title source time space parameters unknowns inputs definitions
  equations auxiliary gauge initial boundary domain sensors save units solve infer learn""".split()  # noqa: SIM905
_WORDS = """of law expression hidden smooth from to noise mean equation count place uniform
  normal log_uniform constant integer fourier_series gaussian_random_field piecewise_constant
  from_file history data matern scale tau alpha length smoothness terms amplitude wavenumber low
  high std value file periodic dirichlet neumann robin outflow wall rest box holes disk polygon
  star choose union u v w u0 f a t x y z pi nu 0 1 -1 2 0.5 1e-3 1e999 -1e-300 nan inf .nan .inf
  010 0x10 1_000 true false null ~ yes 2020-01-01 sin cos tan exp log sqrt tanh atan sinh cosh
  abs sign min max where grad div lap curl dot d dt dx dxx dxy dtt x.min x.max lambda import
  __class__ eval""".split()  # noqa: SIM905
_SIGNS = [*"+-*/(),.=<>:;[]{}&!|'%@`#?^~$", '"', "\\", "**", "==", "<=", ">="]
_YAML = ["\n", "\n  ", "\n- ", ": ", "{", "}", "[", "]", ", ", "&a ", "*a", "<<: *a", "? ", "|\n  "]
_YAML += ["!!python/object ", "!!set ", "!!binary ", "---\n", "...\n", ">\n  ", "%TAG "]
_YAML += ['"\\UFFFFFFFF"', '"\\x00"', '"\\uD800"']
_PAIRS = [("[", "]"), ("{", "}"), ("(", ")"), ("- ", ""), ("a: {", "}"), ("? ", ""), ("'", "'")]


def _tokens(draw: Draw) -> str:
    """Words of the language and signs of YAML in any order, deep nests and aliases of aliases."""
    form = draw.randrange(8)
    several = draw.choice([1, 2, 3, 10, 100])
    soup = " ".join(draw.choices([*_SECTIONS, *_WORDS, *_SIGNS], k=several))
    if form == 0:
        opening, closing = draw.choice(_PAIRS)
        depth = draw.choice([5, 50, 500, 5000, 20000])
        return f"{draw.choice(_SECTIONS)}: {opening * depth}{closing * draw.choice([0, depth])}"
    if form == 1:
        rows = ["a: &a0 [x, x, x, x, x, x, x, x, x]"]
        for i in range(draw.randrange(1, 12)):
            rows.append(f"b{i}: &a{i + 1} [" + ", ".join([f"*a{i}"] * 9) + "]")
        return "\n".join(rows)
    if form == 2:
        return json.dumps(_spec(draw) | {"equations": [soup]})
    if form == 3:
        return json.dumps(_spec(draw) | {draw.choice(_SECTIONS): soup})
    if form == 4:
        return json.dumps(_spec(draw))[:-1] + f", {draw.choice(_SECTIONS)}: {soup}}}"
    mixed = [*_SECTIONS, *_WORDS, *_YAML, *_SIGNS, *_YAML]
    return draw.choice(["", " "]).join(draw.choices(mixed, k=draw.choice([5, 50, 500, 5000])))


def _number(draw: Draw) -> str:
    plain = [f"{draw.uniform(-3, 3):.3g}", str(draw.randrange(5)), "pi", "1/3", "2*pi"]
    wild = "0 1e-300 1e300 1e400 -0.0 1e-9 16 17 1/0 10**300".split()  # noqa: SIM905
    return draw.choice([*plain * 6, *wild, "9" * 400])


_FUNCTIONS = "sin cos tan exp log sqrt tanh atan sinh cosh abs sign".split()  # noqa: SIM905


def _formula(draw: Draw, depth: int, names: Sequence[str]) -> str:
    """A formula of the language, mostly one with a meaning."""
    if depth <= 0 or draw.random() < 0.15:
        return draw.choice(names) if draw.random() < 0.7 else _number(draw)
    a, b, c = (_formula(draw, depth - 1 - draw.randrange(2), names) for _ in range(3))
    axes = sorted({*names} & {*"txyz"}) * 3 + ["y"] * draw.choice([0, 0, 0, 0, 1])
    along = "".join(draw.choices(axes, k=draw.choice([1, 1, 2, 2, 3, 4, 5])))
    function = draw.choice(_FUNCTIONS)
    exponent = draw.choice(["2", "3", "-1", "0.5", "(1/3)", "16", f"({b})"])
    forms = [f"{a} + {b}", f"{a} - {b}", f"{a}*{b}", f"({a})*({b})", f"({a})/({b})", f"-({a})"]
    forms += [f"{function}({a})"] * 4 + [f"d{along}({a})"] * 3 + [f"({a})**{exponent}"] * 2
    forms += [f"min({a}, {b})", f"max({a}, {b}, {c})", f"where({a} < {b}, {c}, {a})"]
    forms += [f"d({a}, x, {draw.choice([1, 2, 4, 9])})", f"lap({a})", f"div(grad({a}))"]
    return draw.choice([*forms, f"dot(({a}, {b}), ({b}, {c}))"])


_FILES = ["/etc/passwd", "../x.npy", "/dev/zero", "a" * 300, "x.npy", "x/" * 200]


def _distribution(draw: Draw, axes: Sequence[str]) -> dict[str, Any]:
    """A distribution of functions of these axes, or one of numbers, mostly one that is valid."""

    def n(plain: Any) -> Any:
        return plain if draw.random() < 0.9 else _number(draw)

    matern = {
        "smoothness": draw.choice(["2.5", "1.5", "0", "300", "1e9"]),
        "length": draw.choice(["0.1", "1", "1e-300", "1e300"]),
    }
    waves, terms = [n(1), n(draw.choice([3, 10_000]))], n(draw.choice([1, 5, 100_000]))
    functions: list[dict[str, Any]] = [
        {"law": "fourier_series", "terms": terms, "amplitude": [n(-1), n(1)], "wavenumber": waves},
        {"law": "gaussian_random_field", "scale": n(2), "tau": n(3), "alpha": n("2.5")},
        {"law": "gaussian_random_field", "matern": matern},
        {"law": "piecewise_constant", "cells": n(4), "low": n(0), "high": n(1)},
        {"law": "from_file", "path": draw.choice(_FILES)},
        {"expression": _formula(draw, 3, axes)},
    ]
    law = draw.choice(["uniform", "log_uniform", "integer"])
    numbers = {"law": law, "low": n(1), "high": n(2)}, {"law": "normal", "mean": n(0), "std": n(1)}
    chosen = draw.choice(functions) | {"of": [*axes]}
    return draw.choice([chosen, chosen, chosen, *numbers, {"law": "constant", "value": n(1)}])


def _condition(draw: Draw, unknown: str, known: Sequence[str]) -> Any:
    a, b, c = (_formula(draw, depth, known) for depth in (1, 1, 2))
    given = {"dirichlet": {unknown: c}}, {"neumann": {unknown: c}}
    return draw.choice([*given, {"robin": {unknown: [a, b, c]}}, f"dx({unknown}) = {c}"])


def _spec(draw: Draw) -> dict[str, Any]:
    """A spec that is valid, or nearly so."""
    unknowns = draw.choice([["u"], ["u"], ["u"], ["u", "v"]])
    axes = draw.choice([["x"], ["x"], ["x"], ["x", "y"], ["x", "y", "z"]])
    time = draw.choice(["dt({})", "dt({})", "dt({})", "dtt({})", ""])
    names = [*unknowns, *unknowns, *axes, *(["t"] if time else []), "nu", "g", "k"]
    known = [*axes, "g", "k", "sin(x)"]
    spec: dict[str, Any] = {
        "name": "p",
        "space": {axis: ["0", draw.choice(["1", "2*pi"] * 9 + [_number(draw)])] for axis in axes},
        "parameters": {"nu": draw.choice(["0.1", "1", "2", _number(draw)])},
        "unknowns": unknowns,
        "inputs": {
            "g": _distribution(draw, draw.sample(axes, draw.randrange(1, len(axes) + 1))),
            "k": _distribution(draw, ["x"]),
        },
        "equations": [],
        "boundary": {},
    }
    for u in unknowns:
        diffusion = " - ".join(f"nu*d{axis}{axis}({u})" for axis in axes)
        right = _formula(draw, draw.randrange(1, 6), names)
        spec["equations"].append(f"{time.format(u)} - {diffusion} = {right} + g*k*{unknowns[-1]}")
    if time:
        spec["time"] = {"t": [0, 1]}
        spec["initial"] = {u: _formula(draw, 2, known) for u in unknowns}
        if time == "dtt({})":
            spec["initial"] |= {f"dt({u})": _formula(draw, 1, known) for u in unknowns}
    for axis in axes:
        if draw.random() < 0.7:
            spec["boundary"][axis] = "periodic"
            continue
        for face in draw.choice([[axis], [f"{axis}.min", f"{axis}.max"]]):
            spec["boundary"][face] = [_condition(draw, u, known) for u in unknowns]
    return spec


_DOMAINS = [
    {"polygon": [[0, 0], [1, 0], [1, 1]]},
    {"polygon": [[0, 0], [1, 1], [1, 0], [0, 1]]},
    {"box": [[0, 1], [0, 1]], "holes": {"c": {"disk": [0.5, 0.5, 0.2]}}},
    {"box": [[0, 1], [0, 1]], "holes": {"c": {"disk": [0.5, 0.5, "1e-9"]}}},
    {"disk": [0, 0, "1e300"]},
    {"star": {"center": [0.5, 0.5], "angle": "phi", "radius": 0.2}},
]


def _grammar(draw: Draw) -> str:
    """Formulas and distributions from the grammar, in a spec near to what is valid."""
    spec = _spec(draw)
    if draw.random() < 0.2:
        spec["definitions"] = {"q": _formula(draw, 3, ["u", "x", "nu"])}
    if draw.random() < 0.1:
        spec["domain"] = draw.choice(_DOMAINS)
    if draw.random() < 0.2:
        spec["save"] = {"x": draw.choice([2, 64, 0, "1e9", 99999])}
    return json.dumps(spec, indent=1)


def _mutated(draw: Draw) -> str:
    """A shipped spec with some of its words, numbers, signs or rows changed."""
    text = draw.choice(SHIPPED).read_text()
    for _ in range(draw.choice([1, 1, 2, 5, 20])):
        form = draw.randrange(5)
        rows = text.splitlines(keepends=True)
        i, j = draw.randrange(len(rows)), draw.randrange(len(rows))
        if form < 3:
            pattern = r"(\w+)" if form < 2 else r"([-+*/()=<>,:{}\[\]])"
            pieces = re.split(pattern, text)
            own = range(1, len(pieces), 2)
            if not own:
                break
            formula = _formula(draw, 2, ["u", "x", "t"])
            words = [pieces[draw.choice(own)], draw.choice(_WORDS), _number(draw), formula]
            pieces[draw.choice(own)] = draw.choice(words if form < 2 else _SIGNS)
            text = "".join(pieces)
        else:
            rows[i], rows[j] = ("" if form == 3 else rows[j]), rows[draw.choice([i, j])]
            text = "".join(rows)
        if not text.strip():
            break
    return text


def _growing(draw: Draw) -> str:
    """Valid, and as large as one pleases in one respect."""
    size = round(10 ** draw.choice([draw.uniform(0.3, 1.8), draw.uniform(1, 3)]))
    series = {"law": "fourier_series", "terms": 3, "amplitude": [0, 1], "wavenumber": [1, 3]}
    spec: dict[str, Any] = {
        "name": "p",
        "time": {"t": [0, 1]},
        "space": {"x": [0, "2*pi"]},
        "unknowns": ["u"],
        "inputs": {"g": {"of": ["x"], **series}},
        "equations": ["dt(u) = dxx(u)"],
        "initial": {"u": "g"},
        "boundary": {"x": "periodic"},
    }
    return json.dumps(spec | draw.choice(_GROWTH)(draw, size, spec["inputs"]))[:65_000]


_TERMS = ["u**{0}", "sin({0}*x)*u", "dx(u)*u*{0}", "sin(u + {0})", "dx(sin(u*{0}))", "{0}*g*dxx(u)"]
_TERMS += ["(u + {0})*(u - x)", "where(u < {0}, u, 0)", "max(u, {0})", "abs(u - {0})"]
_LINKS = ["q{} + u", "2*q{}", "q{0}*q{0}", "sin(q{})", "dx(q{})", "q{0} + dx(q{0})", "q{}*u"]
_SYSTEMS: list[Callable[[int, int], str]] = [
    lambda i, n: f"dt(w{i}) = 0.1*dxx(w{i})",
    lambda i, n: f"dt(w{i}) = {i + 1}*dxx(w{i}) + w{(i + 1) % n}*w{i}",
    lambda i, n: f"dt(w{i}) + d(w{i}*w{(i + 1) % n}, x) = 0",
    lambda i, n: f"dt(w{i}) = " + " + ".join(f"dxx(w{j})" for j in range(max(0, i - 9), i + 1)),
    lambda i, n: f"dt(w{i}) = " + " + ".join(f"dx(w{j})" for j in range(min(n, 100))),
]


def _unknowns(draw: Draw, size: int, _: Any) -> dict[str, Any]:
    names, equation = [f"w{i}" for i in range(size)], draw.choice(_SYSTEMS)
    start = {name: draw.choice(["0", "sin(x)"]) for name in names} | {"w0": "g"}
    return {
        "unknowns": names,
        "equations": [equation(i, size) for i in range(size)],
        "initial": start,
    }


def _nested(draw: Draw, size: int, _: Any) -> dict[str, Any]:
    inner = draw.choice(["u", "dx(u)", "u*x", "u + x"])
    same = draw.choice(_FUNCTIONS)
    for _step in range(min(size, draw.choice([4, 12, 60]))):
        outer = draw.choice([same, same, *_FUNCTIONS, "dx", "dxx"])
        inner = draw.choice(
            [f"{outer}({inner})"] * 4 + [f"({inner})**2", f"1/({inner})", f"max({inner}, u)"]
        )
    order = draw.choice(["", "dx", "dxx", "dxxx", "dxxxx", "dx(u)*"])
    return {"equations": [f"dt(u) = dxx(u) + {order}({inner})"]}


def _sums(draw: Draw, size: int, _: Any) -> dict[str, Any]:
    term, sign = draw.choice(_TERMS), draw.choice([" + ", " + ", "*", "/"])
    total = sign.join(term.format(i + 1) for i in range(min(size, 150)))
    return {"equations": [f"dt(u) = dxx(u) + {total}"]}


def _inputs(draw: Draw, size: int, known: dict[str, Any]) -> dict[str, Any]:
    own = draw.choice(
        [known["g"], {"law": "uniform", "low": 1, "high": 2}, {"of": ["x"], "expression": "g*x"}]
    )
    names = [f"k{i}" for i in range(size)]
    sums = {f"q{i}": " + ".join(names[i : i + 150]) for i in range(0, size, 150)}
    return {
        "inputs": known | dict.fromkeys(names, own),
        "definitions": sums,
        "equations": ["dt(u) = dxx(u) + " + " + ".join(sums)],
    }


def _chain(draw: Draw, size: int, _: Any) -> dict[str, Any]:
    link = draw.choice(_LINKS)
    links = {f"q{i + 1}": link.format(i) for i in range(size)}
    return {"definitions": {"q0": "u"} | links, "equations": [f"dt(u) = dxx(u) + q{size}"]}


def _conditions(draw: Draw, size: int, known: dict[str, Any]) -> dict[str, Any]:
    at_walls, at_start = ["k", "1", "t", "dt(k)", "abs(k)"], ["g", "x", "abs(g)", "dx(g)"]
    few = range(1, min(size, 80) + 1)
    value = "k + " + " + ".join(f"sin({i}*t)*{draw.choice(at_walls)}" for i in few)
    start = "g + " + " + ".join(f"cos({i}*x)*{draw.choice(at_start)}" for i in few)
    return {
        "inputs": known | {"k": known["g"] | {"of": ["t"]}},
        "initial": {"u": start},
        "boundary": {"x": {"dirichlet": {"u": value}}},
    }


def _names(draw: Draw, size: int, _: Any) -> dict[str, Any]:
    names = [f"n{i}" for i in range(size)]
    labels = dict.fromkeys(names, "m")
    used = {
        "parameters": dict.fromkeys(names[:300], 1.5),
        "equations": ["dt(u) = dxx(u) + u*(" + " + ".join(names[:300]) + ")"],
    }
    return draw.choice([{"title": "x" * 50 * size}, {"units": labels}, used])


_GROWTH = [
    _unknowns,
    _unknowns,
    _nested,
    _nested,
    _sums,
    _sums,
    _inputs,
    _chain,
    _conditions,
    _names,
]

KINDS: dict[str, Callable[[Draw], str | bytes]] = {
    "spec of random bytes": _bytes,
    "spec of words in any order": _tokens,
    "spec from the grammar": _grammar,
    "mutated spec": _mutated,
    "valid spec of growing size": _growing,
}
"""Class of specs → what draws one."""

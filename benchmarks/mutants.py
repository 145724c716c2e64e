"""Change the code at random, one place at a time, and count how often the fast tests notice.

    python benchmarks/mutants.py [--count 500] [--seed 0] [--rooms …] [--minutes M] [--again]

Lines of code are drawn from the packages of `ROOMS`, and of each line one change out of those that
`_Changes` knows. Each is made in a copy of the tree. The tests that execute the changed line run,
the fastest first, until one fails. Which those are is measured once per test file. Resumable: what
was tried stays in ``runs/mutants/tried.jsonl``; ``--again`` tries survivors once more, with the
tests as they are now. `mutants.yaml` gives the reason for survivors that no test can or should
notice. Result: `results/mutants.json`.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import importlib
import json
import os
import resource
import shutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import coverage
import pytest
import yaml
from record import record

ROOT = Path(__file__).parents[1]
ROOMS = {
    "expression": ("expression", "spec", "forms", "problem"),
    "spec": ("spec", "problem"),
    "forms": ("forms", "problem", "test_lowering.py"),
    "residual": ("residual", "test_lowering.py"),
    "reference": ("reference",),
}
"""The packages, and which of `tests/` run for each."""
REASONS = Path(__file__).with_suffix(".yaml")
SECONDS = 20.0  # of tests per mutant, as measured without the mutant
LIMIT = 60  # further seconds of processor time, after which a mutant counts as endless
SLOWEST = 40  # seconds, beyond which a test is left out
MEMORY = 8 << 30
SWAPS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "is": "is not",
    "is not": "is", "in": "not in", "not in": "in", "and": "or", "or": "and", "+": "-", "-": "+",
    "*": "/", "/": "*", "**": "*", "//": "/", "%": "*", "@": "*", "&": "|", "|": "&",
}  # fmt: skip
SYMMETRIC = {"min", "max", "minimum", "maximum", "Min", "Max", "hypot", "gcd"}
"""Functions whose arguments may stand in any order."""
SYMBOLS = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in", ast.And: "and",
    ast.Or: "or", ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**",
    ast.FloorDiv: "//", ast.Mod: "%", ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change: bytes ``start`` to ``stop`` of a file in `piop/` become ``text``."""

    file: str
    line: int
    last: int
    old: str
    new: str
    start: int
    stop: int
    text: str

    @property
    def name(self) -> str:
        """What stays the same while other lines of the file change."""
        return f"{self.file}: {self.old} -> {self.new}"

    @property
    def room(self) -> str:
        """The package, a key of `ROOMS`."""
        return self.file.split("/")[0]

    def applied(self, source: bytes) -> bytes:
        """Return the file with the change."""
        return source[: self.start] + self.text.encode() + source[self.stop :]

    def differs(self, tree: Path) -> bool:
        """Whether the change is valid Python that means something else."""
        source = (tree / "piop" / self.file).read_bytes()
        try:
            return ast.dump(ast.parse(self.applied(source))) != ast.dump(ast.parse(source))
        except SyntaxError:
            return False


class _Changes(ast.NodeVisitor):
    """Collects the changes of one file, leaving out annotations, docstrings and messages."""

    def __init__(self, file: str, source: bytes) -> None:
        self.file, self.source = file, source
        self.offsets = [0]
        for line in source.splitlines(keepends=True):
            self.offsets.append(self.offsets[-1] + len(line))
        self.found: list[Mutant] = []
        self.visit(ast.parse(source))

    def span(self, node: Any) -> tuple[int, int]:
        return (
            self.offsets[node.lineno - 1] + node.col_offset,
            self.offsets[node.end_lineno - 1] + node.end_col_offset,
        )

    def code(self, node: ast.AST) -> str:
        start, stop = self.span(node)
        return self.source[start:stop].decode()

    def add(self, node: Any, start: int, stop: int, text: str) -> None:
        first, last = self.offsets[node.lineno - 1], self.offsets[node.end_lineno]
        put = text.encode()
        old = " ".join(self.source[first:last].decode().split())
        new = " ".join((self.source[first:start] + put + self.source[stop:last]).decode().split())
        self.found.append(
            Mutant(self.file, node.lineno, node.end_lineno, old, new, start, stop, text)
        )

    def replace(self, node: ast.AST, text: str) -> None:
        self.add(node, *self.span(node), text)

    def between(self, node: ast.AST, left: ast.AST, right: ast.AST, operator: ast.AST) -> None:
        """Change the operator between two operands."""
        symbol = SYMBOLS.get(type(operator))
        start, stop = self.span(left)[1], self.span(right)[0]
        gap = self.source[start:stop].decode()
        if symbol:
            self.add(node, start, stop, gap.replace(symbol, SWAPS[symbol], 1))

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for left, right, operator in zip(operands, operands[1:], node.ops, strict=False):
            self.between(node, left, right, operator)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self.between(node, node.left, node.right, node.op)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.between(node, left, right, node.op)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        self.replace(node, f"({self.code(node.operand)})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self.replace(node, str(not value))
        elif isinstance(value, int):
            self.replace(node, str(value + 1))
        elif isinstance(value, float):
            self.replace(node, str(2 * value or 1.0))

    def negate(self, node: ast.If | ast.While | ast.IfExp) -> None:
        if self.code(node.test) == "TYPE_CHECKING":  # never runs
            return
        self.replace(node.test, f"(not ({self.code(node.test)}))")
        self.generic_visit(node)

    visit_If = visit_While = visit_IfExp = negate

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self.replace(test, f"(not ({self.code(test)}))")
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not isinstance(node.value, ast.Constant):
            self.replace(node.value, "None")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        pairs = () if name in SYMMETRIC else zip(node.args, node.args[1:], strict=False)
        for a, b in pairs:
            (start, _), (_, stop) = self.span(a), self.span(b)
            if not isinstance(a, ast.Starred) and not isinstance(b, ast.Starred):
                self.add(node, start, stop, f"{self.code(b)}, {self.code(a)}")
        self.generic_visit(node)

    def visit_Slice(self, node: ast.Slice) -> None:
        for end in (node.lower, node.upper):
            if end is not None:
                self.replace(end, "")
        self.generic_visit(node)

    def remove(self, node: ast.stmt) -> None:
        self.replace(node, "pass")

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.remove(node)
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if isinstance(node.targets[0], (ast.Attribute, ast.Subscript)):
            self.remove(node)
        if "__all__" not in self.code(node.targets[0]):
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.remove(node)
        self.between(node, node.target, node.value, node.op)
        self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        for statement in node.body:
            self.visit(statement)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            self.visit(statement)

    visit_Raise = visit_Continue = visit_Break = remove

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave the texts of messages as they are."""


def digest(*parts: object) -> str:
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()


def draw(tree: Path, count: int, seed: int) -> list[Mutant]:
    """One change each of ``count`` lines; the draw of a line depends on nothing but its text."""
    lines: dict[tuple[str, str], list[Mutant]] = defaultdict(list)
    for room in ROOMS:
        for path in sorted((tree / "piop" / room).rglob("*.py")):
            file = str(path.relative_to(tree / "piop"))
            for mutant in _Changes(file, path.read_bytes()).found:
                lines[file, mutant.old].append(mutant)
    drawn = [min(mutants, key=lambda m: digest(seed, m.name)) for mutants in lines.values()]
    drawn.sort(key=lambda m: digest(m.file, m.old, seed))
    return [m for m in drawn[: 2 * count] if m.differs(tree)][:count]


def test_files(tree: Path, names: tuple[str, ...]) -> list[Path]:
    """The test modules among files and folders of `tests/`."""
    places = [tree / "tests" / name for name in names]
    return [f for p in places for f in ([p] if p.is_file() else sorted(p.rglob("test_*.py")))]


def line_names(path: Path) -> list[str]:
    """Name each line of a file by its text and how often that stood before it."""
    seen: Counter[str] = Counter()
    names = ["-"]
    for line in path.read_text().splitlines():
        seen[line] += 1
        names.append(f"{line.strip()} #{seen[line]}")
    return names


class _Covered:
    """Records which lines each test executes, and its processor time."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self.measured, self.seconds, self.failed = measured, dict[str, float](), set[str]()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.measured.switch_context(nodeid)
        self.seconds[nodeid] = -time.process_time()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.seconds[nodeid] += time.process_time()
        self.measured.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.failed.add(report.nodeid)


class _Chosen:
    """Runs the chosen tests in their order, and writes down the one that fails."""

    def __init__(self, tests: list[str], told: Path) -> None:
        self.order, self.told = {name: n for n, name in enumerate(tests)}, told

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (i for i in items if i.nodeid in self.order), key=lambda i: self.order[i.nodeid]
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.told.write_text(report.nodeid)


def in_child(work: Callable[[], int], log: Path, seconds: int | None = None) -> int:
    """Run ``work`` in a fork, which has the libraries but not piop; its exit status."""
    pid = os.fork()
    if pid == 0:
        status = 3
        try:
            out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(out, 1)
            os.dup2(out, 2)
            if seconds:
                resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
                sys.dont_write_bytecode = True
            status = int(work())
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def import_libraries(tree: Path) -> None:
    """Import what piop and its tests import, but not those two."""
    names = set()
    for path in (*tree.glob("piop/**/*.py"), *tree.glob("tests/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and not node.level:
                names.add(node.module or "")
            elif isinstance(node, ast.Import):
                names.update(a.name for a in node.names)
    for name in sorted(names):
        if name.split(".")[0] not in ("piop", "tests", "triton", "zarr"):
            with contextlib.suppress(ImportError, RuntimeError):
                importlib.import_module(name)


def measure(tree: Path, test: Path, folder: Path) -> dict[str, Any]:
    """Run a test file once, unless it was measured as it is; give its tests per line of piop."""
    name = str(test.relative_to(tree))
    result = folder / "covered" / (name.replace("/", "-") + ".json")
    mark = digest(test.read_text())
    own = {"file": str(test.relative_to(tree / "tests"))}
    if result.exists():
        known = json.loads(result.read_text())
        if known["digest"] == mark:
            return known | own

    def run() -> int:
        measured = coverage.Coverage(
            data_file=None, include=[str(tree / "piop" / room / "*") for room in ROOMS]
        )
        measured.start()
        seen = _Covered(measured)
        pytest.main(
            ["-q", "-m", "not slow", f"--timeout={SLOWEST}", "-p", "no:cacheprovider", name], [seen]
        )
        measured.stop()
        tests = [t for t in seen.seconds if t not in seen.failed]
        number = {t: n for n, t in enumerate(tests)}
        lines: dict[str, dict[str, list[int]]] = {}
        data = measured.get_data()
        for file in data.measured_files():
            names = line_names(Path(file))
            lines[str(Path(file).relative_to(tree / "piop"))] = {
                names[line]: [number[c] for c in contexts if c in number]
                for line, contexts in data.contexts_by_lineno(file).items()
            }
        content = {
            "digest": mark,
            "tests": {t: round(seen.seconds[t], 3) for t in tests},
            "lines": lines,
        }
        result.write_text(json.dumps(content))
        return 0

    start = time.monotonic()
    result.parent.mkdir(exist_ok=True)
    in_child(run, folder / "log.txt")
    known = json.loads(result.read_text())
    print(f"{name}: {len(known['tests'])} tests, {time.monotonic() - start:.0f} s", flush=True)
    return known | own


def mirrors(test: str, file: str) -> bool:
    """Whether a test file, such as `residual/test_fused.py`, is that of a file of `piop/`."""
    own = Path(file)
    names = {f"test_{own.stem}.py", f"test_{own.stem.split('_')[0]}.py"}
    return Path(test) in {own.parent / name for name in names}


def choose(mutant: Mutant, tree: Path, covered: list[dict[str, Any]]) -> list[str]:
    """The tests that execute a mutant's lines, then their neighbours, each fastest first."""
    names = line_names(tree / "piop" / mutant.file)[mutant.line : mutant.last + 1]
    first, then = dict[str, float](), dict[str, float]()
    for known in covered:
        lines = known["lines"].get(mutant.file, {})
        tests = list(known["tests"])
        hit = {n for name in names for n in lines.get(name, ())}
        if not hit and any(name in lines for name in names):  # executed by the import
            hit = {n for numbers in lines.values() for n in numbers}
        if not hit and mirrors(known["file"], mutant.file):  # executed in other processes
            hit = set(range(len(tests)))
        if hit:
            first |= {tests[n]: known["tests"][tests[n]] for n in hit}
            then |= known["tests"]
    chosen, total = list[str](), 0.0
    ranked = [*sorted(first, key=first.__getitem__), *sorted(then, key=then.__getitem__)]
    for test in dict.fromkeys(ranked):
        if chosen and total + then[test] > SECONDS:
            break
        chosen.append(test)
        total += then[test]
    return chosen


def attempt(mutant: Mutant, tree: Path, tests: list[str], folder: Path) -> str:
    """Make one change and run the tests: what noticed it, or ''."""
    if not tests:
        return ""
    path, told = tree / "piop" / mutant.file, folder / "noticed.txt"
    source, stat = path.read_bytes(), path.stat()
    told.unlink(missing_ok=True)
    files = sorted({t.split("::")[0] for t in tests})
    try:
        path.write_bytes(mutant.applied(source))
        os.utime(path, (stat.st_mtime + 7, stat.st_mtime + 7))  # no stale bytecode
        status = in_child(
            lambda: pytest.main(
                ["-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", *files],
                [_Chosen(tests, told)],
            ),
            folder / "log.txt",
            int(LIMIT + 3 * SECONDS),
        )
    finally:
        path.write_bytes(source)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    if told.exists():
        return told.read_text()
    if status == 5:
        raise SystemExit(f"no test was run: see {folder / 'log.txt'}")
    return "" if status == 0 else "import fails" if status in (1, 2) else f"status {status}"


def report(results: dict[str, dict[str, Any]], drawn: list[Mutant], command: str) -> None:
    """Print killed and survived per package, the survivors with their reasons, and record it."""
    given = yaml.safe_load(REASONS.read_text()) if REASONS.exists() else []
    reasons = {entry["mutant"]: entry["reason"] for entry in given}
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    survivors = []
    tried = [results[m.name] for m in drawn if m.name in results]
    for result in tried:
        rows[result["file"].split("/")[0]]["killed" if result["noticed"] else "survived"] += 1
        if not result["noticed"]:
            name = f"{result['file']}: {result['old']} -> {result['new']}"
            reason = reasons.get(name, "" if result["tests"] else "executed by no fast test asked")
            survivors.append({"line": result["line"], "mutant": name, "reason": reason})
    for survivor in sorted(survivors, key=lambda s: s["mutant"]):
        print(f"{survivor['line']:5} {survivor['mutant']}\n      {survivor['reason']}")
    for room, row in rows.items():
        print(f"{room:12} killed {row['killed']:3} of {row.total():3}")
    killed = len(tried) - len(survivors)
    print(f"{'all':12} killed {killed:3} of {len(tried):3}: {killed / max(1, len(tried)):.1%}")
    figures = {"tried": len(tried), "killed": killed, "rooms": rows, "survivors": survivors}
    record("mutants", command, figures)


def main() -> None:
    """Measure the tests, try the mutants, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rooms", nargs="+", choices=[*ROOMS], default=[*ROOMS])
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--again", action="store_true", help="try survivors once more")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "mutants")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    folder = options.folder.resolve()
    tree, log = folder / "tree", folder / "tried.jsonl"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".git", ".*_cache", "runs"))
    import_libraries(tree)
    os.chdir(tree)
    sys.path.insert(0, str(tree))
    os.environ |= {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    drawn = draw(tree, options.count, options.seed)
    known = map(json.loads, log.read_text().splitlines() if log.exists() else ())
    results = {f"{r['file']}: {r['old']} -> {r['new']}": r for r in known}
    for room in options.rooms:
        covered: list[dict[str, Any]] = []
        for mutant in (m for m in drawn if m.room == room):
            tried = results.get(mutant.name)
            if tried and (tried["noticed"] or not options.again):
                continue
            if time.monotonic() > end:
                break
            covered = covered or [measure(tree, f, folder) for f in test_files(tree, ROOMS[room])]
            tests, start = choose(mutant, tree, covered), time.monotonic()
            noticed = attempt(mutant, tree, tests, folder)
            took = round(time.monotonic() - start, 1)
            results[mutant.name] = {
                **asdict(mutant), "noticed": noticed, "tests": len(tests), "seconds": took,
            }  # fmt: skip
            with log.open("a") as file:
                file.write(json.dumps(results[mutant.name]) + "\n")
            mark = noticed or f"SURVIVED {len(tests)} tests"
            print(f"{len(results):4} {took:5} s  {mutant.name}\n      {mark}", flush=True)
    report(results, drawn, "python benchmarks/mutants.py")


if __name__ == "__main__":
    main()

"""``piop data``: data sets of reference solutions, and descriptions of data files."""

from __future__ import annotations

import textwrap
import time
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from piop.cli.completion import SPEC
from piop.cli.console import (
    COUNT,
    PATH,
    SEED,
    common_options,
    example,
    force_option,
    print_json,
    say,
)
from piop.errors import UsageError, noting_interrupt


@click.command(
    epilog=example(
        "piop data burgers -n 100 --output burgers.nc", "piop data burgers --inspect burgers.nc"
    )
)
@click.argument("spec", type=SPEC, required=False)
@click.option("-n", "count", type=COUNT, help="Samples to make.")
@click.option("--output", type=PATH, help="F.nc or F.zarr.")
@click.option("--seed", type=SEED, default=0, show_default=True)
@click.option(
    "--tolerance",
    type=float,
    help="Relative L2 error.  [default: 1e-6; on shapes 1e-3, at jumps 1e-2, at shocks 2e-2]",
)
@click.option(
    "--noise",
    type=click.FloatRange(min=0),
    default=0.0,
    help="Add normal noise, this fraction of each solution's standard deviation.",
)
@force_option
@click.option("--inspect", type=PATH, help="Describe a file and how it maps to a spec.")
@common_options
def data(
    spec: str | None,
    count: int | None,
    output: Path | None,
    inspect: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Make a data set of reference solutions, or describe a file (--inspect).

    Inputs are drawn from the distributions of SPEC. The file appears under its name once it is
    complete; until then the solved samples are kept in OUTPUT.parts, and the same command continues
    from there. Sample i depends on the seed and on i alone. With --inspect, the file is compared
    with SPEC.
    """
    if inspect is not None:
        _refuse_options_of_making()
        _inspect(inspect, spec, as_json)
        return
    if spec is None or count is None or output is None:
        given = {"SPEC": spec, "-n": count, "--output": output}
        missing = next(name for name, value in given.items() if value is None)
        raise UsageError(f"{missing} is missing. Example: piop data burgers -n 100 --output F.nc")
    _make(spec, count, output, as_json, **options)


def _refuse_options_of_making() -> None:
    """Refuse options beside ``--inspect`` that only a new data set takes.

    Raises:
        UsageError: Naming the first that was given.
    """
    context = click.get_current_context()
    for parameter in context.command.params:
        given = context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
        if given and parameter.name not in _OF_INSPECTION:
            option = parameter.opts[0]
            message = (
                f"{option}: does nothing with --inspect, which makes no data set; leave it out"
            )
            raise UsageError(message)


_OF_INSPECTION = ("spec", "inspect", "as_json", "debug")


def _make(spec: str, count: int, output: Path, as_json: bool, **options: Any) -> None:
    from piop.generation import generate
    from piop.problem import Problem

    problem = Problem.from_file(spec)
    start = time.monotonic()

    def progress(done: int) -> None:
        say(f"{done} of {count} samples  {time.monotonic() - start:.0f} s")

    def kept() -> str:
        if not (parts := Path(f"{output}.parts")).exists():
            return ""
        return f"the solved samples are kept in {parts}: the same command continues from there"

    with noting_interrupt(kept):
        result = generate(problem, count, output, progress=progress, **options)
    result["seconds"] = round(time.monotonic() - start, 3)
    if as_json:
        print_json(result)
        return
    error = result["error_estimate"]
    if result["resumed"]:
        print(f"Continued from {result['resumed']} samples made before")
    noise = f", noise {options['noise']:g}" if options["noise"] else ""
    done = f"{count} samples, seed {options['seed']}{noise}, {result['seconds']:.1f} s"
    print(f"Wrote {output}: {done}")
    print(f"Relative L2 error estimate: mean {error['mean']:.2e}, largest {error['max']:.2e}")


def _inspect(path: Path, spec: str | None, as_json: bool) -> None:
    from piop.datasets import inspect_file
    from piop.problem import Problem

    found = inspect_file(path, None if spec is None else Problem.from_file(spec))
    if as_json:
        print_json(found)
        return
    print(f"{path}: {found['format']}")
    for name, v in found["variables"].items():
        print(f"  {name}{_dimensions(v)}  {v['dtype']}{_range(v)}")
    for name, value in found["attributes"].items():
        text = _printable(str(value).strip())
        shown = "\n" + textwrap.indent(text, "    ", lambda _: True) if "\n" in text else text
        print(f"  :{_printable(name)} = {shown}")
    _print_spec(found["as_spec"])
    if "fits" in found:
        fits = found["fits"]
        unknowns = ", ".join(f"{n}({', '.join(of)})" for n, of in fits["unknowns"].items())
        inputs = ", ".join(f"{n} at {count} points" for n, count in fits["inputs"].items())
        print(f"Fits {fits['problem']}: {unknowns}; inputs: {inputs or 'none'}")


def _printable(text: str) -> str:
    """Replace what terminals take for commands."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def _print_spec(found: dict[str, Any]) -> None:
    """Print the roles of the arrays in a spec."""
    count = found["samples"]
    print("In a spec:" if count is None else f"In a spec, {count} samples:")
    for name, c in found["coordinates"].items():
        print(f"  coordinate {name}: {c['points']} points in [{c['low']:.6g}, {c['high']:.6g}]")
    for name, of in found["functions"].items():
        print(f"  {name}: an unknown or an input of ({', '.join(of)})")
    for name in found["scalars"]:
        print(f"  {name}: a number per sample")
    if found["spec"]:
        print(f"  for the spec {found['spec']}; piop data {found['spec']} --inspect FILE tries it")


def _dimensions(variable: dict[str, Any]) -> str:
    names, shape = variable["dimensions"], variable["shape"]
    if names is None:
        return f" {tuple(shape)}"
    return "(" + ", ".join(f"{n}: {s}" for n, s in zip(names, shape, strict=True)) + ")"


def _range(variable: dict[str, Any]) -> str:
    if variable["minimum"] is None:
        return ""
    text = f"  {variable['minimum']:.6g} … {variable['maximum']:.6g}"
    return text + (f"  {variable['nan']} NaN" if variable["nan"] else "")

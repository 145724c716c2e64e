"""The tables of errors printed by ``piop solve``, ``resume`` and ``evaluate``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from piop.cli.console import aligned, print_json, print_results, say
from piop.errors import noting_interrupt
from piop.evaluation_text import error_rows, error_title, other_lines
from piop.job_phases import JobPhase

if TYPE_CHECKING:
    from pathlib import Path

    from piop.cli.progress import Progress
    from piop.run import Run


def calibration_text(found: Mapping[str, Any]) -> str:
    """Say what a calibration gives.

    Args:
        found: What :meth:`~piop.run.error_bounds.calibration.Calibration.summary_or_reason` gave.
    """
    if "reason" in found:
        return f"Error bounds: {found['reason']}"
    percent, ratio = 100 * found["confidence"], found["bound_over_error"]
    lines = [
        f"Error bounds: {percent:g} % confidence from {found['inputs']} inputs "
        f"(coverage of at least {100 * found['coverage_low']:.0f} % in 95 of 100 calibrations); "
        f"{ratio:.2g} times the error in the geometric mean"
    ]
    if found["correlation"] is not None:
        lines.append(f"  rank correlation of residual and error: {found['correlation']:.2f}")
    if found["corrected_error"] is not None:
        before, after = found["error"], found["corrected_error"]
        lines.append(f"  with piop predict --refine the mean error is {after:.2g} for {before:.2g}")
    return "\n".join(lines)


def show_calibration(run: Run, found: Mapping[str, Any], as_json: bool) -> None:
    """Print a calibration, and write it into the report."""
    if as_json:
        print_json({"run": str(run.path), "calibration": found})
    else:
        print(calibration_text(found), flush=True)
    say(f"Report: {run.report()}")


def show_results(
    run: Run,
    show: Progress,
    as_json: bool,
    profile: bool = False,
    data: Path | None = None,
    evaluation: Mapping[str, Any] | None = None,
) -> None:
    """Print an evaluation, then draw figures and report unless they are as they were.

    Args:
        run: The run.
        show: Shows that figures are drawn; then the seconds of all phases are printed.
        as_json: Print one JSON object.
        profile: Print ``profile.json`` too.
        data: File of the evaluation, where it is not the held-out part of the run's own data.
        evaluation: What :meth:`piop.run.Run.evaluate` returned; by default the content of
            ``evaluation.json``.
    """
    from piop.run.folder import EVALUATION, PROFILE, REPORT

    evaluation = run.folder.read_json(EVALUATION) if evaluation is None else evaluation
    times = (run.folder.read_json(PROFILE) or None) if profile else None
    calibrated = run.calibration
    if as_json:
        extra = {} if times is None else {"profile": times}
        learned = {} if calibrated is None else {"calibration": calibrated.summary_or_reason()}
        print_json({"run": str(run.path), **evaluation, **learned, **extra})
    else:
        print_results(error_table(evaluation))
        if calibrated is not None:
            print(calibration_text(calibrated.summary_or_reason()))
        if times is not None:
            print(profile_table(times))
        print(f"Run folder: {run.path}", flush=True)
    if run.unchanged and (run.path / REPORT).exists():
        return
    from piop.report import draw_run

    again = f"the evaluation is written. Write its report with: piop report {run.path}"
    with noting_interrupt(lambda: again), show:
        show.enter(JobPhase.DRAWING, "figures and report")
        *figures, report = draw_run(run, evaluation.get("seed"), data) or [None]
    say(f"Figures: {len(figures)} in {run.path / 'figures'}")
    if report is not None:
        say(f"Report: {report}")
    say(show.summary())


def show_discretisation(run: Run, found: Mapping[str, Any], as_json: bool) -> None:
    """Print errors over sensors and grids, and draw them into the run folder."""
    if as_json:
        print_json({"run": str(run.path), **found})
    else:
        print_results(resolution_table(found))
    from piop.report import draw_discretisation

    say(f"Figure: {draw_discretisation(run, found)}")
    say(f"Report: {run.report()}")


def resolution_table(found: Mapping[str, Any]) -> str:
    """Format errors over sensors, a row each, and grids, a column each.

    Args:
        found: The content of ``discretisation.json``.
    """
    errors = {(c["sensors"], c["grid"]): c for c in found["relative_l2"]}
    rows = [["sensors", *(f"grid {g}" for g in found["grids"])]]
    for name, counts in found["sensors"].items():
        numbers = ", ".join(f"{n} {k}" for n, k in counts.items())
        cells = [errors[name, g] for g in found["grids"]]
        shown = [f"{c['mean']:.4g} ± {c['std']:.2g}" for c in cells]
        rows.append([f"{name} ({numbers})" if numbers else name, *shown])
    lines = [f"Relative L2 error on {found['samples']} held-out inputs"]
    lines += [f"  {line}" for line in aligned(rows)]
    known = [e for e in found["reference_error_estimate"].values() if e is not None]
    if known:
        lines.append(f"The references themselves err by {max(known):.1e} at most")
    lines += [f"Warning: {text}" for text in found.get("warnings", [])]
    return "\n".join(lines)


def error_table(evaluation: Mapping[str, Any]) -> str:
    """Format an evaluation as a table.

    Args:
        evaluation: The content of ``evaluation.json``.
    """
    lines = []
    if rows := error_rows(evaluation):
        lines = [error_title(evaluation), *(f"  {line}" for line in aligned(rows))]
    return "\n".join([*lines, *other_lines(evaluation)])


def profile_table(times: Mapping[str, Any]) -> str:
    """Format a profile as a table.

    Args:
        times: The content of ``profile.json``.
    """
    rate = f"{times['points_per_second']:.3g} points a second"
    lines = [f"One step, {1000 * times['seconds_per_step']:.2f} ms, {rate}"]
    lines += _part_lines(times["parts"])
    if "eager" in times:
        eager = times["eager"]
        lines.append(f"The same uncompiled, {1000 * eager['seconds_per_step']:.2f} ms")
        lines += _part_lines(eager["parts"])
    return "\n".join(lines)


def _part_lines(parts: Mapping[str, Mapping[str, float]]) -> list[str]:
    rows = [
        (name, f"{1000 * part['seconds']:9.3f} ms", f"{100 * part['share']:5.1f} %")
        for name, part in parts.items()
    ]
    return [f"  {line}" for line in aligned(rows)]

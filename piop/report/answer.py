"""The top of the report: is it right? Error, reference, trivial answers, bound, worth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from piop.inferred_parameters import estimate_text
from piop.json_values import number_text
from piop.report.held_out_errors import HeldOutErrors
from piop.report.markup import Html, card, element, joined, table


@dataclass(frozen=True)
class Findings:
    """What is known of the accuracy of a run.

    Attributes:
        path: The run folder, as commands take it.
        evaluation: The content of ``evaluation.json``; empty before an evaluation.
        calibration: Summary of the calibration, or the ``reason`` why there is none; None without.
        samples: Errors of held-out inputs; None without a reference.
        solver: The reference solver of the problem, in words.
        has_inputs: Whether there is more than one solution.
    """

    path: str
    evaluation: Mapping[str, Any]
    calibration: Mapping[str, Any] | None
    samples: HeldOutErrors | None
    solver: str
    has_inputs: bool = True


def answer(found: Findings) -> Html:
    """Say how right the answers of the operator are."""
    error = found.evaluation.get("relative_l2")
    cards = [] if error is None else [_error(found), _worst(found), _reference(found)]
    if error is not None:
        cards.append(_trivial(found))
        cards += [_bound(found), _worth(found)] if found.has_inputs else []
    cards += [
        card(
            f"Inferred {name}",
            estimate_text(entry),
            "Estimate from the data with its standard error."
            + (
                f" Between {number_text(entry['interval'][0], '.4g')} and "
                f"{number_text(entry['interval'][1], '.4g')} with 95 % confidence."
                if entry["interval"] is not None
                else ""
            ),
        )
        for name, entry in (found.evaluation.get("inferred") or {}).items()
    ]
    parts = [verdict(found)]
    parts += [element("div", *cards, css="cards")] if cards else []
    parts += [_tables(found), _warnings(found.evaluation.get("warnings") or [])]
    return joined(parts)


def verdict(found: Findings) -> Html:
    """Return the answer in a sentence or two."""
    evaluation = found.evaluation
    error = evaluation.get("relative_l2")
    if not evaluation:
        return element(
            "p",
            "The errors of this run are not known yet. Measure them with: ",
            element("code", f"piop evaluate {found.path}"),
            css="verdict",
        )
    if error is None:
        return element(
            "p",
            "No reference solution was compared with, so the error of the answers is not known. "
            "The residual below says how far they are from meeting the equations. "
            "Compare with solutions of your own: ",
            element("code", f"piop evaluate {found.path} --data FILE"),
            css="verdict",
        )
    count, worst = evaluation["samples"], max(error["per_sample"])
    of, unseen = "", " that were not trained on"
    if "data" in evaluation:  # a warning counts those that were trained on
        of, unseen = f" of {evaluation['data']}", ""
    if count == 1:
        first = f"The answer{of} differs from the reference solution by {percent(error['mean'])}."
    else:
        first = (
            f"On {count} inputs{of}{unseen}, answers differ from the reference "
            f"solution by {percent(error['mean'])} on average and {percent(worst)} at worst."
        )
    best = _best_baseline(evaluation)
    beaten = element("span")
    if best is not None:
        name, value = best
        if error["mean"] < value:
            factor = short(value / error["mean"]) if error["mean"] > 0 else "infinitely many"
            beaten = element(
                "span", f" The best trivial answer (“{name}”) is {factor} times as far off."
            )
        else:
            beaten = element(
                "span",
                f" The trivial answer “{name}” is no further off ({percent(value)}): "
                "this operator is of no use as it is.",
                css="bad",
            )
    return element("p", first, beaten, css="verdict")


def percent(value: float) -> str:
    """Write a relative error in percent, to two digits.

    Example:
        >>> percent(0.0123), percent(1.374)
        ('1.2 %', '140 %')
    """
    if not math.isfinite(value) or value == 0:
        return number_text(value, "g") + (" %" if value == 0 else "")
    digits = 1 - math.floor(math.log10(abs(100 * value)))
    return f"{round(100 * value, digits):.{max(0, digits)}f} %"


SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def short(value: float, digits: int = 2) -> str:
    """Write a number as people do, to a few digits.

    Example:
        >>> short(0.0204, 3), short(1.77e-5), short(2340.0), short(float("inf"))
        ('0.0204', '1.8·10⁻⁵', '2300', 'not finite')
    """
    if not math.isfinite(value):
        return number_text(value, "g")
    if value != 0 and not 1e-4 <= abs(value) < 1e6:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa}·10{str(int(exponent)).translate(SUPERSCRIPTS)}"
    size = 0 if value == 0 else math.floor(math.log10(abs(value)))
    return f"{round(value, digits - 1 - size):.{max(0, digits - 1 - size)}f}"


def _error(found: Findings) -> Html:
    error, count = found.evaluation["relative_l2"], found.evaluation["samples"]
    spread = "" if count == 1 else element("small", f" ± {short(error['std'])}")
    of = "of the one solution" if count == 1 else "mean ± standard deviation over the inputs"
    best = _best_baseline(found.evaluation)
    bad = best is not None and error["mean"] >= best[1]
    return card(
        "Error of the operator",
        joined([short(error["mean"], 3), spread]),
        f"Relative L2 difference from the reference, {of}; 0 is exact, 1 is as far off as "
        "answering zero.",
        css="bad" if bad else "",
    )


def _worst(found: Findings) -> Html:
    errors = found.evaluation["relative_l2"]["per_sample"]
    if len(errors) == 1:
        return Html("")
    number = errors.index(max(errors)) + 1
    if (samples := found.samples) is not None and len(samples.error) == len(errors):
        number = int(samples.numbers[number - 1])
    return card(
        "Worst input",
        short(max(errors), 3),
        f"The largest error of {len(errors)} inputs (input {number}); half of them are below "
        f"{short(median(errors))}.",
    )


def _reference(found: Findings) -> Html:
    reference = found.evaluation.get("reference") or {}
    estimate, mean = reference.get("error_estimate"), found.evaluation["relative_l2"]["mean"]
    if estimate is None:
        return card(
            "Error of the reference", "not known", "The solutions are data without an estimate."
        )
    if mean > 10 * estimate:
        beside = "It is less than a tenth of the operator's error, which is known to that."
    else:
        beside = "It is not small beside the operator's error, which is known no better than that."
    return card(
        "Error of the reference",
        joined([element("small", "≤ "), short(estimate)]),
        f"Largest error estimate of the reference solutions themselves. {beside} {found.solver}",
        css="" if mean > 10 * estimate else "warn",
    )


def _best_baseline(evaluation: Mapping[str, Any]) -> tuple[str, float] | None:
    known = [(n, v) for n, v in (evaluation.get("baselines") or {}).items() if v is not None]
    return min(known, key=lambda item: item[1]) if known else None


def _trivial(found: Findings) -> Html:
    known = found.evaluation.get("baselines") or {}
    best = _best_baseline(found.evaluation)
    each = "; ".join(f"“{n}”: {'not finite' if v is None else short(v)}" for n, v in known.items())
    return card(
        "Best trivial answer",
        "not known" if best is None else short(best[1], 3),
        f"Errors of answers that know no equation, which an operator must beat: {each}.",
    )


def _bound(found: Findings) -> Html:
    learned, samples = found.calibration, found.samples
    if learned is None:
        return card(
            "Error bound of an answer",
            "none yet",
            "No error bounds were learned. Learn them with: "
            f"piop evaluate {found.path} --calibrate 150",
        )
    if "reason" in learned:
        return card("Error bound of an answer", "none yet", learned["reason"])
    lines = [
        f"Every answer has a bound that holds with {100 * learned['confidence']:g} % confidence, "
        f"learned from {learned['inputs']} inputs (coverage of at least "
        f"{100 * learned['coverage_low']:.0f} % in 95 of 100 such calibrations)."
    ]
    if samples is not None and (covered := samples.covered()) is not None:
        lines.append(f"It held for {covered[0]} of {covered[1]} held-out inputs tried here.")
    ratio = joined([short(learned["bound_over_error"]), element("small", " × error")])
    return card("Error bound of an answer", ratio, *lines)


def _worth(found: Findings) -> Html:
    worth = found.evaluation.get("worth")
    if not worth:
        return card(
            "Training pays",
            "not measured",
            "Operator and solver were not timed beside each other: there was no time left, no "
            "solver, or no input function.",
        )
    operator, solver = worth["operator_seconds"], worth["solver_seconds"]
    times = (
        f"An answer takes {seconds(operator)}; the reference solver takes {seconds(solver)} to the "
        f"same accuracy ({short(worth['tolerance'])}), {worth['samples']} answers at a time."
    )
    if worth["answers"] is None:
        return card("Training pays", "never", times, css="warn")
    value = joined(
        [element("small", "after "), f"{worth['answers']:,}", element("small", " answers")]
    )
    return card("Training pays", value, times)


def seconds(value: float) -> str:
    """Write a length of time.

    Example:
        >>> seconds(0.0077), seconds(75)
        ('7.7 ms', '75.0 s')
    """
    if value < 1e-3:
        return f"{short(1e6 * value)} µs"
    return f"{short(1e3 * value)} ms" if value < 1 else f"{short(value, 3)} s"


def _warnings(texts: list[str]) -> Html:
    if not texts:
        return Html("")
    items = element("ul", *(element("li", line) for line in texts))
    return element("div", element("strong", "Warnings"), items, css="warnings")


def _tables(found: Findings) -> Html:
    """The errors of each unknown, and of each level of noise, where there are several."""
    evaluation, parts = found.evaluation, []
    channels = evaluation.get("per_channel") or {}
    if len(channels) > 1:
        each = ", ".join(
            f"{n} {'not finite' if v is None else short(v, 3)}" for n, v in channels.items()
        )
        parts.append(element("p", f"Mean error of each unknown: {each}."))
    if noise := evaluation.get("noise"):
        rows = [
            (
                f"{100 * float(level):g} %",
                "not finite" if e is None else f"{short(e['mean'], 3)} ± {short(e['std'])}",
            )
            for level, e in noise.items()
        ]
        head = ("noise of the inputs", "relative L2 error")
        parts += [element("h3", "Error at each level of noise"), table(rows, head)]
    return joined(parts)

"""From a run to a file: capture, rewrite, write, compare, rename."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import torch
from torch import Tensor
from torch.fx import GraphModule

from piop.arguments import file_path, flag
from piop.datasets.atomic_output import replacing, require_new
from piop.errors import NotSupportedError, UsageError
from piop.export.check import EXAMPLE, Agreement, ExportCases, compare, even_sensors
from piop.export.formats import FORMATS, ExportFormat, first_line, free_sizes, quiet
from piop.export.prediction import Prediction
from piop.export.real_graph import to_real_graph
from piop.export.sensors import Argument
from piop.extras import require_extra
from piop.problem import Input, Problem
from piop.problem.inputs import query_coordinates
from piop.run.folder import versions
from piop.run.prediction import needed_functions
from piop.run.threads import threads_of
from piop.run.user_inputs import InputData, read_inputs
from piop.sampling import Draws, place_sensors
from piop.sampling.random import DATA
from piop.spec.model import SensorPlacement

if TYPE_CHECKING:
    from piop.run import Run


@final
@dataclass(frozen=True)
class Exported:
    """A file that was written.

    Attributes:
        path: The file.
        format: Name of its format.
        inputs: The tensors that its graph takes, in order.
        outputs: The tensors that it gives.
        agreement: How it compares with the run.
    """

    path: Path
    format: str
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    agreement: Agreement


def export_run(
    run: Run,
    path: str | Path | None = None,
    format: str | None = None,
    sensors: InputData | None = None,
    force: bool = False,
) -> Exported:
    """Export a run; see :meth:`piop.run.Run.export`."""
    chosen = _format(format, path)
    target = Path(f"{run.problem.name}{chosen.suffix}") if path is None else file_path("path", path)
    if target.suffix != chosen.suffix:
        raise UsageError(f"{target}: format {chosen.name} has the ending {chosen.suffix}")
    require_new(target, flag("force", force))
    require_extra("export", chosen.packages, f"format {chosen.name}")
    if run.model.operator.scale.device.type != "cpu":
        run = type(run).load(run.path, "cpu", run.config.network)
    with threads_of(run.config.machine), replacing(target) as temporary:
        try:
            captured = capture(run, chosen, sensors)
            prediction, metadata = captured.prediction, describe(run, captured.prediction)
            chosen.write(captured.graph, captured.example, prediction, metadata, temporary)
            evaluate = chosen.load(temporary)
        except NotSupportedError as error:
            raise NotSupportedError(
                f"{run.path}: backbone {run.config.backbone!r} cannot be exported to "
                f"{chosen.name}: {error}; {chosen.remedy}"
            ) from error
        agreement = compare(run.model, prediction, captured.cases, evaluate)
        agreement.require(target)
    return Exported(target, chosen.name, prediction.inputs, prediction.outputs, agreement)


@final
@dataclass(frozen=True)
class Captured:
    """A graph that has not been written yet.

    Attributes:
        graph: In real arithmetic.
        prediction: What it was captured from.
        example: The tensors with which it was.
        cases: Inputs and points of other sizes.
    """

    graph: GraphModule
    prediction: Prediction
    example: Sequence[Tensor]
    cases: ExportCases


def capture(run: Run, chosen: ExportFormat, sensors: InputData | None = None) -> Captured:
    """Capture the prediction of a run as a graph with free numbers of samples and queries.

    Args:
        run: On the CPU.
        chosen: The format that it is for.
        sensors: As for :meth:`piop.run.Run.export`.

    Raises:
        NotSupportedError: If its operations depend on sizes or values of its inputs.
    """
    problem, model = run.problem, run.model
    refusal = model.operator.backbone.export_refusal()
    if refusal is not None:
        raise NotSupportedError(refusal)
    if "queries" in {*problem.channels, *(item.name for item in problem.visible_inputs)}:
        raise NotSupportedError(
            "an input or unknown of the spec is called 'queries', as the points are; rename it"
        )
    positions = sensor_positions(problem, sensors)
    given = chosen.sensors(problem, needed_functions(model), positions)
    prediction = Prediction(problem, model, given).eval()
    cases = ExportCases(problem, run.statistics, positions, model.operator.scale.dtype)
    samples, count, _ = EXAMPLE
    inputs, queries = cases.inputs(samples, 0), cases.queries(count, 0, model.operator.end_only)
    example = [*given.tensors(inputs), queries]
    with quiet(), torch.no_grad(), fixed_decisions(prediction, cases):
        try:
            program = torch.export.export(
                prediction,
                tuple(example),
                dynamic_shapes=(free_sizes(prediction),),
                strict=False,
            )
        except Exception as error:  # torch's exporter raises classes without a common base
            raise NotSupportedError(
                f"its operations depend on sizes or values of its inputs ({first_line(error)})"
            ) from error
    graph = to_real_graph(program.module(check_guards=False), chosen.rules)
    return Captured(graph, prediction, example, cases)


def _format(given: str | None, path: str | Path | None) -> ExportFormat:
    """Find a format by name, else by the ending of the file."""
    if given is None and path is not None:
        for entry in FORMATS.values():
            if str(path).endswith(entry.suffix):
                return entry
    if not isinstance(given, str) or given not in FORMATS:
        got = "missing" if given is None else f"{given!r}"
        raise UsageError(f"format: {got}; give one of {', '.join(FORMATS)}")
    return FORMATS[given]


def sensor_positions(problem: Problem, given: InputData | None) -> dict[str, Tensor]:
    """Choose the sensors that a graph has, where they are fixed.

    Args:
        problem: The problem.
        given: Inputs whose sensors to take; by default those of the spec, and where it draws them
            at random an even grid of as many.

    Returns:
        ``[M, d]`` float64 for each input function.

    Raises:
        UsageError: If samples have sensors of their own, or some are masked.
    """
    functions = [item for item in problem.visible_inputs if item.of]
    if given is None:
        return {item.name: _usual_sensors(problem, item) for item in functions}
    observed, found = read_inputs(problem, given), {}
    for item in functions:
        points, mask = observed[item.name].points, observed[item.name].mask
        if mask is not None or bool((points != points[:1]).any()):
            raise UsageError(
                f"sensors: samples of {item.name} have different sensors; give those of one sample"
            )
        found[item.name] = points[0]
    return found


def _usual_sensors(problem: Problem, item: Input) -> Tensor:
    count = 1
    for size in item.sensor_shape:
        count *= size
    if item.place is SensorPlacement.GRID or item.name in problem.vectors:
        return place_sensors(problem, item, Draws.of(DATA, 0, range(1)))[0]
    return even_sensors(problem, item, max(count, 1))


def fixed_decisions(
    prediction: Prediction, cases: ExportCases
) -> contextlib.AbstractContextManager[None]:
    """Decide once which parts of the lift are negligible: for noise, and for the distribution."""
    model, sensors = prediction.model, prediction.sensors
    derived = None if model.known is None else model.known.derived
    if derived is None:
        return contextlib.nullcontext()
    # in single precision, rounding alone would count as waves
    cases = ExportCases(cases.problem, cases.statistics, cases.positions, torch.float64)
    batches = []
    for observed in (cases.noise(PROBES, seed=1), cases.inputs(PROBES, seed=2)):
        functions = sensors.interpolate(observed)
        if (rollout := model.rollout) is not None:
            (others, seen), state = rollout.start(functions, observed)
            others = {name: others[name] for name in rollout.others}
            seen = {name: seen[name] for name in rollout.others}
            noise = torch.randn(state.shape, generator=torch.Generator().manual_seed(0))
            functions, _ = rollout.inputs(others, seen, noise.to(state))
        batches.append(functions)
    return derived.fixed_for(*batches)


PROBES = 8
"""Functions by which it is decided which parts of a lift are negligible."""


def describe(run: Run, prediction: Prediction) -> dict[str, Any]:
    """Describe a file: what is written into it as metadata."""
    problem = run.problem
    operator = prediction.model.operator
    return {
        "piop": versions()["piop"],
        "format": FORMAT,
        "name": problem.name,
        "title": problem.spec.title or problem.name,
        "spec": problem.to_yaml(),
        "hash": problem.hash,
        "backbone": run.config.backbone,
        "dtype": str(operator.scale.dtype).removeprefix("torch."),
        "inputs": [vars(argument) for argument in prediction.inputs],
        "outputs": [vars(argument) for argument in prediction.outputs],
        "sensors": {name: p.tolist() for name, p in prediction.sensors.positions.items()},
        "domain": {c.name: [c.low, c.high] for c in query_coordinates(problem)},
        "times": "the last alone" if operator.end_only else "any",
        "inferred": run.inferred,
    }


FORMAT = 1
"""Version of the metadata."""

"""A trained operator with its run folder: load it, predict with it, evaluate it."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch

from piop.arguments import callback, flag, seed_number, whole_number
from piop.datasets import AnyDataset, Queries
from piop.errors import (
    DamagedFileError,
    DataError,
    NotSupportedError,
    PiopError,
    SolverError,
    UsageError,
)
from piop.json_values import json_value
from piop.models.core.base import Backbone, Preset
from piop.problem import Problem, late_imports
from piop.reference.solve import requested_tolerance
from piop.run import evaluation
from piop.run.configuration import move_to_device
from piop.run.data import (
    DataArgument,
    GivenData,
)
from piop.run.error_bounds.answers import bound_errors, solve_instead
from piop.run.error_bounds.calibration import (
    CONFIDENCE,
    FEWEST,
    INPUTS,
    PART_OF_REFERENCES,
    Calibration,
    TooFewInputsError,
    calibrate_model,
    check_inputs,
)
from piop.run.error_bounds.conformal import check_confidence
from piop.run.error_bounds.linearised_error import LinearisedError
from piop.run.error_bounds.sensor_error import has_fewer_sensors, sensor_error
from piop.run.evaluation_result import Evaluation
from piop.run.folder import CALIBRATION, DISCRETISATION, EVALUATION, RunFolder, versions
from piop.run.held_out import HeldOut, HeldOutSource, JudgedSamples
from piop.run.held_out import Sensors as Placement
from piop.run.notebook import run_html
from piop.run.parameter_estimation import infer, trained_estimates
from piop.run.prediction import add_sensor_error, add_typicality, as_dataset, predict_values
from piop.run.references import Progress
from piop.run.resolution_study import Grids, Sensors, study_discretisation
from piop.run.sources import RunSources
from piop.run.threads import threads_of
from piop.run.training_gap import warn_of_gap
from piop.run.user_inputs import InputData, read_at, read_inputs
from piop.run.worth import measure_worth
from piop.sampling.typicality import TypicalityTest
from piop.training.build import Model, build_model
from piop.training.config import TrainingConfig
from piop.training.loop.checkpoint import Row, read_metrics, read_weights
from piop.training.loop.out_of_memory import explain_out_of_memory
from piop.training.loss.statistics import Statistics

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

    from piop.export import Exported

logger = logging.getLogger(__name__)

HELD_OUT_INPUTS = 64
"""Number of held-out inputs of an evaluation, unless their references take too long."""
PART_OF_TRAINING, LEAST_SECONDS = 0.25, 5.0
"""Part of the time of training that an evaluation may take; seconds it always may."""
PART_OF_JUDGING = 0.9
"""Part of the time of an evaluation for references and predictions; the rest is for ``worth``."""


@dataclass(frozen=True)
class Run:
    """A trained operator.

    Attributes:
        folder: Its run folder.
        problem: The problem.
        config: The configuration of its training.
        model: The operator and its hard constraints.
        statistics: Scales that make the problem dimensionless.
        interrupted: True if training was ended by Ctrl-C.
        data: The data it was trained on, as ``config.json`` describes them; None without.
        held_data: The held-out samples of the data, where they are in memory; all of them where
            parameters are inferred.
        first_step: Seconds of the first step, compilation included.
        unchanged: True if a resume found nothing left to do.
        judged: Hash of the problem and seed → the held-out samples of the last evaluation on the
            usual grid and their predictions, which the figures show.
        typicality: Tests whether inputs may come from the distribution of the spec.
    """

    folder: RunFolder
    problem: Problem
    config: TrainingConfig
    model: Model
    statistics: Statistics
    interrupted: bool = False
    data: Mapping[str, Any] | None = field(default=None, repr=False)
    held_data: AnyDataset | None = field(default=None, repr=False)
    first_step: float = 0.0
    unchanged: bool = False
    judged: dict[tuple[str, int], JudgedSamples] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    typicality: TypicalityTest = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "typicality", TypicalityTest(self.problem))

    @classmethod
    def load(
        cls,
        path: str | Path,
        device: str | None = None,
        backbone: type[Backbone] | Preset | None = None,
    ) -> Self:
        """Load a run.

        Args:
            path: The run folder.
            device: ``cpu`` or ``cuda``; by default the device of the training, where available.
            backbone: The class, for a run whose network was given in Python.

        Raises:
            UsageError: If it is no run folder, is of a newer format, its spec was changed, or it
                has no weights yet.
        """
        folder = RunFolder(path)
        record = folder.read_config()
        problem = folder.read_problem(record)
        config = move_to_device(TrainingConfig.from_json(record["training"]), device)
        config = config.with_same_network(backbone)
        statistics = Statistics.from_json(record["statistics"])
        model = build_model(problem, statistics, config)
        weights = read_weights(folder.files)
        try:
            model.operator.load_state_dict(weights)
        except RuntimeError as error:
            made_by = f"the run was made by piop {record['versions']['piop']}"
            message = f"do not fit this version's network ({error}); {made_by}"
            raise UsageError(f"{path}: its weights {message}") from error
        return cls(folder, problem, config, model, statistics, data=record["data"])

    @property
    def path(self) -> Path:
        """The path of its run folder."""
        return self.folder.path

    def __repr__(self) -> str:
        return f"Run({self.problem.name}, {self.config.backbone}, {str(self.path)!r})"

    def _repr_html_(self) -> str:
        """Return what the run is, its errors and a figure of fields, as notebooks show it."""
        return run_html(self)

    @property
    def metrics(self) -> list[Row]:
        """The rows of ``metrics.jsonl``."""
        return read_metrics(self.folder.files)

    @property
    def _last_row(self) -> Row:
        """The last row of the metrics; before the first step, steps and seconds of none."""
        return (self.metrics or [{"step": 0, "seconds": 0.0}])[-1]

    @property
    def is_evaluated(self) -> bool:
        """Whether ``evaluation.json`` is of the weights as they are."""
        rows, found = self.metrics, self.folder.read_json(EVALUATION)
        return bool(rows) and found.get("steps") == rows[-1]["step"]

    @property
    def inferred(self) -> dict[str, float]:
        """Inferred parameters: from the last evaluation, else from training."""
        module = self.model.operator.inferred
        if module is None:
            return {}
        known = self.folder.read_json(EVALUATION).get("inferred") or {}
        values = {n: known.get(n, {}).get("value") for n in module.values()}
        return {n: v if values[n] is None else values[n] for n, v in module.values().items()}

    @property
    def solved(self) -> Problem:
        """The problem with the inferred values of its parameters."""
        return self.problem.at(self.inferred)

    @property
    def sources(self) -> RunSources:
        """The held-out samples it can be judged on."""
        own = self.model.operator.end_only, self.data, self.held_data
        return RunSources(self.path, self.problem, self.config, *own)

    def predict(
        self,
        inputs: InputData | None = None,
        at: Any = None,
        confidence: float = CONFIDENCE,
        tolerance: float | None = None,
        refine: bool = False,
    ) -> xr.Dataset:
        """Predict the solutions of given inputs.

        Args:
            inputs: Sensors of each visible input, as :func:`piop.run.user_inputs.read_inputs` takes
                them; nothing for a problem without inputs.
            at: ``{"t": ..., "x": ...}`` for a grid, points ``[N, D]``, or None for the ``save``
                grid of the spec.
            confidence: Probability that the error of an input of the distribution is within its
                bound.
            tolerance: Largest relative L2 error: samples whose bound exceeds it, or is not known,
                are solved by the reference solver of the spec instead, to this tolerance. Over
                inputs of the distribution, at most 1 − confidence of all answers exceed it.
            refine: Correct predictions by one step of Newton's method, for evolutions on one axis
                and steady problems on boxes where the calibration found it more accurate; the
                bounds are those of corrected predictions then.

        Returns:
            A variable per unknown over ``sample`` and the coordinates, with units. Then, for each
            sample, ``in_distribution``, whether its inputs may come from the distribution of the
            spec, on which the operator was trained, and ``p_value``, how probable inputs as unusual
            are there; without inputs, and where the distribution is not known, neither. Where the
            run is calibrated (:meth:`calibrate`), ``error_estimate`` and ``error_bound`` of the
            relative L2 error over the whole solution, each unknown's (``error_bound_u``) where
            there are several, and the ``residual``. They are NaN for inputs outside the
            distribution, or with fewer sensors than those of the calibration. Where
            there are fewer sensors than in the spec, ``sensor_error`` is the error that they alone
            cause, on average over the distribution. With a tolerance,
            ``source``: 0 for the operator, 1 for the solver, whose error estimate is the bound, 2
            for an answer of the operator that exceeds the tolerance because the solver has none;
            the attributes count them, and give the seconds of the solver.

        Raises:
            DataError: If inputs or points do not fit.
            UsageError: If the calibration has too few inputs for the confidence; if a tolerance is
                below that of the solver; if there is a tolerance, or predictions are to be
                corrected, and the run is not calibrated; if they cannot be corrected.
        """
        check_confidence(confidence)
        calibrated, correction = self.calibration, None
        if tolerance is not None:
            tolerance = requested_tolerance(self.solved, tolerance)
            if calibrated is None:
                raise self._not_calibrated("tolerance")
        if flag("refine", refine):
            if calibrated is None:
                raise self._not_calibrated("refine")
            correction, calibrated = calibrated.correction, calibrated.corrected
            if calibrated is None:
                raise UsageError(
                    "refine: the calibration has no correction of this operator; it is for "
                    "evolutions on one axis and steady problems on boxes whose solutions a small "
                    "lattice resolves, and kept "
                    "where it lowers the error"
                )
        queries = read_at(self.problem, at, self.model.operator.end_only)
        observed = read_inputs(self.problem, inputs)
        remedy = "Predict fewer samples or points at a time, half as many to begin with"
        with explain_out_of_memory(lambda _: remedy, self.config.machine.device):
            values = predict_values(self.problem, self.model, observed, queries)
            first_order = None
            if correction:
                with threads_of(self.config.machine):
                    linearised = LinearisedError(self.solved, self.model, correction)
                    first_order = linearised(observed)
                    values -= linearised.interpolate(first_order.errors, queries)
        attributes = {"run": str(self.path), "piop": versions()["piop"], "hash": self.problem.hash}
        if correction:
            lattice = " x ".join(map(str, correction))
            attributes["refined"] = f"one step of Newton's method on {lattice} points"
        found = as_dataset(self.problem, queries, values, attributes)
        outside = None
        with suppress(NotSupportedError):
            typicality = self.typicality(observed)
            add_typicality(found, typicality)
            outside = ~typicality.inside
            if has_fewer_sensors(self.problem, observed):
                with threads_of(self.config.machine):
                    add_sensor_error(found, sensor_error(self.solved, self.model, observed))
        if calibrated is not None:
            with threads_of(self.config.machine):
                bounds = bound_errors(
                    self, calibrated, found, observed, outside, confidence, first_order
                )
                if tolerance is not None:
                    beyond = (~(bounds <= tolerance)).nonzero()[:, 0]
                    solve_instead(self, found, observed, queries, beyond, tolerance)
        return found

    def _not_calibrated(self, argument: str) -> UsageError:
        if not self.problem.inputs:
            return UsageError(
                f"{argument}: is for answers to other inputs; {self.problem.name} has none, so "
                f"there is one solution, whose error is measured by: piop evaluate {self.path}"
            )
        found, now = self.folder.read_json(CALIBRATION), self._last_row["step"]
        reason = "the run is not calibrated"
        if found and found.get("hash") != self.solved.hash:
            reason = f"{CALIBRATION} is of another spec"
        elif found:
            reason = f"{CALIBRATION} is of step {found.get('steps')}, the weights are of step {now}"
        return UsageError(
            f"{argument}: {reason}, so no error is bounded. Calibrate it with: "
            f"piop evaluate {self.path} --calibrate {INPUTS}"
        )

    @property
    def calibration(self) -> Calibration | None:
        """The calibration of the weights as they are, of ``calibration.json``; None without.

        Raises:
            DamagedFileError: If the file is damaged.
        """
        found = self.folder.read_json(CALIBRATION)
        if (found.get("hash"), found.get("steps")) != (self.solved.hash, self._last_row["step"]):
            return None  # of other weights, or of another spec
        try:
            return Calibration.from_json(found)
        except (KeyError, TypeError, ValueError) as error:
            remedy = f"It is written again by: piop evaluate {self.path} --calibrate N"
            message = f"is damaged: {error!r}. {remedy}"
            raise DamagedFileError(f"{self.path / CALIBRATION}: {message}") from error

    def calibrate(
        self,
        samples: int | None = None,
        seed: int | None = None,
        write: bool = True,
        progress: Progress | None = None,
        seconds: float | None = None,
    ) -> Calibration:
        """Learn how large errors are, from inputs that were neither trained nor evaluated on.

        Args:
            samples: Inputs whose references are solved, at least 20; by default 150, or as many as
                fit in the time. A third of them chooses how far the residual tells the error.
            seed: Seed of the inputs; by default the run's own.
            write: Write ``calibration.json``.
            progress: Called with the number of references solved, and of all.
            seconds: Time they may take; by default, without ``samples``, that of an evaluation.

        Raises:
            UsageError: If samples or seed are no such numbers.
            NotSupportedError: If there are no such inputs or references, or fewer than 20.
            SolverError: If the reference fails.
        """
        begun = time.monotonic()
        count, seed = self._requested(check_inputs(samples) or INPUTS, seed)
        if samples is None and seconds is None:
            seconds = self._seconds_of_evaluation
        for_references = None if seconds is None else PART_OF_REFERENCES * seconds
        problem, progress = self.solved, callback(progress)
        remedy = f"Calibrate with fewer inputs: piop evaluate {self.path} --calibrate 40"
        with self._working(flag("write", write), remedy):
            source = self.sources.for_calibration(problem, count, seed, HELD_OUT_INPUTS)
            judged = source.judging(
                evaluation.OperatorJudge(problem, self.model), for_references, progress
            )
            for warning in judged.warnings:
                logger.warning("%s: %s", self.path, warning)
            known = evaluation.nonzero_solutions(problem, judged.held_out)
            judged = judged.take(known.nonzero()[:, 0])
            solved = len(judged.held_out.accepted)
            if solved < FEWEST:
                raise TooFewInputsError(
                    f"{solved} of the {FEWEST} inputs that are needed have a reference solution"
                    + " whose unknowns are not zero" * (not bool(known.all()))
                )
            identity = {
                "seed": seed,
                "steps": int(self._last_row["step"]),
                "hash": problem.hash,
            }
            rest = math.inf if seconds is None else seconds - (time.monotonic() - begun)
            found = calibrate_model(problem, self.model, self.config, judged, identity, rest)
        if write:
            self.folder.write_json(CALIBRATION, found.to_json())
        return found

    def plot(
        self,
        figure: str = "fields",
        path: str | Path | None = None,
        unknown: str | None = None,
        seed: int | None = None,
        force: bool = False,
    ) -> Figure:
        """Draw a figure of the run.

        Args:
            figure: ``fields`` (reference, prediction and error of the best, a median and the worst
                held-out input), ``residual``, ``error_over_time``, ``error_over_space``,
                ``error_over_inputs``, ``error_over_distance``, ``bound_over_error``, ``losses``,
                ``inferred`` or ``discretisation``.
            path: File to write it to as well, in the format of its ending, such as ``.png``.
            unknown: The unknown of ``fields``; by default the first.
            seed: Seed of the held-out inputs; by default the run's own.
            force: Replace a file that is there.

        Returns:
            A figure of matplotlib, which a notebook shows.

        Raises:
            UsageError: For another name, a figure that this run has no data for, or a file that is
                there already.
            PiopError: If the file cannot be written.

        Example:
            ``run.plot("error_over_time", "error.pdf")``
        """
        return late_imports.plot(self, figure, path, unknown, seed, force)

    def report(
        self,
        path: str | Path | None = None,
        data: str | Path | None = None,
        force: bool = False,
    ) -> Path:
        """Write the report of the run: one HTML file that loads nothing from elsewhere.

        Args:
            path: The file; by default ``report.html`` in the run folder, which is replaced.
            data: File of the held-out solutions to show, where the run was evaluated on one.
            force: Replace another file that is there.

        Returns:
            The path.

        Raises:
            UsageError: If there is such a file already.
            PiopError: If the file cannot be written.

        Example:
            ``run.report("burgers.html")``
        """
        return late_imports.report(self, path, data, force)

    def export(
        self,
        path: str | Path | None = None,
        format: str | None = None,
        sensors: InputData | None = None,
        force: bool = False,
    ) -> Exported:
        """Write the whole prediction to a file that is evaluated without piop.

        The file is compared with this run on numbers of samples and points that were not used to
        make it, and written only where they agree.

        Args:
            path: The file; by default the name of the problem, in the present folder.
            format: ``onnx`` (onnxruntime and others; the sensors are fixed) or ``pt2``
                (``torch.export``; the sensors are free); by default as the file ends.
            sensors: Inputs as of :meth:`predict`, whose sensors an ONNX file is to have; by default
                those of the spec, and an even grid of as many where it draws them at random.
            force: Replace a file that is there.

        Returns:
            The file, its inputs and outputs, and how far it differs from the run.

        Raises:
            UsageError: For another format or ending, a file that is there already, or a package
                that is missing.
            NotSupportedError: If the network, or something in the problem, cannot be exported.
            ExportError: If the file does not agree with the run.

        Example:
            ``run.export("burgers.onnx")``
        """
        return late_imports.export(self, path, format, sensors, force)

    def held_out(
        self,
        samples: int = 64,
        seed: int | None = None,
        queries: Queries | None = None,
        sensors: Placement | None = None,
        data: DataArgument | None = None,
    ) -> HeldOut:
        """Return inputs that were never trained on, with their solutions.

        They come from the given data; else from the held-out part of the data, where the run was
        trained on data alone; else they are drawn from their distributions with another seed and
        solved by the reference.

        Raises:
            UsageError: If the number of samples is not above zero.
            NotSupportedError: If no reference solver covers the problem.
        """
        samples, seed = self._requested(samples, seed)
        grid = self._grid(queries)
        source = self.sources.choose(self.solved, samples, seed, self._given(data), grid, sensors)
        return source.held_out()

    def shown(
        self, samples: int, seed: int | None = None, data: DataArgument | None = None
    ) -> JudgedSamples:
        """Return the first held-out samples of the evaluation, with their predictions.

        Those of the evaluation that is written are all there, solved again where their references
        are no longer kept, however long it takes; others as an evaluation would, in as much time.

        Raises:
            NotSupportedError: If no reference solver covers the problem.
            SolverError: If the reference fails.
        """
        samples, seed = self._requested(samples, seed)
        problem, given = self.solved, self._given(data)
        found = self.judged.get((problem.hash, seed)) if given is None else None
        seconds: float | None = self._seconds_of_evaluation
        written = self.folder.read_json(EVALUATION) if self.is_evaluated else {}
        solved = (written.get("reference") or {}).get("solved")
        drawn = "data" not in written
        if solved and given is None and drawn and written.get("seed") == seed:
            samples, seconds = min(samples, solved), None
            if found is not None and len(found.held_out.accepted) < samples:
                found = None  # of a later evaluation of fewer samples, which was not written
        if found is None:
            source = self.sources.choose(problem, samples, seed, given)
            judge = evaluation.OperatorJudge(problem, self.model)
            found = source.judging(judge, seconds)
        return found.take(torch.arange(min(samples, len(found.held_out.accepted))))

    def evaluate(
        self,
        samples: int | None = None,
        seed: int | None = None,
        at: Any = None,
        sensors: Placement | None = None,
        write: bool = True,
        data: DataArgument | None = None,
        progress: Progress | None = None,
    ) -> Evaluation:
        """Evaluate the operator on held-out inputs.

        Args:
            samples: Number of held-out inputs; by default as many of 64 as have references within a
                quarter of the time of training, at least one.
            seed: Seed of the held-out inputs; by default one that the training of the run excludes.
            at: Grid of the evaluation; by default the ``save`` grid with fewer points, so that an
                evaluation does not take longer than training: at most 21 times and 128 points in
                one space dimension, 6 times and 32 points per axis in two.
            sensors: Input → (count or counts per axis, placement), where not as in the spec, such
                as ``{"u0": (100, "uniform")}``.
            write: Write ``evaluation.json``.
            data: File or data set to evaluate on instead, its first ``samples`` at their own
                sensors; the operator must not have been trained on it.
            progress: Called with the number of references solved, and of all, as they are solved.

        Returns:
            The content of ``evaluation.json``, a dict that a notebook shows as a table:
            ``relative_l2`` with ``mean``, ``std`` and ``per_sample``, per channel and time, the
            error of the reference, trivial baselines, residual, seconds, warnings, whether the
            operator is ``worth`` its training
            (:func:`piop.run.worth.measure_worth`), ``inferred`` parameters, at which the references
            are solved, and the errors at each level of ``noise`` (``relative_l2`` is without
            noise).
            Without a reference ``relative_l2`` is None and a warning gives the reason: nothing is
            written then in place of errors of the same weights. ``data`` names the given data.

        Raises:
            UsageError: For arguments that cannot be used.
            DataError: If the data do not fit the problem; if a run that was trained on data alone
                has them no more. What was written before is kept then.
        """
        begun = time.monotonic()
        count, seed = self._requested(HELD_OUT_INPUTS if samples is None else samples, seed)
        write, progress = flag("write", write), callback(progress)
        if data is not None and (at is not None or sensors is not None):
            raise UsageError("data: have their own points and sensors; leave at and sensors out")
        queries = self._grid(at)
        remedy = (
            f"The operator is saved; evaluate it on fewer inputs: "
            f"piop evaluate {self.path} --samples {max(1, count // 4)}"
        )
        given = self._given(data)
        parameters, doubts = self._infer()
        values = {
            name: entry["value"]
            for name, entry in parameters.get("inferred", {}).items()
            if entry["value"] is not None and math.isfinite(entry["value"])
        }
        problem = self.problem.at(values)
        with threads_of(self.config.machine):
            circumstances, residual_doubts = self._circumstances(problem, seed)
        seconds = None
        if samples is None:
            seconds = self._seconds_of_evaluation - (time.monotonic() - begun)
        try:
            with self._working(write, remedy):
                source = self.sources.choose(problem, count, seed, given, queries, sensors)
                judge = evaluation.OperatorJudge(problem, self.model)
                for_judging = None if seconds is None else PART_OF_JUDGING * seconds
                samples_judged = source.judging(judge, for_judging, progress)
                if given is None and queries is None and sensors is None:
                    self.judged[problem.hash, seed] = samples_judged
                held_out = samples_judged.held_out
                judged = bool(evaluation.judging_samples(problem, held_out).any())
                found = evaluation.compare_with_truth(problem, held_out, samples_judged.prediction)
                doubts += samples_judged.warnings
                doubts += self._unsolved(source, len(held_out.accepted), len(samples_judged.failed))
                if found["relative_l2"] is not None:
                    found["worth"] = self._worth(problem, held_out, found, seconds, begun)
                if scales := self.statistics.noise:
                    draws = self.sources.draws(seed, len(held_out.accepted))
                    noise, noise_doubts = evaluation.errors_by_noise(
                        problem, self.model, held_out, scales, draws
                    )
                    found["noise"] = noise
                    doubts += noise_doubts
                doubts += self.sources.warnings_of(source, given)
        except (NotSupportedError, SolverError) as error:
            judged = False
            doubt = f"no reference to compare with: {error}"
            if isinstance(error, SolverError):
                doubt += f". To see inputs and their references: piop explore {self.folder.spec}"
            found = {"relative_l2": None, "warnings": [doubt]}
        if write and not judged and (before := self._inputs_before()):
            write = False
            doubts += [f"{EVALUATION} is left as it was, with the errors on {before}"]
        if given is not None:
            found["data"] = given.name
        asked = [k for k, v in (("at", at), ("sensors", sensors)) if v is not None]
        if write and asked:
            doubts.append(
                f"errors in {EVALUATION} and the report are those with {' and '.join(asked)} as "
                f"asked for, figures are not; for those of the spec: piop evaluate {self.path}"
            )
        error = found["relative_l2"]["mean"] if found["relative_l2"] else math.nan
        scales = self.statistics.equation_scale
        doubts += warn_of_gap(self.metrics, error, circumstances["residual"], scales)
        found |= parameters | {"warnings": [*found["warnings"], *doubts, *residual_doubts]}
        found = Evaluation(json_value(found | circumstances))
        if write:
            self.folder.write_json(EVALUATION, found)
        return found

    def _worth(
        self,
        problem: Problem,
        held_out: HeldOut,
        found: Mapping[str, Any],
        seconds: float | None,
        begun: float,
    ) -> dict[str, Any] | None:
        """Time operator and solver, in what is left of the time of an evaluation."""
        left = math.inf
        if seconds is not None:
            left = max(self._seconds_of_evaluation - (time.monotonic() - begun), 0.0)
        error, trained = found["relative_l2"]["mean"], self._last_row["seconds"]
        return measure_worth(problem, self.model, held_out, error, trained, left)

    def _inputs_before(self) -> str:
        """Name the inputs of an evaluation of the same weights that has errors; empty for none."""
        with suppress(DamagedFileError):  # it is written again
            found = self.folder.read_json(EVALUATION) if self.is_evaluated else {}
            return evaluation.inputs_of(found) if found.get("relative_l2") else ""
        return ""

    def calibrate_after_training(
        self, samples: int | None, progress: Progress, seconds: float
    ) -> None:
        """Calibrate with so many inputs, or as many as fit in the time; where not, say why.

        Without inputs there is one solution, whose error the evaluation measures, and no bound.
        """
        if not self.problem.inputs and samples is None:
            return
        reason: str | PiopError = "no time was left for it"
        try:
            if samples is not None or seconds > 0:
                self.calibrate(samples, progress=progress, seconds=None if samples else seconds)
                return
        except (NotSupportedError, SolverError, DataError) as error:
            reason = error
        if isinstance(reason, PiopError) and not isinstance(reason, TooFewInputsError):
            logger.info("%s: answers have no error bound: %s", self.path, reason)
            return
        logger.info(
            "%s: answers have no error bound yet (%s). Calibrate it with: "
            "piop evaluate %s --calibrate %d",
            *(self.path, reason, self.path, INPUTS),
        )

    def evaluate_after_training(self, samples: int | None, progress: Progress) -> None:
        """Evaluate on held-out inputs; without their data, write what training gave, and why."""
        try:
            self.evaluate(samples, progress=progress)
        except DataError as error:  # a file may go while a long training reads from it
            circumstances, doubts = self._circumstances(self.solved, self.config.machine.seed)
            warnings = [f"not evaluated: {error}", *doubts]
            found = {"relative_l2": None, "warnings": warnings} | circumstances
            self.folder.write_json(EVALUATION, found)

    def discretisation(
        self,
        sensors: Sensors | None = None,
        grids: Grids | None = None,
        samples: int = 64,
        seed: int | None = None,
        write: bool = True,
        data: DataArgument | None = None,
    ) -> dict[str, Any]:
        """Evaluate the operator over the number of its sensors and the grid of its queries.

        Args:
            sensors: Such as ``"25%,50%,100%"`` or ``["25%", 40]``: percentages of the sensors of
                each input function, or counts. Fewer than there are is a random part of them, a
                smaller one within a larger one; a count above them is placed as the spec says.
                By default all.
            grids: Such as ``"64,128"`` or ``[64, (64, 32)]``: points along each axis of space; the
                reference is solved on each. Of data, only grids within their own. By default the
                grid of an evaluation, or that of the data.
            samples: Number of held-out inputs, the same for all.
            seed: Seed of the held-out inputs and of the sensors kept; by default the run's own.
            write: Write ``discretisation.json``.
            data: File or data set to evaluate on instead, as in :meth:`evaluate`.

        Returns:
            The content of ``discretisation.json``: ``relative_l2``, a list with ``sensors``,
            ``grid``, ``mean``, ``std`` and ``per_sample``; the numbers of ``sensors``; the
            ``reference_error_estimate`` of each grid; the ``steps`` of the training.

        Raises:
            UsageError: For sensors or grids that cannot be read, or that the data do not have.
            NotSupportedError: If no reference solver covers the problem.

        Example:
            ``run.discretisation(sensors="25%,50%,100%", grids="64,128,256")``
        """
        samples, seed = self._requested(samples, seed)
        write = flag("write", write)
        given = self._given(data)
        source = self.sources.choose(self.solved, samples, seed, given)
        remedy = "Evaluate on fewer samples, half as many to begin with, or on coarser grids"
        with self._working(write, remedy):
            draw = partial(self.sources.draws, seed)
            found = study_discretisation(self.solved, self.model, source, draw, sensors, grids)
        found["warnings"] += self.sources.warnings_of(source, given)
        about = {"seed": seed, "judged_by": source.name, "steps": int(self._last_row["step"])}
        found = json_value(found | about)
        if write:
            self.folder.write_json(DISCRETISATION, found)
        return found

    @property
    def study(self) -> dict[str, Any]:
        """The content of ``discretisation.json`` if it is of the weights as they are, else empty.

        Studies of before, which do not tell their steps, are taken as they are.
        """
        found, now = self.folder.read_json(DISCRETISATION), self._last_row["step"]
        return found if found.get("steps", now) == now else {}

    @contextmanager
    def _working(self, write: bool, remedy: str) -> Iterator[None]:
        """Use the run's threads; refuse at once where the result could not be written."""
        machine, writing = self.config.machine, self.folder.writing() if write else nullcontext()
        with writing, threads_of(machine), explain_out_of_memory(lambda _: remedy, machine.device):
            yield

    @property
    def seconds_of_judging(self) -> float:
        """The time that evaluation and calibration after training share."""
        return PART_OF_TRAINING * self._last_row["seconds"]

    @property
    def _seconds_of_evaluation(self) -> float:
        """The time of an evaluation whose number of samples is left open."""
        return max(LEAST_SECONDS, self.seconds_of_judging)

    def _unsolved(self, source: HeldOutSource, solved: int, failed: int) -> list[str]:
        """Warn of references that were left out for want of time."""
        if solved + failed == (count := source.requested):
            return []
        return [
            f"{solved} of {count} references were solved within a quarter of the training time. "
            f"To solve the rest: piop evaluate {self.path} --samples {count}"
        ]

    def _requested(self, samples: int, seed: int | None) -> tuple[int, int]:
        """Check the number of samples and the seed, by default the run's own.

        Raises:
            UsageError: If one is no whole number, or out of range.
        """
        own = self.config.machine.seed if seed is None else seed_number(seed)
        return whole_number("samples", samples), own

    def _grid(self, at: Any) -> Queries | None:
        """Read the grid of an evaluation; None for the usual one.

        Raises:
            UsageError: If points were given.
            DataError: If they do not fit.
        """
        queries = None if at is None else read_at(self.problem, at)
        if queries is not None and queries.axes is None:
            raise UsageError('evaluate needs a grid: give at={"t": ..., "x": ...}')
        return queries

    def _given(self, data: DataArgument | None) -> GivenData | None:
        return None if data is None else GivenData.open(self.problem, data)

    def _infer(self) -> tuple[dict[str, Any], list[str]]:
        """Estimate the parameters from the data; return them and warnings."""
        module = self.model.operator.inferred
        if module is None:
            return {}, []
        try:
            data = self.sources.own_data()
        except UsageError as error:
            known = self.folder.read_json(EVALUATION).get("inferred")
            found = {"inferred": known or trained_estimates(self.problem, module.values())}
            return found, [f"{', '.join(module.names)}: as before, because {error}"]
        return infer(self.problem, module.values(), data)

    def _circumstances(self, problem: Problem, seed: int) -> tuple[dict[str, Any], list[str]]:
        """Return the residual and what the training was; and warnings."""
        last = self._last_row
        residual, doubts = evaluation.mean_residual(problem, self.model, self.config, seed)
        found = {
            "residual": residual,
            "steps": int(last["step"]),
            "seconds": last["seconds"],
            "first_step_seconds": round(self.first_step, 3),
            "precision": {
                "training": self.config.machine.precision,
                "evaluation": str(self.model.operator.scale.dtype).removeprefix("torch."),
            },
            "parameters": sum(p.numel() for p in self.model.operator.parameters()),
            "seed": seed,
            "interrupted": self.interrupted,
        }
        return found, doubts

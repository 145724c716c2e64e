"""From a problem and a config to the operator, its objective and its batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from piop.datasets import AnyDataset
from piop.errors import UsageError
from piop.forms.potential import equations_of_slopes, potential_equations
from piop.forms.terms import symbols_named
from piop.models import (
    BACKBONES,
    AxisSignature,
    InputSignature,
    Signature,
)
from piop.models.registry import build_preset
from piop.problem import Problem
from piop.problem.constraints import Constraints
from piop.problem.inputs import channels_of, query_coordinates
from piop.residual import (
    GridResidual,
    KnownField,
    Lattice,
    LinearisedResidual,
    Residual,
    TargetResidual,
    TensorGrid,
    choose_kernel,
    compile_residual,
)
from piop.residual.attention.kernel import Kernel
from piop.training.batches.ahead import BatchesAhead
from piop.training.batches.batch import BatchSetting, BatchSource, EquationsAndData
from piop.training.batches.data import DataPointSource, TrajectorySource
from piop.training.batches.equations import EquationSource
from piop.training.batches.function_sources import choose_function_source
from piop.training.batches.input_grid import (
    Axes,
    bulk_wavenumber,
    gridded_inputs,
    highest_wavenumber,
    input_grids,
)
from piop.training.batches.noise import NoisySource, noise_levels
from piop.training.batches.targets import TargetBatches
from piop.training.batches.training_grid import training_grid
from piop.training.choices import (
    constraints_of,
    preset_of,
    solves_linear_part,
    trained_problem,
)
from piop.training.config import TrainingConfig
from piop.training.distributed import Processes, SingleProcess
from piop.training.loss.constraints import ConditionSetting, SoftConstraint, soft_constraints
from piop.training.loss.integral_form import lattice_residual
from piop.training.loss.known_functions import hard_constraint_lift
from piop.training.loss.objective import ResidualLoss
from piop.training.loss.statistics import Statistics
from piop.training.loss.weighting import build_weightings
from piop.training.loss.weighting.base import WeightedRun
from piop.training.loss.weighting.tangent_kernel import DATA, EQUATIONS, Part, ProbedTerm
from piop.training.operator import Inferred, Operator, Potential
from piop.training.query_independence import require_independent_queries
from piop.training.time_windows import Rollout, RolloutFunctions, TimeWindows

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.float32,
}
"""What weights and batches are stored in."""


@dataclass(frozen=True)
class Model:
    """An operator and what is needed to evaluate it.

    Attributes:
        problem: What the operator solves: the problem of the run, or that of one time window.
        operator: Backbone with hard constraints.
        constraints: Which conditions are hard and which are soft constraints.
        known: Values of the hard constraints; None for none.
        grids: Input → the even grid on which it is given to the operator; none without physics,
            since the inputs of data need not follow the distribution.
        training_grid: Positions along each coordinate of the grid on which a network that answers
            on grids is trained; None for others, and for one that is trained on scattered data.
        rollout: Applies the operator window after window; None for one of the whole time axis.
    """

    problem: Problem
    operator: Operator
    constraints: Constraints
    known: KnownField | None
    grids: Mapping[str, Axes]
    training_grid: Axes | None = None
    rollout: Rollout | None = None


def signature_of(
    problem: Problem, constraints: Constraints, statistics: Statistics | None = None
) -> Signature:
    """Return the shapes and scales of a problem, as a backbone is built for them.

    Args:
        problem: The problem.
        constraints: Which axes are periodic as hard constraints.
        statistics: Sizes of its inputs; without them the shapes are right and the sizes are not,
            which is all that a refusal needs, and takes milliseconds.
    """
    gridded = statistics.gridded if statistics else None
    gridded = gridded_inputs(problem) if gridded is None else gridded
    return Signature(
        coordinates=tuple(
            AxisSignature(c.name, c.low, c.high, c.name in constraints.hard_periodic)
            for c in query_coordinates(problem)
        ),
        inputs=tuple(
            InputSignature(
                item.name,
                () if item.name in problem.vectors else item.of,
                channels=problem.vectors.get(item.name) or channels_of(problem, item),
                mean=statistics.input_mean[item.name] if statistics else 0.0,
                std=statistics.input_std[item.name] if statistics else 1.0,
                smooth=item.smooth,
                waves=highest_wavenumber(problem, item),
                bulk=bulk_wavenumber(problem, item),
                gridded=item.name in gridded,
            )
            for item in problem.visible_inputs
        ),
        channels=len(problem.channels),
        time=None if problem.time is None else 0,
        homogeneous=homogeneous_axes(problem, constraints),
    )


def homogeneous_axes(problem: Problem, constraints: Constraints) -> tuple[str, ...]:
    """Find the periodic axes along which shifted inputs give the shifted solution.

    They are those whose coordinate no equation, condition or initial datum names by itself; of
    equations that are not known, none.
    """
    if not problem.residuals:
        return ()
    inputs = [i.expression for i in problem.inputs if i.expression is not None]
    named = symbols_named([*problem.stated, *inputs])
    return tuple(
        c.name
        for c in problem.space
        if c.name in constraints.hard_periodic and c.symbol not in named
    )


def build_model(problem: Problem, statistics: Statistics, config: TrainingConfig) -> Model:
    """Build the operator with freshly drawn weights; the same seed gives the same weights.

    Raises:
        UsageError: If the conditions cannot be met as asked.
    """
    whole, problem = problem, trained_problem(problem, statistics)
    constraints = constraints_of(problem, config)
    settings = dict(config.backbone_settings)
    settings.pop("preset", None)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.machine.seed)
        signature = signature_of(problem, constraints, statistics)
        backbone = build_preset(config.backbone, preset_of(config), signature, **settings)
    operator = Operator(
        backbone,
        constraints.lift_orders,
        problem.time,
        statistics.channel_mean,
        statistics.channel_scale,
        [problem.domain.fixed.distance_factors(f) if f else () for f in constraints.hard_faces],
        problem.vectors,
    )
    if problem.infer:
        operator.inferred = Inferred(problem.infer)
    if statistics.potential:
        operator.potential = Potential.of(problem)
    operator.to(example_tensor(config))
    exact = solves_linear_part(problem, constraints, config)
    known = hard_constraint_lift(
        problem, constraints, statistics.channel_mean, exact, config.loss.varying
    )
    grids = input_grids(problem) if config.physics else {}
    ticks = None
    if operator.gridded and (config.physics or statistics.grid):
        counts = () if config.physics else statistics.grid
        ticks = training_grid(problem, backbone, config.points, counts)
    rollout = None
    if statistics.windows > 1 and whole.time is not None and known is not None:
        windows = TimeWindows(whole.time, statistics.windows)
        rollout = Rollout(whole, problem, windows, operator, known, grids)
    return Model(problem, operator, constraints, known, grids, ticks, rollout)


def residual_of_model(
    problem: Problem, model: Model, config: TrainingConfig, kernel: Kernel | None = None
) -> Residual:
    """Compile the equations as the field of a model needs them.

    Args:
        problem: The problem of the run, with or without parameters to infer.
        model: The operator, and the grid it learns on.
        config: The run's choices.
        kernel: What sums up attention of streams.

    Raises:
        UsageError: If its grid is too small for its differences.
    """
    if model.rollout is not None:  # the equations hold within each window
        problem = model.problem
    derived = None if model.known is None else model.known.derived
    if model.operator.potential is not None:
        problem = problem.with_pde(equations_of_slopes(problem.pde))
    if model.training_grid is None:
        return compile_residual(problem, kernel=kernel, derived=derived)
    network, order = model.operator.backbone, config.points.time_order
    time, rollout = network.signature.time, network.field.rollout
    try:
        grid = TensorGrid(model.training_grid, time, rollout, order)
        return GridResidual(problem, grid, like=model.operator.scale, derived=derived)
    except ValueError as error:
        raise UsageError(f"the grid of backbone {config.backbone!r}: {error}") from error


def build_objective(
    model: Model,
    statistics: Statistics,
    config: TrainingConfig,
    *,
    data: bool = False,
    part: Part = range,
) -> ResidualLoss:
    """Build the loss around an operator; without physics it has the data's part alone.

    Args:
        model: The operator and its constraints.
        statistics: Typical sizes under the distribution of the inputs.
        config: The run's choices.
        data: Whether there are data.
        part: Which samples of a batch are of this process, out of how many.

    Raises:
        UsageError: If the adaptive weights that are asked for have nothing to do.
    """
    problem = model.problem
    residual: Residual | None = None
    scales = statistics.equation_scale
    soft: dict[str, SoftConstraint] = {}
    terms: list[ProbedTerm] = []
    fixed = config.loss
    if config.physics:
        kernel = choose_kernel(config.machine.kernel, config.machine.device)
        if statistics.lattice:
            lattice = Lattice.of(statistics.lattice)
            derived = None if model.known is None else model.known.derived
            residual = lattice_residual(problem, lattice, model.operator.scale, derived)
            if isinstance(residual, LinearisedResidual) and residual.steps_per_solution > 1:
                residual = TargetResidual(residual)
            if problem.time is None:
                scales = statistics.channel_scale  # it is an error of the unknowns
        elif (potential := model.operator.potential) is not None:
            of_potential = problem.with_pde(potential_equations(problem.pde))
            residual = compile_residual(of_potential, kernel=kernel)
            scales = [size * potential.length for size in scales]
            fixed = replace(fixed, front=0.0)  # its slopes are the unknowns
        else:
            residual = residual_of_model(problem, model, config, kernel)
        sizes = dict(zip(problem.channels, statistics.channel_scale, strict=True))
        like = model.operator.scale
        setting = ConditionSetting(problem, sizes, residual.grid, like, residual.derived)
        left = replace(model.constraints, faces=()) if residual.holds_walls else model.constraints
        soft = soft_constraints(left, setting)
        samples = config.points.functions
        terms.append(ProbedTerm(EQUATIONS, "residual", len(problem.residuals), samples))
        terms += [ProbedTerm(n, c.part, len(c.units), samples) for n, c in soft.items()]
        if residual.grid is None and config.backbone not in BACKBONES:
            network = model.operator.backbone
            require_independent_queries(config.backbone, network, model.grids, like)
    if data:
        terms.append(ProbedTerm(DATA, "data", len(problem.channels), config.points.data_functions))
    alike = homogeneous_axes(problem, model.constraints)
    run = WeightedRun(problem, terms, alike, config, part, example_tensor(config))
    loss = ResidualLoss(
        problem,
        model.operator,
        residual,
        soft,
        model.known if model.operator.potential is None else None,  # the start is in its equations
        scales,
        fixed,
        build_weightings(run),
        rounds_data=config.machine.precision == "bf16",
    )
    return loss.to(example_tensor(config))


def build_source(
    model: Model,
    loss: ResidualLoss,
    statistics: Statistics,
    config: TrainingConfig,
    data: AnyDataset | None,
    processes: Processes | None = None,
) -> BatchSource:
    """Build the source of batches: of the equations, of the data, or both.

    Raises:
        UsageError: If there is neither physics nor data.
    """
    problem, rollout = model.problem, model.rollout
    like, processes = example_tensor(config), processes or SingleProcess()
    setting = BatchSetting(problem, model.known, model.grids, config, like, processes)
    equations: BatchSource | None = None
    if loss.residual is not None:
        whole = problem if rollout is None else rollout.problem
        functions = choose_function_source(whole, data, model.grids)
        if rollout is not None:
            functions = RolloutFunctions(functions, rollout, config.points.functions, processes)
        plain = EquationSource(setting, loss, statistics, functions)
        equations = BatchesAhead.where_possible(plain)
        if isinstance(loss.residual, TargetResidual):
            equations = TargetBatches(plain, loss, config.points.functions, processes)
    if data is None:
        if equations is None:
            raise UsageError("without physics there must be data: give --data FILE")
        return equations
    if model.operator.gridded:
        network, ticks = model.operator.backbone, model.training_grid
        source: BatchSource = TrajectorySource(setting, data, network, ticks)
    else:
        source = DataPointSource(setting, data)
    if statistics.noise:
        source = NoisySource(source, setting, noise_levels(problem), statistics.noise)
    return source if equations is None else EquationsAndData(equations, source)


def example_tensor(config: TrainingConfig) -> Tensor:
    """Make an empty tensor of the device and precision of a run."""
    return torch.empty(0, device=config.machine.device, dtype=DTYPES[config.machine.precision])

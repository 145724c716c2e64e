"""Configuration of a training run: every setting with its meaning, unit, default and use.

The same keys work under ``solve:`` in a spec, as ``--set key=value`` on the command line and in
``fit(settings=...)``; keys that are none of these belong to the backbone.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, Self

from piop.arguments import whole_number
from piop.errors import UsageError, excerpt
from piop.models.core.base import Preset
from piop.models.registry import preset_of_class
from piop.problem.time_windows import MOST_WINDOWS
from piop.sampling.random import FIRST_SCHEME, NEWEST_SCHEME
from piop.training.loss.weighting import WEIGHTINGS
from piop.training.optimisers.build import OPTIMISERS
from piop.training.setting_declarations import (
    FRACTION,
    NOT_NEGATIVE,
    POSITIVE,
    UP_TO_ONE,
    Applies,
    Circumstances,
    Range,
    Setting,
    convert,
    kind_of,
    nearest_key,
    parse_time,
    setting,
    settings_of,
)

PARTS = ("residual", "initial", "boundary", "data")
"""The parts that a loss may have."""

POINTWISE = Applies(
    "backbones that are evaluated pointwise; one that answers on a grid takes grid and times",
    lambda c: c.field.pointwise,
)
GRIDS = Applies("backbones that answer on a grid", lambda c: not c.field.pointwise)
SPACE_TIME_GRIDS = Applies(
    "backbones that answer on a grid at any time", lambda c: c.field.space_time_grid
)
TIMES = Applies("evolutions in time that are learned at more than their end", lambda c: c.times)
SPATIAL = Applies("problems with axes of space", lambda c: c.spatial)
POINTS_OR_STEPS = Applies(
    "backbones that are evaluated pointwise or in steps: a grid has all of its times at once",
    lambda c: not c.field.space_time_grid,
)
PHYSICS = Applies("training on the equations", lambda c: c.config.physics)
EQUATIONS_ALONE = Applies(
    "training on the equations alone, without data", lambda c: "data" not in c.parts
)
DATA = Applies("training on data (--data FILE)", lambda c: "data" in c.parts)
SOFT_INITIAL = Applies(
    "initial data that are soft constraints (constraints=soft)", lambda c: "initial" in c.parts
)
SOFT_BOUNDARY = Applies(
    "boundary conditions that are soft constraints (constraints=soft)",
    lambda c: "boundary" in c.parts,
)
SOFT = Applies(
    "initial or boundary conditions that are soft constraints (constraints=soft)",
    lambda c: SOFT_INITIAL.holds(c) or SOFT_BOUNDARY.holds(c),
)
ADAPTIVE_POINTS = (
    POINTWISE,
    Applies("method=residual_adaptive", lambda c: c.config.points.adaptive),
)
CURRICULUM = Applies("a horizon below 1", lambda c: c.config.sampling.horizon < 1)
UNBALANCED = Applies(
    "weightings other than gradient_norm and ntk, which balance squares",
    lambda c: not any(w.balances_squares and w.request(c.config.adaptive) for w in WEIGHTINGS),
)
SOAP = Applies("optimiser=soap", lambda c: c.config.optimiser.optimiser == "soap")


STRONG = Applies("form=strong or potential", lambda c: c.config.loss.form != "integral")
SLOPES = Applies("form=strong", lambda c: c.config.loss.form not in ("integral", "potential"))
"""Slopes of the unknowns at random points: of a potential they are the unknowns themselves."""


def weighting_with(name: str) -> tuple[Applies]:
    """Return the condition that a chosen weighting reads a setting."""
    readers = [weighting for weighting in WEIGHTINGS if name in weighting.settings]
    *others, last = [reader.name for reader in readers]
    text = f"{', '.join(others)} or {last}" if others else last
    return (
        Applies(f"weighting={text}", lambda c: any(w.request(c.config.adaptive) for w in readers)),
    )


NUMBER_OF_WINDOWS = Range(f"from 0 to {MOST_WINDOWS}", lambda value: 0 <= value <= MOST_WINDOWS)


@dataclass(frozen=True)
class PointsConfig:
    """Functions and points of one training step.

    Attributes:
        functions: B, random input functions per step. Many small steps beat few large ones. Of
            equations that are integrated on lattices 2 to 16, so that these have about 4096 points,
            of potentials 16.
        queries: N, collocation points per function; 192 in two dimensions, 256 in three, 64 of
            potentials.
        method: How collocation points are placed.
        shared: All functions of a step share its points, so that a network does once what depends
            on the points alone: all of a DeepONet's trunk, little of a PIT.
        boundary: Points per function for each initial or periodic condition that is a soft
            constraint.
        data_functions: Trajectories of the data set per step, when there is one.
        data_queries: Points per trajectory of the data set.
        grid: Points per space axis of the grid on which a network that answers on grids is trained;
            0 for the spec's ``save``, at most 256, 32, 16 in one, two, three dimensions. Of data it
            takes as many, or all for 0.
        times: Times of that grid, both ends among them; 0 for 33, 17, 9. A rollout has its own.
        time_order: Order of the finite differences in time on that grid.
    """

    functions: int = setting(8, POSITIVE, (PHYSICS,), changeable=True)
    queries: int = setting(128, POSITIVE, (POINTWISE, PHYSICS, STRONG), changeable=True)
    method: Literal["uniform", "sobol", "latin_hypercube", "grid", "residual_adaptive"] = setting(
        "uniform", applies=(POINTWISE, PHYSICS, STRONG)
    )
    shared: bool = setting(False, applies=(POINTWISE, STRONG))
    boundary: int = setting(64, POSITIVE, (POINTWISE, SOFT), changeable=True)
    data_functions: int = setting(16, POSITIVE, (DATA,), changeable=True)
    data_queries: int = setting(256, POSITIVE, (POINTWISE, DATA), changeable=True)
    grid: int = setting(0, applies=(GRIDS,))
    times: int = setting(0, applies=(SPACE_TIME_GRIDS, TIMES))
    time_order: int = setting(4, POSITIVE, (SPACE_TIME_GRIDS, TIMES, PHYSICS))

    @property
    def adaptive(self) -> bool:
        """Whether collocation points are chosen by the residual, among candidates."""
        return self.method == "residual_adaptive"


@dataclass(frozen=True)
class SamplingConfig:
    """Placement of points by the residual and by the progress of training.

    Attributes:
        candidates: Points among which ``method=residual_adaptive`` chooses, for each that it takes.
        power: k of its density |r|^k / mean |r|^k + c.
        floor: c of that density, dimensionless.
        horizon: Fraction of the time axis in which points are placed at first; 1 for no curriculum.
        horizon_until: Fraction of the budget after which points are placed in all of it.
    """

    candidates: int = setting(4, POSITIVE, ADAPTIVE_POINTS)
    power: float = setting(1.0, applies=ADAPTIVE_POINTS)
    floor: float = setting(1.0, applies=ADAPTIVE_POINTS)
    horizon: float = setting(1.0, UP_TO_ONE, (POINTS_OR_STEPS, STRONG))
    horizon_until: float = setting(0.5, UP_TO_ONE, (CURRICULUM,))


@dataclass(frozen=True)
class LossConfig:
    """Terms of the loss and their fixed weights.

    Attributes:
        constraints: Make conditions hard constraints where possible (``auto``), everywhere or an
            error (``hard``), nowhere (``soft``).
        linear_part: Solve the linear part of the equations exactly, wave by wave, or mode by mode
            where coefficients vary in space, from the initial data of an evolution or for the
            source of a steady problem, so that the network adds the rest: where the equations are
            linear and it is possible, and within time windows where it damps strongly (``auto``),
            everywhere or an error (``exact``), nowhere (``learned``).
        form: Form of the equations in the loss: at random points (``strong``), integrated over
            time on lattices or an error (``integral``), or integrated in time windows, on
            intervals with soft constraints on their walls, and for steady problems on boxes, where
            a lattice of few points resolves solutions, else of the potential of nonlinear
            conservation laws on periodic intervals, from which fronts take their places
            (``auto``); of the potential or an error (``potential``).
        windows: Number of time windows: the operator is that of one of so many equal parts of the
            time axis, and is applied as often; 1 for one of the whole axis, 0 for 4 to 16 where
            equations are nonlinear and do not name the time, and solutions change much and stay
            smooth.
        relative: Divide the residual of each function by the size of its solution, so that large
            functions do not dominate the batch.
        root: Average over the functions the root of each one's mean squared residual, not the
            square, so that the few hardest ones do not dominate the batch.
        front: Strength of the damping at fronts, dimensionless; 0 for none, as for linear problems
            and potentials.
        residual_weight: Weight of the equations.
        initial_weight: Weight of initial data that are soft constraints.
        boundary_weight: Weight of boundary conditions that are soft constraints.
        data_weight: Weight of the data.
        steady: Whether ``linear_part`` counts for steady problems; not in runs that do not record
            it.
        varying: Whether it counts for coefficients that vary in space; not in such runs either.
    """

    constraints: Literal["auto", "hard", "soft"] = setting("auto")
    linear_part: Literal["auto", "exact", "learned"] = setting("auto", applies=(PHYSICS,))
    form: Literal["auto", "strong", "integral", "potential"] = setting(
        "auto", applies=(POINTWISE, PHYSICS, EQUATIONS_ALONE)
    )
    windows: int = setting(0, NUMBER_OF_WINDOWS, (POINTWISE, PHYSICS, EQUATIONS_ALONE))
    relative: bool = setting(True, applies=(PHYSICS,))
    root: bool = setting(True, applies=(POINTWISE, PHYSICS, EQUATIONS_ALONE, STRONG, UNBALANCED))
    front: float = setting(0.2, applies=(SPATIAL, PHYSICS, SLOPES))
    residual_weight: float = setting(1.0, applies=(PHYSICS,))
    initial_weight: float = setting(10.0, applies=(SOFT_INITIAL,))
    boundary_weight: float = setting(1.0, applies=(SOFT_BOUNDARY,))
    data_weight: float = setting(1.0, applies=(DATA,))
    steady: bool = True
    varying: bool = True

    @property
    def weights(self) -> dict[str, float]:
        """The fixed weight of each part of the loss, by its name."""
        return {part: getattr(self, f"{part}_weight") for part in PARTS}


@dataclass(frozen=True)
class AdaptiveConfig:
    """Weights that adapt during training; they multiply the fixed ones of the loss.

    Attributes:
        weighting: ``fixed`` for none, ``causal`` in time, ``gradient_norm`` or ``ntk`` between the
            terms of the loss, ``ntk_local`` between times, ``residual_attention`` between cells of
            time and space.
        causal: Strength ε of the causal weights, dimensionless. Above zero they are added to any
            other weighting; ``weighting=causal`` without it takes 1.
        bins: Time bins of the weights that depend on the time.
        space_bins: Bins of ``residual_attention`` along each axis in space on which the equations
            depend explicitly; along the others all positions have the same weight.
        memory: Fraction of a running mean that a step, or a measurement, keeps.
        weight_every: Steps between measurements of ``gradient_norm``, ``ntk`` and ``ntk_local``.
        attention_decay: γ of ``residual_attention``.
        attention_rate: η of ``residual_attention``, dimensionless.
    """

    weighting: str = setting("fixed", names=("fixed", *(w.name for w in WEIGHTINGS)))
    causal: float = setting(0.0)
    bins: int = setting(16, POSITIVE, weighting_with("bins"))
    space_bins: int = setting(8, POSITIVE, weighting_with("space_bins"))
    memory: float = setting(0.9, FRACTION, weighting_with("memory"))
    weight_every: int = setting(100, POSITIVE, weighting_with("weight_every"))
    attention_decay: float = setting(0.999, FRACTION, weighting_with("attention_decay"))
    attention_rate: float = setting(0.01, NOT_NEGATIVE, weighting_with("attention_rate"))


@dataclass(frozen=True)
class OptimiserConfig:
    """The optimiser and its schedule.

    Attributes:
        optimiser: ``soap`` (Vyas et al. 2024), ``muon`` (Jordan et al. 2024) or ``adamw``.
        learning_rate: Peak step size. Muon takes as much as SOAP, AdamW wants about a tenth of it.
        warmup: Fraction of the budget over which the step size rises from zero.
        final: Step size at the end as a fraction of the peak; a half cosine leads there.
        decay_after: Steps after which the step size falls as the inverse square root of the step
            too; 0 for the half cosine alone.
        weight_decay: Decoupled weight decay per unit of the step size; it keeps the weights of long
            trainings from growing.
        clip: Largest norm of the gradient, which starts near ten; 0 for no limit. Of a loss of
            squares 1 (with data, on grids, without ``root``), since its gradient shrinks with it;
            of equations that are integrated on lattices 0.01, since their loss is smaller.
        average: Decay per step of the running mean of the weights that predicts; 0 for none, since
            under a cosine to zero it gained nothing.
        lbfgs: Fraction of the budget at the end that L-BFGS spends on eight frozen batches; 0 for
            none.
        precondition: Steps between updates of SOAP's eigenbases.
    """

    optimiser: str = setting("soap", names=OPTIMISERS)
    learning_rate: float = setting(1e-2, POSITIVE, changeable=True)
    warmup: float = setting(0.03, FRACTION)
    final: float = setting(0.0, FRACTION)
    decay_after: int = setting(1000)
    weight_decay: float = setting(3e-3)
    clip: float = setting(10.0, changeable=True)
    average: float = setting(0.0, FRACTION)
    lbfgs: float = setting(0.0, FRACTION)
    precondition: int = setting(10, POSITIVE, (SOAP,))


@dataclass(frozen=True)
class MachineConfig:
    """Device and precision of a run; kept on resume, since the numbers depend on them.

    Attributes:
        device: ``cpu`` or ``cuda``.
        precision: Of weights and loss; functions are drawn in float64 always. ``tf32`` and ``bf16``
            keep weights and sums in float32 and round what enters matrix products: ``tf32`` on a
            GPU everywhere in training, ``bf16`` in the data's part alone, since derivatives are not
            taken below float32.
        compile: Trace and compile the training step; None decides after its first steps.
        threads: CPU threads of torch; None leaves torch's own choice, and MKL's.
        default_threads: The threads torch chose where none were given; a resume takes as many.
        seed: Of weights, functions and points.
        checkpoint: Seconds between checkpoints.
        kernel: Implementation of the sums in the attention of streams: plain ``torch``, or the
            ``triton`` kernel, which needs a CUDA device and has not been timed on one.
        draws: Scheme of the random numbers of held-out inputs; 1 in runs that do not record it.
        cuda_graphs: Replay a compiled step as a CUDA graph, which spares launching its kernels one
            by one; it needs a CUDA device and ``compile``. Single steps have been replayed on one,
            no training yet.
    """

    device: Literal["cpu", "cuda"] = "cpu"
    precision: Literal["float64", "float32", "tf32", "bf16"] = "float32"
    compile: bool | None = None
    threads: int | None = None
    default_threads: int | None = None
    seed: int = 0
    draws: int = NEWEST_SCHEME
    checkpoint: float = setting(30.0, changeable=True)
    kernel: Literal["torch", "triton"] = setting("torch")
    cuda_graphs: bool = setting(False)


HELD_OUT_ERRORS = Applies(
    "held_out_every above 0", lambda c: c.config.monitoring.held_out_every > 0
)


@dataclass(frozen=True)
class MonitoringConfig:
    """What is measured during training beside the loss; the numbers of training stay the same.

    Attributes:
        held_out_every: Steps between measurements of the error on a few held-out inputs, which is
            ``held_out`` in the metrics; 0 for none, 100 with ``--tensorboard``. They are made
            where a row of the metrics is due, and their time is not counted.
        held_out_inputs: Number of these inputs, the first of an evaluation's.
    """

    held_out_every: int = setting(0, changeable=True)
    held_out_inputs: int = setting(8, POSITIVE, (HELD_OUT_ERRORS,), changeable=True)


@dataclass(frozen=True)
class BudgetConfig:
    """End of training: after a number of steps, or of seconds.

    Attributes:
        steps: Steps; exactly one of the two is given.
        time: Seconds from the end of the first step.
    """

    steps: int | None = None
    time: float | None = None

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.time is None):
            raise UsageError("give either steps or time as the budget, not both and not neither")
        if self.steps is not None:
            object.__setattr__(self, "steps", whole_number("steps", self.steps))
        if self.time is not None and not 0 < self.time < math.inf:
            raise UsageError(f"time: {self.time!r} is not above zero")

    @classmethod
    def of(cls, steps: int | None, time: str | float | None) -> Self:
        """Build a budget from steps or a length of time, such as ``"5m"``.

        Raises:
            UsageError: If not exactly one of them is given, or it cannot be read.
        """
        return cls(steps, None if time is None else parse_time(time))

    def fraction(self, steps: int, seconds: float) -> float:
        """Return the fraction of the budget that is spent, in [0, 1]."""
        spent = seconds / self.time if self.time is not None else steps / (self.steps or math.inf)
        return min(spent, 1.0)


@dataclass(frozen=True)
class TrainingConfig:
    """All of a run but the spec.

    Attributes:
        budget: When it ends.
        points: Functions and points of a step.
        sampling: Placement of points by residual and progress.
        loss: Terms of the loss and their fixed weights.
        adaptive: Weights that adapt.
        optimiser: The optimiser and its schedule.
        machine: Device and precision.
        monitoring: What is measured during training beside the loss.
        backbone: Name of the backbone.
        backbone_settings: Its settings that differ from the preset, ``preset`` among them.
        physics: Train on the equations.
        network: The network itself, where it was given in Python; not written to files.
    """

    budget: BudgetConfig
    points: PointsConfig = PointsConfig()
    sampling: SamplingConfig = SamplingConfig()
    loss: LossConfig = LossConfig()
    adaptive: AdaptiveConfig = AdaptiveConfig()
    optimiser: OptimiserConfig = OptimiserConfig()
    machine: MachineConfig = MachineConfig()
    monitoring: MonitoringConfig = MonitoringConfig()
    backbone: str = "pit"
    backbone_settings: Mapping[str, Any] = field(default_factory=dict)
    physics: bool = True
    network: Preset | None = field(default=None, compare=False, repr=False)

    @property
    def of_class(self) -> bool:
        """Whether the backbone is called by its class, not by a name in the table."""
        return ":" in self.backbone

    def with_network(self, given: Any) -> TrainingConfig:
        """Choose a network that is given in Python: a class derived from Backbone, or a Preset.

        Raises:
            UsageError: If it is none.
        """
        preset = preset_of_class(given)
        name = f"{preset.build.__module__}:{preset.build.__qualname__}"
        return replace(self, backbone=name, network=preset)

    def with_same_network(self, given: Any) -> TrainingConfig:
        """Take the class again that a run was begun with.

        Raises:
            UsageError: If it is another.
        """
        if given is None:
            return self
        found = self.with_network(given)
        if found.backbone != self.backbone:
            raise UsageError(f"backbone: {found.backbone} was given; the run has {self.backbone}")
        return found

    @property
    def sections(self) -> dict[str, Any]:
        """The config of each section, by its name."""
        return {name: getattr(self, name) for name in SECTIONS}

    def to_json(self) -> dict[str, Any]:
        """Return the config as plain dicts, lists, strings and numbers."""
        return {k: v for k, v in asdict(replace(self, network=None)).items() if k != "network"}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TrainingConfig:
        """Build the config that :meth:`to_json` wrote.

        No key is in two sections, so one that has moved to another section since is found there,
        and one that is new has its default, but for the scheme of the draws and the linear part,
        which older runs learned, at first of all problems and then of steady ones and of varying
        coefficients, in one window, at random points, with step sizes that depend on the fraction
        of the budget alone, by squared residuals.
        """
        stored: dict[str, Any] = {"draws": FIRST_SCHEME, "linear_part": "learned", "windows": 1}
        stored |= {"form": "strong", "steady": False, "varying": False, "decay_after": 0}
        stored["root"] = False
        stored |= {key: v for name in SECTIONS for key, v in data.get(name, {}).items()}
        parts = {
            name: section(**{f.name: stored[f.name] for f in fields(section) if f.name in stored})
            for name, section in SECTIONS.items()
        }
        given = data["backbone_settings"].items()
        backbone = {key: tuple(v) if isinstance(v, list) else v for key, v in given}
        parts |= {"budget": BudgetConfig(**data["budget"]), "backbone_settings": backbone}
        return cls(**{**data, **parts})


SECTIONS: dict[str, type] = {
    f.name: type(f.default) for f in fields(TrainingConfig) if is_dataclass(f.default)
}
"""The config of each section, by its name."""

SETTINGS: dict[str, tuple[str, Setting]] = {
    declared.name: (name, declared)
    for name, section in SECTIONS.items()
    for declared in settings_of(section)
}
"""Key → the section it stands in, and its declaration."""


def unknown_setting(key: str, backbone_keys: Collection[str]) -> str:
    """Return a message that a setting does not exist: the nearest with its meaning, or the topics.

    Args:
        key: What was given.
        backbone_keys: The settings of the chosen backbone.

    Example:
        >>> unknown_setting("lerning_rate", [])[:69]
        "'lerning_rate' is not a setting. Did you mean 'learning_rate' (Peak st"
    """
    near = nearest_key(key, [*SETTINGS, "preset", *backbone_keys])
    if near in SETTINGS:
        declared = SETTINGS[near][1]
        meaning = declared.meaning.replace("``", "").split(". ")[0].rstrip(".")
        hint = f"Did you mean '{near}' ({meaning}; default {declared.default})?"
    elif near is not None:
        hint = f"Did you mean '{near}'?"
    else:
        own = f", and of the network ({', '.join(backbone_keys)})" if backbone_keys else ""
        hint = (
            f"There are settings of {', '.join(SECTIONS)}{own}; piop settings TOPIC lists them "
            "with meaning and default"
        )
    return f"{excerpt(key)} is not a setting. {hint}"


def apply_settings(
    config: TrainingConfig, settings: Mapping[str, Any], backbone_keys: Mapping[str, Any]
) -> TrainingConfig:
    """Set keys of the config, checking name, type and range of each.

    Args:
        config: The config to start from.
        settings: Key → value; a value may be text, as it comes from a command line.
        backbone_keys: The keys of the chosen backbone and their defaults, which give the types.

    Raises:
        UsageError: Naming the key, the value, and what is allowed.

    Example:
        >>> start = TrainingConfig(BudgetConfig(steps=10))
        >>> apply_settings(start, {"learning_rate": "1e-3"}, {}).optimiser.learning_rate
        0.001
    """
    changes: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    backbone = dict(config.backbone_settings)
    for key, value in settings.items():
        if key in SETTINGS:
            section, declared = SETTINGS[key]
            changes[section][key] = declared.parse(value)
        elif key == "preset":
            backbone[key] = convert(key, value, str)
        elif key in backbone_keys:
            backbone[key] = convert(key, value, kind_of(backbone_keys[key]))
        else:
            raise UsageError(unknown_setting(key, backbone_keys))
    changed = {name: replace(own, **changes[name]) for name, own in config.sections.items()}
    return replace(config, backbone_settings=backbone, **changed)


def change_settings(config: TrainingConfig, settings: Mapping[str, Any]) -> TrainingConfig:
    """Set keys that may change in the middle of a run.

    Raises:
        UsageError: For any other key, or a value that is not allowed.

    Example:
        >>> start = TrainingConfig(BudgetConfig(steps=10))
        >>> change_settings(start, {"functions": "4"}).points.functions
        4
    """
    changeable = sorted(key for key, (_, declared) in SETTINGS.items() if declared.changeable)
    for key in settings:
        if key not in changeable:
            raise UsageError(
                f"{key}: cannot change in the middle of a run; one of {', '.join(changeable)}. "
                f"For others start a new run from the weights of this one: piop solve --from RUN"
            )
    return apply_settings(config, settings, {})


def require_applicable(keys: Collection[str], circumstances: Circumstances) -> None:
    """Make sure that settings that were given have an effect in a run.

    Args:
        keys: The settings that were given.
        circumstances: The run.

    Raises:
        UsageError: For the first that has none, with what it belongs to.

    Example:
        >>> run = Circumstances(TrainingConfig(BudgetConfig(steps=10)), {"residual"})
        >>> require_applicable(["precondition"], run)  # of SOAP, the default
    """
    for key in (key for key in keys if key in SETTINGS):
        if reason := reason_without_effect(key, circumstances):
            raise UsageError(f"{key}: does nothing here; it belongs to {reason}")


def reason_without_effect(key: str, circumstances: Circumstances) -> str:
    """Return what a setting belongs to that is not so in a run; nothing where it has an effect.

    Args:
        key: The setting.
        circumstances: The run.
    """
    unmet = (c.text for c in SETTINGS[key][1].applies if not c.holds(circumstances))
    return next(unmet, "")


def settings_for(condition: Applies) -> frozenset[str]:
    """Return the settings that have an effect under a condition alone."""
    return frozenset(key for key, (_, own) in SETTINGS.items() if condition in own.applies)

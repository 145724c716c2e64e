"""Every choice of a training run, as frozen configs with their meaning, unit and default.

The same keys work under ``solve:`` in a spec, as ``--set key=value`` on the command line and in
``fit(settings=...)``; keys that are none of these belong to the backbone.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, get_args, get_type_hints

from piop.errors import UsageError


@dataclass(frozen=True)
class PointsConfig:
    """What one training step looks at.

    Attributes:
        functions: B, random input functions per step. Many small steps beat few large ones: for
            Burgers' equation in 120 CPU-seconds 16 x 256 points reached 0.054, 8 x 256 0.037 and
            8 x 128 0.020.
        queries: N, collocation points per function; 192 in two dimensions, 256 in three.
        method: How collocation points are placed.
        shared: All functions of a step share its points, so that a network does once what depends
            on the points alone: all of a DeepONet's trunk, little of a PIT.
        boundary: Points per function for each initial or periodic condition that is penalised.
        data_functions: Trajectories of the data set per step, when there is one.
        data_queries: Points per trajectory of the data set.
    """

    functions: int = 8
    queries: int = 128
    method: Literal["uniform", "sobol", "latin_hypercube", "grid", "residual_adaptive"] = "uniform"
    shared: bool = False
    boundary: int = 64
    data_functions: int = 16
    data_queries: int = 256


@dataclass(frozen=True)
class SamplingConfig:
    """How points follow the residual and the progress of training.

    Attributes:
        candidates: Points among which ``method=residual_adaptive`` chooses, for each that it takes.
        power: k of its density |r|^k / mean |r|^k + c.
        floor: c of that density, dimensionless.
        horizon: Share of the time axis in which points are placed at first; 1 for no curriculum.
        horizon_until: Share of the budget after which points are placed in all of it.
    """

    candidates: int = 4
    power: float = 1.0
    floor: float = 1.0
    horizon: float = 1.0
    horizon_until: float = 0.5


@dataclass(frozen=True)
class LossConfig:
    """What the loss is made of.

    Attributes:
        constraints: Build conditions in where possible (``auto``), everywhere or an error
            (``hard``), nowhere (``soft``).
        relative: Divide the residual of each function by the size of its solution, so that large
            functions do not rule the batch.
        front: Strength of the damping at fronts, dimensionless; 0 for none, as for linear problems.
        residual_weight: Weight of the equations.
        initial_weight: Weight of initial data that are penalised.
        boundary_weight: Weight of boundary conditions that are penalised.
        data_weight: Weight of the data.
    """

    constraints: Literal["auto", "hard", "soft"] = "auto"
    relative: bool = True
    front: float = 0.2
    residual_weight: float = 1.0
    initial_weight: float = 10.0
    boundary_weight: float = 1.0
    data_weight: float = 1.0


@dataclass(frozen=True)
class AdaptiveConfig:
    """Weights that learn while training goes on; they multiply the fixed ones of the loss.

    Attributes:
        weighting: ``fixed`` for none, ``causal`` in time, ``gradient_norm`` or ``ntk`` between the
            terms of the loss, ``ntk_local`` between times, ``residual_attention`` between places.
        causal: Strength ε of the causal weights, dimensionless. Above zero they are added to any
            other weighting; ``weighting=causal`` without it takes 1.
        bins: Time bins of the weights that depend on the time.
        space_bins: Bins of ``residual_attention`` along each axis in space on which the equations
            depend by themselves; along the others all places are alike.
        memory: Share of a running mean that a step, or a measurement, keeps.
        weight_every: Steps between measurements of ``gradient_norm``, ``ntk`` and ``ntk_local``.
        attention_decay: γ of ``residual_attention``.
        attention_rate: η of ``residual_attention``, dimensionless.
    """

    weighting: Literal[
        "fixed", "causal", "gradient_norm", "ntk", "ntk_local", "residual_attention"
    ] = "fixed"
    causal: float = 0.0
    bins: int = 16
    space_bins: int = 8
    memory: float = 0.9
    weight_every: int = 100
    attention_decay: float = 0.999
    attention_rate: float = 0.01


@dataclass(frozen=True)
class OptimiserConfig:
    """How the loss is brought down.

    Attributes:
        optimiser: ``soap`` (Vyas et al. 2024), ``muon`` (Jordan et al. 2024) or ``adamw``.
        learning_rate: Peak step size. SOAP at 1e-2 reached 0.054 where 5e-3 reached 0.096 (Burgers'
            equation, 120 CPU-seconds). Muon takes as much; AdamW wants about a tenth of it.
        warmup: Share of the budget over which the step size rises from zero.
        final: Step size at the end as a share of the peak; a half cosine leads there.
        weight_decay: Decoupled weight decay per unit of the step size.
        clip: Largest norm of the gradient, which starts near ten; 0 for no limit. Limits of 1 and
            10 and none were not told apart by single seeds.
        average: Decay per step of the running mean of the weights that predicts; 0 for none, since
            under a cosine to zero it gained nothing.
        lbfgs: Share of the budget at the end that L-BFGS spends on one frozen batch; 0 for none.
        precondition: Steps between updates of SOAP's eigenbases.
    """

    optimiser: Literal["soap", "muon", "adamw"] = "soap"
    learning_rate: float = 1e-2
    warmup: float = 0.03
    final: float = 0.0
    weight_decay: float = 0.0
    clip: float = 1.0
    average: float = 0.0
    lbfgs: float = 0.0
    precondition: int = 10


@dataclass(frozen=True)
class MachineConfig:
    """Where and how exactly it runs; kept on resume, since the numbers depend on it.

    Attributes:
        device: ``cpu`` or ``cuda``.
        precision: Of weights and loss; functions are drawn in float64 always. ``tf32`` and ``bf16``
            keep weights and sums in float32 and round what enters matrix products: ``tf32`` on a
            GPU everywhere in training, ``bf16`` in the data's part alone, since derivatives are not
            taken below float32.
        compile: Trace and compile the training step.
        threads: CPU threads of torch; None leaves torch's own choice.
        seed: Of weights, functions and points.
        checkpoint: Seconds between checkpoints.
        kernel: What sums up the attention of streams: plain ``torch``, or the ``triton`` kernel,
            which needs a CUDA device and has not been timed on one.
    """

    device: Literal["cpu", "cuda"] = "cpu"
    precision: Literal["float64", "float32", "tf32", "bf16"] = "float32"
    compile: bool = False
    threads: int | None = None
    seed: int = 0
    checkpoint: float = 30.0
    kernel: Literal["torch", "triton"] = "torch"


@dataclass(frozen=True)
class BudgetConfig:
    """When training ends: after so many steps, or so many seconds.

    Attributes:
        steps: Steps; exactly one of the two is given.
        time: Seconds from the end of the first step.
    """

    steps: int | None = None
    time: float | None = None

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.time is None):
            raise UsageError("give either steps or time as the budget, not both and not neither")
        for name in ("steps", "time"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise UsageError(f"{name}: {value!r} is not above zero")


@dataclass(frozen=True)
class TrainingConfig:
    """All of a run but the spec.

    Attributes:
        budget: When it ends.
        machine: Where it runs.
        points: What a step looks at.
        sampling: How points follow residual and progress.
        loss: What the loss is made of.
        adaptive: Weights that learn.
        optimiser: How it is brought down.
        backbone: Name of the backbone.
        backbone_settings: Its settings that differ from the preset, ``preset`` among them.
        physics: Train on the equations.
    """

    budget: BudgetConfig
    machine: MachineConfig = field(default_factory=MachineConfig)
    points: PointsConfig = field(default_factory=PointsConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    adaptive: AdaptiveConfig = field(default_factory=AdaptiveConfig)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    backbone: str = "pit"
    backbone_settings: Mapping[str, Any] = field(default_factory=dict)
    physics: bool = True

    def to_json(self) -> dict[str, Any]:
        """Give the config as plain dicts, lists, strings and numbers."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TrainingConfig:
        """Build the config that :meth:`to_json` wrote.

        No key is in two sections, so one that has moved to another section since is found there,
        and one that is new has its default.
        """
        stored = {key: v for name in SECTIONS for key, v in data.get(name, {}).items()}
        parts = {
            name: section(**{f.name: stored[f.name] for f in fields(section) if f.name in stored})
            for name, section in SECTIONS.items()
        }
        return cls(**{**data, **parts, "budget": BudgetConfig(**data["budget"])})


SECTIONS: dict[str, type] = {
    "points": PointsConfig,
    "sampling": SamplingConfig,
    "loss": LossConfig,
    "adaptive": AdaptiveConfig,
    "optimiser": OptimiserConfig,
    "machine": MachineConfig,
}
OWN_ARGUMENTS = {"device", "precision", "compile", "threads", "seed"}
POSITIVE = {"functions", "queries", "boundary", "data_functions", "data_queries", "bins",
            "space_bins", "weight_every", "candidates", "learning_rate",
            "precondition"}  # fmt: skip
CHANGEABLE = {"functions", "queries", "boundary", "data_functions", "data_queries",
              "learning_rate", "clip", "checkpoint"}  # fmt: skip
"""What a resume may change: neither the network nor the meaning of what is saved depends on it."""
UP_TO_ONE = {"horizon", "horizon_until"}
SHARES = {"warmup", "final", "average", "lbfgs", "memory", "attention_decay"}


def apply_settings(
    config: TrainingConfig, settings: Mapping[str, Any], backbone_keys: Mapping[str, Any]
) -> TrainingConfig:
    """Set keys of the config, checking name, type and range of each.

    Args:
        config: What the settings start from.
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
    known = {f.name: name for name, cls in SECTIONS.items() for f in fields(cls)}
    known = {key: name for key, name in known.items() if key not in OWN_ARGUMENTS}
    for key, value in settings.items():
        if key in known:
            annotation = get_type_hints(SECTIONS[known[key]])[key]
            changes[known[key]][key] = _in_range(key, convert(key, value, annotation))
        elif key == "preset":
            backbone[key] = convert(key, value, str)
        elif key in backbone_keys:
            kind = type(backbone_keys[key]) if backbone_keys[key] is not None else Any
            backbone[key] = convert(key, value, kind)
        else:
            raise UsageError(unknown_key(key, [*known, "preset", *backbone_keys]))
    sections = {name: replace(getattr(config, name), **changes[name]) for name in SECTIONS}
    return replace(config, backbone_settings=backbone, **sections)


def change_settings(config: TrainingConfig, settings: Mapping[str, Any]) -> TrainingConfig:
    """Set keys that may change in the middle of a run.

    Raises:
        UsageError: For any other key, or a value that is not allowed.

    Example:
        >>> start = TrainingConfig(BudgetConfig(steps=10))
        >>> change_settings(start, {"functions": "4"}).points.functions
        4
    """
    for key in settings:
        if key not in CHANGEABLE:
            raise UsageError(
                f"{key}: cannot change in the middle of a run; one of "
                f"{', '.join(sorted(CHANGEABLE))}. For others start a new run from the weights of "
                f"this one: piop solve --from RUN"
            )
    return apply_settings(config, settings, {})


def unknown_key(key: str, known: list[str]) -> str:
    """Say that a setting does not exist, with the nearest name or the list of all."""
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "one of " + ", ".join(sorted(known))
    return f"{key!r} is not a setting: {hint}"


def convert(key: str, value: Any, annotation: Any) -> Any:
    """Turn a value, perhaps text, into the type of its key.

    Raises:
        UsageError: If it is not of that type.
    """
    choices = get_args(annotation) if getattr(annotation, "__origin__", None) is Literal else ()
    if choices:
        if value not in choices:
            raise UsageError(f"{key}: {value!r} is not one of {', '.join(choices)}")
        return value
    if annotation is bool:
        words = {"true": True, "false": False, "yes": True, "no": False}
        found = value if isinstance(value, bool) else words.get(str(value).lower())
        if found is None:
            raise UsageError(f"{key}: {value!r} is neither true nor false")
        return found
    if annotation in (int, float):
        return _number(key, value, annotation)
    if annotation is str and not isinstance(value, str):
        raise UsageError(f"{key}: {value!r} is not text")
    return value


def _number(key: str, value: Any, kind: type) -> Any:
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or (kind is int and number != int(number)):
        raise UsageError(f"{key}: {value!r} is not a {'whole ' if kind is int else ''}number")
    return kind(number)


def _in_range(key: str, value: Any) -> Any:
    if key in POSITIVE and not value > 0:
        raise UsageError(f"{key}: {value!r} must be above zero")
    if key in UP_TO_ONE and not 0 < value <= 1:
        raise UsageError(f"{key}: {value!r} must be above zero and at most 1")
    if key in SHARES and not 0 <= value < 1:
        raise UsageError(f"{key}: {value!r} must be at least 0 and below 1")
    if isinstance(value, int | float) and value < 0:
        raise UsageError(f"{key}: {value!r} must not be negative")
    return value


UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def parse_time(text: str | float) -> float:
    """Turn ``"90s"``, ``"5m"``, ``"1.5h"`` or a number of seconds into seconds.

    Raises:
        UsageError: If it is none of these.

    Example:
        >>> parse_time("5m")
        300.0
    """
    match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(s|m|min|h)?\s*", str(text))
    if match is None or float(match[1]) <= 0:
        raise UsageError(f"time: {text!r} is not a length of time such as 90s, 5m or 1h")
    return float(match[1]) * UNITS[match[2] or ""]

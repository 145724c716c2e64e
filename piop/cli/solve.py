"""``piop solve`` and ``piop resume``: train, evaluate, write the run folder, print the errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from piop.cli.completion import BACKBONE, CHANGEABLE_PAIR, PAIR, RUN, SPEC, SettingPair
from piop.cli.console import (
    COUNT,
    COUNT_OR_ZERO,
    DEVICE,
    PATH,
    SEED,
    THREADS,
    F,
    common_options,
    example,
    say,
)
from piop.cli.error_tables import show_results
from piop.cli.failures import INTERRUPTED
from piop.cli.progress import Progress, progress
from piop.errors import UsageError
from piop.job_phases import JobPhase
from piop.training.torchrun import launched_first

if TYPE_CHECKING:
    from piop.run import Run

DEFAULT_TIME = "5m"


def settings_option(kind: SettingPair, meaning: str) -> Callable[[F], F]:
    """Give a command ``--set``, which may be repeated."""
    return click.option(
        "--set", "pairs", type=kind, metavar="KEY=VALUE", multiple=True, help=meaning
    )


def seconds_of(steps: int | None, time: str | None) -> float | None:
    """Return the budget in seconds, where it is a time.

    Raises:
        UsageError: If steps are given too, or the time cannot be read.
    """
    from piop.training.setting_declarations import parse_time

    if steps is not None and time is not None:
        raise UsageError("give --steps or --time, not both")
    return None if time is None else parse_time(time)


def budget_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``--steps`` and ``--time``."""
    steps = click.option("--steps", type=COUNT, help="Number of training steps.")
    time = click.option("--time", help="Training time: 90s, 5m, 1h, compilation not counted.")
    return steps(time(command))


samples_option = click.option(
    "--samples",
    type=COUNT,
    help="Held-out inputs of the evaluation; by default up to 64 in a quarter of the time.",
)
calibrate_option = click.option(
    "--calibrate",
    type=COUNT_OR_ZERO,
    help="Further inputs that error bounds come from; by default 150 in the rest of that time.",
)
tensorboard_option = click.option(
    "--tensorboard",
    is_flag=True,
    help="Write metrics, held-out errors and figures to tensorboard/ in the run folder.",
)
profile_option = click.option(
    "--profile", is_flag=True, help="Write the time of each part of a step to profile.json."
)


@click.command(
    epilog=example(
        "piop solve burgers --time 5m",
        "piop solve mine.yaml --backbone fno --data solutions.nc --set learning_rate=1e-3",
    )
)
@click.argument("spec", type=SPEC)
@click.option("--backbone", type=BACKBONE, help="The network; by default the spec's, else pit.")
@budget_options
@click.option("--data", type=PATH, help="Train on these solutions as well.")
@click.option("--no-physics", is_flag=True, help="Train on the data alone.")
@click.option("--from", "start", metavar="RUN", type=RUN, help="Start from the weights of a run.")
@click.option("--device", type=DEVICE, help="By default CUDA where there is one.")
@click.option(
    "--precision",
    type=click.Choice(["float64", "float32", "tf32", "bf16"]),
    default="float32",
    show_default=True,
    help="tf32: on a GPU; bf16: the data's part alone.",
)
@click.option("--compile/--no-compile", default=None, help="By default where it pays.")
@click.option("--threads", type=THREADS, help="CPU threads; by default torch's choice.")
@click.option(
    "--seed", type=SEED, default=0, show_default=True, help="Of weights, functions and points."
)
@settings_option(
    PAIR, "Any other setting; may be repeated. piop settings lists them by topic, with defaults."
)
@samples_option
@calibrate_option
@profile_option
@tensorboard_option
@click.option("--force", is_flag=True, help="Replace an existing run folder.")
@click.option("--out", type=PATH, help="The run folder; by default runs/NAME-DATE-TIME.")
@common_options
def solve(
    spec: str,
    steps: int | None,
    time: str | None,
    no_physics: bool,
    start: Path | None,
    pairs: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> int:
    """Train an operator on SPEC and evaluate it.

    SPEC is a file, or the name of a problem that comes with piop, such as burgers. The operator is
    compared with a reference solution on inputs it was never trained on. Without --steps and --time
    it trains for 5 minutes.
    """
    from piop.problem import Problem

    problem = Problem.from_file(spec)  # a bad spec is reported before torch is imported
    settings = parse_settings(pairs)
    seconds = seconds_of(steps, DEFAULT_TIME if steps is None and time is None else time)

    with progress(steps, seconds) as show:
        show.enter(JobPhase.PREPARING)
        from piop.run import fit  # seconds, in which the phase is shown already
        from piop.run.folder import new_folder
        from piop.training.distributed import joined

        if (out := options.pop("out")) is None:
            with joined() as processes:
                out = Path(processes.lead(lambda: str(new_folder(None, problem.name, False).path)))
        show.run = out
        run = fit(
            problem,
            steps=steps,
            time=seconds,
            physics=not no_physics,
            init_from=start,
            settings=settings,
            progress=show,
            phases=show,
            out=out,
            **options,
        )
    return finish(run, show, as_json, options["profile"])


@click.command(epilog=example("piop resume runs/burgers --time 10m"))
@click.argument("run", type=RUN)
@budget_options
@samples_option
@calibrate_option
@profile_option
@tensorboard_option
@settings_option(
    CHANGEABLE_PAIR,
    "Another size of the batch, such as functions=4, or learning_rate; may be repeated.",
)
@common_options
def resume(
    run: Path,
    steps: int | None,
    time: str | None,
    pairs: tuple[str, ...],
    samples: int | None,
    calibrate: int | None,
    profile: bool,
    tensorboard: bool,
    as_json: bool,
) -> int:
    """Continue RUN where it stopped.

    The numbers are the same as if it had not been stopped, unless --set changes them. --steps or
    --time give it a new total budget.
    """
    seconds = seconds_of(steps, time)
    with progress(steps, seconds) as show:
        show.enter(JobPhase.PREPARING)
        from piop.run import resume as resume_run
        from piop.run.folder import RunFolder

        if steps is None and time is None:
            budget = RunFolder(run).read_config()["training"]["budget"]
            show.steps, show.time = budget["steps"], budget["time"]
        show.run = run
        resumed = resume_run(
            run,
            steps=steps,
            time=seconds,
            settings=parse_settings(pairs),
            progress=show,
            phases=show,
            profile=profile,
            tensorboard=tensorboard,
            samples=samples,
            calibrate=calibrate,
        )
    return finish(resumed, show, as_json, profile)


def finish(run: Run, show: Progress, as_json: bool, profile: bool = False) -> int:
    """Print the errors of a run and draw its figures; return the exit code."""
    if run.interrupted:
        say(f"piop: interrupted; saved. Continue with: piop resume {run.path}")
        return INTERRUPTED
    if launched_first():
        show_results(run, show, as_json, profile and not run.unchanged)
    return 0


def parse_settings(pairs: tuple[str, ...]) -> dict[str, str]:
    """Split ``key=value`` texts.

    Raises:
        UsageError: A text without ``=``, or a key given twice.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not key or not value:
            raise UsageError(f"--set: '{pair}' is not KEY=VALUE, such as --set learning_rate=1e-3")
        if key in found:
            raise UsageError(f"--set: '{key}' is given twice")
        found[key] = value
    return found

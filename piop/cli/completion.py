"""``piop completion``: scripts by which bash, zsh and fish complete commands as they are typed.

The mechanism is click's; its bash script is replaced, since bash splits ``--set KEY=VALUE`` at the
equals sign, and its zsh script, which puts a space after ``KEY=``. Nothing here imports torch: the
names of settings, networks and figures are read from ``names.json``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    split_arg_string,
)

from piop.cli.console import debug_option, example
from piop.spec.builtin import builtin_names

NAMES = Path(__file__).with_name("names.json")
VARIABLE = "_PIOP_COMPLETE"
"""Environment variable by which the scripts ask for completions."""
OPEN = "open"
"""Type of a completion after which no space is written, since it goes on."""
MOST = 200
"""Run folders that are offered at most."""


@cache
def names() -> Mapping[str, Any]:
    """Return what ``names.json`` holds; see :func:`piop.cli.name_table.name_table`."""
    return json.loads(NAMES.read_text(encoding="utf-8"))


def starting(
    found: Iterable[str | tuple[str, str]], incomplete: str, kind: str = "plain"
) -> list[CompletionItem[str]]:
    """Keep the words, or words with their meaning, that begin as what is typed does."""
    pairs = ((f, None) if isinstance(f, str) else f for f in found)
    return [
        CompletionItem(word, kind, meaning)
        for word, meaning in pairs
        if word.startswith(incomplete)
    ]


@final
class SpecName(click.ParamType):
    """A problem that comes with piop, or a file."""

    name = "spec"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        """Offer the problems by name, and files."""
        return [*starting(builtin_names(), incomplete), CompletionItem(incomplete, "file")]


@final
class RunPath(click.Path):
    """A run folder."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        """Offer run folders, the newest first: here, in ``runs``, and where the path leads."""
        folder = incomplete.rpartition("/")[0]
        places = [f"{folder}/"] if "/" in incomplete else ["", "runs/"]
        found: dict[str, float] = {}
        for place in places:
            for config in Path(place or ".").expanduser().glob("*/config.json"):
                if (config.parent / "spec.yaml").exists():
                    found[place + config.parent.name] = config.stat().st_mtime
        newest = sorted(found, key=lambda name: -found[name])[:MOST]
        return [*starting(newest, incomplete), CompletionItem(incomplete, "dir")]


@final
class RunOrSpec(click.ParamType):
    """A run folder, or a problem that comes with piop, or a file."""

    name = "run or spec"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        """Offer run folders, then problems."""
        runs = RUN.shell_complete(ctx, param, incomplete)[:-1]  # without the item for folders
        return [*runs, *SPEC.shell_complete(ctx, param, incomplete)]


@final
class BackboneName(click.ParamType):
    """A network."""

    name = "name"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        """Offer piop's own, and those that other packages announce."""
        from importlib.metadata import entry_points

        others = sorted(point.name for point in entry_points(group="piop.backbones"))
        return starting(dict.fromkeys([*names()["backbones"], *others]), incomplete)


@final
class SettingPair(click.ParamType):
    """``KEY=VALUE``.

    Args:
        changeable: Whether only settings that may change during a run are meant.
    """

    name = "KEY=VALUE"

    def __init__(self, changeable: bool = False) -> None:
        self.changeable = changeable

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        """Offer keys with their meaning, then values where there are few."""
        key, equals, _ = incomplete.partition("=")
        if equals:
            values = self._keys(ctx).get(key, {"values": []})["values"]
            return starting([f"{key}={value}" for value in values], incomplete)
        given = {pair.partition("=")[0] for pair in ctx.params.get(str(param.name)) or ()}
        keys = {k: own["meaning"] for k, own in self._keys(ctx).items() if k not in given}
        return starting([(f"{k}=", meaning) for k, meaning in keys.items()], incomplete, OPEN)

    def _keys(self, ctx: click.Context) -> dict[str, Mapping[str, Any]]:
        """Return the settings of training, and of the chosen network, or of all networks."""
        found: dict[str, Mapping[str, Any]] = dict(names()["settings"])
        if self.changeable:
            return {key: own for key, own in found.items() if own["changeable"]}
        backbones, chosen = names()["backbones"], ctx.params.get("backbone")
        own = [backbones[chosen]] if chosen in backbones else list(backbones.values())
        presets = dict.fromkeys(p for backbone in own for p in backbone["presets"])
        found["preset"] = {"values": list(presets), "meaning": "sizes and choices of a network"}
        for backbone in own:
            for key, setting in backbone["settings"].items():
                found.setdefault(key, setting)
        return found


@final
class SettingTopic(click.ParamType):
    """A section of the settings, a setting, or a network."""

    name = "topic"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        """Offer sections, networks, and settings with their meaning."""
        found: list[str | tuple[str, str]] = [*names()["sections"], *names()["backbones"]]
        found += [(key, own["meaning"]) for key, own in names()["settings"].items()]
        return starting(found, incomplete)


@final
class FigureName(click.ParamType):
    """A figure of a run."""

    name = "name"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        """Offer the figures."""
        return starting(names()["figures"], incomplete)


SPEC, RUN, BACKBONE, FIGURE = SpecName(), RunPath(), BackboneName(), FigureName()
RUN_OR_SPEC = RunOrSpec()
PAIR, CHANGEABLE_PAIR, TOPIC = SettingPair(), SettingPair(changeable=True), SettingTopic()


@final
class Bash(BashComplete):
    """Completion in bash, which splits words at ``=`` and ``:``: it is given the line instead."""

    source_template = """\
%(complete_func)s() {
    local IFS=$'\\n' line value current="${COMP_WORDS[COMP_CWORD]}"
    COMPREPLY=()
    for line in $(env _PIOP_LINE="${COMP_LINE:0:COMP_POINT}" _PIOP_BREAKS="$COMP_WORDBREAKS" \\
            %(complete_var)s=bash_complete "$1"); do
        value="${line#*,}"
        case "${line%%%%,*}" in
            file) compopt -o filenames; COMPREPLY+=($(compgen -f -- "$current")) ;;
            dir) compopt -o filenames; COMPREPLY+=($(compgen -d -- "$current")) ;;
            open) compopt -o nospace; COMPREPLY+=("$value") ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Split the line up to the cursor into the words before the last, and the last."""
        line = os.environ["_PIOP_LINE"]
        words = split_arg_string(line)
        incomplete = "" if line[-1:].isspace() or not words else words.pop()
        self._typed = _after_breaks(line, incomplete, os.environ.get("_PIOP_BREAKS", ""))
        return words[1:], incomplete

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Write what bash is to put in place of the part of the word that it knows."""
        return f"{item.type},{item.value[self._typed :]}"


def _after_breaks(line: str, incomplete: str, breaks: str) -> int:
    """Return how many characters of the last word bash takes for words before it."""
    if line[len(line.rstrip()) - len(incomplete) - 1 :][:1] in ("'", '"'):
        return 0  # a quoted word is not split
    return max(incomplete.rfind(c) + 1 for c in "=:") if {*"=:"} <= {*breaks} else 0


@final
class Zsh(ZshComplete):
    """Completion in zsh, without a space after ``KEY=``."""

    source_template = (
        ZshComplete.source_template.replace(
            "    local -a response\n", "    local -a response\n    local -a open\n"
        )
        .replace(
            """\
        elif [[ "$type" == "dir" ]]; then
""",
            """\
        elif [[ "$type" == "open" ]]; then
            open+=("$key":"$descr")
        elif [[ "$type" == "dir" ]]; then
""",
        )
        .replace(
            """\
    if [ -n "$completions" ]; then
""",
            """\
    if [ -n "$open" ]; then
        _describe -V unsorted open -U -S ''
    fi

    if [ -n "$completions" ]; then
""",
        )
    )


@final
class Fish(FishComplete):
    """Completion in fish, which writes no space after ``=`` by itself."""

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Write a completion that goes on like any other."""
        kind = "plain" if item.type == OPEN else item.type
        return super().format_completion(CompletionItem(item.value, kind, item.help))


SHELLS: dict[str, type[ShellComplete]] = {"bash": Bash, "zsh": Zsh, "fish": Fish}


def answer(command: click.Command, instruction: str) -> int:
    """Print the completions that a shell asks for; nothing where that fails.

    Args:
        command: The table of commands.
        instruction: Value of the environment variable, such as ``bash_complete``.

    Returns:
        The exit code.
    """
    kind = SHELLS.get(instruction.removesuffix("_complete"))
    if kind is None:
        return 1
    found = ""
    with suppress(Exception):  # an error would be written into the line that is being typed
        found = kind(command, {}, "piop", VARIABLE).complete()
    print(found)
    return 0


@click.command(epilog=example('eval "$(piop completion bash)"', "piop completion zsh"))
@click.argument("shell", type=click.Choice(list(SHELLS)), required=False)
@debug_option
def completion(shell: str | None) -> None:
    """Print the script that completes piop's commands in SHELL, by default that of $SHELL.

    \b
    bash  eval "$(piop completion bash)"      in ~/.bashrc (bash 4.4 or newer)
    zsh   eval "$(piop completion zsh)"       in ~/.zshrc, after compinit
    fish  piop completion fish > ~/.config/fish/completions/piop.fish

    Commands, options, problems, run folders, networks, presets, settings with their values, and
    figures are completed.
    """  # noqa: D301 - click keeps the lines after a backspace character as they are
    shell = shell or Path(os.environ.get("SHELL", "")).name
    if shell not in SHELLS:
        raise click.UsageError(f"give the shell: one of {', '.join(SHELLS)}")
    root = click.get_current_context().find_root().command
    print(SHELLS[shell](root, {}, "piop", VARIABLE).source())

"""Every help ends with an example that can be given as it stands."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from piop.cli import cli


@pytest.mark.parametrize("name", [None, *cli.commands])
def test_help_ends_with_an_example_that_can_be_given(name, piop):
    code, out, err = piop(*([] if name is None else [name]), "--help")
    assert (code, err) == (0, "")
    title, *lines = out.rstrip().split("\n\n")[-1].splitlines()
    assert title.strip() in ("Example:", "Examples:")
    assert (title.strip() == "Example:") == (len(lines) == 1)
    for line in lines:
        given = re.sub(r'^eval "\$\((.*)\)"$', r"\1", line.strip())
        first, command, *arguments = shlex.split(given)
        assert first == "piop"
        assert name in (None, command), "of another command"
        with cli.commands[command].make_context(command, arguments) as context:
            assert context.args == []


def test_an_example_that_cannot_be_given_is_noticed():
    with pytest.raises(click.UsageError):
        cli.commands["solve"].make_context("solve", ["burgers", "--tmie", "5m"])

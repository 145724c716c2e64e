"""``piop explore``: the page of a run or a spec."""

from __future__ import annotations

import gc

import click

from piop.cli.completion import RUN_OR_SPEC
from piop.cli.console import PORT, debug_option, device_option, example


@click.command(epilog=example("piop explore runs/mine", "piop explore burgers"))
@click.argument("source", metavar="RUN|SPEC", type=RUN_OR_SPEC)
@click.option("--port", type=PORT, help="Port on 127.0.0.1; by default a free one.")
@click.option("--no-browser", is_flag=True, help="Print the address, and open no browser.")
@device_option
@debug_option
def explore(source: str, port: int | None, no_browser: bool, device: str | None) -> None:
    """Open a page on this machine: change an input, see the answer and its error.

    With RUN, a run folder, the page shows the operator, its error bound, whether the input is of
    the distribution, and the reference with the true error. With SPEC, a file or a problem that
    comes with piop, it shows inputs drawn from the distribution and their reference solutions,
    before anything is trained. Ctrl-C ends it.
    """
    from piop.explore.server import serve

    def announce(url: str, name: str) -> None:
        print(f"Exploring {name}: {url}\nCtrl-C ends it.", flush=True)

    serve(source, port, not no_browser, device, announce)
    gc.freeze()  # or Python looks through all that was imported at its exit, which takes seconds

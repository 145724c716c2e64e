"""The command line: what the user types, and nothing that a library user would miss."""

from piop.cli.app import main

__all__ = ["main"]

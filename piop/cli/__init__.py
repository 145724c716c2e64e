"""The command line; everything it does is in the Python API as well."""

from piop.cli.app import main

__all__ = ["main"]

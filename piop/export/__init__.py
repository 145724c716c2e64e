"""Export of a run: its whole prediction as one file that is evaluated without piop."""

from piop.export.export import Exported, export_run
from piop.export.formats import FORMATS

__all__ = ["FORMATS", "Exported", "export_run"]

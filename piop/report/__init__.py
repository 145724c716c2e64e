"""What a run looks like: its figures."""

from piop.report.figures import Shown, draw_figures
from piop.report.runs import draw_run

__all__ = ["Shown", "draw_figures", "draw_run"]

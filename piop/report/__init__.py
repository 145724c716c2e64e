"""What a run looks like: its figures."""

from piop.report.figures import Shown, draw_figures
from piop.report.resolution import draw_discretisation
from piop.report.runs import draw_run

__all__ = ["Shown", "draw_discretisation", "draw_figures", "draw_run"]

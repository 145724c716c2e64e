"""Figures and report of runs: losses, fields beside their references, residuals, errors."""

from piop.report.comparison import Comparison
from piop.report.figures import draw_discretisation, draw_figures, draw_run, plot, report

__all__ = ["Comparison", "draw_discretisation", "draw_figures", "draw_run", "plot", "report"]

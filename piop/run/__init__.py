"""Runs: train, resume, load, predict, evaluate and plot; everything in a run folder."""

from piop.run.evaluation import predict_held_out
from piop.run.fit import fit, resume
from piop.run.held_out import HeldOut
from piop.run.run import Run

__all__ = ["HeldOut", "Run", "fit", "predict_held_out", "resume"]

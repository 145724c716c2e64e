"""Batches of a training step: functions, collocation points, trajectories."""

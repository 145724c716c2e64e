"""What each training step evaluates: functions, collocation points, trajectories."""

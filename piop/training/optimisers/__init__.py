"""Optimisers, step-size schedules and weight averaging."""

"""Sizes and choices of each backbone by name: its own, and those of the papers' benchmarks."""

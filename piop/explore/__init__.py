"""The page of a run or a spec: its inputs are drawn by hand, its answers are shown at once."""

"""Faults injected on purpose: each module makes one class of them and says what came of it.

The tests beside them inject a few of each; ``python benchmarks/faults.py`` injects all.
"""

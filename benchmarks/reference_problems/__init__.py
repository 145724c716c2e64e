"""Random problems whose exact solutions are known, for ``reference_estimates.py``.

One module per solver. Each has a table ``CLASSES``: what is random and how it is bounded → a
function (count, seed) that solves so many of them and returns a ``Judged``.
"""

"""Problems' shapes of every kind, and random samples for them: those of the contract."""

from piop.testing import SIGNATURES, queries_for, samples_for

__all__ = ["SIGNATURES", "queries_for", "samples_for"]

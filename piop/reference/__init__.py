"""Classical reference solutions, derived from the same symbolic object as the residual."""

from piop.reference.solution import Limits, Solution
from piop.reference.solve import solve_reference

__all__ = ["Limits", "Solution", "solve_reference"]

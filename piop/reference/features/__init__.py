"""Features of a problem's data, found before anything is solved.

Two grids, or two step lengths, that both miss a pulse agree with each other. So the data of a
problem, which are all parts of its equations and conditions without unknowns, are enclosed by
interval arithmetic on boxes of space and time, and boxes are halved where what is inside may differ
from what their corners show (adaptive subdivision: R. E. Moore, Interval Analysis, 1966, ch. 6).
The boxes that are left are as small as the features. Solvers ask how long a step may be, and how
much of the data a grid does not see.

Drawn series, random fields and splines are sampled at corners and centres of boxes: they vary no
faster than their distribution says. Expressions of the spec are enclosed rigorously.
"""

from piop.reference.features.boxes import KnownValues
from piop.reference.features.data import data_of, initial_data_of
from piop.reference.features.features import Features, resistances
from piop.reference.features.missed import with_missed

__all__ = ["Features", "KnownValues", "data_of", "initial_data_of", "resistances", "with_missed"]

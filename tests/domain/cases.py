"""Shapes whose areas, corners and faces are known."""

import math

from piop.domain import Difference, Disk, Polygon, Union, box

UNIT = box((0, 1), (0, 1))
L_SHAPE = Polygon(((-1, -1), (1, -1), (1, 0), (0, 0), (0, 1), (-1, 1)))
RING = Difference(Disk((0.5, 0.5), 0.5), (Disk((0.5, 0.5), 0.12, "hole"),))
CAVITY = Difference(UNIT, (Disk((0.5, 0.5), 0.2, "cavity"),))
U_SHAPE = Difference(UNIT, (box((0.25, 0.75), (0.25, 1)),))
CROSS = Union((box((0, 1), (0.4, 0.6)), box((0.4, 0.6), (0, 1))))
MOON = Difference(Disk((0, 0), 1), (Disk((0.5, 0), 1),))
GAP = Difference(UNIT, (Disk((0.5, 0.5), 0.49, "hole"),))

# of two unit circles half a radius apart, what lies in one alone
_MOON = math.pi - (2 * math.acos(0.25) - 0.25 * math.sqrt(4 - 0.25))

AREAS = {
    "unit": (UNIT, 1.0),
    "L": (L_SHAPE, 3.0),
    "ring": (RING, math.pi * (0.25 - 0.0144)),
    "cavity": (CAVITY, 1 - math.pi * 0.04),
    "U": (U_SHAPE, 0.625),
    "cross": (CROSS, 0.36),
    "moon": (MOON, _MOON),
    "gap": (GAP, 1 - math.pi * 0.49**2),
}

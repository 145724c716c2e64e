"""Limits of what the page may ask for, and of what it is shown."""

from __future__ import annotations

MESSAGE_BYTES = 2**19
"""Largest message of the page: 4096 sensors in the plane, written out."""
UPLOAD_BYTES = 2**22
"""Largest file of sensors."""
SOCKETS = 64
"""Pages connected at once."""
MESSAGES_PER_SECOND = 200
"""Messages of one page that are read in a second; further ones wait."""
SENSORS = 4096
"""Most sensors of an input."""
WAVES = 16
"""Most waves whose coefficients are shown, those of the largest variance."""
LARGEST = 1e12
"""Largest size of a value."""

DRAWN_POINTS = {1: 128, 2: 32, 3: 12}
"""Points along each axis of an input that is drawn by hand, by its number of axes."""
SHOWN_POINTS = {0: (201, 1), 1: (61, 128), 2: (11, 40), 3: (6, 16)}
"""Times and points along each axis of solutions, by the number of axes of space."""
REFERENCE_TOLERANCE = {0: 1e-6, 1: 1e-5, 2: 1e-4, 3: 1e-3}
"""Error estimate asked of references, unless the usual one of the problem is larger."""
REFERENCE_SECONDS = 60.0
"""Time after which a reference is given up."""
IDLE_SECONDS = 0.08
"""Time without a newer request after which more than the time shown is worked out."""

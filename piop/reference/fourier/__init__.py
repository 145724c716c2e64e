"""Periodic evolution equations: Fourier pseudo-spectral in space, ETDRK4 in time."""

"""Fourier neural operators."""

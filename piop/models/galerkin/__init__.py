"""Fourier and Galerkin transformers."""

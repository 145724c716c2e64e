"""Readers of published data layouts."""

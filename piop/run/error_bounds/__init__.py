"""Bounds of the error of single answers, and answers of the reference solver beyond a tolerance."""

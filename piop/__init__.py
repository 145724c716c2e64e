"""Operator surrogates of partial differential equations, trained on the equation itself."""

"""IPOT, the inducing-point operator transformer."""

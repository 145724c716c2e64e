"""Finite volumes for conservation laws: MUSCL, HLLC or HLL, SSP-RK3, on boxes."""

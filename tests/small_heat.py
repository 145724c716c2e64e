"""The smallest problem that is trained: heat in one dimension, with few wave numbers and points."""

HEAT = """
piop: 1
name: small_heat
time: {t: [1, 2]}
space: {x: [0, 2]}
unknowns: [u]
inputs:
  u0: {of: [x], law: fourier_series, terms: 2, amplitude: [-1, 1], wavenumber: [1, 1]}
equations: [dt(u) = 0.05*dxx(u)]
initial: {u: u0}
boundary: {x: periodic}
sensors: {u0: {count: 8, place: grid}}
save: {t: 5, x: 16}
"""

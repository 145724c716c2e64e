"""The spec that ``piop new`` writes: it runs as it is, and says what may be changed."""

TEMPLATE = """\
# A PDE problem for piop. Change what you like, then:  piop check NAME.yaml
piop: 1                                  # version of this format
name: NAME
title: A front that moves, spreads and steepens
source: none, an example                 # where the equation and its numbers come from

time: {t: [0, 1]}                        # leave out for a steady problem
space: {x: [0, 2*pi]}                    # one to three coordinates: {x: [0, 1], y: [0, 1]}

parameters:
  c: 0.5                                 # a constant
  nu: 0.05                               # a law instead of a number makes it an input

unknowns: [u]                            # several: [u, v], with as many equations

# What the operator takes: functions (of some coordinates) or scalars (of: []), drawn from a law.
# Laws: fourier_series, gaussian_random_field, piecewise_constant, uniform, log_uniform, integer,
# normal, constant, from_file.
inputs:
  u0: {of: [x], law: fourier_series, terms: 4, amplitude: [-0.5, 0.5], wavenumber: [1, 3]}

# Derivatives: dt(u), dx(u), dxx(u), dxy(u), or d(u, x, 2); vectors: grad div lap curl dot.
# Functions: sin cos tan exp log sqrt tanh abs sign min max, where(a < b, p, q); pi is a number.
equations:
  - dt(u) + (c + u)*dx(u) = nu*dxx(u)

initial: {u: u0}                         # second order in time needs "dt(u)" as well
boundary: {x: periodic}

# From here on everything is optional.
sensors: {u0: {count: 32, place: uniform}}   # where the input is seen: grid, uniform, sobol, ...
save: {t: 51, x: 64}                     # the grid on which the operator is judged
units: {t: s, x: m, u: m/s}              # labels of files and figures
"""

"""A stand-in for a problem, with just the attributes that sampling reads."""

from types import SimpleNamespace

import pytest
import sympy
import torch

from piop.domain import Box, Coordinate
from piop.forms.pde import Input
from piop.sampling.random import Draws
from piop.spec.model import SensorPlacement


def _axis(name, low=0.0, high=1.0, periodic=True):
    return Coordinate(name, sympy.Symbol(name, real=True), low, high, periodic)


def _item(name, of, law=None, place="uniform", shape=(16,), **more):
    symbols = [sympy.Symbol(n, real=True) for n in of]
    symbol = sympy.Function(name, real=True)(*symbols) if of else sympy.Symbol(name, real=True)
    default = {"expression": None, "hidden": False, "smooth": True}
    return Input(
        name=name,
        of=tuple(of),
        distribution=law,
        sensor_shape=shape,
        place=SensorPlacement(place),
        symbol=symbol,
        **{**default, **more},
    )


def _problem(*inputs, space=None, time=True, folder=None):
    space = (_axis("x"),) if space is None else tuple(space)
    time = _axis("t", 0.0, 2.0, periodic=False) if time else None
    coordinates = (*((time,) if time else ()), *space)
    return SimpleNamespace(
        inputs=inputs,
        visible_inputs=tuple(item for item in inputs if not item.hidden),
        space=space,
        time=time,
        coordinates=coordinates,
        coordinate={c.name: c for c in coordinates}.__getitem__,
        folder=folder,
        domain=Box(space),
    )


@pytest.fixture
def axis():
    """Make a coordinate: name, low, high, periodic."""
    return _axis


@pytest.fixture
def item():
    """Make an input: name, of, law, place, shape."""
    return _item


@pytest.fixture
def problem():
    """Make a problem of inputs; by default of t in [0, 2] and a periodic x in [0, 1]."""
    return _problem


@pytest.fixture
def many():
    """Make the draws of samples 0 … count − 1."""
    return lambda count, seed=0, step=0: Draws(seed, step, torch.arange(count))

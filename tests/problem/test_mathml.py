"""Equations as MathML: well-formed, escaped, as papers write them."""

import xml.etree.ElementTree as ET

import pytest
from sympy import Derivative, Function, Integer, Symbol, sin

from piop.problem import Problem
from piop.problem.mathml import typeset_mathml

SPACE = "{http://www.w3.org/1998/Math/MathML}"


def parsed(text):
    return ET.fromstring(text.replace("&InvisibleTimes;", "⁢").replace("&ApplyFunction;", "⁡"))


def test_derivatives_are_subscripts_without_parentheses():
    t, x = Symbol("t"), Symbol("x")
    u = Function("u")(t, x)
    found = parsed(typeset_mathml(u * Derivative(u, x) - sin(u), Integer(0)))
    (below,) = found.iter(f"{SPACE}msub")
    assert "".join(below.itertext()) == "ux"
    around = [e for e in found.iter() if "(" in (e.text or "")]
    assert len(around) <= 1  # that of sin alone
    assert "".join(found.itertext()).endswith("=0")
    second = parsed(typeset_mathml(Derivative(u, x, x)))
    assert "".join(second.itertext()) == "uxx"


def test_names_are_escaped():
    text = typeset_mathml(Symbol("</math><script>"))
    assert "<script>" not in text
    assert "".join(parsed(text).itertext()) == "</math><script>"


@pytest.mark.parametrize("name", ["burgers", "cavity_cvit", "elasticity", "gray_scott"])
def test_equations_of_problems_are_typeset(name):
    for residual in Problem.from_file(name).pde.residuals_raw:
        assert parsed(typeset_mathml(residual, Integer(0))).tag == f"{SPACE}math"

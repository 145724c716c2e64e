"""Specs: YAML or Python objects to frozen models, with the place of every value, and back."""

from piop.spec.model import Spec
from piop.spec.writer import spec_to_yaml

__all__ = ["Spec", "spec_to_yaml"]

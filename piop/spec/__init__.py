"""Specs: YAML or Python objects to frozen models, with the place of every value, and back."""

from piop.spec.load import load_spec, parse_spec
from piop.spec.model import Spec
from piop.spec.writer import canonical_hash, spec_to_yaml

__all__ = ["Spec", "canonical_hash", "load_spec", "parse_spec", "spec_to_yaml"]

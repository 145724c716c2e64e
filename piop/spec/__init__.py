"""Specs: YAML or Python objects to frozen models, with the place of every value, and back."""

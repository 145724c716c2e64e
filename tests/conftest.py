"""Settings shared by every test: one thread per worker, slow tests last, reproducible examples."""

import os

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two workers share the machine

settings.register_profile(
    "piop", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("piop")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run fast tests first, so that a broken build says so early."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)

import pytest

from piop.errors import UsageError
from piop.training.config import BudgetConfig


@pytest.mark.parametrize("budget", [{}, {"steps": 5, "time": 5.0}])
def test_a_budget_is_steps_or_time(budget):
    with pytest.raises(UsageError, match="either steps or time"):
        BudgetConfig(**budget)


@pytest.mark.parametrize("budget", [{"steps": 0}, {"time": -1.0}, {"time": float("inf")}])
def test_a_budget_is_above_zero_and_finite(budget):
    with pytest.raises(UsageError, match="not above zero"):
        BudgetConfig(**budget)

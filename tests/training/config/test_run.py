from piop.training.config import BudgetConfig, TrainingConfig, apply_settings


def test_a_config_survives_json():
    config = apply_settings(
        TrainingConfig(BudgetConfig(steps=10)), {"functions": 4, "width": 8}, {"width": 64}
    )
    assert TrainingConfig.from_json(config.to_json()) == config

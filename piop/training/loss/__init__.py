"""The loss: residuals, conditions and data, made dimensionless, and the scales for that."""

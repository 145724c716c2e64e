"""The training loop: phases, gradients, checkpoints, divergence monitor, profile."""

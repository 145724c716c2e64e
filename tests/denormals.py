"""Whether the thread that asks counts denormal numbers as zero."""

import torch


def is_flushed() -> bool:
    return float(torch.tensor(1e-30) * 1e-10) == 0

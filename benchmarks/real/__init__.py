"""Parts of ``real_data.py``: problems, networks, the one training loop, the arithmetic."""

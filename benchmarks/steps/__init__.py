"""Parts of ``residual_step.py``: each module has ``measure(options)``, which gives a flat dict."""

"""Training: the loss, its batches, optimisers and the loop, on one or several processes."""

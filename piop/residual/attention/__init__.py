"""Attention of streams to sensors, summed block by block so that no stream of scores is kept."""

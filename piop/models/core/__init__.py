"""Layers and interfaces shared by the families of backbones."""

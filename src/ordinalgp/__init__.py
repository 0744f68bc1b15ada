"""Gaussian processes for ordered outcomes and preferences."""

__version__ = "0.1.0.dev0"

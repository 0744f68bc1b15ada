"""Measurements of speed, memory and scale, outside the test suite."""

"""Measurements outside the test suite: speed; and the results of ``ordinalgp benchmark``."""

"""Measurements outside the test suite: published tables, other libraries, speed."""

"""Published tables beside ours: data on the papers' partitions, a grid that resumes, tables."""

from ordinalgp.benchmark.command import Outcome, benchmark

__all__ = ["Outcome", "benchmark"]

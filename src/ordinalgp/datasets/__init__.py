"""Data to try the models on: the papers' synthetic and real problems, and embedded rows."""

from ordinalgp.datasets.benchmarks import (
    BenchmarkData,
    DataUnavailableError,
    equal_width_labels,
)
from ordinalgp.datasets.demo import DemoData, load_demo
from ordinalgp.datasets.fetch import fetch_benchmark
from ordinalgp.datasets.generators import (
    Ratings,
    make_five_ranks_1d,
    make_product_ranks,
    make_ratings,
    make_sine_comparisons,
    make_three_ranks,
)

__all__ = [
    "BenchmarkData",
    "DataUnavailableError",
    "DemoData",
    "Ratings",
    "equal_width_labels",
    "fetch_benchmark",
    "load_demo",
    "make_five_ranks_1d",
    "make_product_ranks",
    "make_ratings",
    "make_sine_comparisons",
    "make_three_ranks",
]

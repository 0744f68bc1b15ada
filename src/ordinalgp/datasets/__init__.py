"""Data to try the models on: the papers' synthetic problems, and embedded rows."""

from ordinalgp.datasets.demo import DemoData, load_demo
from ordinalgp.datasets.generators import (
    Ratings,
    make_additive_ranks,
    make_five_ranks_1d,
    make_product_ranks,
    make_ratings,
    make_sine_comparisons,
    make_three_ranks,
)

__all__ = [
    "DemoData",
    "Ratings",
    "load_demo",
    "make_additive_ranks",
    "make_five_ranks_1d",
    "make_product_ranks",
    "make_ratings",
    "make_sine_comparisons",
    "make_three_ranks",
]

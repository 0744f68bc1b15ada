"""Baselines of the papers: support vector ordinal regression and the kernel discriminant."""

from ordinalgp.baselines.discriminant import KernelDiscriminantOrdinal
from ordinalgp.baselines.svc import IncrementalOrdinalSVC, OrdinalSVC

__all__ = ["IncrementalOrdinalSVC", "KernelDiscriminantOrdinal", "OrdinalSVC"]

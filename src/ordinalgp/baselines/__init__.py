"""Baselines of the papers: support vector ordinal regression and the kernel discriminant."""

from ordinalgp.baselines.discriminant import KernelDiscriminantOrdinal
from ordinalgp.baselines.incremental_svc import IncrementalOrdinalSVC
from ordinalgp.baselines.svc import OrdinalSVC

__all__ = ["IncrementalOrdinalSVC", "KernelDiscriminantOrdinal", "OrdinalSVC"]

"""Sequential models: one latent function per binary step, :class:`SequentialOrdinalGP`."""

from ordinalgp.sequential.estimator import SequentialOrdinalGP

__all__ = ["SequentialOrdinalGP"]

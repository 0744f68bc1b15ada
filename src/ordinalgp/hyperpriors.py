"""Priors on hyperparameters, for the parameter ``hyperprior`` of the estimators.

Any object with ``log_density(kernel, likelihood)``, which returns the log density and its gradient
in [kernel.theta, likelihood.theta], is a prior.
"""

from ordinalgp.core.hyperprior import HyperPrior, LogPrior

__all__ = ["HyperPrior", "LogPrior"]

"""What estimators with one latent Gaussian process have in common: the search and the posterior."""

import warnings
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ordinalgp._typing import FloatArray
from ordinalgp.core.gaussian import Moments, Posterior, Sites
from ordinalgp.core.search import SearchResult, Task, Trainable, maximise, perturbed
from ordinalgp.models.base import WholeOrNot
from ordinalgp.models.default_kernel import spread
from ordinalgp.validation.options import check_kernel, check_number, check_option, check_whole

_PREDICT_BLOCK = 2**23  # numbers in one block of cross-covariances: 64 MB


class LatentSearch(WholeOrNot):
    """Hyperparameters searched, and a latent posterior that predicts.

    Subclasses set ``kernel_``, ``_posterior``, ``_support`` and ``_fitted_task``.
    """

    kernel: Any
    optimizer: Any
    n_restarts_optimizer: int
    n_jobs: int | None
    random_state: Any
    verbose: int
    kernel_: Any
    _posterior: Posterior
    _support: FloatArray
    """inputs whose covariance with new ones the posterior asks for"""
    _prior_mean: float = 0.0
    _fitted_task: Any
    _kernel_words: tuple[str, ...] = ()
    """what ``kernel`` can be besides a kernel"""

    def _check_parameters(self) -> None:
        if isinstance(self.kernel, str) and self._kernel_words:
            check_option("kernel", self.kernel, self._kernel_words)
        elif self.kernel is not None:
            check_kernel(self.kernel)
        if self.optimizer is not None and not callable(self.optimizer):
            check_option("optimizer", self.optimizer, ("fmin_l_bfgs_b",))
        check_whole("n_restarts_optimizer", self.n_restarts_optimizer, least=0)

    def _maximise(self, task: Trainable) -> SearchResult:
        """Search from the first start and from random ones."""
        return maximise(
            task,
            self._starts(task),
            optimizer=self.optimizer,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )

    def _starts(self, task: Trainable) -> list[FloatArray]:
        rng = check_random_state(self.random_state)
        first = task.theta if self.kernel is not None else self._rescaled(task)
        return [first] + [perturbed(task, first, rng) for _ in range(self.n_restarts_optimizer)]

    def _rescaled(self, task: Trainable) -> FloatArray:
        """The default start; for inputs far from standardised the better of it and one to scale."""
        theta, spread = task.theta, unusual_spread(task.X)
        if spread == 1.0:
            return theta
        to_scale = theta.copy()
        place = task.kernel.n_dims - 1  # the default kernel's length scale is its last parameter
        to_scale[place] = np.clip(theta[place] + np.log(spread), *task.bounds[place])
        return max(theta, to_scale, key=lambda start: task.evaluate(start)[0])

    def _latent(self, X: FloatArray) -> Moments:
        """Posterior moments, block by block: memory stays flat in the rows of ``X``."""
        block = max(1, _PREDICT_BLOCK // len(self._support))
        parts = [self._latent_block(X[i : i + block]) for i in range(0, len(X), block)]
        mean, var = (np.concatenate([getattr(p, k) for p in parts]) for k in ("mean", "var"))
        return Moments(self._prior_mean + mean, var)

    def _latent_block(self, X: FloatArray) -> Moments:
        cross = self.kernel_(X, self._support)
        return self._posterior.predict(cross, self.kernel_.diag(X))

    def _checked_theta(self, theta: Any) -> FloatArray:
        """Hyperparameters as given, or those found."""
        task = self._fitted_task
        theta = task.theta if theta is None else np.asarray(theta, dtype=float)
        if theta.shape != task.theta.shape:
            raise ValueError(
                f"theta must have shape {task.theta.shape}: {task.kernel.n_dims} kernel and "
                f"{len(task.likelihood.theta)} likelihood parameters, but has {theta.shape}."
            )
        if not np.all(np.isfinite(theta)):
            raise ValueError(f"theta must be finite, but is {theta.tolist()}.")
        return theta


class EvidenceSearch(LatentSearch):
    """The search of an evidence over a ``Task``, and its result.

    Subclasses say in ``_name_likelihood`` what the likelihood's parameters are called.
    """

    inference: str
    max_sweeps: int
    tol: float
    _sites: Sites
    log_marginal_likelihood_value_: float

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_option("inference", self.inference, ("ep", "laplace"))
        check_whole("max_sweeps", self.max_sweeps, least=1)
        check_number("tol", self.tol, above=0)

    def _settle(self, task: Task, found: SearchResult) -> Self:
        """Infer once more at the hyperparameters found, and keep the results."""
        task = task.at(found.theta)
        value, final = task.value_and_posterior(found.start)
        if not final.converged:
            warnings.warn(
                f"{self.inference}: sites still move by {final.change:.1e} > tol={self.tol:.1e} "
                f"after {final.n_sweeps} sweeps; raise max_sweeps.",
                ConvergenceWarning,
                stacklevel=6,
            )
        self.log_marginal_likelihood_value_ = value
        self.evidence_path_ = found.path
        self.converged_ = bool(final.converged and found.converged)
        self.n_iter_ = final.n_sweeps
        self._keep(task, final.sites, final.posterior)
        return self

    def _keep(self, task: Task, sites: Sites, posterior: Posterior | None = None) -> None:
        """Set everything that follows from the hyperparameters and the sites.

        The posterior depends on these alone, so that a saved model has it to the last bit.
        """
        self._fitted_task, self._sites, self._support = task, sites, task.X
        self._name_likelihood(task)
        self._posterior = task.problem().condition(sites) if posterior is None else posterior
        self._posterior.observed()  # finishes the factor, which is then only read

    def _name_likelihood(self, task: Any) -> None:
        raise TypeError(f"{type(self).__name__} does not say what its parameters are called")

    def log_marginal_likelihood(
        self, theta: Any = None, eval_gradient: bool = False
    ) -> float | tuple[float, FloatArray]:
        """Log evidence at given hyperparameters.

        Parameters
        ----------
        theta : array-like of shape (n_hyperparameters,), default=None
            ``[kernel.theta, likelihood.theta]``, the kernel's first. None means those found by
            ``fit``.
        eval_gradient : bool, default=False
            Whether to return the gradient in ``theta`` as well.

        Returns
        -------
        value : float
            Log evidence under the approximation ``inference``.
        gradient : ndarray of shape (n_hyperparameters,)
            Only if ``eval_gradient`` is true.
        """
        check_is_fitted(self)
        if theta is None and not eval_gradient:
            return self.log_marginal_likelihood_value_
        value, gradient, _ = self._fitted_task.evaluate(self._checked_theta(theta))
        return (value, gradient) if eval_gradient else value


def unusual_spread(X: FloatArray) -> float:
    """Root mean square of the columns' standard deviations; 1 where it is near that, or zero."""
    found = spread(X)
    return 1.0 if 1 / 3 < found < 3 or found == 0 else found

"""What estimators that maximise an evidence over a ``Task`` have in common."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ordinalgp._typing import FloatArray
from ordinalgp._validation import check_kernel, check_number, check_option
from ordinalgp.core.gaussian import Moments, Posterior, Sites
from ordinalgp.core.search import Found, Task, maximise, perturbed

_PREDICT_BLOCK = 2**23  # numbers in one block of cross-covariances: 64 MB


class EvidenceSearch:
    """The search, its result, the evidence and the latent moments.

    Subclasses have the parameters named below and set ``kernel_`` and ``likelihood_`` in ``_keep``.
    """

    kernel: Any
    inference: str
    optimizer: Any
    n_restarts_optimizer: int
    max_sweeps: int
    tol: float
    n_jobs: int | None
    random_state: Any
    verbose: int
    kernel_: Any
    _fitted_task: Task
    _sites: Sites
    _posterior: Posterior
    log_marginal_likelihood_value_: float

    def _whole(self, fit: Callable[[], None]) -> None:
        """Run ``fit``; whatever stops it, an interrupt too, leaves an old model whole."""
        before = self.__dict__.copy()
        try:
            fit()
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _check_search_parameters(self) -> None:
        check_option("inference", self.inference, ("ep", "laplace"))
        if self.optimizer is not None and not callable(self.optimizer):
            check_option("optimizer", self.optimizer, ("fmin_l_bfgs_b",))
        check_number("n_restarts_optimizer", self.n_restarts_optimizer, least=0)
        check_number("max_sweeps", self.max_sweeps, least=1)
        check_number("tol", self.tol, above=0)
        if self.kernel is not None and not isinstance(self.kernel, str):
            check_kernel(self.kernel)

    def _search(self, task: Task) -> None:
        """Maximise the evidence, infer once more at the maximum and keep the results."""
        rng = check_random_state(self.random_state)
        first = task.theta if self.kernel is not None else rescaled(task)
        starts = [first] + [perturbed(task, first, rng) for _ in range(self.n_restarts_optimizer)]
        found = maximise(
            task, starts, optimizer=self.optimizer, n_jobs=self.n_jobs, verbose=self.verbose
        )
        self._settle_at(task, found)

    def _settle_at(self, task: Task, found: Found) -> None:
        value, _, final = task.evaluate(found.theta, found.start)
        if not final.converged:
            warnings.warn(
                f"{self.inference}: sites still move by {final.change:.1e} > tol={self.tol:.1e} "
                f"after {final.n_sweeps} sweeps; raise max_sweeps.",
                ConvergenceWarning,
                stacklevel=5,
            )
        self.log_marginal_likelihood_value_ = value
        self.evidence_path_ = found.path
        self.converged_ = bool(final.converged and found.converged)
        self.n_iter_ = final.n_sweeps
        self._keep(task.at(found.theta), final.sites)

    def _keep(self, task: Task, sites: Sites) -> None:
        """Set everything that follows from the hyperparameters and the sites."""
        self._fitted_task, self._sites, self.kernel_ = task, sites, task.kernel
        self._posterior = task.problem().condition(sites)
        self._posterior.observed()  # finishes the factor, which is then only read

    def _latent(self, X: FloatArray) -> Moments:
        """Posterior moments, block by block: memory stays flat in the rows of ``X``."""
        block = max(1, _PREDICT_BLOCK // len(self._fitted_task.X))
        parts = [self._latent_block(X[i : i + block]) for i in range(0, len(X), block)]
        mean, var = (np.concatenate([getattr(p, k) for p in parts]) for k in ("mean", "var"))
        return Moments(mean, var)

    def _latent_block(self, X: FloatArray) -> Moments:
        cross = self.kernel_(X, self._fitted_task.X)
        return self._posterior.predict(cross, self.kernel_.diag(X))

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
        task = self._fitted_task
        theta = task.theta if theta is None else np.asarray(theta, dtype=float)
        if theta.shape != task.theta.shape:
            raise ValueError(
                f"theta must have shape {task.theta.shape}: {task.kernel.n_dims} kernel and "
                f"{len(task.likelihood.theta)} likelihood parameters, but has {theta.shape}."
            )
        value, gradient, _ = task.evaluate(theta)
        return (value, gradient) if eval_gradient else value


def rescaled(task: Task) -> FloatArray:
    """The default start; for inputs far from standardised the better of it and one to scale."""
    theta, spread = task.theta, float(np.sqrt(np.mean(np.var(task.X, axis=0))))
    if 1 / 3 < spread < 3 or spread == 0 or not np.isfinite(spread):
        return theta
    to_scale = theta.copy()
    to_scale[0] = np.clip(theta[0] + np.log(spread), *task.bounds[0])
    return max(theta, to_scale, key=lambda start: task.evaluate(start)[0])

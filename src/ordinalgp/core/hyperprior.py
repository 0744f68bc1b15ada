"""Priors on hyperparameters: the P(theta) of section 3 of [Chu05]_.

A search maximises log evidence + log P(theta). Length scales per feature need it: with few rows,
evidence alone gives most features a length scale far from what further rows would show.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Any, Protocol

import numpy as np
from scipy.stats import norm

from ordinalgp._typing import POSITIVE, Axes, FloatArray


class LogPrior(Protocol):
    """Protocol of a prior on hyperparameters: a log density with its gradient.

    Any object with this method can be given as ``hyperprior``.

    Examples
    --------
    A prior that keeps the logarithm of every hyperparameter of the kernel near zero:

    >>> import numpy as np
    >>> from ordinalgp import OrdinalGPClassifier
    >>> class NearOne:
    ...     def log_density(self, kernel, likelihood):
    ...         theta = np.concatenate([kernel.theta, np.zeros_like(likelihood.theta)])
    ...         return -theta @ theta / 2, -theta
    >>> X = np.linspace(-2, 2, 30)[:, None]
    >>> y = np.digitize(X[:, 0], [-1, 1])
    >>> model = OrdinalGPClassifier(hyperprior=NearOne()).fit(X, y)
    >>> bool(abs(np.log(model.kernel_.length_scale)) < 2)
    True
    """

    def log_density(self, kernel: Any, likelihood: Any) -> tuple[float, FloatArray]:
        """Log density, and its gradient in [kernel.theta, likelihood.theta]."""


@dataclass(frozen=True)
class HyperPrior:
    """Independent normal priors on the logarithms of hyperparameters.

    Each part can be left out, and is then flat.

    Parameters
    ----------
    length_scales : float or None, default=0.5
        Standard deviation of the log length scales of the features around their mean, in every part
        of the kernel that has several. Their mean is free. A relevance (``ARDLinear``) acts as an
        inverse squared length scale, so the logarithm of a relevance has twice this deviation.
    noise : pair of floats (mean, sd), default=None
        Mean and standard deviation of the log noise. The noise is that of the latent function, as a
        standard deviation, in prior standard deviations of the latent function at the start of the
        search. ``LeastSquaresOrdinalClassifier`` has it in ranks.
    amplitudes : pair of floats (mean, sd), default=None
        Mean and standard deviation of the logarithm of every ``ConstantKernel`` in the kernel.
        Its ``constant_value`` is a variance.
    gaps : float or None, default=None
        Standard deviation of the log gaps between neighbouring thresholds around their mean, which
        is free. A small one draws the levels between the lowest and the highest towards equal
        widths. It needs a likelihood with free thresholds, as ``OrdinalGPClassifier`` has.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from ordinalgp import OrdinalGPClassifier
    >>> from ordinalgp.hyperpriors import HyperPrior
    >>> X = np.column_stack([np.linspace(-2, 2, 30), np.cos(np.arange(30) ** 2)])
    >>> y = np.digitize(X[:, 0] ** 3, [-1, 1])
    >>> model = OrdinalGPClassifier(RBF([1.0, 1.0]), hyperprior=HyperPrior()).fit(X, y)
    >>> model.predict([[-1.8, 0.0], [0.0, 0.0], [1.8, 0.0]])
    array([0, 1, 2])
    """

    length_scales: Annotated[float, Axes("", *POSITIVE)] | None = 0.5
    noise: tuple[float, float] | None = None
    amplitudes: tuple[float, float] | None = None
    gaps: Annotated[float, Axes("", *POSITIVE)] | None = None

    def __post_init__(self) -> None:
        """Check the parameters."""
        for name in ("length_scales", "gaps"):
            given = getattr(self, name)
            if given is not None and not 0 < given < np.inf:
                raise ValueError(f"{name} must be a positive number or None, but is {given!r}.")
        for name in ("noise", "amplitudes"):
            given = getattr(self, name)
            pair = given is None or (np.shape(given) == (2,) and all(map(isfinite, given)))
            if not pair or (given is not None and not given[1] > 0):
                raise ValueError(
                    f"{name} must be a pair (mean, sd) of the logarithm with sd above 0, or None, "
                    f"but is {given!r}."
                )

    def log_density(self, kernel: Any, likelihood: Any) -> tuple[float, FloatArray]:
        """Log density, and its gradient in [kernel.theta, likelihood.theta].

        Parameters
        ----------
        kernel : scikit-learn kernel
            Kernel at the hyperparameters.
        likelihood : likelihood object
            Likelihood at the hyperparameters.

        Returns
        -------
        value : float
            Log density.
        gradient : ndarray of shape (n_hyperparameters,)
            Its gradient.
        """
        value, theta = 0.0, np.concatenate([kernel.theta, likelihood.theta])
        gradient = np.zeros_like(theta)
        for place, mean, sd in self._parts(kernel, likelihood):
            at = theta[place]
            # Around their own mean, deviations add up to zero: the mean's slope does too.
            centre = np.mean(at) if mean is None else mean
            value += float(np.sum(norm.logpdf(at, centre, sd)))
            gradient[place] = (centre - at) / sd**2
        return value, gradient

    def _parts(self, kernel: Any, likelihood: Any) -> Iterator[tuple[slice, float | None, float]]:
        """Places in theta of normal variables, their mean (None: their own) and deviation."""
        start = 0
        for each in kernel.hyperparameters:
            if each.fixed:
                continue
            place, start = slice(start, start + each.n_elements), start + each.n_elements
            word = each.name.split("__")[-1]
            if self.amplitudes is not None and word == "constant_value":
                yield place, *self.amplitudes
            if self.length_scales is not None and each.n_elements > 1:
                if word == "length_scale":
                    yield place, None, self.length_scales
                elif word == "relevance":
                    yield place, None, 2 * self.length_scales
        if self.noise is not None:
            yield from self._noise_part(likelihood, start)
        if self.gaps is not None:
            yield from self._gaps_part(likelihood, start)

    def _noise_part(self, likelihood: Any, start: int) -> Iterator[tuple[slice, float, float]]:
        assert self.noise is not None
        if not hasattr(likelihood, "noise_place"):
            raise TypeError(
                "A prior on noise needs a likelihood with noise_place, the place of log noise in "
                f"its theta, but {type(likelihood).__name__} has none. Use noise=None."
            )
        if likelihood.noise_place is not None:
            place = start + likelihood.noise_place
            mean, sd = self.noise
            yield slice(place, place + 1), mean + float(np.log(likelihood.noise_unit)), sd

    def _gaps_part(self, likelihood: Any, start: int) -> Iterator[tuple[slice, None, float]]:
        assert self.gaps is not None
        if not hasattr(likelihood, "gaps_place"):
            raise TypeError(
                "A prior on gaps needs a likelihood with gaps_place, the place of the log gaps in "
                f"its theta, but {type(likelihood).__name__} has none. Use gaps=None."
            )
        place = likelihood.gaps_place
        if place.stop - place.start > 1:
            yield slice(start + place.start, start + place.stop), None, self.gaps

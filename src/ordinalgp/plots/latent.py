"""Levels and thresholds on the latent scale."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.plots.base import (
    SHADE,
    Display,
    codes_of,
    colors_of,
    latent_at,
    pyplot,
    span,
)


@dataclass(eq=False)
class LatentDisplay(Display):
    """Density of each level on the latent scale, with the thresholds.

    Every level has its own line. The curve is the posterior density of the latent function,
    averaged over the rows of that level (area one). Ticks are the means of the rows. The shaded
    part lies between the thresholds of the level. Without labels, rows count for each level with
    its probability. Make it with :meth:`from_estimator`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the plot, set by :meth:`plot`.
    lines_ : list of matplotlib Line2D
        The thresholds.

    Examples
    --------
    >>> from ordinalgp import OrdinalGPClassifier
    >>> from ordinalgp.datasets import make_three_ranks
    >>> from ordinalgp.plots import LatentDisplay
    >>> X, y = make_three_ranks(40, random_state=0)
    >>> model = OrdinalGPClassifier().fit(X, y)
    >>> display = LatentDisplay.from_estimator(model, X, y)
    >>> display.figure_.savefig("latent.png")  # doctest: +SKIP
    """

    latent: FloatArray
    density: FloatArray
    share: FloatArray
    mean: FloatArray
    codes: IntArray | None
    thresholds: FloatArray
    noise: float
    categories: NDArray[Any]
    lines_: Any = field(default=None, init=False)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any = None, *, ax: Any = None) -> Self:
        """Compute the density of each level from rows, and draw it.

        Parameters
        ----------
        estimator : fitted estimator or pipeline
            Its last step has ``latent_mean_and_variance``.
        X : array-like of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,), default=None
            Their levels; None uses the probabilities of the model instead.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.
        """
        pyplot()
        model, mean, var = latent_at(estimator, X)
        return cls.from_moments(model, mean, var, y, ax=ax)

    @classmethod
    def from_moments(
        cls, estimator: Any, mean: FloatArray, var: FloatArray, y: Any = None, *, ax: Any = None
    ) -> Self:
        """Compute the density of each level from the posterior at rows, and draw it.

        Parameters
        ----------
        estimator : fitted estimator
            Its thresholds, noise, likelihood and levels are used.
        mean, var : ndarrays of shape (n_samples,)
            Latent moments of the rows, from ``latent_mean_and_variance``.
        y : array-like of shape (n_samples,), default=None
            Their levels; None uses the probabilities of the model instead.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.
        """
        pyplot()
        model = estimator
        spread = 3 * np.sqrt(var)
        latent = span(np.concatenate([mean - spread, mean + spread, model.thresholds_]), 400)
        sd = np.maximum(np.sqrt(var), latent[1] - latent[0])  # the grid shows nothing narrower
        rows = norm.pdf(latent, mean[:, None], sd[:, None])
        codes = codes_of(y, model.categories_, len(mean))
        if codes is None:
            joint = rows.mean(axis=0) * model.likelihood_.probabilities(latent, 0 * latent).T
            share = model.likelihood_.probabilities(mean, var).mean(axis=0)
        else:
            member = codes == np.arange(len(model.categories_))[:, None]
            joint, share = member @ rows / len(rows), member.mean(axis=1)
        density = np.divide(joint, share[:, None], where=share[:, None] > 0, out=0 * joint)
        fitted = model.thresholds_, float(model.likelihood_.noise), model.categories_
        return cls(latent, density, share, mean, codes, *fitted).plot(ax=ax)

    def _draw(self, ax: Any) -> None:
        ends = np.concatenate([self.latent[[0]], self.thresholds, self.latent[[-1]]])
        height = 0.8 * self.density / self.density.max()
        for k, color in enumerate(colors_of(len(self.categories))):
            ax.fill_betweenx([k, k + 0.9], ends[k], ends[k + 1], color=color, alpha=SHADE, lw=0)
            ax.fill_between(self.latent, k, k + height[k], color=color, alpha=0.8, lw=0)
            ax.plot(self.latent, k + height[k], color="black", lw=0.8)
            if self.codes is not None:
                means = self.mean[self.codes == k]
                ax.plot(means, np.full(len(means), k), "|", color="black", ms=7, mew=0.6)
        self.lines_ = [ax.axvline(b, color="black", ls="--", lw=1.2) for b in self.thresholds]
        what = "expected" if self.codes is None else "of rows"
        names = [f"{c}\n{s:.0%} {what}" for c, s in zip(self.categories, self.share, strict=True)]
        ax.set_yticks(np.arange(len(names)) + 0.35, names)
        ax.tick_params(axis="y", length=0)
        ax.set(xlabel=f"latent function (dashed: thresholds; noise sd {self.noise:.2g})")
        ax.set(xlim=ends[[0, -1]], ylim=(-0.15, len(names)))

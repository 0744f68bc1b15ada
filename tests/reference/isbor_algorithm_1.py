"""Algorithm 1 of Li and de Rijke (2018), line by line: one basis function per iteration.

Slow (all basis functions are scored from scratch in every iteration) and easy to compare with the
page. Where the paper leaves a choice, it is made as follows and marked "choice" in the code. Two
slips are corrected: alpha in eqs. (17) and (18) means 1 / alpha, and eq. (13) is a sum over rows.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.stats import norm

_SMALLEST = 1e-300  # of a probability, whose logarithm is taken
_LARGEST_ALPHA = 1e10  # choice: a function with more is pruned (section 4.5)


def _times_density(z):
    """z N(z; 0, 1), zero at infinity."""
    return np.where(np.isinf(z), 0.0, z) * norm.pdf(z)


@dataclass
class Algorithm1:
    """State of the algorithm: lines 2 to 4 set it up, `iterate` is one turn of the loop."""

    Phi: np.ndarray
    """basis matrix, (N, N)"""
    y: np.ndarray
    """levels 1..r"""
    phi: list[int]
    """functions in the model, in the order of ``alpha``"""
    b: np.ndarray
    """thresholds b_0 = -inf, ..., b_r = inf"""
    sigma: float = 1.0
    learn_noise: bool = True
    """line 14, eq. (15)"""
    alpha: np.ndarray = field(init=False)
    w: np.ndarray = field(init=False)
    ml: float = field(init=False, default=-np.inf)

    def __post_init__(self):
        self.alpha = np.full(len(self.phi), 1e-3)  # section 5.1.4
        self.w = np.zeros(len(self.phi))
        self.find_mode()
        self.ml = self.evidence()

    # ------------------------------------------------------------ the likelihood and its slopes

    def edges(self, u, b=None):
        """z_1 and z_2 of eq. (4)."""
        b = self.b if b is None else b
        return (b[self.y] - u) / self.sigma, (b[self.y - 1] - u) / self.sigma

    def log_likelihood(self, u, b=None):
        """L, the logarithm of eq. (4)."""
        z1, z2 = self.edges(u, b)
        # Differences of upper tails where both are positive, so that digits are kept.
        p = np.where(z2 > 0, norm.sf(z2) - norm.sf(z1), norm.cdf(z1) - norm.cdf(z2))
        return float(np.log(np.maximum(p, _SMALLEST)).sum())

    def derivatives(self, u):
        """delta and the diagonal of H, as after eq. (9); delta is dL/du, with its sign."""
        z1, z2 = self.edges(u)
        p = np.where(z2 > 0, norm.sf(z2) - norm.sf(z1), norm.cdf(z1) - norm.cdf(z2))
        p = np.maximum(p, _SMALLEST)
        ratio = (norm.pdf(z1) - norm.pdf(z2)) / p
        bent = (_times_density(z1) - _times_density(z2)) / p
        return -ratio / self.sigma, (ratio**2 + bent) / self.sigma**2

    # ------------------------------------------------------------------ section 3.4: the mode

    @property
    def active(self):
        """Columns of the model's functions."""
        return self.Phi[:, self.phi]

    def log_posterior(self, w):
        """L - w'Aw/2."""
        return self.log_likelihood(self.active @ w) - 0.5 * w @ (self.alpha * w)

    def find_mode(self, steps=100):
        """Newton's method on eqs. (8) and (9); a step that falls is halved (choice)."""
        for _ in range(steps):
            delta, H = self.derivatives(self.active @ self.w)
            gradient = self.active.T @ delta - self.alpha * self.w
            step = np.linalg.solve(self.precision(H), gradient)
            now, size = self.log_posterior(self.w), 1.0
            while self.log_posterior(self.w + size * step) < now and size > 1e-8:
                size /= 2
            self.w = self.w + size * step
            if gradient @ step < 1e-10:
                break

    def precision(self, H):
        """A + Phi'H Phi, the inverse of eq. (10)."""
        return np.diag(self.alpha) + self.active.T @ (H[:, None] * self.active)

    def evidence(self):
        """Eq. (12)."""
        _, H = self.derivatives(self.active @ self.w)
        log_det = np.linalg.slogdet(self.precision(H))[1]
        return self.log_posterior(self.w) + 0.5 * np.log(self.alpha).sum() - 0.5 * log_det

    # ---------------------------------------------------------- section 4.3: what a move gains

    def factors(self):
        """s_j, q_j of all functions, by S_j and Q_j (between eqs. (20) and (21))."""
        u = self.active @ self.w
        delta, H = self.derivatives(u)
        Ht = delta + H * u  # H t, with t = H^-1 delta + Phi w
        Sigma = np.linalg.inv(self.precision(H))
        cross = self.Phi.T @ (H[:, None] * self.active)
        Q = self.Phi.T @ Ht - cross @ (Sigma @ (self.active.T @ Ht))
        S = np.einsum("nj,n,nj->j", self.Phi, H, self.Phi)
        S -= np.einsum("jm,mk,jk->j", cross, Sigma, cross)
        s, q = S.copy(), Q.copy()
        s[self.phi] = self.alpha * S[self.phi] / (self.alpha - S[self.phi])
        q[self.phi] = self.alpha * Q[self.phi] / (self.alpha - S[self.phi])
        return s, q

    def contribution(self, s, q, alpha):
        """g(alpha) of eq. (20); zero for a function that is not in the model."""
        with np.errstate(divide="ignore", invalid="ignore"):
            g = 0.5 * (np.log(alpha) - np.log(alpha + s) + q**2 / (s + alpha))
        return np.where(np.isinf(alpha), 0.0, g)

    # -------------------------------------------------------------------------------- the loop

    def iterate(self):
        """Lines 6 to 18; the change of the evidence."""
        s, q = self.factors()
        f = q**2 - s
        wanted = (f > 0) & (s > 0)
        target = np.where(wanted, s**2 / np.where(wanted, f, 1.0), np.inf)  # eq. (21)
        now = np.full(len(s), np.inf)
        now[self.phi] = self.alpha
        gain = self.contribution(s, q, target) - self.contribution(s, q, now)
        gain = np.where(np.isfinite(gain), gain, -np.inf)
        if len(self.phi) == 1 and not wanted[self.phi[0]]:
            gain[self.phi[0]] = -np.inf  # choice: the last function stays
        n = int(np.argmax(gain))
        if n in self.phi and not wanted[n]:
            self.leave(n)
        elif wanted[n] and n in self.phi:
            self.alpha[self.phi.index(n)] = target[n]
        elif wanted[n]:
            self.phi.append(n)
            self.alpha, self.w = np.append(self.alpha, target[n]), np.append(self.w, 0.0)
        for n in [n for n, a in zip(self.phi, self.alpha, strict=True) if a > _LARGEST_ALPHA]:
            self.leave(n)
        self.find_mode()
        self.move_thresholds()
        self.find_mode()
        if self.learn_noise:
            self.update_noise()
            self.find_mode()
        last, self.ml = self.ml, self.evidence()
        return self.ml - last

    def leave(self, n):
        """Take a function out of the model."""
        if len(self.phi) == 1:
            return
        k = self.phi.index(n)
        self.phi.pop(k)
        self.alpha, self.w = np.delete(self.alpha, k), np.delete(self.w, k)

    def move_thresholds(self):
        """One step of gradient ascent in b_1 and ln Delta_i, eqs. (13) and (14).

        Choice: the length of the step is halved until L rises; widths move on the log scale, so
        that they stay positive.
        """
        u = self.active @ self.w
        z1, z2 = self.edges(u)
        p = np.maximum(
            np.where(z2 > 0, norm.sf(z2) - norm.sf(z1), norm.cdf(z1) - norm.cdf(z2)), _SMALLEST
        )
        upper, both = norm.pdf(z1) / p / self.sigma, -self.derivatives(u)[0]
        widths = np.diff(self.b[1:-1])
        slope = [both.sum()]
        slope += [
            w * (both[self.y > i].sum() + upper[self.y == i].sum())
            for i, w in enumerate(widths, start=2)
        ]
        slope, size = np.array(slope), 1.0 / len(self.y)
        now = self.log_likelihood(u)
        while size > 1e-12:
            first = self.b[1] + size * slope[0]
            grown = np.cumsum(widths * np.exp(size * slope[1:]))
            b = np.concatenate([[-np.inf, first], first + grown, [np.inf]])
            if self.log_likelihood(u, b) > now:
                self.b = b
                return
            size /= 2

    def update_noise(self):
        """Eq. (15)."""
        delta, H = self.derivatives(self.active @ self.w)
        Sigma = np.linalg.inv(self.precision(H))
        known = np.sum(1.0 - self.alpha * np.diagonal(Sigma))
        # delta / H is some sigma / z, and zero where both underflow far from either threshold.
        residual = np.divide(delta, H, out=np.zeros_like(H), where=H > _SMALLEST)
        self.sigma = float(np.sqrt(np.sum(residual**2) / (len(self.y) - known)))

    def run(self, max_its=500, min_delta=1e-3):
        """The loop of lines 5 to 20; iterations taken, and how it ended.

        It also ends where nothing is left to invert, as eq. (15) can send the noise to zero.
        """
        for i in range(1, max_its + 1):
            try:
                if abs(self.iterate()) < min_delta:
                    return i, "done"
            except np.linalg.LinAlgError:
                return i, "singular"
        return max_its, "limit"

    def category_proba(self, Phi):
        """Probabilities of the levels at rows of basis functions, the weights integrated out."""
        _, H = self.derivatives(self.active @ self.w)
        Sigma = np.linalg.inv(self.precision(H))
        columns = Phi[:, self.phi]
        sd = np.sqrt(self.sigma**2 + np.einsum("nm,mk,nk->n", columns, Sigma, columns))
        return np.diff(norm.cdf((self.b - (columns @ self.w)[:, None]) / sd[:, None]), axis=1)

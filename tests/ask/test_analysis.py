"""Forecasts against sessions that are played to their end, and rankings against known truth."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm
from tests.ask.sessions import answers_to, forecasts, play, random_for_chosen, snapshot

from ordinalgp import PreferenceGP
from ordinalgp.ask.analysis import Analysis, Analyst
from ordinalgp.ask.forecast import SETTLED, Outlook, certainties, hardly_different, outlook
from ordinalgp.ask.survey import levels_for
from ordinalgp.core.gaussian import Moments
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.preference.suggestions import Questions, candidate_pairs

# --------------------------------------------------------------------------------- certainty


def test_certainty_of_two_items_is_the_probability_of_their_order():
    rng = np.random.default_rng(0)
    covariance = np.array([[0.5, 0.1], [0.1, 0.3]])
    residuals = rng.multivariate_normal([0, 0], covariance, 200_000)
    means = np.array([[0.4, 0.0], [0.0, 0.0], [-0.3, 0.5]])
    sd = np.sqrt(0.5 + 0.3 - 0.2)
    gap = np.abs(means[:, 0] - means[:, 1])
    for slack in (0.0, 0.25):
        expected = norm.cdf((gap + slack) / sd)
        assert_allclose(certainties(means, residuals, 1, slack), expected, atol=0.005)


def test_certainty_of_the_top_two_of_four_counted_one_by_one():
    rng = np.random.default_rng(1)
    means, residuals = rng.standard_normal((3, 4)), rng.standard_normal((500, 4))
    for future, found in zip(means, certainties(means, residuals, 2, 0.1), strict=True):
        declared = sorted(range(4), key=lambda i: -future[i])[:2]
        hits = 0
        for each in residuals:
            true = future + each
            second = sorted(true)[-2]
            hits += sum(true[i] >= second - 0.1 for i in declared)
        assert found == pytest.approx(hits / 1000)


@pytest.mark.parametrize("levels", [(-1, 1), (-1, 0, 1), levels_for(5), levels_for(6)])
def test_hardly_different_items_have_six_answers_of_ten(levels):
    r = len(levels)
    cuts = np.linspace(-0.6, 0.6, r - 1) if r > 2 else np.zeros(1)
    likelihood = OrdinalProbit.from_thresholds(cuts, 0.5)
    d = hardly_different(likelihood)
    edges = np.concatenate([[-np.inf], cuts, [np.inf]])
    p = np.diff(norm.cdf((edges - d) / 0.5))
    better, worse = p[-(r // 2) :].sum(), p[: r // 2].sum()
    assert better - worse == pytest.approx(0.2, abs=1e-9)


def test_the_look_ahead_moves_means_as_the_posterior_would():
    """The variance that answers take away is that of the means that they move."""
    rng = np.random.default_rng(2)
    root = rng.standard_normal((6, 6))
    covariance = root @ root.T / 6
    likelihood = OrdinalProbit.from_thresholds(np.zeros(1), 0.4)
    left, right = candidate_pairs(6, None)
    questions = Questions(left, right, np.zeros(6), covariance, likelihood)
    from ordinalgp.ask.forecast import _followed

    true = rng.multivariate_normal(np.zeros(6), covariance, 40_000)
    *_, (step, means, last) = _followed(questions, [0, 4, 7, 11], true, np.random.RandomState(0))
    assert step == 4
    assert_allclose(np.cov(means.T), covariance - last, atol=0.02)
    assert_allclose(np.cov((true - means).T), last, atol=0.02)
    # Each step takes away as much as a Gaussian observation of the pair's difference.
    a = np.zeros(6)
    a[left[0]], a[right[0]] = 1.0, -1.0
    tau = questions.expected_precision(0)
    precision = np.linalg.inv(covariance) + tau * np.outer(a, a)
    assert_allclose(questions.answered(0).covariance, np.linalg.inv(precision), rtol=1e-9)


def test_the_expected_precision_is_that_of_an_update_of_the_probit():
    """With two levels: the average of 1 / lost variance over both answers, by quadrature."""
    likelihood = OrdinalProbit.from_thresholds(np.zeros(1), 0.7)
    mean, var = 0.3, 0.9
    covariance = np.array([[var, 0.0], [0.0, 0.0]])
    one = np.array([0])
    questions = Questions(one, one + 1, np.array([mean, 0.0]), covariance, likelihood)
    u = np.linspace(mean - 12, mean + 12, 200_001)
    prior = norm.pdf(u, mean, np.sqrt(var))
    total = 0.0
    for sign in (1, -1):
        joint = prior * norm.cdf(sign * u / 0.7)
        p = np.trapezoid(joint, u)
        m = np.trapezoid(u * joint, u) / p
        v = np.trapezoid((u - m) ** 2 * joint, u) / p
        total += p * (1 / v - 1 / var)
    assert questions.expected_precision(0) == pytest.approx(total, rel=1e-6)
    assert questions.moments([0]).var == Moments(np.array([mean]), np.array([var])).var


# --------------------------------------------------------------------------------- outlook


@pytest.fixture(scope="module")
def sessions():
    return [play(12, seed) for seed in range(5)]


def test_the_best_are_right_when_they_are_settled(sessions):
    assert all(path[-1][1].settled for path, _ in sessions)
    assert np.mean([right for _, right in sessions]) >= SETTLED - 0.1


def test_forecasts_tell_how_many_answers_it_takes(sessions):
    """Between a quarter and three quarters of the way, over all sessions."""
    told, true = forecasts(sessions)
    assert np.median(told / true) == pytest.approx(1.0, abs=0.5)
    assert np.mean((told < 3 * true) & (told > true / 3)) > 0.7


def test_random_pairs_need_about_twice_as_many():
    assert 1.5 <= random_for_chosen(range(5)) <= 3.0


def test_an_outlook_without_pairs_left_promises_nothing():
    likelihood = OrdinalProbit.from_thresholds(np.zeros(1), 0.5)
    none = np.empty(0, dtype=np.intp)
    questions = Questions(none, none, np.zeros(6), np.eye(6), likelihood)
    found = outlook(questions, none, 3, np.random.RandomState(0))
    assert isinstance(found, Outlook)
    assert found.remaining is None
    assert not found.settled
    assert found.certainty == pytest.approx(0.5, abs=0.12)


# --------------------------------------------------------------------------------- analyses


def test_the_ranking_is_that_of_the_estimator():
    rng = np.random.default_rng(3)
    utility = rng.standard_normal(12)
    pairs = np.array([rng.choice(12, 2, replace=False) for _ in range(60)])
    given = answers_to(pairs, utility, rng, 0.3, 0.1)
    analyst = Analyst(12, None, (-1, 0, 1), 5)
    found = next(analyst.analyse(snapshot(pairs, given)))
    from ordinalgp.ask.analysis import _NOISE
    from ordinalgp.hyperpriors import HyperPrior

    prior = HyperPrior(length_scales=None, noise=_NOISE)
    model = PreferenceGP("independent", levels=[-1, 0, 1], hyperprior=prior).fit(12, pairs, given)
    ranking = model.rank(12)
    assert found.order.tolist() == ranking.order.tolist()
    assert_allclose(found.mean, ranking.mean, rtol=1e-6)
    assert_allclose(found.sd, ranking.sd, rtol=1e-6)
    assert np.abs(found.low - ranking.rank_low).max() <= 1
    assert np.abs(found.high - ranking.rank_high).max() <= 1
    assert_allclose(found.best, ranking.best_proba, atol=0.03)


@pytest.mark.parametrize("strategy", ["auto", "information", "prediction", "random"])
@pytest.mark.parametrize("features", [None, 3])
def test_chosen_pairs_are_new_and_different(strategy, features):
    rng = np.random.default_rng(4)
    X = None if features is None else rng.standard_normal((9, features))
    pairs = np.array([[0, 1], [2, 3], [4, 5], [6, 7], [8, 0], [1, 2], [3, 4]])
    analyst = Analyst(9, X, (-1, 1), 4, strategy)
    pending = np.array([[7, 8], [0, 5]])
    request = snapshot(pairs, [1, -1, 1, 1, -1, 1, 1], finished=pairs, pending=pending, wanted=20)
    found, ahead = analyst.analyse(request)
    chosen = {tuple(sorted(pair)) for pair in found.pairs.tolist()}
    known = {tuple(sorted(pair)) for pair in np.vstack([pairs, pending]).tolist()}
    assert len(chosen) == len(found.pairs) == 20
    assert not chosen & known
    assert ahead.top == 4
    assert sorted(found.order.tolist()) == list(range(9))
    for array in (found.mean, found.sd, found.best):
        assert np.isfinite(array).all()


def test_hyperparameters_are_searched_when_answers_have_grown():
    rng = np.random.default_rng(5)
    utility = rng.standard_normal(10)
    pairs = np.array([rng.choice(10, 2, replace=False) for _ in range(60)])
    given = answers_to(pairs, utility, rng, 0.3)
    analyst = Analyst(10, None, (-1, 0, 1), 5)
    noise = []
    for n in range(4, 61):  # each an answer more
        next(analyst.analyse(snapshot(pairs[:n], given[:n])))
        noise.append(None if analyst._model is None else analyst._model.noise_)
    assert noise[:2] == [None, None]  # too few answers
    searches = len(set(noise[2:]))
    assert 8 <= searches <= 14  # 6 to 60 in steps of a fifth
    # After answers were taken back, the last hyperparameters serve on.
    next(analyst.analyse(snapshot(pairs[:20], given[:20])))
    assert analyst._model.noise_ == noise[-1]


@pytest.mark.parametrize(
    ("pairs", "outcomes"),
    [
        ([[0, 1]], [1]),
        ([[0, 1], [0, 1], [0, 1]], [1, -1, 1]),
        ([[0, 1], [1, 2]], [0, 1]),
        ([[0, 1]] * 30, [1] * 30),
        ([[0, 1], [2, 3]] * 10, [1, 0] * 10),
        ([[0, 1], [1, 2], [2, 0]] * 4, [1] * 12),
    ],
    ids=["one", "contradictory", "a tie", "repeated", "islands", "circle"],
)
@pytest.mark.parametrize("features", [None, 2])
def test_strange_answers_are_analysed_too(pairs, outcomes, features):
    X = None if features is None else np.random.default_rng(6).standard_normal((4, features))
    analyst = Analyst(4, X, (-1, 0, 1), 2)
    result, ahead = analyst.analyse(snapshot(pairs, outcomes))
    assert isinstance(result, Analysis)
    assert np.isfinite(result.mean).all()
    assert np.isfinite(result.sd).all()
    assert 0 < ahead.certainty <= 1


def test_many_items_are_ranked_and_asked_about():
    rng = np.random.default_rng(7)
    n = 1300
    utility = rng.standard_normal(n)
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(1800)])
    given = answers_to(pairs, utility, rng, 0.3)
    analyst = Analyst(n, None, (-1, 0, 1), 5)
    result = next(analyst.analyse(snapshot(pairs, given, finished=pairs[:50], wanted=10)))
    assert sorted(result.order.tolist()) == list(range(n))
    place = np.empty(n)
    place[result.order] = np.arange(n)
    assert np.corrcoef(place, utility)[0, 1] < -0.5
    assert len(result.pairs) == 10
    assert (result.low <= np.arange(1, n + 1)).mean() > 0.9

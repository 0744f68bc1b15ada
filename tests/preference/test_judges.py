"""Judges with noise of their own, and comparisons that are added to those of a fit."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import ordinalgp
from ordinalgp import PreferenceGP
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.preference import comparisons, judges


def simulate(m=1500, n=12, n_judges=8, seed=0, spread=0.6):
    rng = np.random.default_rng(seed)
    f, x = rng.normal(size=n), spread * rng.normal(size=n_judges)
    left, by = rng.integers(0, n, m), rng.integers(0, n_judges, m)
    right = (left + rng.integers(1, n, m)) % n
    u = f[left] - f[right] + 0.9 * np.exp(x[by]) * rng.normal(size=m)
    return n, np.column_stack([left, right]), np.digitize(u, [-0.4, 0.4]) - 1, by, x


@pytest.fixture(scope="module", params=["ep", "laplace"])
def fitted(request):
    n, pairs, outcomes, by, x = simulate()
    model = PreferenceGP("independent", inference=request.param, position_bias="learned")
    return model.fit(n, pairs, outcomes, judges=by), x


def test_factors_are_recovered(fitted):
    model, x = fitted
    found = model.judge_reliability(0.9)
    assert np.corrcoef(np.log(found.factor), x[found.judges])[0, 1] > 0.9
    assert np.all(np.diff(found.factor) >= 0)
    assert np.all((found.low < found.factor) & (found.factor < found.high))
    assert found.votes.sum() == 1500


def test_intervals_of_factors_cover():
    inside = []
    for seed in range(12):
        n, pairs, outcomes, by, x = simulate(m=600, seed=seed, n_judges=10)
        model = PreferenceGP("independent", inference="laplace")
        found = model.fit(n, pairs, outcomes, judges=by).judge_reliability(0.9)
        true = np.exp(x[found.judges])
        inside += ((found.low < true) & (true < found.high)).tolist()
    assert 0.82 <= np.mean(inside) <= 0.97


def test_gradient_against_central_differences(fitted):
    model = fitted[0]._result.model
    rng = np.random.default_rng(5)
    theta = model.task.theta + 0.1 * rng.normal(size=len(model.task.theta))
    gradient, h = model.evaluate(theta)[1], 1e-4
    for k, step in enumerate(h * np.eye(len(theta))):
        slope = (model.evaluate(theta + step)[0] - model.evaluate(theta - step)[0]) / (2 * h)
        assert_allclose(gradient[k], slope, rtol=1e-4, atol=1e-4)


def test_the_search_ends_where_the_slopes_vanish(fitted):
    model = fitted[0]._result.model
    gradient = model.evaluate(None)[1]
    metric = judges.curvature(model.task, model.posterior)
    assert 0.5 * gradient @ np.linalg.solve(metric, gradient) < 1e-3
    assert fitted[0].converged_


def test_curvature_is_near_that_of_the_evidence(fitted):
    model = fitted[0]._result.model
    metric, h, rows = judges.curvature(model.task, model.posterior), 1e-3, []
    for step in h * np.eye(len(metric)):
        up, down = (model.evaluate(model.task.theta + sign * step)[1] for sign in (1, -1))
        rows.append((down - up) / (2 * h))
    values = np.linalg.eigvals(np.linalg.solve(metric, np.array(rows)))
    assert np.all((values.real > 0.5) & (values.real < 2.0))


def test_information_of_one_judge_is_that_of_counted_levels():
    from ordinalgp.core.counted_levels import CountedLevels
    from ordinalgp.preference.symmetric_thresholds import SymmetricProbit

    rng = np.random.default_rng(2)
    y, u, c = rng.integers(0, 4, 50), rng.normal(size=50), rng.uniform(0.5, 2, 50)
    each = SymmetricProbit(0.7, np.array([0.8]), 4)
    one = judges.JudgedComparisons(each, np.array(["a"]), np.zeros(1), np.zeros(50, dtype=np.intp))
    probit: OrdinalProbit = one.spelled_out
    found = one.information(y, u)
    table = np.zeros((4, 50))
    table[y, np.arange(50)] = c
    own, mixed = CountedLevels(probit, table).information(u)
    chain = np.zeros((4, 4))
    chain[0, 0], chain[1:, 1] = 1.0, probit.unit
    chain[1:, 2:] = np.tril(np.ones((3, 2)), -1) * probit.gaps
    assert_allclose(chain.T @ found.in_theta(c)[:4, :4] @ chain, own, rtol=1e-9, atol=1e-9)
    assert_allclose(chain.T @ found.with_u(c).rows, mixed, rtol=1e-9, atol=1e-9)


def test_equal_judges_change_nothing_but_the_parameters():
    n, pairs, outcomes, *_ = simulate(m=400)
    plain = PreferenceGP("independent").fit(n, pairs, outcomes)
    one = PreferenceGP("independent").fit(n, pairs, outcomes, judges=np.zeros(400))
    assert_allclose(one.noise_, plain.noise_, rtol=2e-3)
    assert_allclose(one.predict(n), plain.predict(n), atol=2e-3)


def test_a_careless_judge_counts_less():
    n, pairs, outcomes, *_ = simulate(m=1200, spread=0.0)
    rng = np.random.default_rng(1)
    random = rng.choice([-1, 1], 1200)
    both = np.concatenate([pairs, pairs]), np.concatenate([outcomes, random])
    who = np.repeat(["careful", "random"], 1200)
    alone = PreferenceGP("independent").fit(n, pairs, outcomes)
    mixed = PreferenceGP("independent").fit(n, *both)
    told = PreferenceGP("independent").fit(n, *both, judges=who)
    true = alone.comparison_proba([0] * (n - 1), list(range(1, n)))

    def distance(model):
        scale = np.std(alone.predict(n)) / np.std(model.predict(n))
        return np.abs(model.predict(n) * scale - alone.predict(n)).max()

    assert true.shape == (n - 1, 3)
    assert distance(told) < 0.5 * distance(mixed)
    factor = dict(
        zip(told.judge_reliability().judges, told.judge_reliability().factor, strict=True)
    )
    assert factor["random"] > 3 * factor["careful"]


def test_a_judge_with_one_vote_is_typical():
    n, pairs, outcomes, by, _ = simulate(m=800)
    by[0] = 99
    found = PreferenceGP("independent").fit(n, pairs, outcomes, judges=by).judge_reliability()
    once = found.judges == 99
    assert found.votes[once] == 1
    assert 0.7 < found.factor[once] < 1.4
    width = np.log(found.high / found.low)
    assert width[once] == width.max()


def test_weights_are_copies_of_votes():
    n, pairs, outcomes, by, _ = simulate(m=200)
    weights = np.random.default_rng(0).integers(0, 3, 200)
    one = PreferenceGP("independent").fit(n, pairs, outcomes, weights, judges=by)
    again = [np.repeat(each, weights, axis=0) for each in (pairs, outcomes, by)]
    two = PreferenceGP("independent").fit(n, *again[:2], judges=again[2])
    assert_allclose(one.predict(n), two.predict(n), atol=1e-6)


def test_features_and_judges_together():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    left = rng.integers(0, 20, 300)
    pairs = np.column_stack([left, (left + rng.integers(1, 20, 300)) % 20])
    by, x = rng.integers(0, 4, 300), np.array([-0.5, 0.0, 0.0, 1.2])
    u = X[pairs[:, 0], 0] - X[pairs[:, 1], 0] + 0.6 * np.exp(x[by]) * rng.normal(size=300)
    model = PreferenceGP("features").fit(X, pairs, np.where(u > 0, 1, -1), judges=by)
    found = model.judge_reliability()
    assert found.judges[-1] == 3
    assert np.all(np.isfinite(found.high))


def test_save_and_load(fitted, tmp_path):
    model, _ = fitted
    model.save(tmp_path / "judges.ogp")
    again = ordinalgp.load(tmp_path / "judges.ogp")
    assert_allclose(again.predict(12), model.predict(12), rtol=0, atol=0)
    old, new = model.judge_reliability(), again.judge_reliability()
    assert_allclose(new.high, old.high, rtol=1e-12)
    assert again.position_bias_interval() == pytest.approx(model.position_bias_interval())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"likelihood": "logit"}, "judges need likelihood='probit'"),
        ({"solver": "sparse"}, "solver is 'sparse'"),
        ({"optimizer": None}, "judges need optimizer"),
    ],
)
def test_options_that_do_not_go_with_judges(options, message):
    n, pairs, outcomes, by, _ = simulate(m=50)
    with pytest.raises(ValueError, match=message):
        PreferenceGP("independent", **options).fit(n, pairs, outcomes, judges=by)


def test_bad_judges():
    n, pairs, outcomes, *_ = simulate(m=50)
    model = PreferenceGP("independent")
    with pytest.raises(ValueError, match="one entry for each of the 50"):
        model.fit(n, pairs, outcomes, judges=[1, 2])
    with pytest.raises(ValueError, match="row 3 is None"):
        model.fit(n, pairs, outcomes, judges=["a"] * 3 + [None] * 47)
    with pytest.raises(ValueError, match="had no judges"):
        model.fit(n, pairs, outcomes).judge_reliability()


# --------------------------------------------------------------------------- partial_fit


@pytest.mark.parametrize("with_judges", [False, True])
@pytest.mark.parametrize("inference", ["ep", "laplace"])
def test_added_votes_are_as_good_as_a_fit_to_all(with_judges, inference):
    n, pairs, outcomes, by, _ = simulate(m=1000)
    parts = [slice(0, 600), slice(600, 601), slice(601, None)]

    def data(part):
        who = {"judges": by[part]} if with_judges else {}
        return (n, pairs[part], outcomes[part]), who

    model = PreferenceGP("independent", inference=inference)
    for part in parts:
        args, who = data(part)
        model.partial_fit(*args, **who)
    args, who = data(slice(None))
    whole = PreferenceGP("independent", inference=inference).fit(*args, **who)
    assert_allclose(model.predict(n), whole.predict(n), atol=5e-3)
    value = whole.log_marginal_likelihood_value_
    assert_allclose(model.log_marginal_likelihood_value_, value, atol=0.02 if with_judges else 1e-3)


def test_new_items_and_new_judges():
    first = [("a", "b"), ("b", "c"), ("a", "c")] * 10
    more = [("d", "a"), ("d", "b"), ("a", "c")] * 10
    model = PreferenceGP("independent").fit(["a", "b", "c"], first, judges=["J"] * 30)
    model.partial_fit(["d", "a", "b", "c"], more, judges=["K"] * 30)
    names = ["a", "b", "c", "d"]
    assert model.items_.tolist() == names
    every = PreferenceGP("independent").fit(names, first + more, judges=["J"] * 30 + ["K"] * 30)
    assert_allclose(model.predict(names), every.predict(names), atol=0.02)
    assert model.rank(names).items[0] == "d"


def test_ties_may_come_later():
    wins = [("a", "b"), ("b", "c")] * 5
    model = PreferenceGP("independent", noise=1.0).fit(["a", "b", "c"], wins)
    model.partial_fit(["a", "b", "c"], [("a", "b"), ("b", "c")], [0, 1])
    assert model.levels_.tolist() == [-1, 0, 1]
    whole = PreferenceGP("independent", noise=1.0)
    whole.fit(["a", "b", "c"], [*wins, ("a", "b"), ("b", "c")], [1] * 10 + [0, 1])
    assert_allclose(model.predict(["a", "b"]), whole.predict(["a", "b"]), atol=1e-3)


def test_items_with_features():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(15, 1))
    pairs = np.array([rng.choice(12, 2, replace=False) for _ in range(60)])
    wins = np.where(X[pairs[:, 0], 0] + 0.3 * rng.normal(size=60) > X[pairs[:, 1], 0], 1, -1)
    model = PreferenceGP("features").fit(X[:12], pairs[:40], wins[:40])
    new = np.column_stack([np.arange(12, 15), np.arange(3)])
    model.partial_fit(X, np.concatenate([pairs[40:], new]), np.concatenate([wins[40:], [1, 1, -1]]))
    every = PreferenceGP("features").fit(
        X, np.concatenate([pairs, new]), np.concatenate([wins, [1, 1, -1]])
    )
    assert_allclose(model.predict(X), every.predict(X), atol=0.02)


def test_many_items_by_sparse_linear_algebra():
    n, pairs, outcomes, *_ = simulate(m=300, n=60)
    options = {"solver": "sparse"}
    model = PreferenceGP("independent", **options).fit(n, pairs[:200], outcomes[:200])
    model.partial_fit(n, pairs[200:], outcomes[200:])
    whole = PreferenceGP("independent", **options).fit(n, pairs, outcomes)
    assert_allclose(model.predict(n), whole.predict(n), atol=5e-3)


def test_what_cannot_be_added():
    n, pairs, outcomes, by, _ = simulate(m=100)
    model = PreferenceGP("independent").fit(n, pairs, outcomes)
    with pytest.raises(ValueError, match="always or never"):
        model.partial_fit(n, pairs, outcomes, judges=by)
    with pytest.raises(ValueError, match="one kind"):
        model.partial_fit(["a", "b"], [("a", "b")])
    before = model.predict(n)
    with pytest.raises(ValueError, match="must be among"):
        model.partial_fit(n, pairs, np.full(100, 7))
    assert_allclose(model.predict(n), before, rtol=0, atol=0)
    relations = PreferenceGP("independent").fit_relations(3, [[1, -2, 1], [0, 1, -1]])
    with pytest.raises(ValueError, match="fit_relations"):
        relations.partial_fit(3, [(0, 1)])


# ------------------------------------------------------------------------------- counting


@pytest.mark.parametrize("large", [False, True])
def test_counts_are_those_of_a_dictionary(large):
    rng = np.random.default_rng(0)
    n = 10**6 if large else 5
    left, right = rng.integers(0, min(n, 5), (2, 400))
    pairs = np.column_stack([left, np.where(left == right, n - 1, right)])
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    weights = rng.choice([0.0, 0.5, 2.0], len(pairs))
    outcome = comparisons.encode_outcomes(
        rng.choice([-1, 1], len(pairs)), None, len(pairs), weights
    )
    found = comparisons.merge_comparisons(pairs, outcome, n, swapped=False)
    expected: dict[tuple[int, int, int], float] = {}
    for (a, b), code, weight in zip(pairs.tolist(), outcome.codes.tolist(), weights, strict=True):
        if weight:
            expected[a, b, code] = expected.get((a, b, code), 0.0) + weight
    sides = found.projection.sides
    rows = zip(*(each.tolist() for each in (*sides, found.codes)), strict=True)
    assert dict(zip(rows, found.counts.tolist(), strict=True)) == expected


def test_comparisons_without_contradiction_do_not_break_the_search():
    pairs = [(i, j) for i in range(6) for j in range(i + 1, 6)] * 20
    for who in (None, [0, 1, 2] * 100):
        model = PreferenceGP("independent").fit(6, pairs, judges=who)
        assert model.rank(6).items.tolist() == list(range(6))
        assert np.all(np.isfinite(model.predict(6)))
    assert np.all(np.isfinite(model.judge_reliability().high))

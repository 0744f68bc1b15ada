"""Sessions of simulated judges: how many answers it takes, and how many random pairs take.

``python -m tests.ask.sessions`` prints the figures of many seeds.
"""

import argparse
import time

import numpy as np

from ordinalgp.ask.analysis import Analyst, Snapshot, Wishes
from ordinalgp.ask.forecast import hardly_different
from ordinalgp.ask.survey import Survey
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.preference.suggestions import candidate_pairs

NOBODY = np.empty((0, 2), dtype=np.intp)
NOISE, TIE = 0.3, 0.1
N_RANKED, LAST, SIZES = 16, 40, np.arange(44, 121, 4)
"""items, answers to chosen pairs and to random ones, where errors are compared"""
RANKED_NOISE = 0.15


def snapshot(pairs, outcomes, *, finished=NOBODY, pending=NOBODY, wanted=8):
    """A request for an analysis."""
    wishes = Wishes(np.asarray(pending), np.asarray(finished), wanted)
    return Snapshot(np.asarray(pairs), np.asarray(outcomes), wishes)


def answers_to(pairs, utility, rng, noise=0.0, tie=0.0):
    """Outcomes of pairs by a judge with noise."""
    difference = utility[pairs[:, 0]] - utility[pairs[:, 1]]
    difference = difference + noise * np.sqrt(2) * rng.standard_normal(len(pairs))
    return np.where(np.abs(difference) <= tie, 0, np.sign(difference)).astype(int)


def play(n, seed, strategy="auto"):
    """A session of one judge until the best are settled: answers and outlook at each step.

    Also the share of the best that are right, or as good as the last of the best.
    """
    rng = np.random.default_rng(seed)
    utility, top = rng.standard_normal(n), Survey().top_of(n)
    analyst = Analyst(n, None, (-1, 0, 1), top, strategy, np.random.RandomState(seed))
    pairs, path = rng.permutation(n).reshape(-1, 2), []
    given = answers_to(pairs, utility, rng, NOISE, TIE)
    while True:
        request = snapshot(pairs, given, finished=pairs, wanted=1)
        result, ahead = analyst.analyse(request)
        path.append((len(pairs), ahead))
        if ahead.settled or not len(result.pairs):
            break
        pairs = np.vstack([pairs, result.pairs])
        given = np.append(given, answers_to(result.pairs, utility, rng, NOISE, TIE))
    likelihood = OrdinalProbit.from_thresholds(np.array([-TIE, TIE]), np.sqrt(2) * NOISE)
    enough = np.sort(utility)[-top] - hardly_different(likelihood)
    return path, np.mean(utility[result.order[:top]] >= enough)


def forecasts(sessions):
    """Answers that were said to remain, and that did, between a quarter and three of the way."""
    told, true = [], []
    for path, _ in sessions:
        last = path[-1][0]
        for n, ahead in path[len(path) // 4 : 3 * len(path) // 4]:
            told.append(np.inf if ahead.remaining is None else ahead.remaining)
            true.append(last - n)
    return np.array(told, dtype=float), np.array(true, dtype=float)


def wrong_order(analyst, pairs, given, utility):
    """Share of all pairs that the ranking after these answers puts in the wrong order."""
    result = next(analyst.analyse(snapshot(pairs, given, finished=pairs, wanted=1)))
    place, (i, j) = np.argsort(result.order), np.triu_indices(len(utility), 1)
    return np.mean((place[i] - place[j]) * (utility[i] - utility[j]) > 0), result.pairs


def errors_of(seed):
    """Errors of the ranking after the last chosen pairs, and after numbers of random ones."""
    n, rng = N_RANKED, np.random.default_rng(100 + seed)
    utility, pairs = rng.standard_normal(n), rng.permutation(n).reshape(-1, 2)
    options = n, None, (-1, 1), 5
    analyst, errors = Analyst(*options, rng=np.random.RandomState(seed)), []
    given = answers_to(pairs, utility, rng, RANKED_NOISE)
    while len(pairs) <= LAST:
        error, new = wrong_order(analyst, pairs, given, utility)
        errors.append(error)
        pairs = np.vstack([pairs, new])
        given = np.append(given, answers_to(new, utility, rng, RANKED_NOISE))
    every = np.column_stack(candidate_pairs(n, None))[rng.permutation(n * (n - 1) // 2)]
    given = answers_to(every, utility, rng, RANKED_NOISE)
    analyst = Analyst(*options)
    drawn = [wrong_order(analyst, every[:m], given[:m], utility)[0] for m in SIZES]
    return np.mean(errors[-5:]), drawn


def random_for_chosen(seeds):
    """Random pairs for each chosen one, for the same mean error; of the largest size at most."""
    chosen, drawn = zip(*map(errors_of, seeds), strict=True)
    curve = np.mean(drawn, axis=0)
    reached = curve <= np.mean(chosen)
    return (SIZES[np.argmax(reached)] if reached.any() else SIZES[-1]) / LAST


def main():
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--items", type=int, nargs="+", default=[12, 24])
    chosen = parser.parse_args()
    seeds, began = range(1000, 1000 + chosen.seeds), time.process_time()
    print(f"whole ranking: random / chosen {random_for_chosen(seeds):.2f} for the same error")
    for n in chosen.items:
        needed = {}
        for strategy in ("auto", "random"):
            sessions = [play(n, seed, strategy) for seed in seeds]
            needed[strategy] = np.array([path[-1][0] for path, _ in sessions])
            settled = sum(path[-1][1].settled for path, _ in sessions)
            right = np.mean([share for _, share in sessions])
            told, true = forecasts(sessions)
            ratio = np.quantile(told / true, [0.1, 0.5, 0.9])
            print(
                f"{n} items, {strategy}: settled in {settled} of {len(seeds)} sessions after "
                f"{np.median(needed[strategy]):.0f} answers (median), then {right:.1%} of the best "
                f"right; told / true remaining {ratio.round(2)} (10, 50, 90 %)"
            )
        print(f"{n} items: random / chosen {np.median(needed['random'] / needed['auto']):.2f}")
    print(f"{time.process_time() - began:.0f} s of the processor")


if __name__ == "__main__":
    main()

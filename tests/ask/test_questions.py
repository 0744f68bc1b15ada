"""Every judge has a pair at once, no pair twice, and different judges have different pairs."""

import numpy as np
import pytest

from ordinalgp.ask.agreement import Agreement
from ordinalgp.ask.analysis import Analysis
from ordinalgp.ask.questions import Questioner, ordered
from ordinalgp.ask.service import Service  # noqa: F401  (imports what the server imports)


def asker(n, seed=0):
    return Questioner(n, np.random.default_rng(seed))


def analysis(pairs, n):
    nothing = np.zeros(n)
    rank = np.arange(1, n + 1)
    return Analysis(1, np.arange(n), nothing, nothing, rank, rank, nothing, np.array(pairs))


def test_one_judge_sees_every_pair_once_and_then_none():
    questions, seen = asker(7), []
    while (pair := questions.next("page", "", float(len(seen)))) is not None:
        seen.append(ordered(*pair))
        questions.seen("", *pair)
    assert len(seen) == len(set(seen)) == 21
    assert questions.next("other page", "", 0.0) is None
    assert questions.next("page", "Ann", 0.0) is not None


def test_a_page_that_asks_again_is_shown_the_same_sides():
    questions = asker(10)
    pair = questions.next("page", "", 0.0)
    assert all(questions.next("page", "", float(t)) == pair for t in range(5))
    questions.seen("", *pair)
    assert questions.next("page", "", 6.0) != pair


def test_without_an_analysis_all_items_are_asked_about_equally():
    questions = asker(20)
    counts = np.zeros(20)
    for t in range(10):
        pair = questions.next("page", "", float(t))
        counts[list(pair)] += 1
        questions.seen("", *pair)
    assert counts.min() == 1  # 10 pairs of 20 items
    for t in range(40):
        pair = questions.next("page", "", float(t))
        counts[list(pair)] += 1
        questions.seen("", *pair)
    assert counts.max() - counts.min() <= 4


def test_pairs_of_the_analysis_come_first_in_their_order():
    questions = asker(10)
    wanted = [(3, 4), (9, 1), (0, 2)]
    questions.take(analysis(wanted, 10))
    got = []
    for t in range(3):
        pair = questions.next("page", "", float(t))
        got.append(ordered(*pair))
        questions.seen("", *pair)
    assert got == [ordered(*pair) for pair in wanted]
    assert questions.ready == 0
    assert questions.next("page", "", 9.0) is not None  # never without a pair


def test_sides_are_random():
    questions = asker(40)
    left = []
    for t in range(300):
        pair = questions.next("page", "", float(t))
        left.append(pair[0] < pair[1])
        questions.seen("", *pair)
    assert 0.4 < np.mean(left) < 0.6


@pytest.mark.parametrize("judge", ["", "named"])
def test_pages_show_different_pairs_at_a_time(judge):
    questions = asker(12)
    questions.take(analysis([(0, 1), (2, 3)], 12))
    names = [f"{judge}{i}" if judge else "" for i in range(20)]
    shown = [ordered(*questions.next(f"page {i}", name, 0.0)) for i, name in enumerate(names)]
    assert len(set(shown)) == 20


def test_a_pair_that_was_left_on_a_page_is_shown_to_others_later():
    questions = asker(3)
    shown = {ordered(*questions.next(f"page {i}", f"judge {i}", 0.0)) for i in range(3)}
    assert len(shown) == 3
    assert questions.next("page 3", "judge 3", 1.0) is not None  # rather twice than none
    assert len(questions.pending(60.0)) == 4
    assert len(questions.pending(1000.0)) == 0


def test_what_is_taken_back_can_be_asked_again():
    questions = asker(2)
    pair = questions.next("page", "", 0.0)
    questions.seen("", *pair)
    assert questions.next("page", "", 1.0) is None
    questions.unseen("", *pair)
    questions.show_again("page", "", *pair[::-1], 2.0)
    assert questions.next("page", "", 3.0) == pair[::-1]


def test_finished_pairs_are_those_that_all_present_judges_have_seen():
    questions = asker(4)
    for judge in ("Ann", "Bo"):
        questions.next(judge, judge, 0.0)
        questions.seen(judge, 0, 1)
    questions.seen("Ann", 2, 3)
    assert questions.finished(1.0).tolist() == [[0, 1]]
    questions.next("Ann", "Ann", 5000.0)  # Bo has left
    assert questions.finished(5001.0).tolist() == [[0, 1], [2, 3]]


def test_named_judges_share_some_pairs():
    questions = asker(60)
    seen = {"Ann": set(), "Bo": set()}
    for t in range(80):
        for judge, pairs in seen.items():
            pair = questions.next(judge, judge, float(t))
            pairs.add(ordered(*pair))
            questions.seen(judge, *pair)
    assert 12 <= len(seen["Ann"] & seen["Bo"]) <= 28  # about every eighth of either
    nameless = asker(60)
    pages = {"a": set(), "b": set()}
    for t in range(80):
        for page, pairs in pages.items():
            pair = nameless.next(page, "", float(t))
            pairs.add(ordered(*pair))
            nameless.seen("", *pair)
    assert not pages["a"] & pages["b"]  # without names all pages are one judge


def test_thousands_of_pages_do_not_pile_up():
    questions = asker(50)
    for t in range(4500):
        questions.next(f"page {t}", f"judge {t % 7}", float(t))
    assert len(questions._leases) <= 2001


def test_a_thousand_items_and_judges_are_quick():
    import time

    questions = asker(1000)
    began = time.process_time()
    for t in range(500):
        judge = f"judge {t % 50}"
        pair = questions.next(judge, judge, t / 20)
        questions.seen(judge, *pair)
    assert (time.process_time() - began) / 500 < 0.02


# --------------------------------------------------------------------------------- agreement


def by_hand(answers):
    """Equal answers of two judges to a pair, counted from the whole list."""
    last = {(pair, judge): side for pair, judge, side in answers}
    shared = same = 0
    per = {}
    for (pair, judge), side in last.items():
        for (other_pair, other), theirs in last.items():
            if pair == other_pair and judge < other:
                shared, same = shared + 1, same + (side == theirs)
                for each in (judge, other):
                    n, k = per.get(each, (0, 0))
                    per[each] = n + 1, k + (side == theirs)
    return (shared, same), per


@pytest.mark.parametrize("seed", range(5))
def test_agreement_is_what_counting_by_hand_gives(seed):
    rng = np.random.default_rng(seed)
    agreement, answers = Agreement(), []
    for _ in range(200):
        if answers and rng.random() < 0.25:
            pair, judge, _ = answers[rng.integers(len(answers))]
            answers = [a for a in answers if a[:2] != (pair, judge)]
            agreement.remove(pair, judge)
        else:
            pair = ordered(*map(int, rng.choice(5, 2, replace=False)))
            judge, side = str(rng.choice(["Ann", "Bo", "Cy"])), int(rng.integers(-1, 2))
            answers.append((pair, judge, side))
            agreement.add(pair, judge, side)
        overall, per = by_hand(answers)
        assert agreement.overall == overall
        found = {r.judge: (r.shared, r.same) for r in agreement.judges if r.shared}
        assert found == per
        assert sum(r.answers for r in agreement.judges) == len({a[:2] for a in answers})

"""Threads of BLAS: limited in every public method, restored after it, never above the user's."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from inspect import isclass, signature
from threading import Barrier, Event
from typing import ClassVar

import joblib
import numpy as np
import pytest
from scipy.linalg import lapack
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import RBF
from threadpoolctl import ThreadpoolController, threadpool_limits

import ordinalgp
from ordinalgp import OrdinalGPClassifier, PreferenceGP, StackedOrdinalGP
from ordinalgp.core import linalg
from ordinalgp.runtime import threads

X = np.linspace(-2, 2, 24)[:, None]
Y = np.digitize(X[:, 0] ** 3, [-1, 1])
PAIRS = np.array([[i + 1, i] for i in range(len(X) - 1)])


def numbers():
    """Threads of every BLAS library now, by the folder that it lies in."""
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    return {one.filepath: one.num_threads for one in libraries}


def most():
    return max(numbers().values())


class Watching(RBF):
    """A kernel that notes how many threads there are whenever it is evaluated."""

    seen: ClassVar[list] = []

    def __call__(self, X, Y=None, eval_gradient=False):
        Watching.seen.append(numbers())
        return super().__call__(X, Y, eval_gradient)


class Factorisations:
    """Notes how many threads there are inside every Cholesky factorisation."""

    def __init__(self):
        self.seen = []

    def __call__(self, *args, **kwargs):
        self.seen.append(numbers())
        return lapack.dpotrf(*args, **kwargs)

    @property
    def most(self):
        return max(max(seen.values()) for seen in self.seen)


class Failing(RBF):
    def __call__(self, X, Y=None, eval_gradient=False):
        raise RuntimeError("as it should")


@pytest.fixture(autouse=True)
def four_threads(monkeypatch):
    """A user with four threads and free cores, whatever this machine has."""
    monkeypatch.setattr(threads, "free_cores", lambda: 8)
    Watching.seen = []
    with threadpool_limits(4, "blas"):
        if most() != 4:
            pytest.skip("this BLAS has one thread")
        yield


@pytest.fixture
def large(monkeypatch):
    """Factorisations of any size are large enough for three threads."""
    monkeypatch.setattr(threads, "worthwhile", lambda order: 3)
    monkeypatch.setattr(threads, "_neighbours", threads.Neighbours())
    inside = Factorisations()
    monkeypatch.setattr(linalg, "dpotrf", threads.threaded(inside))
    return inside


def once(objective, theta, bounds):
    """A search with a single evaluation."""
    objective(theta)


def fitted(kernel=None, **more):
    return OrdinalGPClassifier(kernel, optimizer=None, **more).fit(X, Y)


def test_small_fits_and_predictions_have_one_thread_and_restore_the_rest():
    model = fitted(Watching())
    model.predict_proba(X)
    PreferenceGP(Watching()).fit(X, PAIRS).rank(X)
    assert len(Watching.seen) > 4
    assert all(set(seen.values()) == {1} for seen in Watching.seen)
    assert set(numbers().values()) == {4}


def test_a_large_search_has_more_threads_in_one_library_only(large):
    OrdinalGPClassifier(Watching(), optimizer=once).fit(X, Y)
    found = max(large.seen, key=lambda seen: max(seen.values()))
    assert sorted(found.values()) == [1] * (len(found) - 1) + [3]
    assert all(set(seen.values()) == {1} for seen in Watching.seen)
    assert set(numbers().values()) == {4}


@pytest.mark.parametrize("order, expected", [(1, 1), (799, 1), (800, 2), (4000, 10), (10**6, 16)])
def test_threads_grow_with_the_matrices(order, expected):
    assert threads.worthwhile(order) == expected


@pytest.mark.parametrize("limit", [1, 2])
def test_the_users_limit_is_never_exceeded(large, limit):
    with threadpool_limits(limit, "blas"):
        OrdinalGPClassifier(optimizer=once).fit(X, Y)
        assert most() == limit
    assert large.most == limit
    assert set(numbers().values()) == {4}


def test_libraries_with_limits_of_their_own_get_them_back(large):
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    for number, library in enumerate(libraries, 2):
        library.set_num_threads(number)
    before = numbers()
    fitted().predict(X)
    assert numbers() == before


def test_an_exception_restores_the_threads():
    with pytest.raises(RuntimeError, match="as it should"):
        fitted(Failing())
    assert set(numbers().values()) == {4}
    with pytest.raises(ValueError):
        fitted().predict([[np.nan]])
    assert set(numbers().values()) == {4}


def test_models_inside_models(large):
    models = {name: OrdinalGPClassifier(optimizer=once) for name in "ab"}
    StackedOrdinalGP(models).fit(X, Y).predict(X)
    assert large.most == 3
    assert set(numbers().values()) == {4}


def test_asking_for_one_thread_holds_for_all_inside(large):
    with threads.one_thread():
        OrdinalGPClassifier(optimizer=once).fit(X, Y)
    assert large.most == 1
    with threads.one_thread_everywhere():
        limited = [one.num_threads for one in ThreadpoolController().lib_controllers]
    assert set(limited) == {1}
    assert set(numbers().values()) == {4}


def watched_fit(_=None):
    """Fit in a worker; gives the largest number of threads that was seen there."""
    inside = Factorisations()
    threads.worthwhile, threads.free_cores = lambda order: 3, lambda: 8
    linalg.dpotrf = threads.threaded(inside)
    with threadpool_limits(4, "blas"):
        OrdinalGPClassifier(optimizer=once).fit(X, Y)
        return inside.most, most()


def test_workers_of_joblib_in_other_processes_have_one_thread():
    found = joblib.Parallel(2, backend="loky")(joblib.delayed(watched_fit)() for _ in range(2))
    assert found == [(1, 4), (1, 4)]


def region_in_worker(inside):
    with threads.threads_for(10**4):
        inside.wait(timeout=60)
        return most()


def test_workers_of_joblib_in_threads_have_one_thread():
    both = Barrier(2)
    jobs = [joblib.delayed(region_in_worker)(both) for _ in range(2)]
    assert joblib.Parallel(2, backend="threading")(jobs) == [1, 1]
    alone = Barrier(1)  # also where the other workers are between two fits
    found = joblib.Parallel(2, backend="threading")([joblib.delayed(region_in_worker)(alone)])
    assert found == [1]
    assert set(numbers().values()) == {4}


def test_fits_at_once_in_a_thread_pool_have_one_thread_each_and_the_last_restores():
    entered, leave_first, first_left = Event(), Event(), Event()

    def first():
        with threads.threads_for(10**4):
            alone = most()
            entered.set()
            leave_first.wait(timeout=60)
            together = most()
        return alone, together

    def second():
        entered.wait(timeout=60)
        with threads.threads_for(10**4):
            together = most()
            leave_first.set()
            first_left.wait(timeout=60)
            return together, most()

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.submit(first), pool.submit(second)
        assert one.result() == (4, 1)
        first_left.set()
        assert other.result() == (1, 1)
    assert set(numbers().values()) == {4}


def test_many_fits_in_a_thread_pool_restore_the_threads():
    with ThreadPoolExecutor(4) as pool:
        models = list(pool.map(lambda _: fitted(), range(12)))
    assert len(models) == 12
    assert set(numbers().values()) == {4}


def test_the_final_posterior_has_one_thread_so_that_a_file_gives_the_same_digits(large):
    model = fitted()
    assert large.most == 1
    del large.seen[:]
    model.log_marginal_likelihood(np.concatenate([model.kernel_.theta, model.likelihood_.theta]))
    assert large.most == 3


def threads_of_a_large_call():
    with threads.threads_for(10**4):
        return most()


def test_busy_cores_get_no_threads_and_neither_do_calls_soon_after(monkeypatch):
    clock = Clock(monkeypatch)
    monkeypatch.setattr(threads, "free_cores", lambda: 1)
    assert threads_of_a_large_call() == 1
    monkeypatch.setattr(threads, "free_cores", lambda: 8)
    assert threads_of_a_large_call() == 1
    clock.now += 0.5
    assert threads_of_a_large_call() == 4


def test_an_interrupted_call_is_followed_by_longer_and_longer_pauses(monkeypatch):
    clock, pauses = Clock(monkeypatch), []
    counts, neighbours = iter(range(0, 10**6, 100)), threads.Neighbours()
    monkeypatch.setattr(threads, "interruptions", lambda: next(counts))
    for _ in range(10):
        with neighbours.watched():
            began = clock.now
        while neighbours.free(2) == 1:
            clock.now += 0.25
        pauses.append(clock.now - began)
    assert pauses[:4] == [0.25, 0.5, 1.0, 2.0]
    assert pauses[-2:] == [30.0, 30.0]
    monkeypatch.setattr(threads, "interruptions", lambda: 0)
    for _ in range(10):  # undisturbed calls
        with neighbours.watched():
            pass
    monkeypatch.setattr(threads, "free_cores", lambda: 1)
    assert neighbours.free(2) == 1
    clock.now += 0.3
    monkeypatch.setattr(threads, "free_cores", lambda: 2)
    assert neighbours.free(2) == 2


class Clock:
    """Time that passes when a test says so, and no memory of earlier tests."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        monkeypatch.setattr(threads.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(threads, "_neighbours", threads.Neighbours())


@pytest.mark.skipif(not os.path.exists("/proc/loadavg"), reason="the system does not tell")
def test_another_process_that_runs_is_seen():
    before = threads._running_elsewhere()
    assert before >= 0
    with subprocess.Popen([sys.executable, "-c", "print(1, flush=True)\nwhile True: pass"]) as busy:
        try:
            found = [threads._running_elsewhere() for _ in range(50)]
        finally:
            busy.kill()
    assert np.mean(found) > 0


class FakeBlas:
    """A library as threadpoolctl shows it, with a number of threads per thread of Python."""

    threading_layer = "openmp"

    def __init__(self):
        self.calls = []

    def get_num_threads(self):
        return 4

    def set_num_threads(self, number):
        self.calls.append(number)


def test_a_library_with_numbers_per_thread_gets_that_of_each_thread_back():
    blas = FakeBlas()
    regions = threads.Regions(lambda: [threads._Library(blas, threaded=True)])
    with regions.of(1):
        assert blas.calls == [1]
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: regions.of(1).__enter__()).result()
            del blas.calls[:]
    assert blas.calls[-1] == 4  # although the other thread is still in its region


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_begins_anew():
    regions = threads.Regions()
    with regions.of(1):
        regions.forget()
        with regions.of(1):
            pass
    assert regions._stacks == {}


def public_methods():
    estimators = [getattr(ordinalgp, name) for name in ordinalgp.__all__]
    for cls in estimators:
        if isclass(cls) and issubclass(cls, BaseEstimator):
            for base in cls.__mro__:
                if base.__module__.startswith("ordinalgp"):
                    yield from ((cls, name) for name in vars(base) if name[0] != "_")


def test_every_public_method_of_every_estimator_is_managed():
    methods = sorted({(cls.__name__, name) for cls, name in public_methods()})
    assert ("OrdinalGPClassifier", "loo_proba") in methods
    assert len(methods) > 100
    for owner, name in methods:
        method = getattr(getattr(ordinalgp, owner), name)
        routing = name.startswith("set_") and name.endswith("_request")  # scikit-learn's own
        if callable(method) and not isclass(method) and not routing:
            assert getattr(method, "manages_threads", False), f"{owner}.{name}"


def test_managed_methods_look_like_themselves():
    assert OrdinalGPClassifier.fit.__doc__.startswith("Learn from rows")
    assert list(signature(OrdinalGPClassifier.fit).parameters) == [
        "self",
        "X",
        "y",
        "sample_weight",
    ]


def test_an_enclosing_limit_of_another_thread_is_restored_by_it():
    """A worker's fit must not keep threadpoolctl from obeying the thread that set a limit."""
    with threadpool_limits(2, "blas"), ThreadPoolExecutor(1) as pool:
        pool.submit(fitted).result()
        assert most() == 2
    assert most() == 4

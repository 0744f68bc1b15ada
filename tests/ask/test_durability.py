"""Acknowledged answers are kept, once, whatever happens to the server; short runs of kill and load.

``python -m tests.ask.kill`` and ``python -m tests.ask.load`` are the long ones.
"""

import pytest
from tests.ask.kill import hammer_through, page_through
from tests.ask.load import load
from tests.chromium import chromium

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


def test_a_page_survives_kills_of_its_server(tmp_path):
    with chromium() as browser:
        n, problems = page_through(tmp_path, 3, browser)
    assert problems == []
    assert n == 6


def test_kills_at_any_moment_lose_nothing_and_double_nothing(tmp_path):
    acknowledged, found, lost, changed = hammer_through(tmp_path, 50)
    assert acknowledged >= 250
    assert (lost, changed) == (0, 0)
    assert found - acknowledged <= 6 * 100  # answers whose reply was lost with the server


def test_fifty_judges_lose_nothing_and_hardly_wait(tmp_path):
    """The short run is on a machine that may be busy with other tests: the bound has room."""
    figures, kept = load(tmp_path, items=150, features=3, judges=50, rate=20.0, seconds=5.0)
    assert figures.problems == []
    assert len(figures.waits) > 60
    by = kept.judges != "first"
    assert by.sum() == len(figures.acknowledged) == len(figures.waits)
    stored = sorted(
        (left + 1, right + 1, outcome)
        for (left, right), outcome in zip(
            kept.comparisons[by].tolist(), kept.outcomes[by].tolist(), strict=True
        )
    )
    assert stored == sorted(figures.acknowledged)
    assert figures.quantile(0.99) < 1000

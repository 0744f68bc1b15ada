"""A thousand hostile tables of items; ``python -m tests.ask.hostile`` shows each in a browser."""

import pytest
from hypothesis import HealthCheck, given, settings
from tests.ask.hostile import check_items, check_page, check_service, items_of, tables
from tests.chromium import SLOWEST, chromium

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

LENIENT = {
    "deadline": None,
    "suppress_health_check": [
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
        HealthCheck.function_scoped_fixture,
    ],
}


@pytest.mark.parametrize("part", range(4))
@settings(max_examples=250, **LENIENT)
@given(content=tables())
def test_hostile_tables_are_shown_or_refused_in_words(part, content, tmp_path):
    items = items_of(content, tmp_path)
    if items is not None:
        check_items(items)
        check_service(items, tmp_path)


@pytest.fixture(scope="module")
def page():
    with chromium() as browser:
        opened = browser.new_page()
        opened.set_default_timeout(SLOWEST)
        opened.on("dialog", lambda dialog: pytest.fail(f"a dialog opened: {dialog.message}"))
        yield opened


@settings(max_examples=20, **LENIENT)
@given(content=tables())
def test_hostile_tables_are_text_in_a_browser(page, content, tmp_path):
    items = items_of(content, tmp_path)
    if items is not None:
        check_page(items, tmp_path, page)

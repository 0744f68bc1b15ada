"""The page in a real browser, with a real server process behind it."""

import json
import re
import time

import numpy as np
import pytest
from tests.ask.common import DRINKS, ServerProcess, ThreadServer, wait_for, write_items
from tests.ask.judge import Judge
from tests.chromium import CONTRAST, SLOWEST, chromium

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from ordinalgp.ask import Survey, levels_for, named_items
from ordinalgp.ask.items import read_items
from ordinalgp.preference import read_store
from ordinalgp.tables.files import TableFile

UTILITY = dict(zip(DRINKS, np.linspace(2, -2, len(DRINKS)).tolist(), strict=True))


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture
def new_page(browser):
    """Makes pages; none of them may complain about anything."""
    contexts, complaints = [], []

    def make(**options):
        context = browser.new_context(**({"viewport": {"width": 1366, "height": 800}} | options))
        context.set_default_timeout(SLOWEST)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        return page

    yield make
    for context in contexts:
        context.close()
    expected = ("Failed to load resource",)  # while there is no server
    assert [c for c in complaints if not c.startswith(expected)] == []


@pytest.fixture
def drinks(tmp_path):
    """A page of drinks, in a thread of the test."""
    survey = Survey("Which would you rather drink?")
    with ThreadServer(named_items(DRINKS), tmp_path / "drinks.answers.db", survey) as running:
        yield running


def kept_outcomes(running):
    return [answer.outcome for answer in running.store.answers()]


# ------------------------------------------------------------------- a judge and a server process


def test_the_best_are_right_after_the_answers_that_were_promised(new_page, tmp_path):
    """The whole way: a table, the command, a page, answers by key until the best are settled."""
    path = write_items(tmp_path / "drinks.csv", {"drink": DRINKS})
    with ServerProcess(path, "--question", "Which would you rather drink?") as server:
        judge = Judge(new_page(), UTILITY).open(server.address)
        promises, n = [], 0
        while not judge.settled:
            assert not judge.done
            judge.answer()
            n += 1
            # A person thinks for longer than the analysis takes; on a busy machine it may not.
            wait_for(lambda n=n: f"{n} answer" in judge.progress())
            wait_for(lambda n=n: analysed(server) >= n)
            promises.append((n, judge.told()))
        assert len(set(judge.ranking()[:5]) & set(DRINKS[:5])) >= 4
        told = [(at, more) for at, more in promises if more is not None and n / 3 <= at <= 0.8 * n]
        assert told
        ratios = [(at + more) / n for at, more in told]
        assert 0.6 < np.median(ratios) < 1.7
        assert server.stop() == 0
    answers = read_store(server.store)
    assert len(answers) == n < 60
    for (left, right), outcome in zip(answers.named_comparisons, answers.outcomes, strict=True):
        assert outcome == np.sign(UTILITY[left] - UTILITY[right])


def analysed(server):
    """Number of answers behind the ranking."""
    ranking = server.client().state()["ranking"]
    return 0 if ranking is None else ranking["answers"]


# ------------------------------------------------------------------- mouse, touch and keys


def test_every_key_does_what_it_says(new_page, drinks):
    judge = Judge(new_page(), UTILITY).open(drinks.address)
    judge.press("ArrowLeft")
    judge.press("ArrowRight")
    judge.press("t")
    judge.press("T")
    judge.press("s")
    assert kept_outcomes(drinks) == [1, -1, 0, 0, None]
    pair = judge.pair()
    judge.press("u")
    assert kept_outcomes(drinks) == [1, -1, 0, 0]
    assert judge.pair() != pair  # the pair that was skipped is shown again
    judge.press("u")
    assert kept_outcomes(drinks) == [1, -1, 0]
    for key in ("a", "Enter", "1", "Control+ArrowLeft", "Alt+ArrowRight", "Meta+t"):
        judge.page.keyboard.press(key)
    time.sleep(0.3)
    assert kept_outcomes(drinks) == [1, -1, 0]
    judge.page.keyboard.press("?")
    assert judge.page.locator("#help").is_visible()
    judge.page.keyboard.press("ArrowLeft")  # not an answer while the help is open
    judge.page.keyboard.press("Escape")
    assert judge.page.locator("#help").is_hidden()
    assert judge.page.locator("#results").is_visible()
    judge.page.keyboard.press("r")
    assert judge.page.locator("#results").is_hidden()
    assert kept_outcomes(drinks) == [1, -1, 0]


def test_a_key_that_is_held_down_answers_once(new_page, drinks):
    judge = Judge(new_page(), UTILITY).open(drinks.address)
    judge.act(lambda: judge.page.keyboard.down("ArrowLeft"))
    for _ in range(20):
        judge.page.keyboard.down("ArrowLeft")  # repeats, as it was not released
    judge.page.keyboard.up("ArrowLeft")
    time.sleep(0.3)
    assert kept_outcomes(drinks) == [1]


def test_cards_and_buttons_take_clicks_and_a_double_click_is_one(new_page, drinks):
    judge = Judge(new_page(), UTILITY).open(drinks.address)
    page = judge.page
    judge.act(lambda: page.click("#left"))
    judge.act(lambda: page.click("#right"))
    judge.act(lambda: page.click("#choices button:nth-child(2)"))
    judge.act(lambda: page.click("#skip"))
    assert kept_outcomes(drinks) == [1, -1, 0, None]
    judge.act(lambda: page.click("#undo"))
    judge.act(lambda: page.dblclick("#left"))
    time.sleep(0.3)
    judge.act(lambda: page.dblclick("#choices button:nth-child(3)"))
    time.sleep(0.3)
    assert kept_outcomes(drinks) == [1, -1, 0, 1, -1]


def test_text_can_be_selected_without_answering(new_page, drinks):
    judge = Judge(new_page(), UTILITY).open(drinks.address)
    box = judge.page.locator("#left .text").bounding_box()
    y = box["y"] + box["height"] / 2
    judge.page.mouse.move(box["x"] + 2, y)
    judge.page.mouse.down()
    judge.page.mouse.move(box["x"] + box["width"] - 2, y, steps=5)
    judge.page.mouse.up()
    time.sleep(0.3)
    assert len(judge.page.evaluate("() => getSelection().toString()")) > 2
    assert kept_outcomes(drinks) == []


def test_a_telephone_is_tapped(new_page, drinks):
    page = new_page(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    judge = Judge(page, UTILITY).open(drinks.address)
    judge.act(lambda: page.tap("#left"))
    judge.act(lambda: page.tap("#right"))
    judge.act(lambda: page.tap("#choices button:nth-child(2)"))
    judge.act(lambda: page.tap("#undo"))
    assert kept_outcomes(drinks) == [1, -1]
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 360
    words = page.locator("#choices button").all_inner_texts()
    assert [word.splitlines()[0] for word in words] == ["Upper", "Equal", "Lower"]
    left, right = (page.locator(f"#{side}").bounding_box() for side in ("left", "right"))
    assert left["y"] + left["height"] <= right["y"]  # one above the other
    below = page.locator("#choices").bounding_box()
    assert below["y"] + below["height"] <= 740  # all without scrolling


@pytest.mark.parametrize("grades", [2, 4, 5, 7])
def test_grades_have_buttons_and_number_keys(grades, new_page, tmp_path):
    survey = Survey(levels=levels_for(grades))
    with ThreadServer(named_items(DRINKS), tmp_path / "grades.db", survey) as running:
        page = new_page(viewport={"width": 360, "height": 740})
        judge = Judge(page, UTILITY).open(running.address)
        assert page.locator("#choices button").count() == grades
        for place in range(grades):
            judge.act(lambda place=place: page.locator("#choices button").nth(place).click())
        expected = list(reversed(levels_for(grades)))
        assert kept_outcomes(running) == expected
        if grades > 3:
            for place in range(grades):
                judge.press(str(place + 1))
            assert kept_outcomes(running) == 2 * expected
        judge.press("ArrowLeft")
        judge.press("ArrowRight")
        assert kept_outcomes(running)[-2:] == [1, -1]
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 360


# ------------------------------------------------------------------- what is kept


def test_undo_removes_the_answer_and_shows_its_pair_again(new_page, drinks):
    judge = Judge(new_page(), UTILITY).open(drinks.address)
    pairs = []
    for _ in range(3):
        pairs.append(judge.pair())
        judge.press("ArrowLeft")
    for left in (2, 1, 0):
        judge.press("u")
        assert judge.pair() == pairs[left]  # on the same sides
        assert drinks.n_answers == left
    assert judge.page.locator("#undo").is_disabled()
    judge.press("ArrowRight")
    assert kept_outcomes(drinks) == [-1]
    state = drinks.client().state()
    assert (state["answers"], state["skipped"]) == (1, 0)


def test_a_page_that_is_loaded_again_goes_on(new_page, drinks):
    judge = Judge(new_page(), UTILITY).open(drinks.address)
    judge.press("ArrowLeft")
    pair = judge.pair()
    judge.page.reload()
    judge.page.wait_for_selector("#choices button:enabled")
    assert judge.pair() == pair
    judge.press("u")
    assert drinks.n_answers == 0


def test_an_answer_that_got_no_reply_is_sent_again_and_counted_once(new_page, drinks):
    """The reply is lost on its way; then the page is closed before there is another."""
    judge = Judge(new_page(), UTILITY).open(drinks.address)
    page = judge.page
    lost = []

    def lose(route):
        route.fetch()  # the server gets it and keeps it
        lost.append(route.request.post_data)
        route.abort()

    page.route("**/api/answers", lose)
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("#notice:not([hidden])")
    assert "Your answer is kept and will be sent again" in page.locator("#notice").text_content()
    while len(lost) < 2:
        page.wait_for_timeout(50)
    assert len(set(lost)) == 1
    assert drinks.n_answers == 1
    page.unroute("**/api/answers")
    page.reload()
    judge.wait(0)
    assert len(judge.kept()) == 1
    assert drinks.n_answers == 1


def test_the_page_says_that_all_pairs_are_done(new_page, tmp_path):
    with ThreadServer(named_items(["a", "b", "c"]), tmp_path / "three.db") as running:
        judge = Judge(new_page(), {}).open(running.address)
        for _ in range(3):
            judge.press("t")
        assert judge.done
        assert "All pairs are done" in judge.page.locator("#message").text_content()
        assert judge.page.locator("#choices button:enabled").count() == 0
        judge.press("u")
        assert not judge.done
        assert running.n_answers == 2


# ------------------------------------------------------------------- several judges


def test_two_judges_at_once_have_different_pairs_and_an_agreement(new_page, tmp_path):
    survey = Survey(named_judges=True)
    with ThreadServer(named_items(DRINKS), tmp_path / "two.db", survey) as running:
        opposite = {name: -value for name, value in UTILITY.items()}
        judges = [Judge(new_page(), UTILITY).open(running.address, "Ann"),
                  Judge(new_page(), opposite).open(running.address, "Bo <b>")]  # fmt: skip
        for _ in range(20):
            assert set(judges[0].pair()) != set(judges[1].pair())
            for judge in judges:
                judge.answer()
        page = judges[0].page
        page.wait_for_function(
            "() => [...document.querySelectorAll('#judges tr')].filter(row =>"
            " row.cells[1].textContent === '20').length === 2"
        )
        rows = [[cell.strip() for cell in row.split("\t")]
                for row in page.locator("#judges tr").all_inner_texts()]  # fmt: skip
        assert {row[0] for row in rows} == {"Ann", "Bo <b>"}
        shared = [re.fullmatch(r"(\d+) of (\d+)", row[2]).groups() for row in rows]
        assert shared[0] == shared[1]
        assert int(shared[0][0]) == 0  # they agree on nothing
        assert int(shared[0][1]) >= 2
        by = [answer.judge for answer in running.store.answers()]
        assert (by.count("Ann"), by.count("Bo <b>")) == (20, 20)


def test_a_judge_can_hand_over(new_page, tmp_path):
    with ThreadServer(named_items(DRINKS), tmp_path / "j.db", Survey(named_judges=True)) as running:
        judge = Judge(new_page(), UTILITY).open(running.address, "Ann")
        judge.press("ArrowLeft")
        page = judge.page
        page.click("#judge-button")
        page.fill("#judge-name", "Bo")
        page.keyboard.press("Enter")
        page.wait_for_selector("#choices button:enabled")
        assert page.locator("#undo").is_disabled()  # Bo takes back no answer of Ann
        judge.press("ArrowLeft")
        assert [answer.judge for answer in running.store.answers()] == ["Ann", "Bo"]


# ------------------------------------------------------------------- how it looks


def mixed_items(tmp_path):
    """Items with short and long texts, pictures of all shapes, and gaps."""
    for name, (w, h) in {"wide": (900, 90), "tall": (60, 700), "small": (4, 4)}.items():
        svg = f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}"><rect/></svg>'
        (tmp_path / f"{name}.svg").write_text(svg)
    columns = {
        "name": ["short", "a name that goes on and on " * 8, "\u05e9\u05dc\u05d5\u05dd", "x" * 300],
        "text": ["", "word " * 2000, "one\n\ntwo\n" * 20, "y" * 3000],
        "picture": ["wide.svg", "tall.svg", "small.svg", ""],
    }
    return read_items(TableFile(write_items(tmp_path / "mixed.csv", columns)))


PLACES = """() => ['question', 'bar', 'progress-text', 'left', 'right', 'choices', 'undo', 'skip']
  .map(id => { const r = document.getElementById(id).getBoundingClientRect();
               return [r.x, r.y, id === 'bar' ? 0 : r.width, r.height].map(Math.round); })"""


@pytest.mark.parametrize(("width", "height"), [(1366, 800), (820, 1180), (360, 640)])
def test_nothing_moves_between_pairs(width, height, new_page, tmp_path):
    with ThreadServer(mixed_items(tmp_path), tmp_path / "mixed.db") as running:
        page = new_page(viewport={"width": width, "height": height})
        judge = Judge(page, {}).open(running.address)
        page.wait_for_function(
            "() => document.getElementById('progress-text').textContent.length > 3"
        )
        places = [page.evaluate(PLACES)]
        for _ in range(5):
            judge.press("s")
            places.append(page.evaluate(PLACES))
        assert all(found == places[0] for found in places)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1366, 360])
def test_texts_have_contrast_in_both_schemes(scheme, width, new_page, drinks):
    page = new_page(color_scheme=scheme, viewport={"width": width, "height": 800})
    judge = Judge(page, UTILITY).open(drinks.address)
    judge.press("ArrowLeft")
    page.mouse.move(0, 0)
    found = page.evaluate(CONTRAST)
    assert len(found) > 20
    assert min(found)[0] >= 4.5, min(found)
    background = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    brightness = np.mean([int(v) for v in re.findall(r"\d+", background)[:3]])
    assert (brightness > 200) == (scheme == "light")
    assert (brightness < 60) == (scheme == "dark")


def test_it_can_be_heard_and_reached_without_a_mouse(new_page, drinks):
    judge = Judge(new_page(), UTILITY).open(drinks.address)
    page = judge.page
    left, right = judge.pair()
    assert page.locator("#said").text_content() == f"Left: {left}. Right: {right}."
    assert page.locator("#said").get_attribute("aria-live") == "polite"
    buttons = page.get_by_role("button")
    names = [page.evaluate("b => b.textContent", b) for b in buttons.element_handles()]
    assert any(left in name for name in names)  # "Left: tea"
    assert page.get_by_role("group", name="Your answer").count() == 1
    for role, count in (("main", 1), ("complementary", 1), ("heading", 2)):
        assert page.get_by_role(role).count() >= count
    assert page.evaluate("() => document.documentElement.lang") == "en"
    assert page.title() == "Which would you rather drink?"
    reached = set()
    for _ in range(16):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("() => document.activeElement.textContent.trim()"))
    assert any("Equal" in text for text in reached)
    assert {"SSkip", "?Keys"} <= reached
    sizes = page.evaluate("() => [...document.querySelectorAll('main button')]"
                          ".filter(b => b.offsetWidth).map(b => b.offsetHeight)")  # fmt: skip
    assert min(sizes) >= 44  # wide enough for a finger


def test_nothing_is_loaded_from_elsewhere(new_page, drinks):
    page, asked = new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    judge = Judge(page, UTILITY).open(drinks.address)
    judge.press("ArrowLeft")
    assert len(asked) > 4
    assert all(url.startswith(drinks.address) for url in asked)


def test_a_failed_analysis_is_told_and_answers_go_on(new_page, drinks):
    from ordinalgp.ask.background import Failure

    judge = Judge(new_page(), UTILITY).open(drinks.address)
    drinks.service.take(Failure("MemoryError: too much"))
    judge.page.wait_for_function(
        "() => document.getElementById('ranking-note').textContent.includes('MemoryError')"
    )
    judge.press("ArrowLeft")
    assert drinks.n_answers == 1


def test_a_store_that_cannot_be_written_is_told_and_the_answer_waits(new_page, drinks):
    import sqlite3

    judge = Judge(new_page(), UTILITY).open(drinks.address)
    record = drinks.store.record

    def full(answer):
        raise sqlite3.OperationalError("database or disk is full")

    drinks.store.record = full
    judge.page.keyboard.press("ArrowLeft")
    judge.page.wait_for_selector("#notice:not([hidden])")
    assert "database or disk is full" in judge.page.locator("#notice").text_content()
    assert drinks.n_answers == 0
    drinks.store.record = record
    judge.wait(0)
    assert kept_outcomes(drinks) == [1]
    assert "Connected again" in judge.page.locator("#notice").text_content()


def test_the_exports_are_downloads(new_page, drinks):
    judge = Judge(new_page(), UTILITY).open(drinks.address)
    judge.press("ArrowLeft")
    for link, first in (("answers", "left,right,outcome"), ("ranking", "rank,item,utility")):
        with judge.page.expect_download() as download:
            judge.page.click(f".exports a:has-text('{link}')")
        text = download.value.path().read_text(encoding="utf-8-sig")
        assert text.startswith(first)
        assert download.value.suggested_filename == f"{link}.csv"
    assert json.dumps(judge.pair())  # the page is still there

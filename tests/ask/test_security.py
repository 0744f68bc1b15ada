"""Attacks, each of which fails, and succeeds on a server without the defence against it.

The servers are real and have real connections. The pages of attackers are in a real browser.
"""

import http.client
import json
import socket
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.ask.common import Client, ThreadServer, new_key, write_items
from tests.chromium import SLOWEST, chromium

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from ordinalgp.ask import Survey, named_items
from ordinalgp.ask.exports import safe_text
from ordinalgp.ask.items import read_items
from ordinalgp.ask.security import (
    AccessToken,
    KnownHost,
    PageToken,
    Rate,
    SameOrigin,
    SmallRequests,
    derived,
)
from ordinalgp.tables.files import TableFile

NAMES = ["tea", "milk", "water", "juice"]


def without(*kinds):
    """A change of the defences that leaves some checks out."""
    return lambda d: replace(d, checks=[c for c in d.checks if not isinstance(c, kinds)])


def slower(defences):
    """A change to a lower rate of requests, which a slow machine reaches as well."""
    checks = [Rate(0.1, 100) if isinstance(c, Rate) else c for c in defences.checks]
    return replace(defences, checks=checks)


@contextmanager
def server(tmp_path, change=lambda defences: defences, **options):
    items = options.pop("items", None) or named_items(NAMES)
    path = tmp_path / f"{new_key()}.db"
    with ThreadServer(items, path, change=change, **options) as running:
        yield running


def ask(port, method="GET", path="/api/session", headers=None, body=None):
    """Status and content of a request with exactly these headers."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        given = {"host": f"127.0.0.1:{port}"} | (headers or {})
        if body is not None:
            given |= {"content-type": "application/json", "content-length": str(len(body))}
        for name, value in given.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        response = connection.getresponse()
        return response.status, response.read()


def answer_body():
    given = {"key": new_key(), "page": "p", "left": 1, "right": 2, "outcome": 1, "seconds": 1}
    return json.dumps(given).encode()


# ------------------------------------------------------------------------- one check at a time


def rebound_reading(running):
    """A page of evil.example, whose name leads to this machine, reads the token."""
    status, content = ask(running.port, headers={"host": f"evil.example:{running.port}"})
    return status == 200 and b'"token"' in content


def foreign_posting(running):
    """A page of another site has found the token out, and sends an answer."""
    headers = {"x-ordinalgp-token": derived(running.store.secret, "page")}
    headers |= {"origin": "http://evil.example"}
    ask(running.port, "POST", "/api/answers", headers, answer_body())
    return running.n_answers > 0


def sandboxed_posting(running):
    """The same from a frame without an origin."""
    headers = {"x-ordinalgp-token": derived(running.store.secret, "page"), "origin": "null"}
    ask(running.port, "POST", "/api/answers", headers, answer_body())
    return running.n_answers > 0


def cross_site_embedding(running):
    """A page of another site embeds the ranking as a script or a picture."""
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    return ask(running.port, path="/export/answers.csv", headers=headers)[0] == 200


def blind_posting(running):
    """A program that cannot read the page, such as an old browser's form, sends an answer."""
    ask(running.port, "POST", "/api/answers", {}, answer_body())
    return running.n_answers > 0


def guessed_token(running):
    """The same with a token that is nearly right."""
    token = derived(running.store.secret, "page")
    wrong = token[:-1] + ("0" if token[-1] != "0" else "1")
    ask(running.port, "POST", "/api/answers", {"x-ordinalgp-token": wrong}, answer_body())
    return running.n_answers > 0


def undoing_of_others(running):
    """The same takes an answer back."""
    client = running.client()
    key = new_key()
    client.answer(client.question(), 1, key)
    body = json.dumps({"key": key, "page": "p"}).encode()
    ask(running.port, "POST", "/api/undo", {}, body)
    return running.n_answers == 0


def long_address(running):
    """An address of 10,000 characters."""
    return ask(running.port, path=f"/api/state?known={'9' * 10_000}")[0] == 200


def flood(running):
    """Twice as many requests as allowed at once: all are served."""
    return all(ask(running.port, path="/static/icon.svg")[0] == 200 for _ in range(200))


ATTACKS = {
    rebound_reading: KnownHost,
    foreign_posting: SameOrigin,
    sandboxed_posting: SameOrigin,
    cross_site_embedding: SameOrigin,
    blind_posting: PageToken,
    guessed_token: PageToken,
    undoing_of_others: PageToken,
    long_address: SmallRequests,
    flood: Rate,
}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_an_attack_fails_because_of_its_defence(attack, tmp_path):
    with server(tmp_path, slower) as running:
        assert not attack(running)
    with server(tmp_path, without(ATTACKS[attack])) as running:
        assert attack(running)


def test_every_check_has_its_attack(tmp_path):
    with server(tmp_path, names=["lab"]) as running:
        kinds = {type(check) for check in running.defences.checks}
    assert kinds == {*ATTACKS.values(), AccessToken}


STRANGERS = [
    "", "evil.example", "127.0.0.1.evil.example", "localhost.evil", "[::1].evil", "127.0.0.1@evil",
    "10.0.0.1", "0", "a b",
]  # fmt: skip


@pytest.mark.parametrize("host", STRANGERS)
def test_other_hosts_are_refused(host, tmp_path):
    with server(tmp_path) as running:
        assert ask(running.port, headers={"host": host})[0] in (400, 421)
        assert ask(running.port, headers={"host": f"localhost:{running.port}"})[0] == 200
        assert ask(running.port, headers={"host": "[::1]:9000"})[0] == 200  # a tunnel


# ------------------------------------------------------------------------- a network


def test_on_a_network_only_who_has_the_address_is_served(tmp_path):
    with server(tmp_path, names=["lab"]) as running:
        port, token = running.port, derived(running.store.secret, "access")
        for path in ("/", "/api/session", "/static/ask.js", "/image/1/0", "/export/answers.csv"):
            assert ask(port, path=path)[0] == 403
        for wrong in ("", "x", token[:-1], token.upper(), derived(running.store.secret, "page")):
            assert ask(port, path=f"/?token={wrong}")[0] == 403
            cookie = {"cookie": f"ordinalgp-{port}={wrong}"}
            assert ask(port, headers=cookie)[0] == 403
        assert ask(port, path="/api/session?token=" + token)[0] == 403  # the page only
        cookie = {"cookie": f"other=1; ordinalgp-{port}={token}"}
        assert ask(port, headers=cookie)[0] == 200
        assert ask(port, headers=cookie | {"host": "192.168.0.7:80"})[0] == 200
        assert ask(port, headers=cookie | {"host": "lab"})[0] == 200
        assert ask(port, headers=cookie | {"host": "evil.example"})[0] == 421
        with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
            connection.request("GET", f"/?token={token}")
            response = connection.getresponse()
            assert response.status == 303
            assert response.headers["location"] == "/"
            assert "HttpOnly; SameSite=Lax" in response.headers["set-cookie"]
    with server(tmp_path, without(AccessToken), names=["lab"]) as running:
        assert ask(running.port)[0] == 200


# ------------------------------------------------------------------------- sizes and forms


def chunked(running, size):
    """Status of a body that does not say its length, and the bytes that were sent of it."""
    token = derived(running.store.secret, "page")
    with socket.create_connection(("127.0.0.1", running.port), timeout=30) as connection:
        head = f"POST /api/answers HTTP/1.1\r\nhost: 127.0.0.1:{running.port}\r\n"
        head += f"x-ordinalgp-token: {token}\r\ncontent-type: application/json\r\n"
        head += "transfer-encoding: chunked\r\n\r\n"
        padding = answer_body()[:-1] + b', "padding": "' + b"x" * size + b'"}'
        try:
            connection.sendall(head.encode() + f"{len(padding):x}\r\n".encode() + padding)
            connection.sendall(b"\r\n0\r\n\r\n")
        except OSError:
            pass  # it was closed before all was sent
        return int(connection.recv(100).split()[1])


def test_large_bodies_are_not_read(tmp_path):
    with server(tmp_path) as running:
        assert chunked(running, 100) == 200
        assert chunked(running, 1_000_000) == 413
        token = {"x-ordinalgp-token": derived(running.store.secret, "page")}
        for length in ("1000000", "-5", "1e3"):
            headers = token | {"content-length": length}
            assert ask(running.port, "POST", "/api/answers", headers)[0] in (400, 413)
        assert running.n_answers == 1
    with server(tmp_path, lambda d: replace(d, largest_body=10**9)) as running:
        assert chunked(running, 1_000_000) == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[1]", 400),
        (b"{", 400),
        (b"[" * 8000, 400),
        (b'{"page": "p"}', 422),
        (b'{"page": "p", "key": 7, "left": 1, "right": 2, "outcome": 1}', 422),
        (b'{"page": "p", "key": "%s", "left": true, "right": 2, "outcome": 1}', 422),
        (b'{"page": "p", "key": "%s", "left": 1.5, "right": 2, "outcome": 1}', 422),
        (b'{"page": "p", "key": "%s", "left": 1e400, "right": 2, "outcome": 1}', 422),
        (b'{"page": "p", "key": "%s", "left": 1, "right": 1, "outcome": 1}', 422),
        (b'{"page": "p", "key": "%s", "left": 1, "right": 99, "outcome": 1}', 422),
        (b'{"page": "p", "key": "%s", "left": 1, "right": 2, "outcome": 9}', 422),
        (b'{"page": "p", "key": "%s", "left": 1, "right": 2, "outcome": "1"}', 422),
        (b'{"page": "p", "key": "short", "left": 1, "right": 2, "outcome": 1}', 422),
        (b'{"page": "p", "key": "%s", "left": 9999999999999999999, "right": 2, "outcome": 1}', 422),
        (b'{"page": "%s%s%s", "key": "%s", "left": 1, "right": 2, "outcome": 1}', 422),
    ],
)  # fmt: skip
def test_requests_that_make_no_sense_are_refused_in_words(body, status, tmp_path):
    with server(tmp_path) as running:
        token = {"x-ordinalgp-token": derived(running.store.secret, "page")}
        body = body.replace(b"%s", new_key().encode())
        found, content = ask(running.port, "POST", "/api/answers", token, body)
        assert found == status
        assert 5 < len(content) < 200
        assert b"Traceback" not in content
        assert running.n_answers == 0


@pytest.mark.parametrize("seconds", [b"-1", b"NaN", b"Infinity", b'"x"', b"[]", b"1e9", b"true"])
def test_strange_times_are_left_out(seconds, tmp_path):
    with server(tmp_path) as running:
        token = {"x-ordinalgp-token": derived(running.store.secret, "page")}
        body = answer_body().replace(b'"seconds": 1', b'"seconds": ' + seconds)
        assert ask(running.port, "POST", "/api/answers", token, body)[0] == 200
        assert next(running.store.answers()).seconds is None


def test_there_are_no_uploads_and_no_other_addresses(tmp_path):
    with server(tmp_path) as running:
        token = {"x-ordinalgp-token": derived(running.store.secret, "page")}
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
            assert ask(running.port, method, "/api/answers", token)[0] == 405
        multipart = token | {"content-type": "multipart/form-data; boundary=x"}
        with closing(http.client.HTTPConnection("127.0.0.1", running.port)) as connection:
            connection.request("POST", "/api/answers", b"--x--", multipart)
            assert connection.getresponse().status == 415
        for path in ("/static/../application.py", "/static/..%2fapplication.py", "/static/ask.py",
                     "/docs", "/openapi.json", "/image/1/0", "/image/99/0", "/image/1/-1",
                     "/static/%00", "/.git/config"):  # fmt: skip
            assert ask(running.port, path=path)[0] in (400, 404)


def test_judges_must_give_a_name_where_it_is_asked_for(tmp_path):
    with server(tmp_path, survey=Survey(named_judges=True)) as running:
        assert ask(running.port, path="/api/question?page=p")[0] == 422
        assert ask(running.port, path="/api/question?page=p&judge=%00%20")[0] == 422
        client = running.client(judge="Ann\x00\u202e" + "x" * 1000)
        client.answer(client.question(), 1)
        (kept,) = running.store.answers()
        assert kept.judge.startswith("Ann xxx")
        assert len(kept.judge) == 60


def test_responses_carry_their_headers_also_when_they_refuse(tmp_path):
    with server(tmp_path) as running:
        client = Client(running.port)
        for path, status in (
            ("/", 200),
            ("/static/ask.js", 200),
            ("/none", 404),
            ("/api/state", 200),
        ):
            found, headers, _ = client.request("GET", path)
            assert found == status
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["x-frame-options"] == "DENY"
            assert "script-src 'self';" in headers["content-security-policy"]
            assert "unsafe" not in headers["content-security-policy"]
            assert not [name for name in headers if name.startswith("access-control")]
        status, headers, _ = client.request("POST", "/api/answers", {})
        assert (status, headers["x-content-type-options"]) == (403, "nosniff")
        origin = {"origin": "http://evil.example"}
        assert client.request("GET", "/api/session", headers=origin)[0] == 403


# ------------------------------------------------------------------------- exports


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "\uff1d1"])
def test_no_text_is_a_formula_in_a_spreadsheet(text):
    assert safe_text(text) == f"'{text}"
    for harmless in ("tea", "a=b", "1-2", "", "'=1"):
        assert safe_text(harmless) == harmless


def test_exports_hold_the_answers_without_formulas(tmp_path):
    items = named_items(['=HYPERLINK("http://evil")', 'quoted, "name"'])
    with server(tmp_path, items=items, survey=Survey(named_judges=True)) as running:
        client = running.client(judge="@evil")
        question = client.question()
        client.answer(question, 1)
        status, headers, content = client.request("GET", "/export/answers.csv")
        assert status == 200
        assert headers["content-disposition"] == 'attachment; filename="answers.csv"'
        assert headers["content-type"].startswith("text/csv")
        path = tmp_path / "answers.csv"
        path.write_bytes(content)
        table = TableFile(path).read()
        cells = {name: column[0] for name, column in table.columns.items()}
        assert sorted([cells["left"], cells["right"]]) == sorted(
            ['\'=HYPERLINK("http://evil")', 'quoted, "name"']
        )
        assert (cells["outcome"], cells["in_words"], cells["judge"]) == ("1", "left", "'@evil")


# ------------------------------------------------------------------------- in a browser


class Evil(BaseHTTPRequestHandler):
    """A page of another site."""

    page = b""

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(self.page)

    def log_message(self, *args):
        """Say nothing."""


@contextmanager
def evil_site(html):
    handler = type("Handler", (Evil,), {"page": html.encode()})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        yield site.server_address[1]
        site.shutdown()


@pytest.fixture(scope="module")
def browser():
    with chromium("--host-resolver-rules=MAP *.example 127.0.0.1") as opened:
        yield opened


@pytest.fixture
def page(browser):
    context = browser.new_context()
    context.set_default_timeout(SLOWEST)
    opened = context.new_page()
    opened.dialogs = []
    opened.on("dialog", lambda dialog: (opened.dialogs.append(dialog.message), dialog.dismiss()))
    yield opened
    context.close()


def test_a_rebound_name_shows_no_page(page, tmp_path):
    def answers(running):
        page.goto(f"http://rebound.example:{running.port}/")
        if page.locator("#choices button").count() or "answer to that" not in page.content():
            page.wait_for_selector("#choices button:enabled")
            page.keyboard.press("ArrowLeft")
            page.wait_for_function("() => document.getElementById('undo').disabled === false")
        return running.n_answers

    with server(tmp_path) as running:
        assert answers(running) == 0
    with server(tmp_path, without(KnownHost)) as running:
        assert answers(running) == 1


FORGERY = """<script>
const body = JSON.stringify({key: "k".repeat(20), page: "p", left: 1, right: 2, outcome: 1});
const send = (kind, mode) =>
  fetch("%s/api/answers", {method: "POST", mode, headers: {"content-type": kind}, body});
const all = [send("text/plain", "no-cors"), send("application/json", "cors")];
all.push(fetch("%s/api/session").then(r => r.text()).then(t => { window.stolen = t; }));
Promise.allSettled(all).then(() => { document.title = "done"; });
</script>
<form id="f" method="post" enctype="text/plain" action="%s/api/answers" target="t">
<input name='{"key": "kkkkkkkkkkkkkkkkk", "page": "p", "left": 1, "right": 2, "outcome": 1, "x": "'
 value='"}'></form>
<iframe name="t"></iframe><script>document.getElementById("f").submit();</script>"""


def test_a_page_of_another_site_can_neither_answer_nor_read(page, tmp_path):
    with server(tmp_path) as running:
        ours = f"http://127.0.0.1:{running.port}"
        with evil_site(FORGERY % (ours, ours, ours)) as port:
            page.goto(f"http://evil.example:{port}/")
            page.wait_for_function("() => document.title === 'done'")
            time.sleep(0.3)
            assert page.evaluate("window.stolen") is None
        assert running.n_answers == 0


def test_the_page_is_in_no_frame(page, tmp_path):
    def framed(running):
        ours = f"http://127.0.0.1:{running.port}/"
        with evil_site(f'<iframe src="{ours}"></iframe>') as port:
            page.goto(f"http://evil.example:{port}/")
            page.wait_for_load_state("networkidle")
            return page.frames[1].locator("#question").count() > 0

    with server(tmp_path) as running:
        assert not framed(running)
    with server(tmp_path, lambda d: replace(d, headers={})) as running:
        assert framed(running)


HOSTILE = [
    "<script>window.hacked = 1</script>",
    '<img src=x onerror="window.hacked = 2">',
    "<svg/onload=window.hacked=3>",
    '"><iframe srcdoc="<script>parent.hacked=4</script>">',
    "</title></textarea><b onmouseover=window.hacked=5>x</b>",
    "javascript:window.hacked=6",
    "{{constructor.constructor('window.hacked=7')()}}",
    "&lt;script&gt;window.hacked=8&lt;/script&gt;",
]


def hostile_items(tmp_path):
    """Items all of whose texts are markup, the names of columns too."""
    columns = {HOSTILE[0]: HOSTILE, HOSTILE[1]: HOSTILE[::-1], HOSTILE[2]: HOSTILE}
    return read_items(TableFile(write_items(tmp_path / "hostile.csv", columns)))


def show_all(page, running, answers=14):
    """Look at many pairs; return the texts that were shown."""
    page.goto(running.address)
    page.wait_for_selector("#left:not([hidden]) .text")
    seen = set()
    for _ in range(answers):
        seen |= set(page.locator(".text").all_text_contents())
        before = page.evaluate(
            "document.getElementById('undo').disabled ? '' : sessionStorage.mine"
        )
        page.keyboard.press("ArrowLeft")
        page.wait_for_function("before => sessionStorage.mine !== before", arg=before)
        page.wait_for_selector("#choices button:enabled")
    return seen


def test_markup_of_items_is_text(page, tmp_path):
    survey = Survey(question=HOSTILE[1])
    with server(tmp_path, items=hostile_items(tmp_path), survey=survey) as running:
        seen = show_all(page, running)
        assert seen == set(HOSTILE)
        assert page.locator("#question").text_content() == HOSTILE[1]
        assert page.locator(".label").first.text_content() == HOSTILE[1][:60]
        assert page.evaluate("window.hacked") is None
        assert page.locator("main img, main iframe, main b, main svg, main script").count() == 0
        assert page.dialogs == []


def test_markup_would_run_without_both_defences(page, tmp_path):
    """The texts are set as text; if they were not, the content security policy would stop them."""

    def careless(route):
        response = route.fetch()
        body = response.text().replace("node.textContent = text", "node.innerHTML = text")
        assert "innerHTML" in body
        route.fulfill(response=response, body=body)

    page.route("**/static/view.js", careless)
    items = hostile_items(tmp_path)
    with server(tmp_path, items=items) as running:
        page.goto(running.address)
        page.wait_for_timeout(500)
        assert page.evaluate("window.hacked") is None
    with server(tmp_path, lambda d: replace(d, headers={}), items=items) as running:
        page.goto(running.address)
        page.wait_for_function("() => window.hacked !== undefined")


def test_no_inline_script_runs(page, tmp_path):
    inject = """() => { try { const s = document.createElement('div'); document.body.append(s);
      s.setAttribute('onclick', 'window.hacked = 1'); s.click(); } catch (error) {} }"""
    with server(tmp_path) as running:
        page.goto(running.address)
        page.evaluate(inject)
        assert page.evaluate("window.hacked") is None
    with server(tmp_path, lambda d: replace(d, headers={})) as running:
        page.goto(running.address)
        page.evaluate(inject)
        assert page.evaluate("window.hacked") == 1


DRAWING = """<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><circle r="9"/>
<script>document.documentElement.setAttribute("hacked", "1")</script></svg>"""


def test_a_drawing_that_is_opened_runs_no_script(page, tmp_path):
    (tmp_path / "a.svg").write_text(DRAWING)
    columns = {"name": ["a", "b"], "picture": ["a.svg", "a.svg"]}
    items = read_items(TableFile(write_items(tmp_path / "drawings.csv", columns)))
    with server(tmp_path, items=items) as running:
        found = page.goto(f"{running.address}image/1/1")
        assert found.headers["content-type"] == "image/svg+xml"
        assert page.evaluate("document.documentElement.getAttribute('hacked')") is None

        def careless(route):
            response = route.fetch()
            kept = {k: v for k, v in response.headers.items() if k != "content-security-policy"}
            route.fulfill(response=response, headers=kept)

        page.route("**/image/**", careless)
        page.goto(f"{running.address}image/1/1")
        assert page.evaluate("document.documentElement.getAttribute('hacked')") == "1"


def test_pictures_are_for_our_page_only(page, tmp_path):
    (tmp_path / "a.svg").write_text(DRAWING)
    columns = {"name": ["a", "b"], "picture": ["a.svg", "a.svg"]}
    items = read_items(TableFile(write_items(tmp_path / "drawings.csv", columns)))

    def stolen(running):
        with evil_site(f'<img src="http://127.0.0.1:{running.port}/image/1/1">') as port:
            page.goto(f"http://evil.example:{port}/")
            page.wait_for_load_state("networkidle")
            return page.evaluate("document.images[0].naturalWidth") > 0

    with server(tmp_path, items=items) as running:
        assert not stolen(running)
    with server(tmp_path, without(SameOrigin), items=items) as running:
        assert not stolen(running)  # the header Cross-Origin-Resource-Policy

    def bare(defences):
        return replace(without(SameOrigin)(defences), headers={})

    with server(tmp_path, bare, items=items) as running:
        assert stolen(running)


def test_an_address_with_a_token_opens_the_page_and_forgets_the_token(page, tmp_path):
    with server(tmp_path, names=["lab"]) as running:
        token = derived(running.store.secret, "access")
        refused = page.goto(running.address)
        assert refused.status == 403
        assert "Open the address that the server printed" in page.content()
        page.goto(f"{running.address}?token={token}")
        page.wait_for_selector("#choices button:enabled")
        assert page.url == running.address
        page.keyboard.press("ArrowRight")
        page.wait_for_function("() => document.getElementById('undo').disabled === false")
        assert running.n_answers == 1
        assert page.evaluate("document.cookie") == ""

"""The web application: routes, and the defences around them.

It needs ``ordinalgp[ask]``; `ordinalgp.ask.server` imports it when it starts.
"""

import json
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from ordinalgp.ask.exports import answers_csv, ranking_csv
from ordinalgp.ask.images import ImageFolder
from ordinalgp.ask.items import clean_name
from ordinalgp.ask.security import PICTURE_POLICY, Defences, PageToken
from ordinalgp.ask.service import Service
from ordinalgp.ask.store import Answer, Refused, Withdrawn

_KINDS = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_LONGEST_SECONDS = 86_400.0
_LONGEST_PAGE = 64
_LONGEST_JUDGE = 60

Handler = Callable[[Request], Awaitable[Response]]


class BadRequest(Exception):
    """A request that makes no sense; the message says why."""

    def __init__(self, reason: str, status: int = 422) -> None:
        super().__init__(reason)
        self.status = status


class Guard:
    """The defences around an application: they see every request first, and every response."""

    def __init__(self, app: Any, defences: Defences) -> None:
        self._app, self._defences = app, defences
        self._headers = [(k.encode(), v.encode()) for k, v in defences.headers.items()]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Refuse a request, or hand it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no others
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                more = [each for each in self._headers if each[0] not in given]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        refusal = self._defences.first_refusal(scope)
        response: Any = self._app
        if refusal is not None:
            response = Response(
                refusal.reason,
                refusal.status,
                {"connection": "close", **refusal.headers},
                "text/plain",
            )
        await response(scope, receive, send_with_headers)


@dataclass(eq=False)
class Pages:
    """Handlers of all routes."""

    service: Service
    defences: Defences

    def routes(self) -> list[Route]:
        """All addresses."""
        get = {
            "/": self.page,
            "/static/{name}": self.static,
            "/api/session": self.session,
            "/api/question": self.question,
            "/api/state": self.state,
            "/image/{item:int}/{place:int}": self.image,
            "/export/answers.csv": self.answers,
            "/export/ranking.csv": self.ranking,
        }
        post = {"/api/answers": self.answer, "/api/undo": self.undo}
        found = [Route(path, _plain(handler), methods=["GET"]) for path, handler in get.items()]
        return found + [Route(p, _plain(handler), methods=["POST"]) for p, handler in post.items()]

    # ------------------------------------------------------------------------ reading

    async def page(self, request: Request) -> Response:
        """The page itself."""
        return _static("index.html")

    async def static(self, request: Request) -> Response:
        """Its style and scripts."""
        return _static(request.path_params["name"])

    async def session(self, request: Request) -> Response:
        """Facts that a page asks for once, its token among them."""
        tokens = [check.token for check in self.defences.checks if isinstance(check, PageToken)]
        return _json({**self.service.session(), "token": next(iter(tokens), "")})

    async def question(self, request: Request) -> Response:
        """The pair to show."""
        page, judge = _page(request.query_params), self._judge(request.query_params)
        return _json({"question": self.service.question(page, judge)})

    async def state(self, request: Request) -> Response:
        """Progress and ranking, unless the page has this revision."""
        known, everything = request.query_params.get("known"), "all" in request.query_params
        if known == str(self.service.revision):
            return Response(status_code=204)
        return Response(self.service.encoded_state(everything), media_type="application/json")

    async def image(self, request: Request) -> Response:
        """A picture of an item."""
        items = self.service.items
        row = self.service.row.get(request.path_params["item"], -1)
        parts = items.parts[row] if row >= 0 else ()
        place = request.path_params["place"]
        path = parts[place].image if place < len(parts) else None
        if path is None or items.folder is None:
            raise BadRequest("There is no such picture.", 404)
        try:
            found = await run_in_threadpool(ImageFolder(items.folder).find, path)
        except ValueError as error:
            raise BadRequest("There is no such picture.", 404) from error
        headers = {"content-security-policy": PICTURE_POLICY, "cache-control": "private, no-cache"}
        return FileResponse(found.path, media_type=found.media_type, headers=headers)

    async def answers(self, request: Request) -> Response:
        """All answers, to download."""
        return _download(await run_in_threadpool(answers_csv, self.service), "answers.csv")

    async def ranking(self, request: Request) -> Response:
        """The ranking, to download."""
        return _download(ranking_csv(self.service), "ranking.csv")

    # ------------------------------------------------------------------------ writing

    async def answer(self, request: Request) -> Response:
        """Keep an answer, and then send the next pair."""
        given = await self._body(request)
        page = _page(given)
        outcome = given.get("outcome")
        answer = Answer(
            key=_text(given, "key"),
            left=_whole(given, "left"),
            right=_whole(given, "right"),
            outcome=None if outcome is None else _whole(given, "outcome"),
            judge=self._judge(given),
            seconds=_seconds(given.get("seconds")),
        )
        new = await run_in_threadpool(self.service.store.record, answer)
        if new:
            self.service.recorded(answer)
        return _json({"kept": answer.key, "question": self.service.question(page, answer.judge)})

    async def undo(self, request: Request) -> Response:
        """Remove an answer, and show its pair again."""
        given = await self._body(request)
        page, judge = _page(given), self._judge(given)
        gone = await run_in_threadpool(self.service.store.withdraw, _text(given, "key"))
        if gone is None:
            return _json({"removed": False, "question": self.service.question(page, judge)})
        self.service.withdrawn(gone)
        return _json({"removed": True, "question": self.service.question_again(page, gone)})

    async def _body(self, request: Request) -> dict[str, Any]:
        """The JSON object of a request, of which no more is read than allowed."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise BadRequest("The request must be JSON.", 415)
        content = b""
        async for chunk in request.stream():
            content += chunk
            if len(content) > self.defences.largest_body:
                raise BadRequest("The request is too large.", 413)
        try:
            found = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise BadRequest("The request is not JSON.", 400) from error
        if not isinstance(found, dict):
            raise BadRequest("The request must be a JSON object.", 400)
        return found

    def _judge(self, given: Any) -> str:
        """Name of the judge, where the survey asks for it."""
        if not self.service.store.survey.named_judges:
            return ""
        judge = given.get("judge")
        name = clean_name(judge, _LONGEST_JUDGE) if isinstance(judge, str) else ""
        if not name:
            raise BadRequest("The name of the judge is missing.")
        return name


def _page(given: Any) -> str:
    """Random name of the page that sends a request."""
    page = given.get("page")
    if not isinstance(page, str) or not 0 < len(page) <= _LONGEST_PAGE:
        raise BadRequest("The name of the page is missing.")
    return page


def _text(given: dict[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str):
        raise BadRequest(f"{name} must be text.")
    return value


def _whole(given: dict[str, Any], name: str) -> int:
    value = given.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > 2**53:
        raise BadRequest(f"{name} must be a whole number.")
    return value


def _seconds(value: Any) -> float | None:
    """Time that a judge took, where a page says it and it can be."""
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if fits and 0 <= value <= _LONGEST_SECONDS else None


def _json(content: Any) -> Response:
    return Response(json.dumps(content, allow_nan=False), media_type="application/json")


def _download(content: bytes, name: str) -> Response:
    disposition = f'attachment; filename="{name}"'
    return Response(content, media_type="text/csv", headers={"content-disposition": disposition})


@cache
def static_files() -> dict[str, bytes]:
    """Files of the page, by name."""
    folder = files("ordinalgp.ask").joinpath("page")
    known = (entry for entry in folder.iterdir() if Path(entry.name).suffix in _KINDS)
    return {entry.name: entry.read_bytes() for entry in known}


def _static(name: str) -> Response:
    content = static_files().get(name)
    if content is None:
        raise BadRequest("There is no such file.", 404)
    return Response(content, media_type=_KINDS[Path(name).suffix])


def _plain(handler: Handler) -> Handler:
    """A handler whose errors are short plain texts."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except BadRequest as error:
            reason, status = str(error), error.status
        except Withdrawn as error:
            reason, status = str(error), 410
        except Refused as error:
            reason, status = str(error), 422
        except (sqlite3.Error, OSError) as error:
            reason, status = f"The answer could not be saved: {error}.", 503
        return Response(reason, status, media_type="text/plain")

    return handle


def build(service: Service, defences: Defences) -> Guard:
    """The whole application."""
    return Guard(Starlette(routes=Pages(service, defences).routes()), defences)

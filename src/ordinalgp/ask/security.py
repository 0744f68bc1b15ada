"""Defences of the server, one by one; each refuses requests that only an attack would send.

- Host: a page of another site whose name is made to lead here (DNS rebinding) is not served.
- Origin: pages of other sites cannot send answers, nor use what a browser knows of ours.
- Page token: what changes something carries a token that only our page can read.
- Access token: on a network, only who has the printed address is served.
- Limits: sizes of requests, and how many there may be in a second.
- Headers: the page runs no script and loads nothing but its own, and is in no frame.
"""

import hmac
import ipaddress
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from typing import Any, Protocol
from urllib.parse import parse_qs

Scope = Mapping[str, Any]
LOOPBACK = ("localhost", "127.0.0.1", "::1")
TOKEN_HEADER = "x-ordinalgp-token"
LARGEST_BODY = 8_192
"""bytes of a request's body"""
_LONGEST_ADDRESS = 2_048
_LONGEST_HEADERS = 16_384
_SAFE = ("GET", "HEAD")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(?::(\d{1,5}))?", re.IGNORECASE)

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""for pictures that are opened by themselves: those in SVG may hold scripts"""
HEADERS = {
    "content-security-policy": PAGE_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Refusal:
    """Answer to a request that is not served."""

    status: int
    reason: str
    headers: Mapping[str, str] = field(default_factory=dict)


class Check(Protocol):
    """One defence."""

    def refuse(self, scope: Scope) -> Refusal | None:
        """The refusal of a request; None if this check has nothing against it."""


def derived(secret: str, purpose: str) -> str:
    """A token for one purpose, which tells nothing about others."""
    return hmac.new(bytes.fromhex(secret), purpose.encode(), sha256).hexdigest()[:40]


def header(scope: Scope, name: str) -> str | None:
    """A header; None if it is missing, and what no check accepts if it is there twice."""
    found = [value for key, value in scope["headers"] if key == name.encode()]
    if not found:
        return None
    return found[0].decode("latin-1") if len(found) == 1 else "\x00"


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


@dataclass(frozen=True)
class KnownHost:
    """The server answers to its own names only.

    On a network also to any numeric address: nobody else can have given it that name.
    """

    names: Collection[str] = LOOPBACK
    numeric: bool = False

    def refuse(self, scope: Scope) -> Refusal | None:
        """Refuse other names."""
        match = _HOST.fullmatch(header(scope, "host") or "")
        name = match[1].strip("[]").lower().rstrip(".") if match else ""
        if name in self.names or (self.numeric and _is_numeric(name)):
            return None
        return Refusal(421, "This server does not answer to that name.")


def _is_numeric(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class SameOrigin:
    """Changes come from our own page, as the browser says.

    Browsers name the origin of such requests. Programs that are no browsers need not.
    """

    def refuse(self, scope: Scope) -> Refusal | None:
        """Refuse other origins."""
        origin, site = header(scope, "origin"), header(scope, "sec-fetch-site")
        ours = f"{scope.get('scheme', 'http')}://{header(scope, 'host')}"
        if origin is not None and origin != ours:
            return Refusal(403, "This request comes from another page.")
        opened = scope["method"] in _SAFE and header(scope, "sec-fetch-mode") == "navigate"
        if site in (None, "same-origin", "none") or opened:
            return None
        return Refusal(403, "This request comes from another site.")


@dataclass(frozen=True)
class PageToken:
    """Changes carry the token that our page was given."""

    token: str

    def refuse(self, scope: Scope) -> Refusal | None:
        """Refuse requests without it."""
        given = header(scope, TOKEN_HEADER) or ""
        if scope["method"] in _SAFE or _same(given, self.token):
            return None
        return Refusal(403, "The page is out of date: load it again.")


@dataclass(frozen=True)
class AccessToken:
    """Only who has opened the address with the token is served; a cookie then remembers it."""

    token: str
    cookie: str

    def refuse(self, scope: Scope) -> Refusal | None:
        """Refuse others; send who comes with the token to the page without it."""
        asked = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and asked and _same(asked, self.token):
            kept = f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Lax; Max-Age=2592000"
            return Refusal(303, "", {"location": "/", "set-cookie": kept})
        if _same(self._kept(scope), self.token):
            return None
        return Refusal(
            403, "Open the address that the server printed when it was started, with its token."
        )

    def _kept(self, scope: Scope) -> str:
        try:
            found = SimpleCookie(header(scope, "cookie") or "").get(self.cookie)
        except CookieError:
            return ""
        return "" if found is None else found.value


@dataclass(frozen=True)
class SmallRequests:
    """Addresses, headers and announced bodies have limits.

    Of bodies that do not announce their length, the application reads no more.
    """

    body: int = LARGEST_BODY

    def refuse(self, scope: Scope) -> Refusal | None:
        """Refuse large requests."""
        length = header(scope, "content-length")
        if length is not None and (not length.isdecimal() or int(length) > self.body):
            return Refusal(413, "The request is too large.")
        if len(scope["path"]) + len(scope["query_string"]) > _LONGEST_ADDRESS:
            return Refusal(414, "The address is too long.")
        if sum(len(name) + len(value) for name, value in scope["headers"]) > _LONGEST_HEADERS:
            return Refusal(431, "The headers are too long.")
        return None


@dataclass(eq=False)
class Rate:
    """At most so many requests a second, after a burst, from each address."""

    per_second: float = 200.0
    burst: float = 600.0
    clock: Callable[[], float] = time.monotonic
    _left: dict[str, tuple[float, float]] = field(default_factory=dict)
    """requests that each address may still send, at a time"""

    def refuse(self, scope: Scope) -> Refusal | None:
        """Refuse what comes too fast."""
        now, client = self.clock(), (scope.get("client") or ("", 0))[0]
        left, since = self._left.get(client, (self.burst, now))
        left = min(self.burst, left + (now - since) * self.per_second)
        if len(self._left) > 10_000:  # addresses that were quiet have their burst again anyway
            self._left.clear()
        self._left[client] = max(left - 1.0, 0.0), now
        if left >= 1.0:
            return None
        return Refusal(429, "Too many requests.", {"retry-after": "1"})


@dataclass(frozen=True)
class Defences:
    """Everything that stands between the network and the application."""

    checks: Sequence[Check]
    headers: Mapping[str, str] = field(default_factory=lambda: HEADERS)
    largest_body: int = LARGEST_BODY

    def first_refusal(self, scope: Scope) -> Refusal | None:
        """The refusal of a request by the first check that has one."""
        refusals = (check.refuse(scope) for check in self.checks)
        return next((refusal for refusal in refusals if refusal is not None), None)


def defences(secret: str, names: Collection[str] = (), port: int = 0) -> Defences:
    """Defences of a server; with ``names``, those by which it is known on a network."""
    checks: list[Check] = [KnownHost({*LOOPBACK, *names}, numeric=bool(names)), Rate()]
    if names:
        checks.append(AccessToken(derived(secret, "access"), f"ordinalgp-{port}"))
    checks += [SameOrigin(), SmallRequests(), PageToken(derived(secret, "page"))]
    return Defences(checks)

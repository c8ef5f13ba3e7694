"""What happens before and after every request: limits, the token, headers, and times."""

import asyncio
import hmac
import time
from typing import Any

import msgspec

from kernelstream.serve.problems import Problem
from kernelstream.serve.reader_priority import note_prediction
from kernelstream.serve.service import Service

__all__ = ["PAGE", "Door"]

_LOCAL_NAMES = {"localhost", "127.0.0.1", "::1"}
PAGE = {
    "/": ("index.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_OPEN = {*PAGE, "/healthz", "/readyz", "/openapi.json"}
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        b"img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
]
_encode = msgspec.json.Encoder().encode


class Door:
    """The application around the endpoints.

    Before a request it checks the number of connections and the token. Meanwhile it counts and
    limits the body, and limits the time in which the caller reads the answer. Afterwards it counts
    the request.

    Parameters
    ----------
    app : ASGI application
        The endpoints.
    service : Service
    """

    def __init__(self, app: Any, service: Service):
        self._app, self._service = app, service

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin, status = time.perf_counter(), 500
        service, client = self._service, scope["client"]
        body = service.in_flight.body(receive)

        async def send_with_headers(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_HEADERS]
            limit = asyncio.get_running_loop().call_later(
                service.limits.body_seconds, service.connections.abort, client
            )
            try:
                await send(message)
            finally:
                limit.cancel()

        try:
            service.connections.begin(client)
            self._check(scope)
            await self._app(scope, body.receive, send_with_headers)
        except Problem as problem:
            await _send_problem(problem, send_with_headers)
        finally:
            body.release()
            service.connections.end(client, body.is_whole or not _has_body(scope))
            seconds, endpoint = time.perf_counter() - begin, _endpoint(scope["path"])
            service.latencies.add(endpoint, status, seconds)
            if endpoint == "predict" and status == 200:
                note_prediction()

    def _check(self, scope: Any) -> None:
        """Refuse a caller without the token, or without a token a caller from elsewhere."""
        headers = dict(scope["headers"])
        token = self._service.token
        if token is None:  # not for a page of another site whose name leads here, either
            host = headers.get(b"host", b"").decode("latin-1").strip()
            if _hostname(host) not in _LOCAL_NAMES:
                raise Problem(
                    403, "host", "This host name is not served",
                    "Without a token the service answers to localhost only: start it with "
                    "--token-file.",
                )  # fmt: skip
        elif scope["path"] not in _OPEN:
            scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
            is_known = hmac.compare_digest(given, token.encode())
            if scheme.lower() != b"bearer" or not is_known:
                raise Problem(
                    401, "token", "The token is missing or wrong",
                    "Send the header 'Authorization: Bearer TOKEN' with the service's token.",
                    {"WWW-Authenticate": "Bearer"},
                )  # fmt: skip


def _has_body(scope: Any) -> bool:
    """Return whether a request announces a body."""
    names = {name for name, _ in scope["headers"]}
    return b"content-length" in names or b"transfer-encoding" in names


def _hostname(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def _endpoint(path: str) -> str:
    """Return the name of a path's endpoint; there are few names, whatever the path is."""
    parts = path.strip("/").split("/")
    if parts[:2] == ["v1", "models"]:
        last = parts[3] if len(parts) == 4 else ""
        if last in ("predict", "learn", "step", "labels", "events", "keys"):
            return last
        return "model" if len(parts) == 3 else "models" if len(parts) == 2 else "other"
    if path in PAGE:
        return "page"
    return parts[0] if path in _OPEN or path == "/metrics" else "other"


async def _send_problem(problem: Problem, send: Any) -> None:
    content = _encode(problem.content)
    headers = {
        "content-type": "application/problem+json", "content-length": str(len(content)),
        **problem.headers,
    }  # fmt: skip
    encoded = [(k.lower().encode(), v.encode()) for k, v in headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": encoded})
    await send({"type": "http.response.body", "body": content})

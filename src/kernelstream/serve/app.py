"""The service over HTTP: its endpoints."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from importlib.resources import files
from typing import Any

import msgspec
from litestar import Litestar, Request, Response, get, post
from litestar.exceptions import HTTPException
from litestar.response import Stream

from kernelstream.files.bytes import FileError
from kernelstream.serve.bodies import FORMATS
from kernelstream.serve.door import PAGE, Door
from kernelstream.serve.openapi import document
from kernelstream.serve.problems import Problem
from kernelstream.serve.queue import Closed
from kernelstream.serve.reader_priority import pause_seconds
from kernelstream.serve.service import Service, unavailable

__all__ = ["create_app"]

_SECONDS = 0.5  # between two checks for a new state
_HEARTBEAT = 15.0
_LARGE = 64 * 1024  # bytes of a body: larger ones are handled on another thread
_encode = msgspec.json.Encoder().encode
_log = logging.getLogger("kernelstream.serve")


def create_app(service: Service) -> Any:
    """Return the ASGI application of a service, for uvicorn or another server.

    Parameters
    ----------
    service : Service
        The service, which is closed when the server stops.

    Returns
    -------
    ASGI application
    """
    handlers = [*_page_handlers(), *_about(service), *_learning(service)]
    app = Litestar(
        handlers, openapi_config=None, on_shutdown=[service.close], logging_config=None,
        request_max_body_size=service.limits.body_bytes, debug=False,
        exception_handlers={
            Problem: _problem, HTTPException: _http_problem, FileError: _store_problem,
            Exception: _unexpected,
        },
    )  # fmt: skip
    return Door(app, service)


# --- answers -------------------------------------------------------------------------------------


def _json(content: Any, status: int = 200) -> Response[bytes]:
    return Response(_encode(content), status_code=status, media_type="application/json")


def _problem(_: Any, problem: Problem) -> Response[bytes]:
    return Response(
        _encode(problem.content), status_code=problem.status, headers=problem.headers,
        media_type="application/problem+json",
    )  # fmt: skip


def _http_problem(request: Any, error: HTTPException) -> Response[bytes]:
    """Answer what Litestar itself refuses."""
    known = {
        404: "There is nothing at this path: /openapi.json lists the endpoints.",
        405: "This path does not take this method: see the header Allow.",
        413: "The body is larger than the service takes: send the rows in several requests.",
    }
    status = error.status_code
    title = {404: "Not found", 405: "Method not allowed", 413: "The body is too large"}
    found = Problem(
        status, "http", title.get(status, "The request was refused"),
        known.get(status, error.detail), error.headers,
    )  # fmt: skip
    return _problem(request, found)


def _store_problem(request: Any, error: FileError) -> Response[bytes]:
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    found = Problem(
        503, "store", "The store of models cannot be used",
        "The file of idle models cannot be read: the log of the service has the details.",
    )  # fmt: skip
    return _problem(request, found)


def _unexpected(request: Any, error: Exception) -> Response[bytes]:
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    found = Problem(
        500, "unexpected", "The service has failed",
        "This is a defect of the service, whose log has the details. Nothing can be said about "
        "whether rows of this request were learned: send them again with the same ids.",
    )  # fmt: skip
    return _problem(request, found)


# --- requests ------------------------------------------------------------------------------------


def _content_type(request: Request[Any, Any, Any]) -> str:
    """Return the content type, or raise if it cannot be read."""
    kind, _, parameters = request.headers.get("content-type", "").partition(";")
    kind, charset = kind.strip().lower(), parameters.strip().lower().replace('"', "")
    plain = request.headers.get("content-encoding", "identity").lower() == "identity"
    if kind not in FORMATS or charset not in ("", "charset=utf-8") or not plain:
        raise Problem(
            415, "content-type", "The content type is not supported",
            f"Send one of {', '.join(FORMATS)}, in UTF-8 and not compressed.",
            {"Accept-Post": ", ".join(FORMATS)},
        )  # fmt: skip
    return kind


def _name(request: Request[Any, Any, Any]) -> str:
    return str(request.path_params["name"])


def _parameters(
    request: Request[Any, Any, Any], **allowed: tuple[str, str] | None
) -> dict[str, Any]:  # fmt: skip
    """Return the query's parameters: any text, or whether the second of two values is given."""
    found = {name: None if values is None else False for name, values in allowed.items()}
    for name, value in request.query_params.multi_items():
        values: Any = allowed.get(name, ())
        if values is not None and value not in values:
            known = ", ".join(
                f"{name}={'...' if values is None else '|'.join(values)}"
                for name, values in allowed.items()
            )
            raise Problem(
                400, "query", "The query cannot be read",
                f"{name}={value} is not known here; what can be given: {known or 'nothing'}."[:500],
            )  # fmt: skip
        found[name] = value if values is None else value == values[1]
    return found


async def _done(
    service: Service, body: bytes, work: Callable[..., Any], *arguments: Any, is_slow: bool = False
) -> Any:
    """Do some work, on another thread if it takes long, so that other requests do not wait."""
    if is_slow or len(body) > _LARGE:
        async with service.in_flight.turn(body):
            return await asyncio.to_thread(work, *arguments)
    return work(*arguments)


async def _submitted(
    service: Service, request: Request[Any, Any, Any], skip: bool = False
) -> tuple[Any, list[dict[str, Any]]]:  # fmt: skip
    """Queue the rows of a request in steps, between which other requests are answered."""
    kind, body = _content_type(request), await request.body()
    given = _name(request), body, kind, skip
    if len(body) > _LARGE:
        async with service.in_flight.turn(body):
            return await asyncio.to_thread(service.submit, *given)
    steps = service.submission(*given)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            pending, skipped = end.value
            return pending, skipped
        await asyncio.sleep(pause_seconds())


async def _result(future: Any) -> Any:
    try:
        return await asyncio.wrap_future(future)
    except Closed as error:
        raise unavailable(error) from None


_NO_YES = ("false", "true")
_RAISE_SKIP = ("raise", "skip")
_LATEST_DRIFT = ("latest", "drift")


def _learning(service: Service) -> list[Any]:
    @post("/v1/models/{name:str}/predict", status_code=200)
    async def predict(request: Request[Any, Any, Any]) -> Response[bytes]:
        asked = _parameters(request, wait=_NO_YES, scores=_NO_YES)
        kind, body = _content_type(request), await request.body()
        # rows that wait for targets are written to the disk
        name, waits = _name(request), asked["wait"] or b"id" in body
        return _json(
            await _done(
                service, body, service.predict, name, body, kind, asked["wait"], asked["scores"],
                is_slow=waits or service.model(name).served.reads_disk,
            )
        )  # fmt: skip

    @post("/v1/models/{name:str}/learn", status_code=202)
    async def learn(request: Request[Any, Any, Any]) -> Response[bytes]:
        skip = _parameters(request, on_bad_row=_RAISE_SKIP)["on_bad_row"]
        pending, skipped = await _submitted(service, request, skip)
        n_accepted, n_repeated = (0, 0) if pending is None else await _result(pending.logged)
        return _json({"accepted": n_accepted, "repeated": n_repeated, "skipped": skipped}, 202)

    @post("/v1/models/{name:str}/step", status_code=200)
    async def step(request: Request[Any, Any, Any]) -> Response[bytes]:
        _parameters(request)
        pending, _ = await _submitted(service, request)
        answer = await _result(pending.learned)
        accepted, repeated = answer.accepted
        return _json(
            {"predictions": answer.predictions, "accepted": accepted, "repeated": repeated,
             "skipped": answer.skipped}
        )  # fmt: skip

    @post("/v1/models/{name:str}/labels", status_code=202)
    async def labels(request: Request[Any, Any, Any]) -> Response[bytes]:
        _parameters(request)
        kind, body = _content_type(request), await request.body()
        pending, known, unknown = await _done(
            service, body, service.submit_labels, _name(request), body, kind
        )
        n_accepted, n_repeated = (0, 0) if pending is None else await _result(pending.logged)
        return _json(
            {"accepted": n_accepted, "repeated": n_repeated + known, "unknown": unknown}, 202
        )

    return [predict, learn, step, labels]


# --- what can be looked at -----------------------------------------------------------------------


def _require_ready(service: Service) -> None:
    """Raise a 503 with the reason, unless the service learns and writes."""
    if service.is_stopping:
        raise _not_ready("The service is stopping.")
    models = list(service.models.values())
    stopped = [model.name for model in models if model.failure is not None]
    if stopped:
        raise _not_ready(f"Learning has stopped: restart the service. ({', '.join(stopped)})")
    unwritten = [model.name for model in models if model.not_ready is not None]
    if unwritten:
        raise _not_ready(
            "The disk cannot be written, so that rows are refused or checkpoints are missing: "
            "free some space. The log of the service has the error, and writes are tried again "
            f"by themselves. ({', '.join(unwritten)})"
        )


def _about(service: Service) -> list[Any]:
    @get("/v1/models")
    async def models(request: Request[Any, Any, Any]) -> Response[bytes]:
        _parameters(request)
        names = ("name", "class", "task", "n_seen", "n_keys", "error", "recent_error",
                 "rows_per_second", "failure", "disk_problem")  # fmt: skip
        states = [model.state() for model in service.models.values()]
        return _json({"models": [{name: state.get(name) for name in names} for state in states]})

    @get("/v1/models/{name:str}")
    async def model(request: Request[Any, Any, Any]) -> Response[bytes]:
        history = _parameters(request, history=_NO_YES)["history"]
        return _json(service.model(_name(request)).state(history))

    @get("/v1/models/{name:str}/keys")
    async def keys(request: Request[Any, Any, Any]) -> Response[bytes]:
        asked = _parameters(request, limit=None, sort=_LATEST_DRIFT, key=None)
        name, key = _name(request), asked["key"]
        if key is not None:
            return _json(await asyncio.to_thread(service.key, name, key))
        limit = "100" if asked["limit"] is None else asked["limit"]
        found = await asyncio.to_thread(service.keys, name, limit, asked["sort"])
        return _json({"keys": found})

    @get("/v1/models/{name:str}/events")
    async def events(request: Request[Any, Any, Any]) -> Stream:
        _parameters(request)
        model = service.model(_name(request))
        if service.n_viewers >= service.limits.viewers:
            raise Problem(
                503, "too-many-viewers", "Too many pages are open",
                f"{service.limits.viewers} pages are open already: close one, or try later.",
                {"Retry-After": "30"},
            )  # fmt: skip
        return Stream(_states(service, model), media_type="text/event-stream")

    @get("/metrics")
    async def metrics(request: Request[Any, Any, Any]) -> Response[str]:
        _parameters(request)
        return Response(service.metrics(), media_type="text/plain; version=0.0.4")

    @get("/healthz")
    async def healthz() -> Response[bytes]:
        return _json({"status": "alive"})

    @get("/readyz")
    async def readyz() -> Response[bytes]:
        _require_ready(service)
        return _json({"status": "ready", "models": len(service.models)})

    @get("/openapi.json")
    async def openapi() -> Response[bytes]:
        return _json(document(service.limits))

    return [models, model, keys, events, metrics, healthz, readyz, openapi]


def _not_ready(detail: str) -> Problem:
    return Problem(503, "not-ready", "The service is not ready", detail, {"Retry-After": "5"})


async def _states(service: Service, model: Any) -> AsyncIterator[bytes]:
    """Yield server-sent events: the model's state whenever it has changed."""
    service.n_viewers += 1
    shown, last = None, 0.0
    try:
        while not service.is_stopping:
            now = time.monotonic()
            if (version := model.version) != shown:
                shown, last = version, now
                yield b"event: state\ndata: " + _encode(model.state(history=True)) + b"\n\n"
            elif now - last > _HEARTBEAT:
                last = now
                yield b": still here\n\n"
            await asyncio.sleep(_SECONDS)
        yield b"event: stopping\ndata: {}\n\n"
    finally:
        service.n_viewers -= 1


def _page_handlers() -> list[Any]:
    folder = files("kernelstream.serve") / "page"

    def handler(path: str, name: str, kind: str) -> Any:
        content = (folder / name).read_bytes()

        @get(path, name=name)
        async def page() -> Response[bytes]:
            return Response(content, media_type=kind)

        return page

    return [handler(path, name, kind) for path, (name, kind) in PAGE.items()]

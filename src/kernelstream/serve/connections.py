"""Connections and bytes in flight: what a service holds for callers, also before it knows them.

A caller may open connections and send nothing, send a body and never finish it, or never read the
answer. So connections, and the bytes of unanswered requests, are limited, and everything has a time
limit.
"""

import asyncio
import time
from collections import OrderedDict
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from kernelstream.serve.limits import Limits
from kernelstream.serve.problems import Problem

__all__ = ["Connections", "InFlight", "protocol_of"]

_SPARE = 64  # connections beyond the limit, which get an answer that says so
_LONGEST_HEAD = 512 * 1024  # bytes; a part of the body may come with them
_LONGEST_REST = 2**40  # bytes of a refused body, which are thrown away until the time is over
_LARGE = 2**20  # bytes of a body: the numbers of several such bodies would take too much memory

Client = tuple[str, int]  # a host and a port: no two open connections have the same


class Connections:
    """The open connections, and which of them wait for a request.

    Parameters
    ----------
    limits : Limits
    """

    def __init__(self, limits: Limits):
        self._limits = limits
        self._open: dict[Client, Any] = {}  # transports
        self._waiting: OrderedDict[Client, float] = OrderedDict()  # since when, oldest first
        self._n_bytes: dict[Client, int] = {}  # that came while it waits

    @property
    def n_open(self) -> int:
        """Return how many connections are open."""
        return len(self._open)

    def opened(self, client: Client, transport: Any) -> None:
        """Add a connection; beyond the limit, close the one that waits longest for a request."""
        self._open[client] = transport
        if len(self._open) > self._limits.connections:
            oldest = next(iter(self._waiting), None)
            if oldest is not None:
                self.abort(oldest)
            elif len(self._open) > self._limits.connections + _SPARE:
                self.abort(client)
                return
        self._wait(client)

    def closed(self, client: Client) -> None:
        """Forget a connection."""
        self._open.pop(client, None)
        self._waiting.pop(client, None)
        self._n_bytes.pop(client, None)

    def heard(self, client: Client, n_bytes: int) -> None:
        """Count bytes of a connection, and close it if the head of its request does not end."""
        if client in self._waiting:
            self._n_bytes[client] = self._n_bytes.get(client, 0) + n_bytes
            if self._n_bytes[client] > _LONGEST_HEAD:
                self.abort(client)

    def begin(self, client: Client) -> None:
        """Note that a request has begun, or refuse it if too many are being answered."""
        self._waiting.pop(client, None)
        self._n_bytes.pop(client, None)
        if len(self._open) - len(self._waiting) > self._limits.connections:
            raise Problem(
                503, "too-many-connections", "Too many connections are open",
                f"{self._limits.connections:,} requests are being answered: try later, and use one "
                "connection for several requests.", {"Retry-After": "1", "Connection": "close"},
            )  # fmt: skip

    def end(self, client: Client, body_is_whole: bool) -> None:
        """Note that a request was answered: its connection waits for another one.

        The rest of a body that was not received is still on its way, and takes no memory.
        """
        if client in self._open:
            self._wait(client)
            self._n_bytes[client] = 0 if body_is_whole else -_LONGEST_REST

    def _wait(self, client: Client) -> None:
        self._waiting[client] = time.monotonic()
        self._waiting.move_to_end(client)

    def abort(self, client: Client) -> None:
        """Close a connection at once."""
        transport = self._open.get(client)
        self.closed(client)
        if transport is not None:
            transport.abort()

    async def close_idle(self) -> None:
        """Close connections that wait too long for a request, until this task is cancelled."""
        while True:
            await asyncio.sleep(min(1.0, self._limits.idle_seconds / 4))
            latest = time.monotonic() - self._limits.idle_seconds
            while self._waiting and next(iter(self._waiting.values())) < latest:
                self.abort(next(iter(self._waiting)))


def protocol_of(connections: Connections) -> Any:
    """Return uvicorn's protocol for HTTP, whose connections are counted."""

    base: Any = AutoHTTPProtocol

    class CountedProtocol(base):  # type: ignore[misc]
        """HTTP, with an entry in `connections`."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            host, port, *_ = transport.get_extra_info("peername") or ("", id(self))
            self.counted_as = str(host), int(port)
            connections.opened(self.counted_as, transport)

        def connection_lost(self, error: Exception | None) -> None:
            connections.closed(self.counted_as)
            getattr(self, "pipeline", []).clear()  # requests that nobody waits for any more
            super().connection_lost(error)

        def data_received(self, data: bytes) -> None:
            connections.heard(self.counted_as, len(data))
            super().data_received(data)

    return CountedProtocol


class InFlight:
    """The bytes of the bodies of all requests that have not been answered.

    Parameters
    ----------
    limits : Limits
    """

    def __init__(self, limits: Limits):
        self.limits = limits
        self.n_bytes = 0
        self.one_large_body = asyncio.Semaphore(1)

    def turn(self, body: bytes) -> Any:
        """Return a context in which a body may be decoded: large ones wait for each other."""
        return self.one_large_body if len(body) > _LARGE else _no_turn

    def body(self, receive: Any) -> "ReceivedBody":
        """Return a request's body, which is counted as it arrives."""
        return ReceivedBody(self, receive)


class ReceivedBody:
    """The body of a request as it arrives, within a time limit and the limit of bytes in flight.

    Attributes
    ----------
    is_whole : bool
        Whether all of it has arrived.
    """

    def __init__(self, in_flight: InFlight, receive: Any):
        self._in_flight, self._receive = in_flight, receive
        self._n_bytes, self._begun, self.is_whole = 0, 0.0, False

    async def receive(self) -> Any:
        """Receive the next message of the request."""
        if self.is_whole:  # what may still come is that the caller goes away
            return await self._receive()
        limits, now = self._in_flight.limits, time.monotonic()
        self._begun = self._begun or now
        left = self._begun + limits.body_seconds - now
        try:
            async with asyncio.timeout(min(limits.idle_seconds, left)):
                message = await self._receive()
        except TimeoutError:
            raise Problem(
                408, "slow-body", "The body came too slowly",
                f"A part of the body must come every {limits.idle_seconds} s, and all of it within "
                f"{limits.body_seconds} s: send smaller bodies.", {"Connection": "close"},
            ) from None  # fmt: skip
        self.is_whole = message["type"] != "http.request" or not message.get("more_body", False)
        self._hold(len(message.get("body", b"")))
        return message

    def _hold(self, n_bytes: int) -> None:
        most = self._in_flight.limits.bytes_in_flight
        self._n_bytes += n_bytes
        self._in_flight.n_bytes += n_bytes
        if self._in_flight.n_bytes > most:
            raise Problem(
                503, "too-many-bytes", "Too many bytes are in flight",
                f"The bodies of unanswered requests have more than {most:,} bytes, which is the "
                "limit: send these rows again in a moment, in smaller requests.",
                {"Retry-After": "1", "Connection": "close"},
            )  # fmt: skip

    def release(self) -> None:
        """Note that the request was answered."""
        self._in_flight.n_bytes -= self._n_bytes
        self._n_bytes = 0


class _NoTurn:
    async def __aenter__(self) -> None:
        return

    async def __aexit__(self, *error: object) -> None:
        return


_no_turn = _NoTurn()

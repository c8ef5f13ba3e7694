"""Callers who open connections and send nothing, or too much: others are answered meanwhile."""

import asyncio
import json
import socket
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from kernelstream.serve import Limits, ServedModel
from kernelstream.serve.connections import Connections, InFlight
from kernelstream.serve.problems import Problem
from kernelstream.serve.service import Service

from .conftest import running
from .streams import X, Y, new_model

TOKEN = "a token that nobody else has"
GOOD = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def overloaded(tmp_path, interpreted):
    """A service with small limits and a token."""
    limits = Limits(
        connections=30, bytes_in_flight=300_000, idle_seconds=1, body_seconds=4, body_bytes=200_000
    )
    model = ServedModel("m", new_model().partial_fit(X[:50], Y[:50]), tmp_path, limits=limits)
    service = Service([model], limits, TOKEN)
    with running(service) as url:
        yield service, url
    service.close()


def connected(url, stack):
    host, port = url.removeprefix("http://").split(":")
    line = stack.enter_context(socket.create_connection((host, int(port))))
    line.settimeout(60)
    return line


def head(n_bytes, token=TOKEN):
    return (
        "POST /v1/models/m/predict HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {n_bytes}\r\n\r\n"
    ).encode()


def rest_of(line):
    """Return everything until the service closes the connection."""
    found = b""
    try:
        while more := line.recv(65536):
            found += more
    except ConnectionError:
        pass
    return found


def predict(url, n_rows=2):
    body = {"rows": X[:n_rows].tolist()}
    return httpx.post(f"{url}/v1/models/m/predict", json=body, headers=GOOD, timeout=60)


def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_silent_connections_are_closed_and_keep_nobody_out(overloaded):
    """Nobody of them sends a token, or anything else."""
    service, url = overloaded
    with ExitStack() as stack:
        silent = [connected(url, stack) for _ in range(100)]
        for _ in range(5):
            assert predict(url).status_code == 200
        assert service.connections.n_open <= 31
        assert [rest_of(line) for line in silent] == [b""] * 100  # all are closed
    until(lambda: service.connections.n_open == 0)


@pytest.mark.parametrize("part", [b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-"])
def test_a_head_that_does_not_end_is_cut_off(overloaded, part):
    _, url = overloaded
    with ExitStack() as stack:
        line = connected(url, stack)
        line.sendall(part)
        assert is_closed(line, b"a", 0.05)  # a byte now and then does not help
        endless = connected(url, stack)
        endless.sendall(b"GET / HTTP/1.1\r\n")
        assert is_closed(endless, b"X-Header: " + b"x" * 1000 + b"\r\n")
    assert predict(url).status_code == 200


def is_closed(line, content, pause=0.0):
    """Send something again and again until the service closes the connection."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        time.sleep(pause)
        try:
            line.sendall(content)
        except OSError:
            return True
    return False


def test_unfinished_bodies_are_refused_beyond_the_bytes_in_flight_and_cut_off(overloaded):
    service, url = overloaded
    with ExitStack() as stack:
        lines = [connected(url, stack) for _ in range(20)]
        most = 0
        for line in lines:
            line.sendall(head(150_000) + bytes(100_000))
            most = max(most, service.in_flight.n_bytes)
        answers = [rest_of(line) for line in lines]
        most = max(most, service.in_flight.n_bytes)
    statuses = [answer.split(b" ")[1] for answer in answers]
    assert set(statuses) <= {b"408", b"503"}
    assert statuses.count(b"503") >= 15
    assert b"Retry-After" in answers[-1] or b"retry-after" in answers[-1]
    assert most <= 300_000 + 20 * 2**18  # a part of a body is at most so large
    until(lambda: service.in_flight.n_bytes == 0)
    assert predict(url).status_code == 200


def test_a_body_that_drips_is_cut_off(overloaded):
    _, url = overloaded
    with ExitStack() as stack:
        line = connected(url, stack)
        line.sendall(head(10_000))
        assert is_closed(line, b" ", 0.05)


def test_a_body_without_a_token_is_not_held(overloaded):
    service, url = overloaded
    with ExitStack() as stack:
        lines = [connected(url, stack) for _ in range(20)]
        for line in lines:
            line.sendall(head(150_000, "wrong") + bytes(140_000))
        for line in lines:
            assert line.recv(20).startswith(b"HTTP/1.1 401")
        assert service.in_flight.n_bytes == 0
        assert predict(url).status_code == 200
        assert [b"401" in rest_of(line) for line in lines]  # closed, all the same


def test_who_does_not_read_the_answer_is_cut_off(tmp_path, interpreted):
    limits = Limits(body_seconds=1, idle_seconds=1)
    model = ServedModel("m", new_model().partial_fit(X[:50], Y[:50]), tmp_path, limits=limits)
    service = Service([model], limits)
    with running(service) as url, ExitStack() as stack:
        line = connected(url, stack)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.settimeout(30)  # as soon as all buffers are full, nothing more can be sent
        request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
        assert is_closed(line, 1000 * request)
        until(lambda: service.connections.n_open == 0)
    model.close()


def test_beyond_the_limit_the_connection_that_waits_longest_is_closed():
    connections, aborted = Connections(Limits(connections=2)), []

    class Transport:
        def __init__(self, n):
            self.n = n

        def abort(self):
            aborted.append(self.n)

    def open_one(n, is_asking):
        connections.opened(("host", n), Transport(n))
        if is_asking:
            connections.begin(("host", n))

    open_one(0, True)
    open_one(1, False)
    open_one(2, False)
    assert aborted == [1]
    connections.begin(("host", 2))
    open_one(3, False)  # all others are being answered
    assert aborted == [1]
    with pytest.raises(Problem, match="2 requests are being answered"):
        connections.begin(("host", 3))
    connections.end(("host", 3), body_is_whole=True)
    connections.end(("host", 0), body_is_whole=True)
    open_one(4, False)
    assert aborted == [1, 3]


def test_large_bodies_are_decoded_one_after_the_other():
    flight, inside, most = InFlight(Limits()), [], []

    async def decode(size):
        async with flight.turn(bytes(size)):
            inside.append(size)
            most.append(len(inside))
            await asyncio.sleep(0.01)
            inside.remove(size)

    async def all_at_once(size):
        await asyncio.gather(*(decode(size) for _ in range(4)))
        return max(most)

    assert asyncio.run(all_at_once(2 * 2**20)) == 1
    assert asyncio.run(all_at_once(1000)) == 4


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_eight_large_bodies_take_the_memory_of_one_and_their_bytes(start):
    """With a digit per number, a body takes twelve times its size as lists of numbers."""
    served = start()
    content = json.dumps({"rows": [[1] * 800] * 5_000}, separators=(",", ":")).encode()

    def peak():
        text = Path(f"/proc/{served.pid}/status").read_text()
        return int(text.split("VmHWM:")[1].split()[0]) / 1024

    before, statuses = peak(), []
    url = f"{served.url}/v1/models/model/predict"

    def send():
        headers = {"Content-Type": "application/json"}
        statuses.append(httpx.post(url, content=content, headers=headers, timeout=300).status_code)

    send()
    of_one = peak() - before
    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{len(content) / 1e6:.0f} MB: one {of_one:.0f} MB, eight {peak() - before:.0f} MB")
    assert set(statuses) <= {422, 503}  # 800 features are too many for this model
    assert peak() - before < 2 * of_one + 8 * 2 * len(content) / 2**20
    assert served.stop() == 0

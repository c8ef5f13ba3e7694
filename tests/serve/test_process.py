"""The service as a process: killed, soaked, and asked anything that its document allows."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import pytest
from typer.testing import CliRunner

import kernelstream as ks
from kernelstream.cli.app import app
from kernelstream.client import Client

FEATURES = 3
RANDOM = np.random.default_rng(0)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Process:
    """``kernelstream serve`` on a port that stays the same when it is started again."""

    def __init__(self, folder, *options, seconds=120):
        self.folder, self.options, self.port = folder, options, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start(seconds)

    def start(self, seconds=120):
        command = [sys.executable, "-m", "kernelstream", "serve", str(self.folder / "model.ks"),
                   "--checkpoint", str(self.folder / "kept"), "--port", str(self.port),
                   *self.options]  # fmt: skip
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for _ in range(seconds * 20):
            try:
                return httpx.get(f"{self.url}/readyz")
            except httpx.TransportError:
                assert self.process.poll() is None, self.process.stderr.read()
                time.sleep(0.05)
        raise TimeoutError

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(60)
        self.process.stderr.close()
        return self.process.returncode


def new_file(folder):
    X = RANDOM.normal(size=(20, FEATURES))
    model = ks.make("linear-pa", "classifier").partial_fit(X, (X[:, 0] > 0).astype(int))
    model.save(folder / "model.ks")


def send(client, name, n_requests, done, go_on=lambda: True):
    """Send blocks of rows with ids until all are acknowledged."""
    random = np.random.default_rng(abs(hash(name)) % 2**32)
    for i in range(n_requests):
        if not go_on():
            break
        X = random.normal(size=(7, FEATURES))
        ids = [f"{name}-{i}-{k}" for k in range(7)]
        action = client.step if i % 2 else client.learn
        action(X, (X[:, 0] > 0).astype(int), ids)
        done.append((X, ids))


def kill_under_load(tmp_path, n_kills):
    """Kill the service again and again while three clients send rows; they never stop trying."""
    new_file(tmp_path)
    served = Process(tmp_path, "--checkpoint-rows", "500")
    killing, acknowledged = threading.Event(), [[] for _ in range(3)]
    clients = [Client(served.url, "model", retries=200, timeout=10) for _ in acknowledged]
    threads = [
        threading.Thread(
            target=send, args=(client, f"c{k}", 10**9, done, lambda: not killing.is_set())
        )
        for k, (client, done) in enumerate(zip(clients, acknowledged, strict=True))
    ]
    for thread in threads:
        thread.start()
    for _ in range(n_kills):
        time.sleep(RANDOM.exponential(0.3))
        assert served.stop(signal.SIGKILL) == -signal.SIGKILL
        served.start()
    killing.set()
    for thread in threads:
        thread.join()
    n_rows = sum(len(ids) for done in acknowledged for _, ids in done)
    assert clients[0].state()["position"] == n_rows  # nothing twice, and nothing else
    for client, done in zip(clients, acknowledged, strict=True):  # nothing lost: all are known
        for X, ids in done[-2000:]:
            told = client.learn(X, [0] * len(ids), ids)
            assert (told.accepted, told.repeated) == (0, len(ids))
        client.close()
    assert served.stop() == 0
    return n_rows


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_a_process_that_is_killed_loses_nothing_and_stops_in_order(tmp_path):
    assert kill_under_load(tmp_path, 1) > 0


@pytest.mark.nightly
def test_fifty_kills_under_load(tmp_path):
    assert kill_under_load(tmp_path, 50) > 1000


@pytest.mark.nightly
def test_memory_does_not_grow_in_ten_minutes(tmp_path):
    """Rows, predictions that wait for labels, bad rows and an open page, all the time."""
    new_file(tmp_path)
    served = Process(tmp_path)
    minutes = float(os.environ.get("KERNELSTREAM_SOAK_MINUTES", "10"))
    end, sizes = time.monotonic() + 60 * minutes, []
    with (
        Client(served.url, "model") as client,
        httpx.stream("GET", f"{served.url}/v1/models/model/events", timeout=60) as page,
    ):
        watching = threading.Thread(target=lambda: [None for _ in page.iter_bytes()], daemon=True)
        watching.start()
        n = 0
        while time.monotonic() < end:
            X = RANDOM.normal(size=(50, FEATURES))
            client.step(X, (X[:, 0] > 0).astype(int))
            ids = client.predict(X, wait=True).ids
            client.labels(ids[:40], [1] * 40)
            client.learn([[1.0]], [1], on_bad_row="skip")
            n += 1
            if n % 20 == 0:
                status = Path(f"/proc/{served.process.pid}/status").read_text()
                sizes.append(int(status.split("VmRSS:")[1].split()[0]) / 1024)
        assert client.state()["n_learned"] >= n * 90
        served.process.send_signal(signal.SIGTERM)
    served.process.wait(60)
    served.process.stderr.close()
    half, last = np.mean(sizes[len(sizes) // 2 : -len(sizes) // 4]), np.mean(sizes[-5:])
    print(f"{n * 90:,} rows; MB after each quarter: "
          f"{[round(s) for s in sizes[:: max(len(sizes) // 4, 1)]]}")  # fmt: skip
    assert last < 1.05 * half + 5


@pytest.mark.nightly
def test_anything_that_the_document_allows_is_answered(tmp_path):
    pytest.importorskip("schemathesis")
    new_file(tmp_path)
    served = Process(tmp_path)
    command = [str(Path(sys.executable).parent / "schemathesis"), "run",
               f"{served.url}/openapi.json", "--checks", "not_a_server_error",
               "--exclude-path-regex", "events", "--max-examples", "200"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert served.stop() == 0
    assert done.returncode == 0, done.stdout[-3000:]


def test_the_command_line_says_what_is_missing(tmp_path):
    def said(*arguments):
        done = CliRunner().invoke(app, ["serve", *arguments])
        assert done.exit_code == 1
        return done.stderr

    assert "or --demo" in said()
    assert "--checkpoint is missing" in said("model.ks")
    assert "no such file" in said(str(tmp_path / "none.ks"), "--checkpoint", str(tmp_path))
    (tmp_path / "nonsense.ks").write_bytes(b"nonsense")
    kept = ["--checkpoint", str(tmp_path / "kept")]
    assert "not a kernelstream model" in said(str(tmp_path / "nonsense.ks"), *kept)
    new_file(tmp_path)
    assert "--token-file" in said(str(tmp_path / "model.ks"), *kept, "--host", "0.0.0.0")

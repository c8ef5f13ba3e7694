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

from kernelstream import client as client_module
from kernelstream.cli import serve as serve_module
from kernelstream.cli.app import app
from kernelstream.client import Client
from kernelstream.serve import Block, Limits
from kernelstream.serve.server import Server

from .processes import FEATURES, free_port, new_file

RANDOM = np.random.default_rng(0)


# Schemathesis must be told that these formats, of which the document says no more, are text.
FORMATS = """
import schemathesis

others = ["application/x-ndjson", "application/vnd.apache.arrow.stream"]
schemathesis.serializer.alias(others, "text/plain")
"""


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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("n_kills", [5, pytest.param(50, marks=pytest.mark.nightly)])
def test_killed_under_load_nothing_is_lost_or_learned_twice(start, monkeypatch, n_kills):
    """Three clients send rows, and try again and again while the service is down."""
    monkeypatch.setattr(client_module, "_LONGEST_WAIT", 0.2)
    served = start("--checkpoint-rows", "500")
    enough, acknowledged = threading.Event(), [[] for _ in range(3)]
    clients = [Client(served.url, "model", retries=1000, timeout=10) for _ in acknowledged]
    threads = [
        threading.Thread(
            target=send, args=(client, f"c{k}", 10**9, done, lambda: not enough.is_set())
        )
        for k, (client, done) in enumerate(zip(clients, acknowledged, strict=True))
    ]
    for thread in threads:
        thread.start()
    for _ in range(n_kills):
        before = sum(map(len, acknowledged))
        while sum(map(len, acknowledged)) < before + 3:
            time.sleep(0.01)
        time.sleep(RANDOM.exponential(0.1))
        assert served.stop(signal.SIGKILL) == -signal.SIGKILL
        served.start()
    enough.set()
    for thread in threads:
        thread.join()
    n_rows = sum(len(ids) for done in acknowledged for _, ids in done)
    end = time.monotonic() + 30
    while clients[0].state()["position"] < n_rows and time.monotonic() < end:
        time.sleep(0.01)  # the last rows are acknowledged before they are learned
    assert clients[0].state()["position"] == n_rows  # nothing twice, and nothing else
    for client, done in zip(clients, acknowledged, strict=True):  # nothing lost: all are known
        X = np.concatenate([X for X, _ in done])
        told = client.learn(X, [0] * len(X), [row_id for _, ids in done for row_id in ids])
        assert (told.accepted, told.repeated) == (0, len(X))
        client.close()
    print(f"{n_kills} kills, {n_rows:,} rows")
    assert served.stop() == 0  # in order


@pytest.mark.nightly
def test_memory_does_not_grow_in_ten_minutes(start):
    """Rows, predictions that wait for labels, bad rows and an open page, all the time.

    As many ids and rows that wait are kept as the limits allow, which are soon reached.
    """
    served = start()
    minutes = float(os.environ.get("KERNELSTREAM_SOAK_MINUTES", "10"))
    with (
        Client(served.url, "model") as client,
        httpx.stream("GET", f"{served.url}/v1/models/model/events", timeout=60) as page,
    ):
        watching = threading.Thread(target=lambda: [None for _ in page.iter_bytes()], daemon=True)
        watching.start()
        end, sizes, n = time.monotonic() + 60 * minutes, [], 0
        while time.monotonic() < end:
            X = RANDOM.normal(size=(1000, FEATURES))
            client.step(X, (X[:, 0] > 0).astype(int))
            ids = client.predict(X, wait=True).ids
            client.labels(ids[:500], [1] * 500)
            client.learn([[1.0]], [1], on_bad_row="skip")
            n += 1
            if n % 20 == 0:
                status = Path(f"/proc/{served.pid}/status").read_text()
                sizes.append(int(status.split("VmRSS:")[1].split()[0]) / 1024)
        assert client.state()["n_learned"] >= n * 1500
        assert served.stop() == 0
    half, last = np.mean(sizes[len(sizes) // 2 : -len(sizes) // 4]), np.mean(sizes[-5:])
    print(f"{n * 1500:,} rows; MB after each quarter: "
          f"{[round(s) for s in sizes[:: max(len(sizes) // 4, 1)]]}")  # fmt: skip
    assert last < 1.05 * half + 5


@pytest.mark.nightly
def test_anything_that_the_document_allows_is_answered(start, tmp_path):
    pytest.importorskip("schemathesis")
    served = start()
    (tmp_path / "formats.py").write_text(FORMATS)
    command = [str(Path(sys.executable).parent / "schemathesis"), "run",
               f"{served.url}/openapi.json", "--checks", "not_a_server_error",
               "--exclude-path-regex", "events", "--max-examples", "200"]  # fmt: skip
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": str(tmp_path / "formats.py")}
    done = subprocess.run(  # in a folder where it may leave its notes
        command, capture_output=True, text=True, timeout=900, env=environment, cwd=tmp_path
    )
    assert served.stop() == 0
    assert done.returncode == 0, done.stdout[-3000:]


def test_the_command_line_says_what_is_missing(tmp_path):
    def said(*arguments):
        done = CliRunner().invoke(app, ["serve", *arguments])
        assert done.exit_code == 1
        return done.stderr

    assert "or --demo" in said()
    for text in ("rows", "rows=", "rows=0", "rows=x", "rows=-1", "row=1", "=1", "rows=²"):
        assert "such as rows=100000" in said("--demo", "--limit", text)
    assert "leave --checkpoint out" in said("--demo", "--checkpoint", str(tmp_path))
    assert "no such file" in said(str(tmp_path / "none.ks"), "--checkpoint", str(tmp_path))
    (tmp_path / "nonsense.ks").write_bytes(b"nonsense")
    kept = ["--checkpoint", str(tmp_path / "kept")]
    assert "not a kernelstream model" in said(str(tmp_path / "nonsense.ks"), *kept)
    new_file(tmp_path)
    assert "--token-file" in said(str(tmp_path / "model.ks"), *kept, "--host", "0.0.0.0")
    assert not (tmp_path / "kept").exists()  # before any model is loaded
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
        done = CliRunner().invoke(app, ["serve", str(tmp_path / "model.ks"), *kept, "--port", port])
    assert done.exit_code != 0
    assert "serves" not in done.stderr


def test_sigterm_ends_it_while_it_starts(tmp_path, monkeypatch):
    new_file(tmp_path)
    monkeypatch.setattr(serve_module, "_serve", lambda *_: signal.raise_signal(signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    done = CliRunner().invoke(app, ["serve", str(tmp_path / "model.ks"), "--checkpoint", "kept"])
    assert done.exit_code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_client_that_gets_no_answer_names_the_url(monkeypatch):
    monkeypatch.setattr(client_module, "_LONGEST_WAIT", 0.01)
    url = f"http://127.0.0.1:{free_port()}"
    with (
        Client(url, "model", retries=2) as client,
        pytest.raises(ConnectionError, match=f"^{url} cannot be reached, asked 3 times .*refused"),
    ):
        client.state()
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with (
            Client(url, "model", retries=0, timeout=0.05) as client,
            pytest.raises(ConnectionError, match=f"^{url} answered too late, asked once"),
        ):
            client.predict([[1.0]])


def test_without_a_checkpoint_folder_what_is_learned_is_kept_beside_the_model(
    tmp_path, monkeypatch
):
    new_file(tmp_path)
    monkeypatch.setattr(Server, "run", lambda self: learn_one(self.service))

    def learn_one(service):
        service.models["model"].learn(Block(np.ones((1, FEATURES)), [1])).result(60)

    def said(path):
        done = CliRunner().invoke(app, ["serve", str(path)])
        assert done.exit_code == 0, done.output
        return done.stderr

    assert f"is kept in {tmp_path / 'kept'} (--checkpoint)" in said(tmp_path / "model.ks")
    again = said(tmp_path)  # as a folder of models: the same
    assert f"model continues at row 1 of {tmp_path / 'kept' / 'model'}" in again
    (tmp_path / "kept").rename(tmp_path / "before")
    (tmp_path / "kept").touch()
    done = CliRunner().invoke(app, ["serve", str(tmp_path / "model.ks")])
    assert done.exit_code == 1
    assert "such as --checkpoint kept" in done.stderr


def test_limits_are_given_on_the_command_line(tmp_path, monkeypatch):
    new_file(tmp_path)
    found = []
    monkeypatch.setattr(serve_module, "_serve", lambda *given: found.append(given[-1]["limits"]))
    command = ["serve", str(tmp_path / "model.ks"), "--checkpoint", "kept"]
    done = CliRunner().invoke(app, [*command, "--limit", "rows=3", "--limit", "classes=2"])
    assert done.exit_code == 0
    assert found == [Limits(rows=3, classes=2)]

"""A service on a port of its own, in a thread."""

import contextlib
import socket
import threading
import time

import httpx
import pytest

import kernelstream as ks
from kernelstream.serve import ServedModel
from kernelstream.serve.server import Server
from kernelstream.serve.service import Service

from ..conftest import interpret
from .processes import Process, new_file
from .streams import X, Y, new_model


@contextlib.contextmanager
def running(service, host="127.0.0.1", port=None):
    """The URL of a server that runs while the block does."""
    if port is None:
        with socket.socket() as free:
            free.bind((host, 0))
            port = free.getsockname()[1]
    server = Server(service, host, port)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://{host}:{port}"
    finally:
        server.handle_exit(2, None)
        thread.join(30)
        assert not thread.is_alive()


@pytest.fixture(scope="package")
def interpreted():
    """Learn without the compiler: few rows, and several kinds of models."""
    with pytest.MonkeyPatch.context() as patch:
        interpret(patch)
        yield


@pytest.fixture(scope="package")
def service(tmp_path_factory, interpreted):
    """Four models: classes, numbers, novelty, and one that has not learned anything."""
    import pandas as pd

    folder = tmp_path_factory.mktemp("service")
    named = pd.DataFrame(X[:50], columns=["a", "b", "c"])
    models = {
        "classes": new_model().partial_fit(X[:50], Y[:50]),
        "numbers": ks.KernelRegressor(budget=8).partial_fit(named, X[:50, 0]),
        "novelty": ks.NoveltyDetector(budget=8).partial_fit(X[:50]),
        "new": new_model(),
    }
    service = Service([ServedModel(name, m, folder / name) for name, m in models.items()])
    yield service
    service.close()


@pytest.fixture(scope="package")
def url(service):
    with running(service) as address:
        yield address


@pytest.fixture(scope="package")
def http(url):
    with httpx.Client(base_url=url, timeout=30) as client:
        yield client


@pytest.fixture
def start(tmp_path):
    """Serve a small model in a process of its own."""
    made = []

    def start_process(*options, folder=tmp_path):
        new_file(folder)
        made.append(Process(folder, *options))
        return made[-1]

    yield start_process
    for served in made:
        served.close()

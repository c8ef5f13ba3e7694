"""The service as a process, which tests can kill and start again."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import numpy as np

import kernelstream as ks

FEATURES = 3


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


# A process that has imported and compiled everything, and becomes the service by forking: to start
# from nothing takes seconds, which a test of fifty kills does not have.
PARENT = """
import os, sys
import kernelstream.serve.server
import kernelstream.serve.service
from kernelstream import load
from kernelstream import client as client_module
from kernelstream.cli import main
from kernelstream.cli import serve as serve_module
from kernelstream.serve.estimator import ServedEstimator

ServedEstimator(load(sys.argv[1])).warm_up()
sys.argv = ["kernelstream", "serve", *sys.argv[1:]]
for _ in sys.stdin:
    child = os.fork()
    if child == 0:
        try:
            main()
        except SystemExit as end:
            os._exit(end.code or 0)
        except BaseException:
            os._exit(99)
        os._exit(0)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Process:
    """``kernelstream serve`` on a port that stays the same when it is started again."""

    def __init__(self, folder, *options):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        arguments = [str(folder / "model.ks"), "--checkpoint", str(folder / "kept"),
                     "--port", str(self.port), *options]  # fmt: skip
        self._parent = subprocess.Popen(
            [sys.executable, "-c", PARENT, *arguments], text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
        self._stopped, self.lines = True, []  # of standard error, which is no terminal
        self._reader = threading.Thread(
            target=lambda: self.lines.extend(self._parent.stderr), daemon=True
        )
        self._reader.start()
        self.start()

    @property
    def said(self):
        """Return the lines of standard error so far."""
        return "".join(self.lines)

    def start(self):
        self._parent.stdin.write("start\n")
        self._parent.stdin.flush()
        self.pid = int(self._parent.stdout.readline())
        self._stopped = False
        for _ in range(2000):
            try:
                return httpx.get(f"{self.url}/readyz")
            except httpx.TransportError:
                time.sleep(0.02)
        raise TimeoutError

    def stop(self, number=signal.SIGTERM):
        """Send a signal; the exit code."""
        os.kill(self.pid, number)
        self._stopped = True
        return int(self._parent.stdout.readline())

    def close(self):
        self._parent.stdin.close()
        if not self._stopped:
            os.kill(self.pid, signal.SIGKILL)
        self._parent.stdout.close()
        self._parent.wait(10)
        self._reader.join(10)
        self._parent.stderr.close()


def new_file(folder):
    X = np.random.default_rng(0).normal(size=(20, FEATURES))
    model = ks.make("linear-pa", "classifier").partial_fit(X, (X[:, 0] > 0).astype(int))
    model.save(folder / "model.ks")

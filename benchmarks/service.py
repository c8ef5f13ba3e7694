"""How fast the service answers: requests and rows per second, and the latency of its slowest 1 %.

    python benchmarks/service.py

A model of 512 points and 20 features is served by a process of its own; the load generator runs
beside it, on the same machine. Then the same while another client lets the model learn.
"""

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import kernelstream as ks

FEATURES, POINTS, SECONDS, PORT = 20, 512, 5.0, 8791


def raw_request(path, body):
    content = json.dumps(body).encode()
    head = (
        f"POST /v1/models/model/{path} HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def exchange(line, request):
    """Send a request over a connection that is kept, and wait for its answer."""
    line.sendall(request)
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += line.recv(65536)
    head, _, rest = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 20"):
        raise RuntimeError(answer.decode())
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    while len(rest) < length:
        rest += line.recv(65536)
    return rest


def load(n_rows, n_connections=4, seconds=SECONDS):
    """Requests per second, and all latencies, of several connections in one thread each."""
    random = np.random.default_rng(0)
    request = raw_request("predict", {"rows": random.normal(size=(n_rows, FEATURES)).tolist()})
    latencies, stop = [], time.perf_counter() + seconds

    def ask():
        with socket.create_connection(("127.0.0.1", PORT)) as line:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while (begin := time.perf_counter()) < stop:
                exchange(line, request)
                latencies.append(time.perf_counter() - begin)

    threads = [threading.Thread(target=ask) for _ in range(n_connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(latencies) / seconds, np.array(latencies)


def requests_to_learn(n=300):
    """Requests of a hundred rows, made beforehand: callers share Python's lock with each other."""
    random = np.random.default_rng(1)
    for _ in range(n):
        X = random.normal(size=(100, FEATURES))
        body = {"rows": X.tolist(), "targets": (X[:, 0] * X[:, 1] > 0).astype(int).tolist()}
        yield raw_request("learn", body)


def learn_meanwhile(requests, stop, learned):
    """Let the model learn, a hundred rows at a time, fifty times a second."""
    with socket.create_connection(("127.0.0.1", PORT)) as line:
        for request in itertools.cycle(requests):
            if stop.wait(0.02):
                return
            exchange(line, request)
            learned.append(100)


def cpu_seconds(process):
    """What the service has used of the processors, which does not depend on who else uses them."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def report(server, name, n_rows, n_connections=4):
    before = cpu_seconds(server)
    rate, latencies = load(n_rows, n_connections)
    used = (cpu_seconds(server) - before) / len(latencies) * 1e6
    p50, p99 = np.percentile(latencies, [50, 99]) * 1000
    print(
        f"{name:<28} {rate:7,.0f} requests/s {rate * n_rows:9,.0f} rows/s   p50 {p50:6.2f} ms   "
        f"p99 {p99:6.2f} ms   {used:5.0f} us of a core per request",
        flush=True,
    )
    return p99


def while_learning(server, idle, n_connections):
    """The same while the model learns, and the ratio of the two p99."""
    stop, learned, requests = threading.Event(), [], list(requests_to_learn())
    learner = threading.Thread(target=learn_meanwhile, args=(requests, stop, learned))
    learner.start()
    busy = report(server, "the same while it learns", 1, n_connections)
    stop.set()
    learner.join()
    print(f"learned meanwhile: {sum(learned) / SECONDS:,.0f} rows/s; "
          f"p99 {busy / idle:.2f} times that without learning")  # fmt: skip


def main():
    random = np.random.default_rng(0)
    X = random.normal(size=(4000, FEATURES))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model = ks.KernelClassifier(budget=POINTS).partial_fit(X, y)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.ks")
        command = [sys.executable, "-m", "kernelstream", "serve", f"{folder}/model.ks",
                   "--checkpoint", f"{folder}/kept", "--port", str(PORT)]  # fmt: skip
        server = subprocess.Popen(command, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
        try:
            wait_for_port()
            load(1, seconds=1.0)
            idle = report(server, "predict, 1 row", 1)
            while_learning(server, idle, 4)
            report(server, "predict, 100 rows", 100)
            idle = report(server, "predict, 1 row, one caller", 1, 1)
            while_learning(server, idle, 1)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(30)


def wait_for_port(seconds=120):
    for _ in range(seconds * 10):
        try:
            socket.create_connection(("127.0.0.1", PORT)).close()
            return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(f"the service did not start within {seconds} s")


if __name__ == "__main__":
    main()

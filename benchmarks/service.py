"""How fast the service answers: requests and rows per second, and the latency of its slowest 1 %.

    python benchmarks/service.py

A model of 512 points and 20 features is served by a process of its own; the load generator runs
beside it, on the same machine. Then the same while another client lets the model learn, also for a
caller that asks only twenty times a second, and for a fleet of 200 models of 64 points.

    python benchmarks/service.py learn

compares how fast a committee and a single machine learn on the main thread, on another thread and
in a service, in blocks of 1,000 rows. Nothing is set that users do not have: the number of threads
of BLAS is its own default, here and in the service.
"""

import contextlib
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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import kernelstream as ks

FEATURES, POINTS, SECONDS, PORT = 20, 512, 5.0, 8791
KEYS, POINTS_OF_A_KEY = 200, 64
RARELY = 20.0  # requests per second


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


def load(request, n_connections=4, seconds=SECONDS, per_second=None):
    """All latencies of a request, sent by several connections in one thread each.

    They send it again as soon as it is answered, or at random moments, so often per second.
    """
    latencies, stop = [], time.perf_counter() + seconds

    def ask(random):
        with socket.create_connection(("127.0.0.1", PORT)) as line:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while time.perf_counter() < stop:
                if per_second is not None:
                    time.sleep(random.exponential(n_connections / per_second))
                begin = time.perf_counter()
                exchange(line, request)
                latencies.append(time.perf_counter() - begin)

    generators = np.random.default_rng(2).spawn(n_connections)
    threads = [threading.Thread(target=ask, args=(each,)) for each in generators]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return np.array(latencies)


def rows_to_ask(n_rows, random, has_keys=False):
    body = {"rows": random.normal(size=(n_rows, FEATURES)).tolist()}
    return body | ({"keys": some_keys(n_rows, random)} if has_keys else {})


def some_keys(n_rows, random):
    return [f"key-{i}" for i in random.integers(0, KEYS, n_rows)]


def labels_of(X):
    return (X[:, 0] * X[:, 1] > 0).astype(int)


def requests_to_learn(has_keys, n_rows=100, n=300):
    """Requests made beforehand: callers share Python's lock with each other."""
    random = np.random.default_rng(1)
    for _ in range(n):
        body = rows_to_ask(n_rows, random, has_keys)
        targets = labels_of(np.array(body["rows"])).tolist()
        yield raw_request("learn", body | {"targets": targets})


def learn_meanwhile(requests, pause, stop):
    """Let the model learn, fifty times a second where it can follow."""
    with socket.create_connection(("127.0.0.1", PORT)) as line:
        for request in itertools.cycle(requests):
            if stop.wait(pause):
                return
            exchange(line, request)


def n_learned():
    """How many rows the service has learned since it began."""
    return state()["n_learned"]


def state():
    """What the service shows of its model."""
    with socket.create_connection(("127.0.0.1", PORT)) as line:
        said = exchange(line, b"GET /v1/models/model HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return json.loads(said)


def cpu_seconds(process):
    """What the service has used of the processors, which does not depend on who else uses them."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def report(server, name, request, n_rows=1, seconds=SECONDS, **options):
    before = cpu_seconds(server)
    latencies = load(request, seconds=seconds, **options)
    rate = len(latencies) / seconds
    used = (cpu_seconds(server) - before) / len(latencies) * 1e6
    p50, p99 = np.percentile(latencies, [50, 99]) * 1000
    print(
        f"{name:<32} {rate:7,.0f} requests/s {rate * n_rows:9,.0f} rows/s   p50 {p50:6.2f} ms   "
        f"p99 {p99:6.2f} ms   {used:5.0f} us of a core per request",
        flush=True,
    )
    return p99


def idle_and_learning(server, name, request, has_keys=False, rows_of_a_block=100, **options):
    """The same before and while the model learns, and the ratio of the two p99."""
    idle = report(server, name, request, **options)
    requests = list(requests_to_learn(has_keys, rows_of_a_block, 30_000 // rows_of_a_block))
    stop, before, begin = threading.Event(), n_learned(), time.perf_counter()
    arguments = (requests, 0.02 * rows_of_a_block / 100, stop)
    learner = threading.Thread(target=learn_meanwhile, args=arguments)
    learner.start()
    busy = report(server, "the same while it learns", request, **options)
    rate = (n_learned() - before) / (time.perf_counter() - begin)
    stop.set()
    learner.join()
    print(f"learned meanwhile: {rate:,.0f} rows/s, {rows_of_a_block:,} at a time; "
          f"p99 {busy / idle:.2f} times that without learning")  # fmt: skip


@contextlib.contextmanager
def served(model):
    """A process that serves a model."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.ks")
        command = [sys.executable, "-m", "kernelstream", "serve", f"{folder}/model.ks",
                   "--checkpoint", f"{folder}/kept", "--port", str(PORT)]  # fmt: skip
        server = subprocess.Popen(command)
        try:
            wait_for_port()
            yield server
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(30)


def compare_learning(name, new_model, seconds=4.0, rounds=3):
    """Rows per second on the main thread, on another one and in a service, in alternation."""
    random = np.random.default_rng(0)
    X = random.normal(size=(20_000, FEATURES))
    y = labels_of(X)
    blocks = [(X[i : i + 1000], y[i : i + 1000]) for i in range(0, len(X), 1000)]
    requests = [
        raw_request("learn", {"rows": rows.tolist(), "targets": labels.tolist()})
        for rows, labels in blocks
    ]
    model = new_model().partial_fit(*blocks[0])

    def learn():
        n, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < seconds:
            model.partial_fit(*blocks[n % len(blocks)])
            n += 1
        return 1000 * n / (time.perf_counter() - begin)

    def learn_elsewhere():
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(learn).result()

    def learn_in_service():
        before, begin = n_learned(), time.perf_counter()
        with socket.create_connection(("127.0.0.1", PORT)) as line:
            for request in itertools.cycle(requests):
                while state()["n_queued"] > 2000:
                    time.sleep(0.002)
                exchange(line, request)
                if time.perf_counter() - begin > seconds:
                    break
        while state()["n_queued"]:
            time.sleep(0.002)
        return (n_learned() - before) / (time.perf_counter() - begin)

    with served(new_model().partial_fit(*blocks[0])):
        learn_in_service()  # which compiles
        ways = [learn, learn_elsewhere, learn_in_service]
        rates = np.array([[way() for way in ways] for _ in range(rounds)])
    main_thread, other_thread, service = np.median(rates, axis=0)
    ratios = np.median(rates / rates[:, :1], axis=0)
    print(
        f"{name:<20} main thread {main_thread:8,.0f} rows/s   other thread {other_thread:8,.0f} "
        f"({ratios[1]:.2f})   service {service:8,.0f} ({ratios[2]:.2f})",
        flush=True,
    )


def main_learning():
    compare_learning("AutoClassifier", ks.AutoClassifier)
    compare_learning("svmd, 512 points", lambda: ks.make("svmd", "classifier", budget=POINTS))


def main():
    random = np.random.default_rng(0)
    X = random.normal(size=(4000, FEATURES))
    model = ks.KernelClassifier(budget=POINTS).partial_fit(X, labels_of(X))
    one, hundred = (raw_request("predict", rows_to_ask(n, random)) for n in (1, 100))
    with served(model) as server:
        load(one, seconds=1.0)
        idle_and_learning(server, "predict, 1 row, four callers", one)
        report(server, "predict, 100 rows, four callers", hundred, 100)
        idle_and_learning(server, "predict, 1 row, one caller", one, n_connections=1)
        idle_and_learning(server, "predict, 1 row, asked rarely", one, n_connections=1,
                          per_second=RARELY, seconds=4 * SECONDS)  # fmt: skip
    fleet = ks.KeyedFleet("svmd", "classifier", budget=POINTS_OF_A_KEY)
    X = random.normal(size=(20_000, FEATURES))
    fleet.learn(some_keys(len(X), random), X, labels_of(X))
    request = raw_request("predict", rows_to_ask(1, random, has_keys=True))
    with served(fleet) as server:
        load(request, seconds=1.0)
        for n in (100, 1000):
            idle_and_learning(server, "a fleet, one caller", request, True, n, n_connections=1)
        idle_and_learning(server, "a fleet, asked rarely", request, True, 1000, n_connections=1,
                          per_second=RARELY, seconds=4 * SECONDS)  # fmt: skip


def wait_for_port(seconds=120):
    for _ in range(seconds * 10):
        try:
            socket.create_connection(("127.0.0.1", PORT)).close()
            return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(f"the service did not start within {seconds} s")


if __name__ == "__main__":
    main_learning() if sys.argv[1:] == ["learn"] else main()

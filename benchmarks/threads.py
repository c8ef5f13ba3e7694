"""Rows per second with one thread and with several: docs/benchmarks.md has the table.

    python benchmarks/threads.py [THREADS ...]     1, 2, 4, ... up to the number of cores

Committees and fleets are told how many threads to take (`n_jobs`). `predict`, and a model of
many outputs, take what BLAS has, which this program limits. The last lines have large products, the
others small ones, which stay on one thread however many BLAS has. Medians of 5.
"""

import os
import platform
import sys
import time

import numpy as np
from report import clouds
from threadpoolctl import threadpool_limits

import kernelstream as ks


def committee(n_threads):
    X, y = clouds(2000, 16, 3)
    model = ks.AutoClassifier(n_jobs=n_threads).partial_fit(X, y)
    return len(X), lambda: model.partial_fit(X, y)


def outputs(n_threads):
    X, y = clouds(4096, 64, 50)
    model = ks.make("svmd", "classifier", budget=512, gamma=1 / 64).partial_fit(X, y)
    return len(X), lambda: model.partial_fit(X, y)


def fleet(n_threads):
    X, y = clouds(20_000, 4, 2)
    fleet = ks.Fleet(
        "svmd", "classifier", 2000, 4, classes=[0, 1], budget=32, n_jobs=n_threads
    )  # fmt: skip
    members = np.arange(len(X)) % 2000
    fleet.learn(X, y, models=members)
    return len(X), lambda: fleet.learn(X, y, models=members)


def predictions(budget, n_features):
    def prepare(n_threads):
        X, y = clouds(4096, n_features, 10)
        model = ks.make("svmd", "classifier", budget=budget, gamma=1 / n_features)
        model.partial_fit(X, y)
        return len(X), lambda: model.predict(X)

    return prepare


def learning(budget, n_features):
    def prepare(n_threads):
        X, y = clouds(4096, n_features, 10)
        model = ks.make("svmd", "classifier", budget=budget, gamma=1 / n_features)
        model.partial_fit(X, y)
        return len(X), lambda: model.partial_fit(X, y)

    return prepare


WORK = {
    "AutoClassifier, its members": committee,
    "one model of 50 outputs, 512 points": outputs,
    "a fleet of 2,000 models": fleet,
    "predict, 512 points, 64 features": predictions(512, 64),
    "learn, 512 points, 64 features": learning(512, 64),
    "predict, 4,096 points, 784 features": predictions(4096, 784),
    "learn, 4,096 points, 784 features": learning(4096, 784),
}


def rate(prepare, n_threads):
    """Rows per second."""
    with threadpool_limits(n_threads):
        n_rows, action = prepare(n_threads)
        action()
        times = []
        for _ in range(5):
            start = time.perf_counter()
            action()
            times.append(time.perf_counter() - start)
    return n_rows / float(np.median(times))


def main(counts):
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores\n")
    print(f"| rows per second | {' | '.join(f'{n} threads' for n in counts)} |")
    print("|---|" + "---:|" * len(counts))
    for name, prepare in WORK.items():
        cells = [f"{rate(prepare, n):,.0f}" for n in counts]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    chosen = [int(n) for n in sys.argv[1:]]
    main(chosen or [2**k for k in range((os.cpu_count() or 1).bit_length())])

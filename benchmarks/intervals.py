"""How often y lies within the interval that a regressor gives: nominal against actual.

    python benchmarks/intervals.py               # second-order learners, on a Friedman function
    python benchmarks/intervals.py committee     # AutoRegressor, on the benchmark's streams

Rows are predicted before they are learned: those of the Friedman function in blocks of 50, those of
the benchmark one by one. The Friedman function has noise of standard deviation 1, and is stationary
or drifts; its first 1,000 rows are not counted. Of the benchmark's streams the first 100 are not.
"""

import sys

import numpy as np
from scipy.stats import norm

import kernelstream as ks
from kernelstream.updates import Dual
from kernelstream_lab.benchmark.streams import STREAMS

NOMINAL = (0.5, 0.8, 0.9, 0.95, 0.99)


def friedman(n_rows, seed, drifts):
    random = np.random.default_rng(seed)
    X = random.uniform(size=(n_rows, 5))
    sign = np.cos(4 * np.pi * np.linspace(0, 1, n_rows)) if drifts else 1.0
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 5 * X[:, 4]
    f = f + sign * (20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3])
    return X, f + random.normal(size=n_rows)


def measure(model, X, y, n_first, n_block):
    """A line of the table: shares of rows inside, root mean squared error, mean deviation."""
    n_rows = len(y)
    errors, stds = np.zeros(n_rows), np.ones(n_rows)
    for start in range(0, n_rows, n_block):
        rows = slice(start, start + n_block)
        if start:
            mean, stds[rows] = model.predict(X[rows], return_std=True)
            errors[rows] = y[rows] - mean
        model.partial_fit(X[rows], y[rows])
    errors, stds = np.abs(errors[n_first:]), stds[n_first:]
    inside = [np.mean(errors <= norm.ppf(0.5 + share / 2) * stds) for share in NOMINAL]
    shares = " | ".join(f"{share:.1%}" for share in inside)
    return f"{shares} | {np.sqrt(np.mean(errors**2)):.3g} | {stds.mean():.3g} |"


def second_order():
    for drifts in (False, True):
        X, y = friedman(6000, 0, drifts)
        for forgetting in (1.0, 0.998):
            model = ks.make(
                "sog-svr", "regressor", gamma=0.5, budget=200, update=Dual(forgetting=forgetting)
            )
            name = "drifting" if drifts else "stationary"
            print(f"| {name}, {forgetting:g} | {measure(model, X, y, 1000, 50)}")


def committee():
    for stream in STREAMS.values():
        if stream.task == "regress":
            rows = stream.rows()
            y = np.asarray(rows.y, float)
            line = measure(ks.AutoRegressor(), rows.X, y, 100, 1)
            print(f"| {stream.name} ({stream.half}) | {line}", flush=True)


if __name__ == "__main__":
    print("| stream |", " | ".join(f"{share:.0%}" for share in NOMINAL), "| rmse | mean std |")
    print("|---|" + "---|" * (len(NOMINAL) + 2))
    committee() if sys.argv[1:] == ["committee"] else second_order()

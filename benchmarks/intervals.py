"""How often y lies within the intervals of a second-order learner: nominal against actual.

    python benchmarks/intervals.py

Rows of a Friedman function with noise of standard deviation 1, stationary or drifting, are
predicted in blocks of 50 before they are learned; the first 1,000 are not counted.
"""

import numpy as np
from scipy.stats import norm

import kernelstream as ks
from kernelstream.updates import Dual

NOMINAL = (0.5, 0.8, 0.9, 0.95, 0.99)


def friedman(n_rows, seed, drifts):
    random = np.random.default_rng(seed)
    X = random.uniform(size=(n_rows, 5))
    sign = np.cos(4 * np.pi * np.linspace(0, 1, n_rows)) if drifts else 1.0
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 5 * X[:, 4]
    f = f + sign * (20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3])
    return X, f + random.normal(size=n_rows)


def measure(drifts, forgetting, n_rows=6000):
    X, y = friedman(n_rows, 0, drifts)
    model = ks.make(
        "sog-svr", "regressor", gamma=0.5, budget=200, update=Dual(forgetting=forgetting)
    )
    errors, stds = np.zeros(n_rows), np.ones(n_rows)
    for start in range(0, n_rows, 50):
        rows = slice(start, start + 50)
        if start:
            mean, stds[rows] = model.predict(X[rows], return_std=True)
            errors[rows] = y[rows] - mean
        model.partial_fit(X[rows], y[rows])
    size = np.abs(errors[1000:]) / stds[1000:]
    inside = [np.mean(size < norm.ppf(0.5 + share / 2)) for share in NOMINAL]
    return inside, np.sqrt(np.mean(errors[1000:] ** 2)), stds[1000:].mean()


if __name__ == "__main__":
    print("| stream, forgetting |", " | ".join(f"{share:.0%}" for share in NOMINAL),
          "| rmse | mean std |")  # fmt: skip
    print("|---|" + "---|" * (len(NOMINAL) + 2))
    for drifts in (False, True):
        for forgetting in (1.0, 0.998):
            inside, rmse, std = measure(drifts, forgetting)
            shares = " | ".join(f"{share:.1%}" for share in inside)
            name = "drifting" if drifts else "stationary"
            print(f"| {name}, {forgetting:g} | {shares} | {rmse:.2f} | {std:.2f} |")

"""One pass over the 60,000 digits of MNIST: seconds, and the error on 10,000 new digits.

    python benchmarks/mnist.py

Rows have unit length, the kernel is the polynomial of degree 9, as in the SVMD paper. Needs MNIST:
see docs/datasets.md. Times are those of the pass alone, after a pass over a few rows has compiled
what is new.
"""

import time

import numpy as np

import kernelstream as ks
from kernelstream.experiments.curves import unit_rows

BUDGETS = [ks.budgets.Unbounded(), ks.budgets.OldestOut(4096)]


def one_pass(preset, budget, X, y):
    """The model after the pass, and how long it took."""
    kernel = ks.kernels.Polynomial(degree=9, gamma=1.0)
    for n_rows in (600, len(X)):
        model = ks.make(preset, "classifier", kernel=kernel, budget=budget)
        begin = time.perf_counter()
        model.partial_fit(X[:n_rows], y[:n_rows], classes=np.arange(10))
    return model, time.perf_counter() - begin


if __name__ == "__main__":
    data = ks.datasets.load("mnist")
    X, X_new = unit_rows(data.X_train), unit_rows(data.X_test)
    print("| | error on new digits | support vectors | seconds |\n|---|---|---|---|")
    for preset in ("pa", "svmd"):
        for budget in BUDGETS:
            model, seconds = one_pass(preset, budget, X, data.y_train)
            error = 1 - model.score(X_new, data.y_test)
            name = f"`{preset}`, `{type(budget).__name__}`"
            print(f"| {name} | {error:.2%} | {model.n_support_:,} | {seconds:.1f} |", flush=True)

"""Explicit features beside budgets of points: error and time of one pass, docs/budgets.md.

    OPENBLAS_NUM_THREADS=1 python benchmarks/features.py

Needs USPS and MNIST in $KERNELSTREAM_DATA; falls back on the digits that scikit-learn ships.
"""

import os
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import kernelstream as ks
from kernelstream.kernels import RBF, Nystroem, RandomFourier


def streams():
    folder = Path(os.environ.get("KERNELSTREAM_DATA", ""))
    if (folder / "usps.npz").exists():
        usps = np.load(folder / "usps.npz")
        yield "USPS", usps["X_train"] / 1000.0, usps["y_train"], 1 / 128
        mnist = ks.datasets.load("mnist")
        X = np.asarray(mnist.X_train, np.float64)
        X /= X.max()
        yield "20,000 of MNIST", X[:20_000], np.asarray(mnist.y_train)[:20_000], 0.02
    else:
        X, y = load_digits(return_X_y=True)
        yield "scikit-learn's digits", X, y, 0.001


def contestants(gamma):
    for size in (256, 512, 1024):
        yield f"`Merge({size})`", RBF(gamma), ks.budgets.Merge(size)
    for size in (512, 1024, 2048, 4096):
        yield f"`RandomFourier({size})`", RandomFourier(size, gamma), "auto"
    for size in (256, 512, 1024):
        yield f"`Nystroem(RBF, {size})`", Nystroem(RBF(gamma), size), "auto"


def main():
    found = {}
    for stream, X, y, gamma in streams():
        for name, kernel, budget in contestants(gamma):
            make = lambda: ks.make("pa", "classifier", kernel=kernel, budget=budget)  # noqa: B023, E731
            ks.prequential(make(), X[:300], y[:300])  # compiles
            model, begin = make(), time.process_time()
            error = ks.prequential(model, X, y).error_rate
            micros = 1e6 * (time.process_time() - begin) / len(y)
            found.setdefault(name, []).append(f"{100 * error:.1f} %, {micros:.0f} us")
            print(stream, name, found[name][-1], flush=True)
    print("\n| |", " | ".join(stream for stream, *_ in streams()), "|")
    for name, cells in found.items():
        print(f"| {name} |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()

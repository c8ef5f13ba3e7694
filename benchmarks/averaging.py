"""What it costs to learn a stream in parts and to average the models, beside one pass in order.

    python benchmarks/averaging.py [PLOT.png]     60,000 MNIST digits, 1, 2, 4, ... 64 parts

Part i of n has the rows i, i + n, i + 2n, ... The error is that on the 10,000 digits of the test
set, of the averaged model and, for comparison, the mean of its parts.
"""

import sys
import time

import numpy as np

import kernelstream as ks
from kernelstream.kernels import RandomFourier

SIZES = [1, 2, 4, 8, 16, 32, 64]
TICKS = [2, 4, 8, 16, 32]  # percent
LEARNERS = {
    "svmd, 1,024 points": lambda: ks.make("svmd", "classifier", gamma=2.0, budget=1024),
    "svmd, 2,048 explicit features": lambda: ks.make(
        "svmd", "classifier", kernel=RandomFourier(2048, gamma=2.0)
    ),
    "sog-svc, 512 points": lambda: ks.make("sog-svc", "classifier", gamma=2.0, budget=512),
}


def digits():
    data = ks.datasets.load("mnist")
    rows = [np.ascontiguousarray(X, dtype=np.float32) for X in (data.X_train, data.X_test)]
    X, X_test = (X / np.linalg.norm(X, axis=1, keepdims=True) for X in rows)
    return X, data.y_train, X_test, data.y_test


def errors(make, data):
    """Of every number of parts: the error of the average, the mean error of the parts, seconds."""
    X, y, X_test, y_test = data
    classes = np.unique(y)
    for n in SIZES:
        parts = [
            make().partial_fit(X[i::n], y[i::n], classes=classes) for i in range(n)
        ]  # fmt: skip
        start = time.perf_counter()
        model = ks.average(parts)
        seconds = time.perf_counter() - start
        alone = np.mean([np.mean(part.predict(X_test) != y_test) for part in parts[:8]])
        yield n, float(np.mean(model.predict(X_test) != y_test)), float(alone), seconds


def main(plot=None):
    data = digits()
    print(f"{'model':32s} parts  average   a part  seconds to average")
    found = {}
    for name, make in LEARNERS.items():
        found[name] = []
        for n, error, alone, seconds in errors(make, data):
            found[name].append((n, error, alone))
            print(f"{name:32s} {n:5d} {error:8.2%} {alone:8.2%} {seconds:8.1f}", flush=True)
    if plot is None:
        return
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4), layout="constrained")
    axes = figure.subplots()
    for color, (name, lines) in enumerate(found.items()):
        n, error, alone = np.array(lines).T
        axes.plot(n, 100 * error, "o-", color=f"C{color}", label=f"{name}: average")
        axes.plot(n, 100 * alone, ":", color=f"C{color}", label="one part alone")
    axes.set(xscale="log", yscale="log", xlabel="parts of the stream", ylabel="error in percent",
             xticks=SIZES, xticklabels=SIZES, yticks=TICKS, yticklabels=TICKS,
             title="60,000 digits learned in parts, then averaged")  # fmt: skip
    axes.minorticks_off()
    axes.legend(fontsize=8)
    figure.savefig(plot, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Draw what the step size says of changes: five pairs of USPS digits, one after the other.

KERNELSTREAM_DATA=folder python benchmarks/drift.py docs/images/drift.png
"""

import sys

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import kernelstream as ks
from kernelstream.step_sizes import SMD


def main(path):
    data = ks.datasets.load("usps")
    X, y = data.X_train, data.y_train
    random = np.random.default_rng(0)
    rows = [
        random.permutation(np.flatnonzero((y == 2 * k) | (y == 2 * k + 1)))[:500] for k in range(5)
    ]
    rows = np.concatenate(rows)
    model = ks.KernelClassifier(ks.kernels.RBF(1 / 200), step_size=SMD(0.1, 0.1, 0.99))
    result = ks.prequential(model, X[rows], y[rows] % 2)
    figure, axes = plt.subplots(3, 1, figsize=(9, 6), sharex=True, layout="constrained")
    recent = np.convolve(result.errors, np.ones(50) / 50)[: len(rows)]
    axes[0].plot(recent, color="#8a8a8a", lw=1.2)
    axes[0].set(ylabel="error, last 50 rows")
    axes[1].plot(result.step_sizes, color="#0b6e99", lw=1.4)
    axes[1].set(ylabel="step size", yscale="log")
    axes[2].plot(result.drift_scores, color="#0b6e99", lw=1.2)
    axes[2].axhline(0.3, color="#e07a1f", lw=1, ls="--")
    axes[2].plot(result.events, result.drift_scores[result.events], "v", color="#e07a1f", ms=8)
    axes[2].set(ylabel="drift score", xlabel="rows", xlim=(0, len(rows)))
    for axis in axes:
        for change in range(500, 2500, 500):
            axis.axvline(change, color="#8a8a8a", lw=0.8, ls=":")
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    figure.suptitle("0/1, 2/3, 4/5, 6/7, 8/9: a change every 500 rows (dotted), events (triangles)")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main(sys.argv[1])

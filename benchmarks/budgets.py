"""Error and time against the number of support vectors, for every budget: docs/budgets.md.

    python benchmarks/budgets.py [PLOT.png]

Needs USPS in $KERNELSTREAM_DATA; falls back on the digits that scikit-learn ships.
"""

import os
import sys
import time
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import kernelstream as ks

SIZES = [64, 128, 256, 512, 1024]
COLOURS = {
    "OldestOut": "#8a8a8a", "SmallestOut": "#e07a1f", "LeastLoss": "#6a4c93", "Merge": "#0b6e99"
}  # fmt: skip


def data():
    path = Path(os.environ.get("KERNELSTREAM_DATA", "")) / "usps.npz"
    if path.exists():
        usps = np.load(path)
        return "USPS", usps["X_train"] / 1000.0, usps["y_train"], 1 / 128
    X, y = load_digits(return_X_y=True)
    return "scikit-learn's digits", X, y, 0.001


def measure(preset, budget, X, y, gamma):
    """Error, and the median time of three passes."""
    times = []
    for _ in range(3):
        model = ks.make(preset, "classifier", kernel=ks.kernels.RBF(gamma), budget=budget)
        start = time.perf_counter()
        result = ks.prequential(model, X, y)
        times.append(time.perf_counter() - start)
    return result.error_rate, float(np.median(times)), model.n_support_


def draw(name, curves, everything, path):
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for policy, points in curves.items():
        errors, times = zip(*points, strict=True)
        for axes, values in ((left, np.array(errors) * 100), (right, times)):
            axes.plot(SIZES, values, "o-", color=COLOURS[policy], label=policy)
    left.axhline(100 * everything, color="k", lw=1, ls=":", label="all points kept")
    left.set(ylabel="average error, %", yscale="log")
    left.set_yticks([4, 5, 7, 10, 20, 40], ["4", "5", "7", "10", "20", "40"])
    left.legend(frameon=False)
    right.set(ylabel="seconds for the pass", yscale="log")
    right.set_yticks([0.03, 0.1, 0.3, 1], ["0.03", "0.1", "0.3", "1"])
    for axes in (left, right):
        axes.minorticks_off()
        axes.set_xscale("log", base=2)
        axes.set_xticks(SIZES, [str(size) for size in SIZES])
        axes.set_xlabel("support vectors")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    figure.suptitle(
        f"{name}, one pass: what a budget loses, and what it costs (passive-aggressive)"
    )
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    name, X, y, gamma = data()
    for preset in ("svmd", "pa"):
        curves = {}
        print(f"\n{preset} on {name}\n| support vectors | {' | '.join(map(str, SIZES))} |")
        for policy in COLOURS:
            budgets = [getattr(ks.budgets, policy)(size) for size in SIZES]
            points = [measure(preset, budget, X, y, gamma)[:2] for budget in budgets]
            curves[policy] = points
            cells = [f"{error:.1%}, {seconds:.2f} s" for error, seconds in points]
            print(f"| `{policy}` | {' | '.join(cells)} |", flush=True)
        error, seconds, n = measure(preset, None, X, y, gamma)
        print(f"| all {n:,} points | {error:.1%}, {seconds:.2f} s |")
    if len(sys.argv) > 1:
        draw(name, curves, error, sys.argv[1])

"""How time grows with the rows, the points and the features, beside scikit-learn.

    python benchmarks/growth.py                # tables, a few minutes
    python benchmarks/growth.py docs/images    # and growth.png

Generated rows of ten overlapping classes. Processor time on one core, without compiling, the
median of three.
"""

import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from report import clouds
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import kernelstream as ks
from kernelstream.drawing import BLUE, GREY, ORANGE, PURPLE, tidy

COLOURS = {
    "svmd, 512 points": BLUE, "svmd": BLUE, "pa, 512 merged points": ORANGE,
    "pa, merged points": ORANGE, "smd-linear": "#3a8f5c", "SVC": GREY,
    "Nystroem 512 + SGD": PURPLE, "Nystroem + SGD": PURPLE,
}  # fmt: skip


def seconds(make, X, y, repeat=3):
    """Processor time to learn all rows."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        learn(make(X.shape[1]), X, y)
        times.append(time.process_time() - start)
    return float(np.median(times))


def learn(model, X, y):
    """As a stream where a model can."""
    return model.partial_fit(X, y) if hasattr(model, "partial_fit") else model.fit(X, y)


def svmd(size):
    return lambda d: ks.make("svmd", "classifier", gamma=1 / d, budget=size)


def merging(size):
    return lambda d: ks.make("pa", "classifier", gamma=1 / d, budget=ks.budgets.Merge(size))


def linear(_):
    return ks.make("smd-linear", "classifier")


def batch(d):
    return SVC(gamma=1 / d, C=1.0)


def nystroem(size):
    return lambda d: make_pipeline(
        Nystroem(gamma=1 / d, n_components=size, random_state=0),
        SGDClassifier(max_iter=1, tol=None, random_state=0),
    )


def with_rows():
    """Seconds for all rows, of which a batch SVM gets fewer."""
    sizes = [1000, 3000, 10_000, 30_000, 100_000, 300_000]
    X, y = clouds(sizes[-1], 20, 10)
    makers = {"svmd, 512 points": svmd(512), "pa, 512 merged points": merging(512),
              "smd-linear": linear, "Nystroem 512 + SGD": nystroem(512), "SVC": batch}  # fmt: skip
    most = {"SVC": 10_000, "Nystroem 512 + SGD": 100_000}
    return sizes, {
        name: [seconds(make, X[:n], y[:n], 1 if n > 10_000 else 3)
               for n in sizes if n <= most.get(name, n)]
        for name, make in makers.items()
    }  # fmt: skip


def per_row(make, X, y):
    return 1e6 * seconds(make, X, y) / len(X)


def with_points():
    """Microseconds per row."""
    sizes = [64, 128, 256, 512, 1024, 2048, 4096]
    X, y = clouds(10_000, 64, 10)
    makers = {"svmd": svmd, "pa, merged points": merging, "Nystroem + SGD": nystroem}
    most = {"pa, merged points": 1024, "Nystroem + SGD": 1024}
    return sizes, {
        name: [per_row(make(n), X, y) for n in sizes if n <= most.get(name, n)]
        for name, make in makers.items()
    }


def with_features():
    """Microseconds per row."""
    sizes = [4, 16, 64, 256, 1024, 4096]
    makers = {"svmd, 512 points": svmd(512), "smd-linear": linear,
              "Nystroem 512 + SGD": nystroem(512)}  # fmt: skip
    found = {name: [] for name in makers}
    for n in sizes:
        X, y = clouds(3000, n, 10)
        for name, make in makers.items():
            found[name].append(per_row(make, X, y))
    return sizes, found


PANELS = {
    "rows": (with_rows, "seconds for all rows (20 features)"),
    "points": (with_points, "microseconds per row (64 features)"),
    "features": (with_features, "microseconds per row"),
}


def table(title, sizes, found):
    print(f"\n| {title} | {' | '.join(f'{n:,}' for n in sizes)} |\n|---|{'---:|' * len(sizes)}")
    for name, values in found.items():
        cells = [f"{value:.3g}" for value in values] + [""] * (len(sizes) - len(values))
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def draw(panels, path):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, plots = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    for axes, (title, (sizes, found)) in zip(plots, panels.items(), strict=True):
        for name, values in found.items():
            axes.plot(sizes[: len(values)], values, "o-", ms=4, color=COLOURS[name], label=name)
        axes.set(xscale="log", yscale="log", xlabel=title, ylabel=PANELS[title][1])
        axes.legend(frameon=False, fontsize=8)
    tidy(*plots)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    X, y = clouds(1500, 20, 10)
    for make in (svmd(64), merging(64), linear):
        learn(make(20), X, y)  # compiles
    panels = {title: measure() for title, (measure, _) in PANELS.items()}
    for title, (sizes, found) in panels.items():
        table(f"{title}: {PANELS[title][1]}", sizes, found)
    if len(sys.argv) > 1:
        draw(panels, Path(sys.argv[1]) / "growth.png")

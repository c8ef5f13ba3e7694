"""What the renewed metric is worth, as a picture: the error with and without it, and what it found.

    python benchmarks/metric.py docs/images/metric.png

Three streams: one whose inputs are mostly irrelevant, one that depends on a single direction that
no input shows, and one where every input matters alike. Every row is predicted, then learned; the
curves are the root mean squared error of the last 500 rows over the spread of y.
"""

import argparse

import matplotlib as mpl
import numpy as np
from regression import one_direction, with_irrelevant
from sklearn.datasets import make_friedman1

import kernelstream as ks
from kernelstream.kernels import RBF, Bias, Linear, Scaled, Sum
from kernelstream.scalings import Renewed

N_ROWS, WINDOW = 5000, 500


def all_alike(n_rows=N_ROWS, n_features=6):
    """A radial wave: every input and every direction matters alike."""
    random = np.random.default_rng(4)
    X = random.normal(size=(n_rows, n_features))
    return X, np.sin(np.linalg.norm(X, axis=1)) + 0.1 * random.normal(size=n_rows)


def streams():
    friedman = make_friedman1(N_ROWS, n_features=5, noise=1.0, random_state=0)
    return {
        "5 inputs that matter, 20 that do not": with_irrelevant(*friedman),
        "one direction of 12": one_direction(),
        "all inputs matter alike": all_alike(),
    }


def learner(n_features, metric):
    kernel = Sum(Bias(), Scaled(Linear(), 1.0 / n_features), RBF(1.0 / n_features))
    return ks.make(
        "sog-svr", "regressor", kernel=kernel, regularization=0.1, fit_intercept=False,
        scaling=Renewed(metric=metric), target_scaling=Renewed(), budget=256,
    )  # fmt: skip


def recent_error(scores, y):
    squared = np.cumsum(np.insert((scores - y) ** 2, 0, 0.0))
    return np.sqrt((squared[WINDOW:] - squared[:-WINDOW]) / WINDOW) / y.std()


def draw(path):
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    found = streams()
    figure, axes = plt.subplots(2, len(found), figsize=(11, 6.2), height_ratios=[1, 1.1])
    for (name, (X, y)), (above, below) in zip(found.items(), axes.T, strict=True):
        for metric, colour in ((False, "0.55"), (True, "#c1440e")):
            model = learner(X.shape[1], metric)
            curve = recent_error(np.ravel(ks.prequential(model, X, y).scores), y)
            label = "metric renewed" if metric else "no metric"
            above.plot(np.arange(WINDOW, len(y) + 1), curve, color=colour, label=label)
            print(f"{name:<40} {label:<16} {curve[-1]:.3f}")
        above.set(title=name, ylim=(0, None), xlabel="rows")
        largest = np.abs(model.metric_).max()
        image = below.imshow(model.metric_, cmap="RdBu_r", vmin=-largest, vmax=largest)
        below.set(xlabel="input", ylabel="input")
        below.xaxis.get_major_locator().set_params(integer=True)
        figure.colorbar(image, ax=below, shrink=0.8)
    axes[0, 0].set_ylabel("error of the last 500 rows / spread of y")
    axes[0, 0].legend(frameon=False)
    axes[1, 0].set_title("the metric it found (metric_)", fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", nargs="?", default="metric.png")
    draw(parser.parse_args().path)

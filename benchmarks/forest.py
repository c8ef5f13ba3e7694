"""Error and time of `Forest` beside the RBF and the linear kernel, on public streams.

Each row is predicted, then learned, in blocks; the rows are in a random order, and raw for trees,
scaled by what came before for the others. Times are processor time of a second pass, so that
nothing is compiled in it.

    python benchmarks/forest.py
"""

import itertools
import time

import numpy as np
from sklearn.datasets import load_digits

import kernelstream as ks
from kernelstream.kernels import Forest

MODELS = {
    "`Forest`, `adagrad`": lambda: ks.make("adagrad", "classifier", kernel=Forest()),
    "`Forest`, SMD": lambda: ks.KernelClassifier(Forest(), loss="log_loss"),
    "`Forest`, `pa`": lambda: ks.make("pa", "classifier", kernel=Forest()),
    "RBF, SMD": lambda: ks.KernelClassifier("rbf", loss="log_loss", scaling="running"),
    "RBF, `pa`": lambda: ks.make("pa", "classifier", kernel="rbf", scaling="running"),
    "linear, `adagrad`": lambda: ks.make("adagrad", "classifier", scaling="running"),
}


def of_river(stream, n_rows=None):
    """Rows and labels of one of River's streams; words become numbers in the order they come."""
    rows, labels, words = [], [], {}
    for x, y in itertools.islice(stream, n_rows):
        rows.append([v if not isinstance(v, str) else words.setdefault(v, len(words))
                     for v in x.values()])  # fmt: skip
        labels.append(y)
    return np.array(rows, dtype=float), np.unique(labels, return_inverse=True)[1]


def streams():
    from river import datasets
    from river.datasets import synth

    yield "Phishing", of_river(datasets.Phishing())
    yield "Bananas", of_river(datasets.Bananas())
    yield "ImageSegments", of_river(datasets.ImageSegments())
    yield "Agrawal, function 4", of_river(synth.Agrawal(4, seed=0), 10_000)
    yield "SEA, noise 0.1", of_river(synth.SEA(noise=0.1, seed=0), 10_000)
    yield "digits", load_digits(return_X_y=True)


def main():
    print("| stream | rows | " + " | ".join(MODELS) + " |")
    print("|" + "---|" * (2 + len(MODELS)))
    for name, (X, y) in streams():
        order = np.random.default_rng(0).permutation(len(X))
        X, y, cells = np.ascontiguousarray(X[order]), y[order], []
        for make in MODELS.values():
            ks.prequential(make(), X, y)
            start = time.process_time()
            result = ks.prequential(make(), X, y)
            micro = (time.process_time() - start) / len(X) * 1e6
            cells.append(f"{100 * result.error_rate:.1f} %, {micro:.0f} us")
        print(f"| {name} | {len(X):,} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()

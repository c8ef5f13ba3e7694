"""Error and time of `Forest` beside the RBF and the linear kernel, on public streams.

Each row is predicted, then learned, in blocks. RBF and linear get rows standardised with the mean
and the deviation of the whole stream, which no stream would tell them; the trees get rows as they
are. Times are processor time of a second pass, so that nothing is compiled in it.

    python benchmarks/forest.py
"""

import itertools
import time

import numpy as np
from sklearn.datasets import load_digits

import kernelstream as ks

MODELS = {
    "Forest": lambda: ks.KernelClassifier(ks.kernels.Forest(), loss="log_loss"),
    "RBF": lambda: ks.KernelClassifier("rbf", loss="log_loss"),
    "linear": lambda: ks.KernelClassifier("linear", loss="log_loss", fit_intercept=True),
    "Forest, pa": lambda: ks.make("pa", "classifier", kernel=ks.kernels.Forest(), budget="auto"),
    "RBF, pa": lambda: ks.make("pa", "classifier", kernel="rbf"),
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
        X, y = np.ascontiguousarray(X[order]), y[order]
        deviation = X.std(axis=0)
        scaled = (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
        cells = []
        for model, make in MODELS.items():
            rows = X if model.startswith("Forest") else scaled
            ks.prequential(make(), rows, y)
            start = time.process_time()
            result = ks.prequential(make(), rows, y)
            micro = (time.process_time() - start) / len(X) * 1e6
            cells.append(f"{100 * result.error_rate:.1f} %, {micro:.0f} us")
        print(f"| {name} | {len(X)} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()

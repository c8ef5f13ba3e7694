"""Linear models: time per row beside scikit-learn's SGDClassifier, and error beside River.

    python benchmarks/linear.py            # both tables
    python benchmarks/linear.py --long     # also ten million rows: does ||f||^2 stay true?

Times are medians of five runs in one process, so that only their ratios count. The six streams were
named before anything was run: scikit-learn's digits and breast cancer, River's Phishing, Bananas,
ImageSegments and Agrawal.
"""

import argparse
import time

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import SGDClassifier

import kernelstream as ks

OURS = ["smd-linear", "linear-pa"]
SHAPES = [(64, 2), (784, 10)]  # features, classes
N_ROWS = 2048


def problem(n_features, n_classes, n_rows=N_ROWS):
    random = np.random.default_rng(0)
    X = random.normal(size=(n_rows, n_features)) / np.sqrt(n_features)
    return X, (X @ random.normal(size=(n_features, n_classes))).argmax(axis=1)


def seconds_per_row(make, X, y, block):
    """Median over five passes of the time that `partial_fit` takes per row."""
    classes, times = np.unique(y), []
    for _ in range(5):
        model = make().partial_fit(X[:block], y[:block], classes=classes)
        n = min(len(X), 300 * block)
        begin = time.perf_counter()
        for start in range(block, n, block):
            model.partial_fit(X[start : start + block], y[start : start + block])
        times.append((time.perf_counter() - begin) / (n - block))
    return float(np.median(times))


def speed():
    print("| features, classes | rows per block | " + " | ".join(OURS) + " | SGDClassifier |")
    print("|---|---|" + "---|" * (len(OURS) + 1))
    for n_features, n_classes in SHAPES:
        X, y = problem(n_features, n_classes)
        for block in (32, 1):
            ours = [
                seconds_per_row(lambda name=name: ks.make(name, "classifier"), X, y, block)
                for name in OURS
            ]
            peer = seconds_per_row(lambda: SGDClassifier(loss="log_loss"), X, y, block)
            shown = " | ".join(f"{1e6 * s:.1f} us ({peer / s:.1f} x)" for s in ours)
            print(f"| {n_features}, {n_classes} | {block} | {shown} | {1e6 * peer:.1f} us |")


def of_river(dataset, n_rows=None):
    rows = []
    for x, y in dataset:
        rows.append(([float(v) if not isinstance(v, str) else 0.0 for v in x.values()], y))
        if n_rows is not None and len(rows) == n_rows:
            break
    return np.array([x for x, _ in rows]), np.array([str(y) for _, y in rows])


def streams():
    from river import datasets

    return {
        "digits": load_digits(return_X_y=True),
        "breast cancer": load_breast_cancer(return_X_y=True),
        "Phishing": of_river(datasets.Phishing()),
        "Bananas": of_river(datasets.Bananas()),
        "ImageSegments": of_river(datasets.ImageSegments()),
        "Agrawal": of_river(datasets.synth.Agrawal(seed=0), 5000),
    }


def of_logistic_regression(X, y):
    """The error of River's logistic regression behind its scaler, one against the rest."""
    from river import linear_model, multiclass, preprocessing

    model = preprocessing.StandardScaler() | multiclass.OneVsRestClassifier(
        linear_model.LogisticRegression()
    )
    wrong = 0
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        x = dict(enumerate(row))
        wrong += model.predict_one(x) != label
        model.learn_one(x, label)
    return wrong / len(y)


def errors():
    print("| stream | " + " | ".join(OURS) + " | River's logistic regression |")
    print("|---|" + "---|" * (len(OURS) + 1))
    table = []
    for name, (X, y) in streams().items():
        found = [
            ks.prequential(ks.make(ours, "classifier", scaling="running"), X, y).error_rate
            for ours in OURS
        ]
        table.append([*found, of_logistic_regression(X, y)])
        print(f"| {name} | " + " | ".join(f"{100 * e:.1f}" for e in table[-1]) + " |")
    print("| mean | " + " | ".join(f"{100 * e:.1f}" for e in np.mean(table, axis=0)) + " |")


def ten_million_rows():
    """How far ||f||^2 is from what the weights say, as a share, after many rows."""
    X, y = problem(8, 2, 100_000)
    for name, params in (("linear-pa", {}), ("svmd", {"kernel": "linear"})):
        model = ks.make(name, "classifier", **params)
        begin = time.perf_counter()
        for _ in range(100):
            model.partial_fit(X, y, classes=None if hasattr(model, "classes_") else [0, 1])
        kept, true = float(model.machine_.state.expansion.norm2[0]), float((model.coef_**2).sum())
        took = time.perf_counter() - begin
        print(f"{name}: {model.n_seen_:,} rows in {took:.0f} s, ||f||^2 off by "
              f"{abs(kept - true) / true:.1e}")  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true")
    speed()
    print()
    errors()
    if parser.parse_args().long:
        print()
        ten_million_rows()

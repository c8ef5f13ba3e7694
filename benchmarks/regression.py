"""Regression with nothing to tune: the error and the time of `AutoRegressor` beside others.

    python benchmarks/regression.py                     # all streams and learners
    python benchmarks/regression.py auto --streams diabetes,friedman1

Every row is predicted, then learned; the figure is the root mean squared error over that of the
mean of the rows before, and times are processor time. Streams come with scikit-learn and River, or
are generated. River's learners run behind its StandardScaler, with their defaults.
"""

import argparse
import time
from itertools import islice

import numpy as np
from sklearn import datasets

import kernelstream as ks

N_ROWS = 5000


def shuffled(X, y):
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order]


def of_river(stream, n_rows=N_ROWS):
    rows = list(islice(iter(stream), n_rows))
    names = sorted(rows[0][0])
    levels = {}  # a category counts as the order in which its values came

    def number(name, value):
        if not isinstance(value, str):
            return float(value)
        known = levels.setdefault(name, {})
        return float(known.setdefault(value, len(known)))

    X = np.array([[number(name, row[name]) for name in names] for row, _ in rows])
    return X, np.array([float(y) for _, y in rows])


def rotated(X, y):
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(X.shape[1],) * 2))[0]
    return z @ turn, y


def with_irrelevant(X, y, n_more=20):
    return np.hstack([X, np.random.default_rng(2).normal(size=(len(X), n_more))]), y


def one_direction(n_rows=N_ROWS, n_features=12):
    """A wave along one direction, which no single input shows."""
    random = np.random.default_rng(3)
    X = random.normal(size=(n_rows, n_features))
    direction = random.normal(size=n_features) / np.sqrt(n_features)
    return X, np.sin(3.0 * X @ direction) + 0.1 * random.normal(size=n_rows)


def in_odd_units(X, y):
    return X * 10.0 ** np.arange(-3, X.shape[1] - 3) + 7.0, 1e4 * y + 1e6


def streams():
    from river import datasets as river
    from river.datasets import synth

    one = datasets.make_friedman1(N_ROWS, noise=1.0, random_state=0)
    return {
        "diabetes": lambda: shuffled(*datasets.load_diabetes(return_X_y=True)),
        "friedman1": lambda: one,
        "friedman2": lambda: datasets.make_friedman2(N_ROWS, noise=30.0, random_state=0),
        "friedman3": lambda: datasets.make_friedman3(N_ROWS, noise=0.1, random_state=0),
        "friedman1 rotated": lambda: rotated(*one),
        "friedman1 with 20 more inputs": lambda: with_irrelevant(*one),
        "friedman1 in odd units": lambda: in_odd_units(*one),
        "one direction of 12": one_direction,
        "friedman drift": lambda: of_river(
            synth.FriedmanDrift("gra", position=(1500, 3500), seed=0)
        ),
        "mv": lambda: of_river(synth.Mv(seed=0)),
        "planes": lambda: of_river(synth.Planes2D(seed=0)),
        "trump approval": lambda: of_river(river.TrumpApproval()),
        "chick weights": lambda: of_river(river.ChickWeights()),
    }  # fmt: skip


def with_river(model):
    def run(X, y):
        rows, said, own = X.tolist(), np.zeros(len(y)), model()
        for i, target in enumerate(y.tolist()):
            row = dict(enumerate(rows[i]))
            said[i] = own.predict_one(row)
            own.learn_one(row, target)
        return said

    return run


def with_ours(model):
    def run(X, y):
        return ks.prequential(model(), X, y).scores

    return run


def learners():
    from river import linear_model, neighbors, preprocessing

    def scaled(model):
        return lambda: preprocessing.StandardScaler() | model()

    scaling = {"scaling": "running", "target_scaling": "running"}
    return {
        "auto": with_ours(ks.AutoRegressor),
        "default": with_ours(ks.KernelRegressor),
        "scaled": with_ours(lambda: ks.KernelRegressor(**scaling)),
        "sog-svr": with_ours(lambda: ks.make("sog-svr", "regressor", **scaling)),
        "river linear": with_river(scaled(linear_model.LinearRegression)),
        "river knn": with_river(scaled(neighbors.KNNRegressor)),
    }


def of_running_mean(y):
    before = np.concatenate([[0.0], np.cumsum(y)[:-1] / np.arange(1, len(y))])
    before[0] = y[0]
    return before


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("learners", nargs="*")
    parser.add_argument("--streams", default="")
    chosen = parser.parse_args()
    known = learners()
    runs = {name: known[name] for name in chosen.learners or known}
    wanted = chosen.streams.split(",") if chosen.streams else list(streams())
    warm = datasets.make_friedman1(300, random_state=1)
    for run in runs.values():
        run(*warm)  # compiles
    print("| stream | " + " | ".join(runs) + " |")
    print("|---|" + "---|" * len(runs))
    errors, times = [], []
    for name in wanted:
        X, y = streams()[name]()
        base = np.sqrt(np.mean((y - of_running_mean(y))[1:] ** 2))
        errors.append([])
        times.append([])
        for run in runs.values():
            begin = time.process_time()
            said = run(X, y)
            times[-1].append(1e6 * (time.process_time() - begin) / len(y))
            errors[-1].append(np.sqrt(np.mean((y - said)[1:] ** 2)) / base)
        print(f"| {name} | " + " | ".join(f"{e:.3f}" for e in errors[-1]) + " |", flush=True)
    print("| **mean** | " + " | ".join(f"{e:.3f}" for e in np.mean(errors, axis=0)) + " |")
    print("| microseconds per row, median | "
          + " | ".join(f"{t:.0f}" for t in np.median(times, axis=0)) + " |")  # fmt: skip


if __name__ == "__main__":
    main()

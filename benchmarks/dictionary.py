"""SOG-SVR beside batch SVR: error, support vectors and time, on the paper's data.

    KERNELSTREAM_DATA=folder python benchmarks/dictionary.py [splits of Comp-activ]

Splits are default_rng(s).permutation(n); scikit-learn's SVR has the same kernel and splits.
"""

import sys
import time

import numpy as np
from sklearn.svm import SVC, SVR

import kernelstream as ks
from kernelstream.budgets import Independent
from kernelstream.kernels import RBF, Homogenized
from kernelstream_lab.experiments.dictionary import mean_error as mse
from kernelstream_lab.experiments.dictionary import unit_cube


def boston():
    X, y = ks.datasets.load("boston")
    return unit_cube(X), y


def comp_activ():
    X, y = ks.datasets.load("comp-activ")
    return unit_cube(X), y


def sinc(n_rows, noise, seed):
    random = np.random.default_rng(seed)
    X = random.uniform(-10, 10, size=(n_rows, 1))
    return X, np.sinc(X[:, 0] / np.pi) + noise * random.normal(size=n_rows)


def model(preset, sigma, tolerance, **params):
    kernel = Homogenized(RBF(1 / (2 * sigma**2)), 0.1)
    return ks.make(preset, "regressor", kernel=kernel, budget=Independent(tolerance), **params)


def compare(X, y, n_train, sigma, tolerance, C, epsilon, splits, passes=1):
    """Mean squared errors, shares of support vectors, seconds: ours, the paper's rule, SVR."""
    kernel = Homogenized(RBF(1 / (2 * sigma**2)), 0.1)
    found = {name: [] for name in ("sog-svr", "sog-svr-paper", "svr")}
    for seed in splits:
        order = np.random.default_rng(seed).permutation(len(X))
        train, test = order[:n_train], order[n_train:]
        for name in found:
            begin = time.perf_counter()
            if name == "svr":
                fitted = SVR(kernel=kernel, C=C, epsilon=epsilon).fit(X[train], y[train])
                n_support = len(fitted.support_)
            else:
                fitted = model(name, sigma, tolerance)
                for _ in range(passes if name == "sog-svr-paper" else 1):
                    fitted.partial_fit(X[train], y[train])
                n_support = fitted.n_support_
            seconds = time.perf_counter() - begin
            found[name].append((mse(fitted, X[test], y[test]), n_support / n_train, seconds))
    return {name: np.mean(rows, axis=0) for name, rows in found.items()}


def show(title, found):
    print(title)
    for name, (error, support, seconds) in found.items():
        ratio = error / found["svr"][0]
        print(
            f"  {name:<14} mse {error:7.3f} ({ratio:.2f} of SVR's), {support:6.1%} support "
            f"vectors, {seconds:.2f} s"
        )


def flat():
    """A row costs O(m^2), however many came before."""
    X, y = sinc(200_000, 0.1, 0)
    learner, times = model("sog-svr", 3.0, 0.01), []
    for start in range(0, len(X), 20_000):
        begin = time.perf_counter()
        learner.partial_fit(X[start : start + 20_000], y[start : start + 20_000])
        times.append(time.perf_counter() - begin)
    print("microseconds per row:", ", ".join(f"{1e6 * t / 20_000:.1f}" for t in times[1:]))


def digits():
    """USPS in one pass, 512 points: errors on the way, and time beside batch SVC's."""
    data = ks.datasets.load("usps")
    X, y = data.X_train, data.y_train
    make = {"gamma": 1 / 128, "budget": 512}
    ks.make("sog-svc", "classifier", **make).partial_fit(X[:200], y[:200])  # compiles
    begin = time.perf_counter()
    SVC(C=10, gamma=1 / 128).fit(X, y)
    of_svc = time.perf_counter() - begin
    shuffled = np.random.default_rng(0).permutation(len(X))
    for name, order in (("their order", np.arange(len(X))), ("shuffled", shuffled)):
        learner, begin = ks.make("sog-svc", "classifier", **make), time.perf_counter()
        error = ks.prequential(learner, X[order], y[order]).error_rate
        seconds = time.perf_counter() - begin
        print(
            f"USPS, {name}: {error:.2%} errors, {1e6 * seconds / len(X):.0f} microseconds per row, "
            f"{seconds / of_svc:.1f} times the time of SVC"
        )
    begin = time.perf_counter()
    for row, label in zip(X[:640], y[:640], strict=True):
        learner.learn_one(row, label)
    print(f"one row at a time: {1e6 * (time.perf_counter() - begin) / 640:.0f} microseconds")


if __name__ == "__main__":
    n_splits = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    for name in ("sog-svr", "sog-svr-paper"):  # compile before the clock starts
        model(name, 1.0, 0.01).partial_fit(*sinc(300, 0.1, 0))
    show("Boston, one pass", compare(*boston(), 481, 1.4, 0.01, 500, 2, range(50)))
    show(
        "Boston, five passes of the paper's rule",
        compare(*boston(), 481, 1.4, 0.01, 500, 2, range(50), passes=5),
    )
    show("Comp-activ", compare(*comp_activ(), 6000, 0.5, 0.001, 1e6 / 6000, 1, range(n_splits)))
    X, y = sinc(5000, 0.1, 0)
    grid = np.linspace(-10, 10, 1000)[:, None]
    truth = np.sinc(grid[:, 0] / np.pi)
    ours = model("sog-svr", 3.0, 0.01).partial_fit(X, y)
    batch = SVR(kernel=Homogenized(RBF(1 / 18), 0.1), C=2, epsilon=0.01).fit(X, y)
    print(
        f"sinc, 5,000 rows: rmse {mse(ours, grid, truth) ** 0.5:.4f} with {ours.n_support_} "
        f"support vectors; SVR {mse(batch, grid, truth) ** 0.5:.4f} with {len(batch.support_)}"
    )
    flat()
    digits()

"""What scaling is worth on streams that ship with scikit-learn and River: docs/learners.md.

python benchmarks/scaling.py
"""

import numpy as np
from river import datasets
from sklearn import datasets as sk

import kernelstream as ks


def shuffled(data):
    order = np.random.default_rng(0).permutation(len(data[0]))
    return data[0][order], data[1][order]


def from_river(stream, n):
    """Rows of numbers; a name becomes a column for each of its values, a date its number."""
    rows = list(stream.take(n))
    columns = []
    for name in sorted({name for x, _ in rows for name in x}, key=str):
        values = [x.get(name, 0) for x, _ in rows]
        if isinstance(values[0], str):
            columns += [[v == value for v in values] for value in sorted(set(values))]
        else:
            columns.append([v.toordinal() if hasattr(v, "toordinal") else v for v in values])
    return np.array(columns, dtype=float).T, np.array([y for _, y in rows])


def classification():
    yield "digits", sk.load_digits(return_X_y=True)
    yield "breast cancer", shuffled(sk.load_breast_cancer(return_X_y=True))
    yield "wine", shuffled(sk.load_wine(return_X_y=True))
    yield "Phishing", from_river(datasets.Phishing(), 5000)
    yield "Bananas", from_river(datasets.Bananas(), 5300)
    yield "ImageSegments", from_river(datasets.ImageSegments(), 2310)
    yield "SEA", from_river(datasets.synth.SEA(seed=1, noise=0.1), 10_000)
    yield "Agrawal", from_river(datasets.synth.Agrawal(seed=1), 10_000)


def regression():
    yield "diabetes", shuffled(sk.load_diabetes(return_X_y=True, scaled=False))
    yield "Friedman 1", sk.make_friedman1(5000, random_state=0)
    yield "Friedman 2", sk.make_friedman2(5000, random_state=0)
    yield "TrumpApproval", from_river(datasets.TrumpApproval(), 5000)
    yield "ChickWeights", from_river(datasets.ChickWeights(), 5000)
    yield "Friedman, drift", from_river(datasets.synth.FriedmanDrift(seed=1), 5000)


def line(name, X, figures):
    print(f"{name:<16} {X.shape!s:>12}", *(f"{figure:8.3f}" for figure in figures))


def main():
    """Print both tables."""
    print("share of errors: most frequent label, as it comes, scaled")
    for name, (X, y) in classification():
        most = 1 - np.unique(y, return_counts=True)[1].max() / len(y)
        models = [ks.KernelClassifier(scaling=scaling) for scaling in (None, "running")]
        line(name, X, [most, *(ks.prequential(model, X, y).error_rate for model in models)])
    print("error over that of the running mean: as it comes, scaled rows, and targets")
    for name, (X, y) in regression():
        mean = np.cumsum(y)[:-1] / np.arange(1, len(y))
        constant = np.sqrt(np.mean((y[1:] - mean) ** 2))
        both = (None, None), ("running", None), ("running", "running")
        models = [ks.KernelRegressor(scaling=rows, target_scaling=y) for rows, y in both]
        results = [ks.prequential(model, X, y) for model in models]
        line(name, X, [np.sqrt(result.errors[1:].mean()) / constant for result in results])


if __name__ == "__main__":
    main()

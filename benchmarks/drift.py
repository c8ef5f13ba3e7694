"""What is noticed of changes in a stream, and what is seen where there are none.

KERNELSTREAM_DATA=folder python benchmarks/drift.py docs/images/drift.png

The picture: five pairs of USPS digits, one after the other. Printed: the tables of docs/drift.md.
"""

import sys

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from river.drift import ADWIN

import kernelstream as ks
from kernelstream.step_sizes import SMD

RBF = ks.kernels.RBF(1 / 200)
WINDOW = 200  # rows within which a change must be noticed


def digits(data, pairs, n_rows, random):
    """Pairs of digits one after the other; the labels say which of the two."""
    X, y = data.X_train, data.y_train
    rows = [random.permutation(np.flatnonzero(np.isin(y, pair)))[:n_rows] for pair in pairs]
    labels = [y[some] == pair[1] for some, pair in zip(rows, pairs, strict=True)]
    return X[np.concatenate(rows)], np.concatenate(labels).astype(int)


def adwin(errors, delta):
    detector, alarms = ADWIN(delta=delta), []
    for row, error in enumerate(errors):
        detector.update(error)
        if detector.drift_detected:
            alarms.append(row)
    return np.array(alarms)


def rises(scores):
    """Where the drift score rises above 0.3, having been below 0.15 in between."""
    armed, alarms = True, []
    for row, score in enumerate(scores):
        if score < 0.15:
            armed = True
        elif armed and score > 0.3:
            armed = False
            if row >= WINDOW:
                alarms.append(row)
    return np.array(alarms)


def alarms_of(result):
    yield "the loss (`result.events`)", result.events
    yield "the step size (drift score above 0.3)", rises(result.drift_scores)
    for delta in (0.002, 0.05, 0.2):
        yield f"ADWIN on the errors, delta {delta}", adwin(result.errors, delta)


class Tally:
    def __init__(self):
        self.noticed, self.changes, self.right, self.alarms = 0, 0, 0, 0

    def add(self, alarms, changes):
        near = [[c for c in changes if c <= alarm < c + WINDOW] for alarm in alarms]
        self.noticed += len({c[-1] for c in near if c})
        self.right += sum(bool(c) for c in near)
        self.changes += len(changes)
        self.alarms += len(alarms)

    def __str__(self):
        right = f"{self.right / self.alarms:.0%} of {self.alarms}" if self.alarms else "none"
        return f"{self.noticed / self.changes:.0%} of {self.changes} | {right}"


def switches(data):
    """Ten orders of five pairs of digits."""
    tallies = {}
    for seed in range(10):
        pairs = np.random.default_rng(100 + seed).permutation(10).reshape(5, 2)
        X, y = digits(data, pairs, 500, np.random.default_rng(seed))
        result = ks.prequential(ks.KernelClassifier(RBF, step_size=SMD(0.1, 0.1, 0.99)), X, y)
        for name, alarms in alarms_of(result):
            tallies.setdefault(name, Tally()).add(alarms, np.arange(1, 5) * 500)
    print("| USPS | changes noticed | alarms that were right |\n|---|---|---|")
    for name, tally in tallies.items():
        print(f"| {name} | {tally} |")


def classes(noise, *borders):
    return lambda f, random: np.digitize(f + noise * random.normal(size=len(f)), borders)


def generated():
    """Kinds of model and target."""
    normal, heavy = (
        (lambda f, r: f + 0.3 * r.normal(size=len(f))),
        (lambda f, r: f + 0.3 * r.standard_t(2, size=len(f))),
    )
    svm = lambda **more: lambda: ks.KernelClassifier(gamma=0.5, **more)  # noqa: E731
    regression = lambda **more: lambda: ks.KernelRegressor(gamma=0.5, **more)  # noqa: E731
    return {
        "two classes, hinge": (svm(), classes(0.3, 0)),
        "two classes, hinge, much noise": (svm(), classes(1.0, 0)),
        "a rare class (3 %)": (svm(), classes(0.3, 2.2)),
        "two classes, logistic": (svm(loss="log_loss"), classes(0.3, 0)),
        "four classes, hinge": (svm(), classes(0.3, -1, 0, 1)),
        "four classes, softmax": (svm(loss="log_loss"), classes(0.3, -1, 0, 1)),
        "numbers, squared error": (regression(), normal),
        "the same, noise of infinite variance": (regression(), heavy),
        "the same, huber with nu": (regression(loss="huber", nu=0.3), heavy),
    }


def streams():
    """The same problems without a change, and with one every 2,000 rows."""
    print("\n| generated stream | events, no change | drift score above 0.3 | changes noticed | "
          "events that were right |\n|---|---|---|---|---|")  # fmt: skip
    for name, (make, target) in generated().items():
        still, risen, tally = [], [], Tally()
        for seed in range(5):
            random = np.random.default_rng(seed)
            X = random.normal(size=(20_000, 4))
            first, second = np.sin(2 * X[:, 0]) + X[:, 1], X[:, 2] - np.sin(2 * X[:, 3])
            result = ks.prequential(make(), X, target(first, random))
            still.append(len(result.events))
            risen.append(len(rises(result.drift_scores)))
            moving = np.where(np.arange(len(X)) // 2000 % 2, second, first)
            result = ks.prequential(make(), X, target(moving, random))
            tally.add(result.events, np.arange(2000, len(X), 2000))
        print(f"| {name} | {np.mean(still) / 2:.1f} | {np.mean(risen) / 2:.1f} | {tally} |")


def real(data):
    """Real rows in random order: nothing changes."""
    print("\n| rows in random order | events | drift score above 0.3 |\n|---|---|---|")
    mnist, cpu = ks.datasets.load("mnist"), ks.datasets.load("comp-activ")
    unit = mnist.X_train[:12_000] / np.linalg.norm(mnist.X_train[:12_000], axis=1, keepdims=True)
    Z = (cpu.X - cpu.X.mean(axis=0)) / cpu.X.std(axis=0)
    for name, make, X, y in (
        ("USPS, ten classes", lambda: ks.KernelClassifier(RBF), data.X_train, data.y_train),
        ("USPS, odd or even", lambda: ks.KernelClassifier(RBF), data.X_train, data.y_train % 2),
        (
            "MNIST, ten classes",
            lambda: ks.KernelClassifier(gamma=1.0),
            unit,
            mnist.y_train[:12_000],
        ),
        ("comp-activ", ks.KernelRegressor, Z, cpu.y),
    ):
        events, risen, n = 0, 0, 0
        for seed in range(5):
            order = np.random.default_rng(seed).permutation(len(X))
            result = ks.prequential(make(), X[order], y[order])
            events, n = events + len(result.events), n + len(X)
            risen += len(rises(result.drift_scores))
        print(f"| {name} | {1e4 * events / n:.1f} | {1e4 * risen / n:.1f} |")


def draw(data, path):
    pairs = np.arange(10).reshape(5, 2)
    X, y = digits(data, pairs, 500, np.random.default_rng(0))
    model = ks.KernelClassifier(RBF, step_size=SMD(0.1, 0.1, 0.99))
    result = ks.prequential(model, X, y)
    figure, axes = plt.subplots(3, 1, figsize=(9, 6), sharex=True, layout="constrained")
    recent = np.convolve(result.losses, np.ones(50) / 50)[: len(X)]
    axes[0].plot(recent, color="#0b6e99", lw=1.2)
    axes[0].plot(result.events, recent[result.events], "v", color="#e07a1f", ms=8)
    axes[0].set(ylabel="loss, last 50 rows")
    axes[1].plot(result.step_sizes, color="#0b6e99", lw=1.4)
    axes[1].set(ylabel="step size", yscale="log")
    axes[2].plot(result.drift_scores, color="#0b6e99", lw=1.2)
    axes[2].set(ylabel="drift score", xlabel="rows", xlim=(0, len(X)))
    for axis in axes:
        for change in range(500, 2500, 500):
            axis.axvline(change, color="#8a8a8a", lw=0.8, ls=":")
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    figure.suptitle("0/1, 2/3, 4/5, 6/7, 8/9: a change every 500 rows (dotted), events (triangles)")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    usps = ks.datasets.load("usps")
    draw(usps, sys.argv[1])
    switches(usps)
    streams()
    real(usps)

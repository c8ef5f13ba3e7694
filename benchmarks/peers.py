"""Time against error on USPS and MNIST, beside scikit-learn, River and a batch SVM.

    python benchmarks/peers.py                     # both; goes on where it stopped
    python benchmarks/peers.py docs/images         # and draws peers.png there

Every learner is given the training rows in their order, as unit vectors, and then predicts the test
rows. Those that learn from a stream pass over them once. Time is processor time on one core,
without compiling. All settings are here; none was chosen by the test rows. Needs both data sets in
$KERNELSTREAM_DATA. Results are kept in benchmarks/results.
"""

import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from river import linear_model, multiclass
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import kernelstream as ks
from kernelstream.drawing import BLUE, GREY, ORANGE, PURPLE, in_percent, tidy
from kernelstream_lab.experiments.curves import unit_rows

RESULTS = Path(__file__).parent / "results" / "peers.json"
GAMMA = 2.0
# Where a name stands beside its point, so that names do not cover each other.
PLACES = {
    "smd-linear": (5, -11), "svmd, 4,096 points": (8, -6), "SVC": (5, -11),
    "pa, all points": (7, -3), "pa, 1,024 merged points": (-10, -13),
}  # fmt: skip
COLOURS = {"kernelstream": BLUE, "scikit-learn": PURPLE, "River": ORANGE, "batch SVM": GREY}


def load(name):
    """Training and test rows as unit vectors, and their labels."""
    data = ks.datasets.load(name)
    X, X_test = (unit_rows(rows.astype(np.float32)) for rows in (data.X_train, data.X_test))
    return X, data.y_train, X_test, data.y_test


def by_kernelstream(make):
    def measure(X, y, X_test):
        make().partial_fit(X[:1000], y[:1000]).predict(X[:10])  # compiles
        return timed(lambda: make().partial_fit(X, y), lambda model: model.predict(X_test))

    return measure


def by_scikit_learn(make):
    return lambda X, y, X_test: timed(lambda: make().fit(X, y), lambda model: model.predict(X_test))


def by_river(make):
    def measure(X, y, X_test):
        rows, test = ([as_dictionary(x) for x in block] for block in (X, X_test))

        def learn():
            model = make()
            for x, label in zip(rows, y.tolist(), strict=True):
                model.learn_one(x, label)
            return model

        return timed(learn, lambda model: [model.predict_one(x) for x in test])

    return measure


def as_dictionary(x):
    """Without zeros: River's linear models do not need them, and are much faster so."""
    return {int(j): float(x[j]) for j in np.flatnonzero(x)}


def timed(learn, predict):
    start = time.process_time()
    model = learn()
    middle = time.process_time()
    predicted = predict(model)
    return middle - start, time.process_time() - middle, predicted


def nystroem(n):
    return make_pipeline(
        Nystroem(gamma=GAMMA, n_components=n, random_state=0),
        SGDClassifier(max_iter=1, tol=None, random_state=0),
    )


def svmd():
    return ks.make(
        "svmd", "classifier", kernel=ks.kernels.Polynomial(degree=9, gamma=1.0), budget=4096,
        step_size=ks.step_sizes.SMD(1.0, 0.01, 0.99), regularization=1e-7,
    )  # fmt: skip


def keeping_all():
    kernel = ks.kernels.Polynomial(degree=9, gamma=1.0)
    return ks.make("pa", "classifier", kernel=kernel, budget=ks.budgets.Unbounded())


def merging(size):
    return ks.make("pa", "classifier", gamma=GAMMA, budget=ks.budgets.Merge(size))


CONTESTANTS = {
    "svmd, 4,096 points": ("kernelstream", by_kernelstream(svmd)),
    "pa, 256 merged points": ("kernelstream", by_kernelstream(lambda: merging(256))),
    "pa, 1,024 merged points": ("kernelstream", by_kernelstream(lambda: merging(1024))),
    "pa, all points": ("kernelstream", by_kernelstream(keeping_all)),
    "smd-linear": (
        "kernelstream",
        by_kernelstream(lambda: ks.make("smd-linear", "classifier", scaling="running")),
    ),
    "SGD, one pass": (
        "scikit-learn",
        by_scikit_learn(lambda: SGDClassifier(max_iter=1, tol=None, random_state=0)),
    ),
    "Nystroem 256 + SGD": ("scikit-learn", by_scikit_learn(lambda: nystroem(256))),
    "Nystroem 1,024 + SGD": ("scikit-learn", by_scikit_learn(lambda: nystroem(1024))),
    "softmax regression": ("River", by_river(linear_model.SoftmaxRegression)),
    "passive-aggressive": (
        "River",
        by_river(lambda: multiclass.OneVsRestClassifier(linear_model.PAClassifier())),
    ),
    "AutoClassifier": ("kernelstream", by_kernelstream(ks.AutoClassifier)),
    "SVC": ("batch SVM", by_scikit_learn(lambda: SVC(C=10.0, gamma=GAMMA, cache_size=1000))),
}


def measure_all():
    """Whatever is not in the file yet; the file after every learner."""
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for data in ("usps", "mnist"):
        X, y, X_test, y_test = load(data)
        for name, (_, measure) in CONTESTANTS.items():
            if f"{data}: {name}" in found:
                continue
            learning, predicting, predicted = measure(X, y, X_test)
            error = float(np.mean(np.asarray(predicted) != y_test))
            found[f"{data}: {name}"] = [learning, 1e6 * predicting / len(X_test), error]
            print(f"{data}: {name}: {learning:.2f} s, {error:.1%}", flush=True)
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(json.dumps(found, indent=1))
    return found


def table(found):
    print(
        "\n| | library | USPS: seconds | error | us per prediction | MNIST: seconds | error | us |"
    )
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for name, (library, _) in CONTESTANTS.items():
        cells = [found.get(f"{data}: {name}") for data in ("usps", "mnist")]
        numbers = [f"{c[0]:.2f} | {c[2]:.1%} | {c[1]:.0f}" if c else "| |" for c in cells]
        print(f"| {name} | {library} | {' | '.join(numbers)} |")


def draw(found, path):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, plots = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    for axes, data, title in zip(plots, ("usps", "mnist"), ("USPS", "MNIST"), strict=True):
        for name, (library, _) in CONTESTANTS.items():
            if cell := found.get(f"{data}: {name}"):
                at, colour = (cell[0], cell[2]), COLOURS[library]
                place = PLACES.get(name, (5, 4))
                axes.plot(*at, "o", color=colour)
                axes.annotate(name, at, place, textcoords="offset points", fontsize=8, color=colour)
        axes.set(xscale="log", yscale="log", title=f"{title}: error on the test rows",
                 xlabel="seconds to learn the training rows, one core")  # fmt: skip
        errors = [cell[2] for key, cell in found.items() if key.startswith(data)]
        axes.set_yticks([0.01, 0.02, 0.05, 0.1, 0.2])
        axes.set_ylim(0.85 * min(errors), 1.25 * max(errors))
        axes.set_xlim(right=axes.get_xlim()[1] * 4)  # room for names
        in_percent(axes.yaxis)
    handles = [plt.Line2D([], [], marker="o", ls="", color=c, label=n) for n, c in COLOURS.items()]
    plots[1].legend(handles=handles, frameon=False, loc="upper right", fontsize=8)
    tidy(*plots)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    results = measure_all()
    table(results)
    if len(sys.argv) > 1:
        draw(results, Path(sys.argv[1]) / "peers.png")

"""Speed as ratios, measured side by side in one run: absolute times move with the machine.

    make bench                  everything, a few minutes
    make bench ONLY="one row"   the benchmarks whose name contains this

What "bare" means: the matrix product of the points with the rows, and the kernel's map over the
block, in plain NumPy, in blocks of 256 rows (or one row). No learner with a kernel can do less.
Medians of several repetitions.
"""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from scipy import sparse

import kernelstream as ks

RESULTS = []


def report(name, figure, wanted=""):
    RESULTS.append((name, figure, wanted))
    print(f"{name:<64} {figure:>12}   {wanted}", flush=True)


def seconds(action, repeat=5):
    """Median wall time."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def mnist(n_rows):
    """MNIST as unit vectors in float32, or random rows of that shape where it is not there."""
    path = Path(os.environ.get("KERNELSTREAM_DATA", "")) / "mnist.npz"
    if path.exists():
        data = np.load(path)
        X, y = data["X_train"][:n_rows].astype(np.float32), data["y_train"][:n_rows]
    else:
        random = np.random.default_rng(0)
        centres = random.random((10, 784)).astype(np.float32)
        y = random.integers(0, 10, n_rows)
        X = centres[y] + random.normal(size=(n_rows, 784)).astype(np.float32)
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def clouds(n_rows, n_features, n_classes, dtype):
    """Overlapping classes, hard enough that a good share of the rows violates the margin."""
    random = np.random.default_rng(0)
    y = random.integers(0, n_classes, n_rows)
    centres = random.normal(size=(n_classes, n_features))
    X = 0.4 * centres[y] + random.normal(size=(n_rows, n_features))
    return X.astype(dtype), y


def bare_rbf(points, X, gamma, rows=256):
    """The product and the map, nothing else."""
    norms = (points * points).sum(axis=1)[:, None]
    for start in range(0, len(X), rows):
        block = X[start : start + rows]
        k = points @ block.T
        k *= 2 * gamma
        k -= gamma * norms
        k -= gamma * (block * block).sum(axis=1)
        np.exp(k, out=k)


def bare_poly(points, X, degree, rows=256):
    """The product and a power by repeated multiplication (degree 9)."""
    assert degree == 9
    for start in range(0, len(X), rows):
        k = points @ X[start : start + rows].T
        power = k * k
        power *= power
        power *= power
        power *= k


def full_model(preset, X, y, **params):
    """A model whose budget is full and that has seen X, so that only the steady state is timed."""
    model = ks.make(preset, "classifier", **params)
    random = np.random.default_rng(1)
    while not model.__sklearn_is_fitted__() or model.n_support_ < params["budget"]:
        noise = random.integers(0, y.max() + 1, len(y))
        model.partial_fit(X, noise, classes=np.unique(y))
    return model.partial_fit(X, y)


def tiles():
    for budget, n_features, n_rows in ((512, 256, 8192), (4096, 784, 4096)):
        for dtype in (np.float64, np.float32):
            X, y = clouds(n_rows, n_features, 10, dtype)
            gamma = 1 / n_features
            times = {}
            for preset in ("svmd", "norma"):
                model = full_model(preset, X, y, budget=budget, gamma=gamma)
                times[preset] = seconds(lambda m=model, X=X, y=y: m.partial_fit(X, y))
            points = model.support_vectors_
            bare = seconds(lambda p=points, X=X, g=gamma: bare_rbf(p, X, g))
            name = f"tiles, budget {budget}, {n_features} features, {np.dtype(dtype).name}"
            support = ks.prequential(model, X, y).losses > 0
            report(f"{name}: rows that violate the margin", f"{support.mean():.0%}")
            report(f"{name}: bare / svmd", f"{bare / times['svmd']:.2f}", "at least 0.6")
            report(f"{name}: svmd / norma", f"{times['svmd'] / times['norma']:.2f}", "at most 1.2")


def mnist_pass():
    X, y = mnist(60_000)
    times, errors = {}, {}
    kernel = ks.kernels.Polynomial(degree=9, gamma=1.0)
    steps = {"svmd": ks.step_sizes.SMD(1.0, 0.01, 0.99), "norma": ks.step_sizes.SqrtDecay(1.0, 100)}
    for preset, step_size in steps.items():
        params = {"kernel": kernel, "budget": 4096, "step_size": step_size}
        params["regularization"] = 1 / (500 * len(X))
        ks.prequential(ks.make(preset, "classifier", **params), X[:600], y[:600])
        model = ks.make(preset, "classifier", **params)
        start = time.perf_counter()
        errors[preset] = ks.prequential(model, X, y).error_rate
        times[preset] = time.perf_counter() - start
    points = model.support_vectors_
    bare = seconds(lambda: bare_poly(points, X, 9), repeat=3)
    report("60,000 MNIST rows, budget 4096, degree 9: seconds (svmd)", f"{times['svmd']:.1f}")
    report("  bare / svmd", f"{bare / times['svmd']:.2f}", "at least 0.5")
    report("  svmd / norma", f"{times['svmd'] / times['norma']:.2f}", "at most 1.3")
    report("  error, svmd and norma", f"{errors['svmd']:.1%} {errors['norma']:.1%}")


def one_row():
    for n_classes in (2, 10):
        X, y = clouds(6000, 64, n_classes, np.float64)
        model = full_model("svmd", X[:4000], y[:4000], budget=512, gamma=1 / 64)
        rows, labels = list(X[4000:]), y[4000:].tolist()
        points = model.support_vectors_
        norms = (points * points).sum(axis=1)

        def learn(model=model, rows=rows, labels=labels):
            for x, label in zip(rows, labels, strict=True):
                model.learn_one(x, label)

        def predict(model=model, rows=rows):
            for x in rows:
                model.predict_one(x)

        def bare(points=points, norms=norms, rows=rows):
            for x in rows:
                k = points @ x
                np.exp(-(norms + x @ x - 2 * k) / 64)

        base, n = seconds(bare), len(rows)
        name = f"one row, budget 512, 64 features, {n_classes} classes"
        report(f"{name}: learn_one / bare", f"{seconds(learn) / base:.2f}", "at most 3")
        report(f"{name}: predict_one / bare", f"{seconds(predict) / base:.2f}")
        report(f"{name}: learn_one, microseconds", f"{seconds(learn) / n * 1e6:.0f}")


def truncation():
    X, y = mnist(12_000)
    kernel = ks.kernels.Polynomial(degree=9, gamma=1.0)
    for decay in (1.0, 0.99):
        times = {}
        for exact in (False, True):

            def run(decay=decay, exact=exact):
                model = ks.KernelClassifier(
                    kernel, step_size=ks.step_sizes.SMD(1.0, 0.01, decay), regularization=1e-5,
                    budget=ks.budgets.OldestOut(2048, exact=exact),
                )  # fmt: skip
                return ks.prequential(model, X, y)

            result = run()
            times[exact] = seconds(run, repeat=3)
            label = f"truncation, decay {decay}, {'exact' if exact else 'not corrected'}"
            report(
                f"{label}: error, final eta", f"{result.error_rate:.1%} {result.step_sizes[-1]:.1e}"
            )
        report(f"truncation, decay {decay}: time exact / not", f"{times[True] / times[False]:.2f}")


def flat():
    X, y = clouds(10_000, 8, 3, np.float64)
    model = full_model("svmd", X, y, budget=128, gamma=1 / 8)
    first = seconds(lambda: model.partial_fit(X, y))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(90):
        model.partial_fit(X, y)
    last = seconds(lambda: model.partial_fit(X, y))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    report("flat: a row after 10^6 rows / a row at first", f"{last / first:.2f}", "about 1")
    report("flat: peak memory grown over 10^6 rows, MB", f"{grown / 1024:.1f}", "about 0")


def start():
    code = (
        "import numpy as np, kernelstream as ks;"
        "ks.KernelClassifier().partial_fit(np.eye(3), [0, 1, 0], classes=[0, 1])"
    )
    for name, program in (
        ("import kernelstream", "import kernelstream"),
        ("import the estimators", "from kernelstream import KernelClassifier"),
        ("a second process learns its first rows", code),
    ):
        call = [sys.executable, "-c", program]
        empty = seconds(lambda: subprocess.run([sys.executable, "-c", ""], check=True), 3)
        subprocess.run(call, check=True)
        took = seconds(lambda call=call: subprocess.run(call, check=True), 3)
        report(f"start: {name}, seconds beyond an empty process", f"{took - empty:.2f}")


def many_labels():
    random = np.random.default_rng(0)
    n_rows, n_features, times = 6000, 128, {}
    X = random.normal(size=(n_rows, n_features))
    for n_leaves in (50, 5000):
        width = round(n_leaves ** (1 / 3))
        tree = ks.label_kernels.Taxonomy.from_paths(
            [f"{k % width}/{k // width % width}/{k}" for k in range(n_leaves)]
        )
        y = np.array(tree.label_names())[random.integers(0, n_leaves, n_rows)]
        model = ks.KernelClassifier(label_structure=tree, budget=1024)
        model.partial_fit(X[:2000], y[:2000])
        times[n_leaves] = seconds(lambda m=model, y=y: m.partial_fit(X, y))
        rate = times[n_leaves] / n_rows * 1e6
        report(f"labels: {n_leaves} leaves, budget 1024, microseconds per row", f"{rate:.0f}")
    report("labels: 5,000 leaves / 50", f"{times[5000] / times[50]:.1f}", "at most 5")


def sparse_rows():
    random = np.random.default_rng(0)
    n_rows, n_words, times = 4000, 40, {}
    for n_features in (2**10, 2**20):
        columns = (n_features * random.random((n_rows, n_words)) ** 3).astype(int)
        y = columns.min(axis=1) % 10
        rows = np.repeat(np.arange(n_rows), n_words)
        X = sparse.csr_matrix(
            (np.ones(rows.size), (rows, columns.ravel())), shape=(n_rows, n_features)
        )
        for kind in ("sparse", "dense") if n_features == 2**10 else ("sparse",):
            given = X if kind == "sparse" else X.toarray()
            model = ks.KernelClassifier("linear", budget=1024).partial_fit(given, y)
            times[n_features, kind] = seconds(lambda m=model, g=given, y=y: m.partial_fit(g, y))
            rate = times[n_features, kind] / n_rows * 1e6
            report(
                f"sparse: 40 words of {n_features:,}, kept {kind}, microseconds per row",
                f"{rate:.0f}",
            )
    report(
        "sparse / dense, 1,024 features", f"{times[2**10, 'sparse'] / times[2**10, 'dense']:.1f}"
    )
    ratio = times[2**20, "sparse"] / times[2**10, "sparse"]
    report("sparse: a million features / a thousand", f"{ratio:.1f}", "about 1")


BENCHMARKS = {
    "tiles": tiles, "mnist pass": mnist_pass, "one row": one_row, "truncation": truncation,
    "flat": flat, "start": start, "labels": many_labels, "sparse": sparse_rows,
}  # fmt: skip

if __name__ == "__main__":
    only = " ".join(sys.argv[1:])
    for name, benchmark in BENCHMARKS.items():
        if only in name:
            benchmark()

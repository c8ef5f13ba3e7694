"""Speed as ratios, measured side by side in one run: absolute times move with the machine.

    make bench                  everything, a few minutes
    make bench ONLY="one row"   the benchmarks whose name contains this
    make bench INTO=docs/benchmarks.md    everything, and into the page of its figures

What "bare" means: the matrix product of the points with the rows, and the kernel's map over the
block, in plain NumPy, in blocks of 256 rows (or one row), on as many threads as suit it. No learner
with a kernel can do less.
Every figure is a median of five repetitions, in which what is compared takes turns. Thresholds are
aims; the last lines say which were missed. MNIST and USPS are read from $KERNELSTREAM_DATA; where
they are not there, rows are generated, and the figures say so.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial

import numpy as np
from report import (
    clouds,
    describe_machine,
    digits,
    medians,
    report,
    seconds,
    tell_which_fall_short,
    write_into,
)
from scipy import sparse
from threadpoolctl import threadpool_limits

import kernelstream as ks


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


def bare_ninth_power(points, X, rows=256):
    """The product and a power by repeated multiplication."""
    for start in range(0, len(X), rows):
        k = points @ X[start : start + rows].T
        power = k * k
        power *= power
        power *= power
        power *= k


def bare_actions(action):
    """The bare work with the threads that BLAS has, and with one: small products run best so."""

    def on_one_thread():
        with threadpool_limits(1):
            action()

    return {"bare": action, "bare, one thread": on_one_thread}


def full_model(preset, X, y, **params):
    """A model whose budget is full and that has seen X, so that only the steady state is timed."""
    model = ks.make(preset, "classifier", **params)
    random = np.random.default_rng(1)
    while not model.__sklearn_is_fitted__() or model.n_support_ < params["budget"]:
        noise = random.integers(0, y.max() + 1, len(y))
        model.partial_fit(X, noise, classes=np.unique(y))
    return model.partial_fit(X, y)


def tiles():
    sizes = ((128, 16, 8192, 0.5), (512, 256, 8192, 0.7), (4096, 784, 4096, 0.8))
    for budget, n_features, n_rows, wanted in sizes:
        for dtype in (np.float64, np.float32):
            X, y = clouds(n_rows, n_features, 10, dtype)
            params = {"budget": budget, "gamma": 1 / n_features}
            svmd, norma = (full_model(preset, X, y, **params) for preset in ("svmd", "norma"))
            points = svmd.support_vectors_
            took = medians({
                "svmd": lambda m=svmd, X=X, y=y: m.partial_fit(X, y),
                "norma": lambda m=norma, X=X, y=y: m.partial_fit(X, y),
                **bare_actions(lambda p=points, X=X, g=params["gamma"]: bare_rbf(p, X, g)),
            })  # fmt: skip
            bare = min(took["bare"], took["bare, one thread"])
            violating = np.mean(ks.prequential(svmd, X, y).losses > 0)
            name = f"tiles ({budget}, {n_features}), {np.dtype(dtype).name}"
            report(f"{name}: share of rows that violate the margin", violating)
            report(f"{name}: bare / svmd", bare / took["svmd"], at_least=wanted)
            report(f"{name}: svmd / norma", took["svmd"] / took["norma"], at_most=1.1)


def digits_pass():
    """One pass over all rows in ten blocks; in each, what is compared takes turns."""
    called, X, y = digits("mnist", 60_000)
    params = {
        "kernel": ks.kernels.Polynomial(degree=9, gamma=1.0), "budget": 4096,
        "regularization": 1 / (500 * len(X)),
    }  # fmt: skip
    steps = {"svmd": ks.step_sizes.SMD(1.0, 0.01, 0.99), "norma": ks.step_sizes.SqrtDecay(1.0, 100)}
    models = {name: ks.make(name, "classifier", step_size=s, **params) for name, s in steps.items()}
    for name, step_size in steps.items():
        ks.prequential(ks.make(name, "classifier", step_size=step_size, **params), X[:600], y[:600])
    times, errors = [], []
    for start in range(0, len(X), 6000):
        block, labels, took, wrong = X[start : start + 6000], y[start : start + 6000], {}, {}
        for name, model in models.items():
            begin = time.perf_counter()
            wrong[name] = ks.prequential(model, block, labels).error_rate
            took[name] = time.perf_counter() - begin
        points = models["svmd"].support_vectors_
        bare = bare_actions(lambda p=points, b=block: bare_ninth_power(p, b))
        took["bare"] = min(medians(bare, repeat=1).values())
        times.append(took)
        errors.append(wrong)
    name = f"60,000 rows ({called}), 4,096 points, degree 9"
    ratio = {
        key: np.median([took[above] / took[below] for took in times])
        for key, above, below in (("bare", "bare", "svmd"), ("norma", "svmd", "norma"))
    }
    report(f"{name}: seconds (svmd)", sum(took["svmd"] for took in times), digits=1)
    report(f"{name}: bare / svmd", ratio["bare"], at_least=0.8)
    report(f"{name}: svmd / norma", ratio["norma"], at_most=1.1)
    for preset in models:
        error = 100 * np.mean([wrong[preset] for wrong in errors])
        report(f"{name}: error of {preset}, percent", error, digits=1)


def rows_one_by_one(model, X, y):
    """Two actions: to learn these rows, and to predict them."""
    rows, labels = list(X), y.tolist()

    def learn():
        for x, label in zip(rows, labels, strict=True):
            model.learn_one(x, label)

    def predict():
        for x in rows:
            model.predict_one(x)

    return {"learn_one": learn, "predict_one": predict}


def one_row():
    for n_classes in (2, 10):
        X, y = clouds(5000, 64, n_classes)
        model = full_model("svmd", X[:4000], y[:4000], budget=512, gamma=1 / 64)
        points = model.support_vectors_
        norms = (points * points).sum(axis=1)

        def bare(points=points, norms=norms, rows=tuple(X[4000:])):
            for x in rows:
                k = points @ x
                np.exp(-(norms + x @ x - 2 * k) / 64)

        took = medians({"bare": bare, **rows_one_by_one(model, X[4000:], y[4000:])})
        for call in ("learn_one", "predict_one"):
            name = f"one row (512, 64), {n_classes} classes: {call}"
            report(f"{name} / bare", took[call] / took["bare"], at_most=2)
            report(f"{name}, microseconds", took[call] / 1000 * 1e6, digits=1)
    X, y = clouds(5000, 16, 2)
    for scaling in (None, "running"):
        model = full_model("svmd", X[:4000], y[:4000], budget=64, gamma=1 / 16, scaling=scaling)
        took = medians(rows_one_by_one(model, X[4000:], y[4000:]))
        for call in ("learn_one", "predict_one"):
            name = f"one row (64, 16), scaling {scaling}: {call}, microseconds"
            report(name, took[call] / 1000 * 1e6, at_most=None if scaling else 10, digits=1)
    one_row_of_a_committee()


def one_row_of_a_committee():
    X, labels = clouds(3000, 10, 2)
    numbers = X[:, 0] + np.sin(X[:, 1]) + labels
    for model, y, known in (
        (ks.AutoClassifier(), labels, {"classes": [0, 1]}), (ks.AutoRegressor(), numbers, {}),
    ):  # fmt: skip
        model.partial_fit(X[:2000], y[:2000], **known)
        took = medians({
            "blocks": lambda m=model, y=y: m.partial_fit(X[2500:], y[2500:]),
            **rows_one_by_one(model, X[2000:2500], y[2000:2500]),
        })  # fmt: skip
        name = f"one row, {type(model).__name__}"
        for call in ("learn_one", "predict_one"):
            report(f"{name}: {call}, microseconds", took[call] / 500 * 1e6, digits=0)
        both = took["learn_one"] + took["predict_one"]
        ratio = took["learn_one"] / took["blocks"]
        report(f"{name}: learn_one / per row in blocks", ratio, at_most=1.5)
        report(f"{name}: predict_one and learn_one / per row in blocks", both / took["blocks"])


def small_blocks():
    X, y = clouds(6000, 16, 2)
    model = full_model("svmd", X[:4000], y[:4000], budget=64, gamma=1 / 16)
    for n_rows, most in ((1, 60), (32, 3)):

        def learn(n_rows=n_rows):
            for start in range(4000, 4960, n_rows):
                model.partial_fit(X[start : start + n_rows], y[start : start + n_rows])

        per_row = seconds(learn) / 960 * 1e6
        name = f"small blocks (64, 16): partial_fit of {n_rows} rows, microseconds per row"
        report(name, per_row, at_most=most, digits=1)


def cores():
    """Threads must not stand in each other's way. Two are compared with one, and so on."""
    X, y = clouds(20_000, 20, 3)
    random, sizes = np.random.default_rng(0), (5000, 50_000)
    fleets = {
        n: ks.Fleet("silk", "novelty", n_models=n, n_features=3, gamma=0.5, budget=20)
        for n in sizes
    }
    readings = {n: random.normal(size=(n, 3)) for n in sizes}
    model = full_model("svmd", X[:4000], y[:4000], budget=1024, gamma=1 / 20)
    counts = [n for n in (1, 2, 4, 8, 16) if n <= (os.cpu_count() or 1)]
    committees = {n: ks.AutoClassifier(n_jobs=n).partial_fit(X[:3000], y[:3000]) for n in counts}

    def learn_committee(n):
        committees[n].partial_fit(X[3000:5000], y[3000:5000])

    def learn_fleet(size, n):
        fleets[size].n_jobs = n
        for _ in range(100_000 // size):
            fleets[size].learn(readings[size])

    def predict(n):
        with threadpool_limits(n):
            model.predict(X)

    works = {
        "a committee learns": learn_committee,
        **{f"a fleet of {size:,} learns": partial(learn_fleet, size) for size in sizes},
        "predict, 1,024 points": predict,
    }
    for name, work in works.items():
        work(1)
        took = medians({n: lambda n=n, work=work: work(n) for n in counts})
        least = None if name == f"a fleet of {sizes[0]:,} learns" else 1  # that one is not shared
        for n in counts[1:]:
            report(f"cores: {name}, speed on {n} threads / on 1", took[1] / took[n], at_least=least)


def budgets():
    """Budgets and averages beside the plain ring, at the same number of points."""
    called, X, y = digits("usps", 3000)
    X = X.astype(np.float64)

    def model_by(name):
        if name == "LeastLoss":
            return ks.make("svmd", "classifier", gamma=1.0, budget=ks.budgets.LeastLoss(256))
        return ks.make(name, "classifier", gamma=1.0, budget=256 if name == "svmd" else None)

    names = ("svmd", "LeastLoss", "perceptron", "averaged-perceptron", "voted-perceptron")
    actions = {n: lambda n=n: ks.prequential(model_by(n), X, y) for n in names}
    for action in actions.values():
        action()
    took = medians(actions)
    report(f"budgets ({called}): LeastLoss(256) / OldestOut(256)", took["LeastLoss"] / took["svmd"])
    for name in names[3:]:
        report(f"budgets ({called}): {name}, seconds", took[name])
        report(f"budgets ({called}): {name} / perceptron", took[name] / took["perceptron"])


def truncation():
    called, X, y = digits("mnist", 12_000)
    kernel = ks.kernels.Polynomial(degree=9, gamma=1.0)
    for decay in (1.0, 0.99):

        def run(exact, decay=decay):
            model = ks.KernelClassifier(
                kernel, step_size=ks.step_sizes.SMD(1.0, 0.01, decay), regularization=1e-5,
                budget=ks.budgets.OldestOut(2048, exact=exact),
            )  # fmt: skip
            return ks.prequential(model, X, y)

        name = f"truncation ({called}), decay {decay}"
        for exact, how in ((False, "not corrected"), (True, "exact")):
            report(f"{name}, {how}: error, percent", 100 * run(exact).error_rate, digits=1)
        took = medians({exact: lambda e=exact, run=run: run(e) for exact in (False, True)})
        report(f"{name}: time exact / not corrected", took[True] / took[False])


def flat():
    X, y = clouds(10_000, 8, 3)
    model = full_model("svmd", X, y, budget=128, gamma=1 / 8)
    first = seconds(lambda: model.partial_fit(X, y))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(90):
        model.partial_fit(X, y)
    last = seconds(lambda: model.partial_fit(X, y))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    report("flat: a row after 10^6 rows / a row at first", last / first, at_most=1.2)
    report("flat: peak memory grown over 10^6 rows, MB", grown / 1024, at_most=5, digits=1)


FIRST_CALLS = """
import sys, time; begin = time.perf_counter()
import numpy as np, kernelstream as ks
X = np.random.default_rng(0).normal(size=(50, 3))
for name in sys.argv[1:]:
    targets = () if name == "AutoDetector" else ((X[:, 0] > 0).astype(int),)
    getattr(ks, name)().partial_fit(X, *targets).predict(X)
    print(time.perf_counter() - begin); begin = time.perf_counter()
"""


def first_calls(names, cache, bytecode):
    """Seconds until a new process has its first prediction of each; imports are in the first."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FIRST_CALLS, *names], env=environment, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    return [float(line) for line in run.stdout.split()]


def start():
    empty = seconds(lambda: subprocess.run([sys.executable, "-c", ""], check=True))
    took = seconds(
        lambda: subprocess.run([sys.executable, "-c", "import kernelstream"], check=True)
    )
    report("start: import kernelstream, seconds", took - empty)
    first_of_parts("KernelClassifier", "KernelRegressor", at_most=(3, 1))
    for name in ("AutoClassifier", "AutoRegressor", "AutoDetector"):
        first_of_parts(name, repeat=3)


def first_of_parts(*names, at_most=(None,), repeat=5):
    """Tell how long the first predictions of a program take, without and with what is kept."""
    taken = {"never ran": [], "ran before": []}
    with tempfile.TemporaryDirectory() as bytecode:
        # Whoever installs a package has its bytecode, which a checkout of the source need not have:
        # the first process writes it, and does not count.
        for _ in range(1 + repeat):
            with tempfile.TemporaryDirectory() as cache:
                for times in taken.values():
                    times.append(first_calls(names, cache, bytecode))
    for when, times in taken.items():
        limits = at_most if when == "never ran" else len(names) * (None,)
        for name, median, limit in zip(names, np.median(times[1:], axis=0), limits, strict=True):
            then = "" if name == names[0] else "then "
            title = f"start: on a machine where it {when}, {then}{name}, seconds"
            report(title, median, at_most=limit)


def many_labels():
    random = np.random.default_rng(0)
    n_rows, n_features, actions = 4000, 128, {}
    X = random.normal(size=(n_rows, n_features))
    for n_leaves in (50, 5000):
        width = round(n_leaves ** (1 / 3))
        tree = ks.label_kernels.Taxonomy.from_paths(
            [f"{k % width}/{k // width % width}/{k}" for k in range(n_leaves)]
        )
        y = np.array(tree.label_names())[random.integers(0, n_leaves, n_rows)]
        model = ks.KernelClassifier(label_structure=tree, budget=1024)
        model.partial_fit(X[:2000], y[:2000])
        actions[n_leaves] = lambda m=model, y=y: m.partial_fit(X, y)
    took = medians(actions)
    for n_leaves, taken in took.items():
        name = f"labels: {n_leaves} leaves, 1,024 points, microseconds per row"
        report(name, taken / n_rows * 1e6, digits=0)
    report("labels: 5,000 leaves / 50", took[5000] / took[50], at_most=5)


def sparse_rows():
    random = np.random.default_rng(0)
    n_rows, n_words, actions = 4000, 40, {}
    y = random.integers(0, 10, n_rows)  # noise, so that all models have as much to correct
    for n_features in (2**10, 2**20):
        columns = (n_features * random.random((n_rows, n_words)) ** 3).astype(int)
        rows = np.repeat(np.arange(n_rows), n_words)
        shape = (n_rows, n_features)
        X = sparse.csr_matrix((np.ones(rows.size), (rows, columns.ravel())), shape=shape)
        given = {"sparse": X, "dense": X.toarray()} if n_features == 2**10 else {"sparse": X}
        for kind, data in given.items():
            model = ks.KernelClassifier("linear", budget=1024).partial_fit(data, y)
            actions[n_features, kind] = lambda m=model, d=data, y=y: m.partial_fit(d, y)
    took = medians(actions)
    for (n_features, kind), taken in took.items():
        name = f"sparse: 40 words of {n_features:,}, kept {kind}, microseconds per row"
        report(name, taken / n_rows * 1e6, digits=0)
    report("sparse / dense, 1,024 features", took[2**10, "sparse"] / took[2**10, "dense"])
    ratio = took[2**20, "sparse"] / took[2**10, "sparse"]
    report("sparse: a million features / a thousand", ratio, at_most=1.5)


BENCHMARKS = {
    "tiles": tiles, "digits pass": digits_pass, "one row": one_row, "small blocks": small_blocks,
    "cores": cores, "budgets": budgets, "truncation": truncation, "flat": flat, "start": start,
    "labels": many_labels, "sparse": sparse_rows,
}  # fmt: skip

if __name__ == "__main__":
    only = " ".join(sys.argv[1:])
    describe_machine()
    for name, benchmark in BENCHMARKS.items():
        if only in name:
            benchmark()
    tell_which_fall_short()
    if into := os.environ.get("INTO"):
        write_into(into)

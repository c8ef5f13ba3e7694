"""One exact pass on a device beside the same pass on the host: times, agreement, crossover.

    python benchmarks/gpu.py --device cuda
    python benchmarks/gpu.py --device cpu --rows 3000        # the same lines, without a GPU

Reads MNIST from $KERNELSTREAM_DATA; random rows of its shape where it is not there.
"""

import argparse
import cProfile
import os
import platform
import pstats
import time

import numpy as np
from report import digits
from threadpoolctl import threadpool_limits

import kernelstream as ks
from kernelstream import stores
from kernelstream.stores import Device, as_device


def new_model(n_rows, budget, device=None, **params):
    return ks.make(
        "svmd", "classifier", kernel=ks.kernels.Polynomial(degree=9, gamma=1.0), budget=budget,
        step_size=ks.step_sizes.SMD(1.0, 0.01, 0.99), regularization=1 / (500 * n_rows),
        device=device, **params,
    )  # fmt: skip


def narrow(n_rows):
    """Overlapping classes of rows with 20 features."""
    random = np.random.default_rng(0)
    y = random.integers(0, 5, n_rows)
    X = 0.6 * random.normal(size=(5, 20))[y] + random.normal(size=(n_rows, 20))
    return X.astype(np.float32), y


def small_model(n_rows, budget, device=None):
    return ks.KernelClassifier(gamma=0.05, budget=budget, device=device)


def timed_pass(X, y, budget, device=None, repeat=3, make=new_model):
    """The model after a pass, and the shortest and the median time of `repeat` passes."""
    classes, times = np.unique(y), []
    for _ in range(repeat):
        model = make(len(X), budget, device)
        start = time.perf_counter()
        model.partial_fit(X, y, classes)
        if device is not None:
            as_device(device).open().wait()
        times.append(time.perf_counter() - start)
    return model, min(times), float(np.median(times))


def warm_up(X, y, budgets, devices):
    for budget in budgets:
        for device in devices:
            model = new_model(len(X), budget, device)
            model.partial_fit(X[:2500], y[:2500], np.unique(y))
            ks.prequential(model, X[:2500], y[:2500])


def report(name, *numbers):
    print(f"{name:64s}", *numbers, flush=True)


def passes(X, y, device):
    """The pass that is asked for, with rows on the host and on the device."""
    on_device = device.open().to_device(X, np.dtype("float32"))
    for budget in (4096, None):
        host, *_ = timed_pass(X, y, budget, None, repeat=1)
        name = f"{len(X):,} digits, {'unbounded' if budget is None else budget} points"
        for what, rows in (("host", X), ("device", on_device)):
            model, best, median = timed_pass(rows, y, budget, device, repeat=5)
            report(f"{name}, rows on the {what}: seconds, best and median",
                   f"{best:.3f}", f"{median:.3f}", f"({model.n_support_} points)")  # fmt: skip
        _, best, median = timed_pass(X, y, budget, None, repeat=2)
        report(f"{name}, {os.cpu_count()} cores of the host: seconds", f"{best:.3f}",
               f"{median:.3f}", f"({host.n_support_} points)")  # fmt: skip
        start = time.perf_counter()
        result = ks.prequential(new_model(len(X), budget, device), on_device, y)
        took = time.perf_counter() - start
        expected = ks.prequential(new_model(len(X), budget), X, y)
        report(f"{name}, prequential: seconds, error here and on the host", f"{took:.3f}",
               f"{result.error_rate:.3%}", f"{expected.error_rate:.3%}")  # fmt: skip


def agreement(X, y, device):
    """How far scores are apart after a pass, by the largest score."""
    X, y = X[:20_000], y[:20_000]
    for dtype in ("float32", "float64"):
        there = Device(device.name, dtype, device.library)
        rows = X.astype(dtype)
        for budget in (4096, None):
            one = new_model(len(X), budget).partial_fit(rows, y, np.unique(y))
            other = new_model(len(X), budget, there).partial_fit(rows, y, np.unique(y))
            expected, found = (m.decision_function(rows[:5000]) for m in (one, other))
            name = "unbounded" if budget is None else f"{budget} points"
            report(f"agreement, {dtype}, {name}, {len(X):,} rows",
                   f"{apart(found, expected):.1e}")  # fmt: skip


def crossover(X, y, device):
    """From how many points on the device is faster, with long rows and with short ones."""
    for (rows, labels), make in (((X, y), new_model), (narrow(len(X)), small_model)):
        on_device = device.open().to_device(rows, np.dtype("float32"))
        report(f"{rows.shape[1]} features: seconds on the device, on the host, times faster")
        for budget in (256, 512, 1024, 2048, 4096, 8192, 16384):
            _, there, _ = timed_pass(on_device, labels, budget, device, 2, make)
            _, here, _ = timed_pass(rows, labels, budget, None, 2, make)
            report(f"  {budget} points", f"{there:.3f}", f"{here:.3f}", f"{here / there:.1f}")


def second_order(X, y, device):
    """Machines of the second order, whose dictionaries are full: seconds for 2,048 rows.

    With matrices over pairs of points on the device, and with all on the host, where more threads
    of BLAS than four or eight only stand in each other's way.
    """
    float64 = Device(device.name, "float64", device.library)
    first = stores.device._MANY_PAIRS  # noqa: SLF001 (what is decided by these figures)
    stores.device._MANY_PAIRS = 1  # noqa: SLF001
    report("second order: seconds there, here, times faster; apart in float32 and in float64")
    for size in (128, 256, 512, 1024, 2048, 4096):
        there, found = timed_dictionary(X, y, size, device)
        here = []
        for n_threads in (4, 8) if size < 4096 else (8,):
            with threadpool_limits(n_threads):
                took, expected = timed_dictionary(X, y, size)
                here.append(took)
        numbers = [f"{there:.3f}", f"{min(here):.3f}", f"{min(here) / there:.1f}"]
        numbers.append(f"{apart(found, expected):.1e}")
        if size <= 1024:
            rows = X.astype(np.float64)
            with threadpool_limits(4):
                _, expected = timed_dictionary(rows, y, size)
            numbers.append(f"{apart(timed_dictionary(rows, y, size, float64)[1], expected):.1e}")
        report(f"  {size} points", *numbers)
    stores.device._MANY_PAIRS = first  # noqa: SLF001


def timed_dictionary(X, y, size, device=None):
    """How long 2,048 rows take when the dictionary is full, and scores of other rows."""
    model = ks.make(
        "sog-svc", "classifier", gamma=1.0, device=device, budget=ks.budgets.Independent(1e-3, size)
    )
    start, stop = size + 512, size + 2560
    model.partial_fit(X[:start], y[:start], np.unique(y))
    began = time.perf_counter()
    model.partial_fit(X[start:stop], y[start:stop])
    took = time.perf_counter() - began
    assert model.n_support_ >= size
    return took, model.decision_function(X[-2000:])


def apart(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


def predictions(X, y, device):
    on_device = device.open().to_device(X[:10_000], np.dtype("float32"))
    for where, rows in ((device, on_device), (device, X[:10_000]), (None, X[:10_000])):
        model = new_model(len(X), 4096, where).partial_fit(X[:30_000], y[:30_000], np.unique(y))
        model.predict(rows)
        start = time.perf_counter()
        model.predict(rows)
        report(f"predict 10,000 digits, {model.n_support_} points, {where}: seconds",
               f"{time.perf_counter() - start:.4f}")  # fmt: skip


def profile(X, y, device):
    """Where the time goes."""
    on_device = device.open().to_device(X, np.dtype("float32"))
    for budget in (4096, None):
        model, profiler = new_model(len(X), budget, device), cProfile.Profile()
        profiler.runcall(model.partial_fit, on_device, y, np.unique(y))
        pstats.Stats(profiler).sort_stats("tottime").print_stats(22)


SECTIONS = {
    "passes": passes, "agreement": agreement, "crossover": crossover, "predictions": predictions,
    "second_order": second_order, "profile": profile,
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--library", default=None)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("only", nargs="*", default=[*SECTIONS], metavar="section")
    args = parser.parse_args()
    device = Device(args.device, library=args.library)
    called, X, y = digits("mnist", args.rows)
    print(called)
    report(f"{platform.processor() or platform.machine()}, {type(device.open()).__name__}")
    start = time.perf_counter()
    warm_up(X, y, (256, None), (None, device))
    report("compiling and warming up: seconds", f"{time.perf_counter() - start:.1f}")
    for name in args.only:
        SECTIONS[name](X, y, device)


if __name__ == "__main__":
    main()

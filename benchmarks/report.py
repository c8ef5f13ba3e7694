"""What the benchmarks share: the machine, its data, medians, and figures with their thresholds."""

import os
import platform
import time
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_info

import kernelstream as ks


class Figure(NamedTuple):
    """One number, and what it should be; without a threshold it is only told."""

    name: str
    value: float
    wanted: str
    holds: bool


FIGURES: list[Figure] = []
LINES: list[str] = []


def say(line):
    """Print a line, and keep it for `write_into`."""
    LINES.append(line.rstrip())
    print(line, flush=True)


def write_into(path):
    """Put all that was said into the block of a page that a comment marks."""
    page = Path(path)
    before, mark, after = page.read_text().partition("<!-- made by make bench -->\n")
    if not mark:
        raise SystemExit(f"{path} has no line <!-- made by make bench -->.")
    rest = after.split("```\n", 1)[1] if after.startswith("```text\n") else after
    page.write_text(f"{before}{mark}```text\n{chr(10).join(LINES)}\n```\n{rest}")


def report(name, value, at_least=None, at_most=None, digits=2):
    """Print a number beside its threshold, and remember it for the end."""
    wanted, holds = "", True
    if at_least is not None:
        wanted, holds = f"at least {at_least:g}", value >= at_least
    if at_most is not None:
        wanted, holds = f"at most {at_most:g}", value <= at_most
    FIGURES.append(Figure(name, value, wanted, holds))
    remark = "" if holds else "  SHORT"
    say(f"{name:<72} {value:>10.{digits}f}  {wanted}{remark}")


def tell_which_fall_short():
    """The last lines of a run: which thresholds were not reached."""
    with_threshold = [figure for figure in FIGURES if figure.wanted]
    short = [figure for figure in with_threshold if not figure.holds]
    say("")
    say(f"{len(with_threshold) - len(short)} of {len(with_threshold)} thresholds are reached.")
    for figure in short:
        say(f"  short: {figure.name}: {figure.value:.2f}, wanted {figure.wanted}")


def medians(actions, repeat=5):
    """The median wall time of each action. They take turns, so that a busy moment hits all."""
    times = {name: [] for name in actions}
    for _ in range(repeat):
        for name, action in actions.items():
            start = time.perf_counter()
            action()
            times[name].append(time.perf_counter() - start)
    return {name: float(np.median(taken)) for name, taken in times.items()}


def seconds(action, repeat=5):
    """The median wall time of one action."""
    return medians({"": action}, repeat)[""]


def cpu_name():
    """The processor as the system names it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def gigaflops():
    """Of a product of two matrices of 1,024 rows and columns in float64: how fast BLAS is here."""
    A = np.ones((1024, 1024))
    return 2 * 1024**3 / seconds(lambda: A @ A) / 1e9


def describe_machine():
    """The lines that docs/benchmarks.md shows above its figures."""
    blas = {
        f"{pool['internal_api']} with {pool['num_threads']} threads" for pool in threadpool_info()
    }
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    versions = {
        "Python": platform.python_version(), "NumPy": np.__version__, "SciPy": scipy.__version__,
        "Numba": numba.__version__, "scikit-learn": sklearn.__version__,
        "kernelstream": ks.__version__,
    }  # fmt: skip
    say(f"machine: {cpu_name()}, {os.cpu_count()} cores{load}, {platform.system()}")
    say(f"BLAS: {', '.join(sorted(blas))}; a product of matrices {gigaflops():.0f} GFLOP/s")
    say("versions: " + ", ".join(f"{name} {version}" for name, version in versions.items()))
    say(f"data: {'MNIST and USPS' if data_folder() else 'generated rows, no $KERNELSTREAM_DATA'}")
    say("")


def data_folder():
    folder = os.environ.get("KERNELSTREAM_DATA", "")
    return folder if folder and Path(folder).is_dir() else None


def digits(name, n_rows):
    """What the rows are, and the first of MNIST or USPS, as unit vectors in float32.

    Where the data is not there, rows of the same shape are generated, and are called so.
    """
    full, n_features = {"mnist": ("MNIST", 784), "usps": ("USPS", 256)}[name]
    path = Path(data_folder() or "") / f"{name}.npz"
    if path.exists():
        data = np.load(path)
        called, X, y = full, data["X_train"][:n_rows].astype(np.float32), data["y_train"][:n_rows]
    else:
        random = np.random.default_rng(0)
        centres = random.random((10, n_features)).astype(np.float32)
        y = random.integers(0, 10, n_rows)
        X = centres[y] + random.normal(size=(n_rows, n_features)).astype(np.float32)
        called = f"generated rows of the shape of {full}"
    return called, X / np.linalg.norm(X, axis=1, keepdims=True), y


def clouds(n_rows, n_features, n_classes, dtype=np.float64):
    """Overlapping classes of generated rows, many of which violate the margin."""
    random = np.random.default_rng(0)
    y = random.integers(0, n_classes, n_rows)
    centres = random.normal(size=(n_classes, n_features))
    X = 0.4 * centres[y] + random.normal(size=(n_rows, n_features))
    return X.astype(dtype), y

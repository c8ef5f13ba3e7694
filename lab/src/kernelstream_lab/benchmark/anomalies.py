"""Streams with anomalies, 1 in y. Each function takes a random generator and the number of rows."""

import numpy as np
from sklearn.datasets import load_digits

from kernelstream_lab.benchmark.shapes import in_odd_units, moving, river_table

__all__ = [
    "clusters", "correlated", "drifting_clusters", "ring", "shuttle", "sine", "strange_digits",
    "strange_segments", "subspace", "units",
]  # fmt: skip

_Random = np.random.Generator
_Pair = tuple[np.ndarray, np.ndarray]


def _some(random: _Random, n: int, share: float = 0.02) -> np.ndarray:
    """Return which rows are anomalies."""
    return random.random(n) < share


def _mixed(random: _Random, X: np.ndarray, familiar: np.ndarray, strange: np.ndarray, n: int,
           share: float) -> _Pair:  # fmt: skip
    """Return n rows in random order: familiar ones, and a share of strange ones."""
    n_strange = round(share * n)
    rows = np.concatenate([
        random.permutation(np.flatnonzero(familiar))[: n - n_strange],
        random.permutation(np.flatnonzero(strange))[:n_strange],
    ])  # fmt: skip
    rows = random.permutation(rows)
    return X[rows], strange[rows].astype(int)


def shuttle(random: _Random, n: int) -> _Pair:
    """Return the first rows of River's shuttle; about 7 % are anomalies."""
    X, y = river_table("Shuttle")
    return X[:n], y[:n].astype(int)


def strange_digits(random: _Random, n: int) -> _Pair:
    """Return digits from 0 to 6; the anomalies, one in twenty, are 7, 8 or 9."""
    digits = load_digits()
    strange = digits.target > 6
    return _mixed(random, digits.data, ~strange, strange, n, 0.05)


def strange_segments(random: _Random, n: int) -> _Pair:
    """Return segments of brick, foliage, cement and window; the anomalies are sky or grass."""
    X, names = river_table("ImageSegments")
    familiar = np.isin(names, ["brickface", "foliage", "cement", "window"])
    return _mixed(random, X, familiar, np.isin(names, ["sky", "grass"]), n, 0.03)


def ring(random: _Random, n: int) -> _Pair:
    """Return a ring in the plane and three features of noise; anomalies are in its middle."""
    strange, angle = _some(random, n), random.uniform(0, 2 * np.pi, n)
    radius = np.where(strange, random.uniform(0, 1.5, n), 3 + 0.3 * random.standard_normal(n))
    plane = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.concatenate([plane, random.standard_normal((n, 3))], axis=1), strange.astype(int)


def correlated(random: _Random, n: int) -> _Pair:
    """Return ten features that follow three factors; in anomalies each has its own factors."""
    strange, loads = _some(random, n), random.standard_normal((3, 10))
    X = random.standard_normal((n, 3)) @ loads
    alone = random.standard_normal((n, 10)) * np.linalg.norm(loads, axis=0)
    X = np.where(strange[:, None], alone, X) + 0.2 * random.standard_normal((n, 10))
    return X, strange.astype(int)


def subspace(random: _Random, n: int) -> _Pair:
    """Return twenty features of Student's t(5); in anomalies two of them are larger by 4."""
    strange = _some(random, n)
    X = random.standard_t(5, (n, 20))
    for row in np.flatnonzero(strange):
        X[row, random.permutation(20)[:2]] += random.choice([-4.0, 4.0], 2)
    return X, strange.astype(int)


def sine(random: _Random, n: int) -> _Pair:
    """Return eight values of a noisy wave; in anomalies the second half is out of phase."""
    strange, width = _some(random, n), 8
    moment = 0.3 * np.arange(n)[:, None] + 0.3 * np.arange(width)
    jump = np.where(strange, random.uniform(1.5, 4.5, n), 0.0)[:, None] * (np.arange(width) >= 4)
    return np.sin(moment + jump) + 0.1 * random.standard_normal((n, width)), strange.astype(int)


def clusters(random: _Random, n: int) -> _Pair:
    """Return eight clouds in six dimensions; anomalies are uniform in the box around them."""
    strange, centres = _some(random, n), random.uniform(-4, 4, (8, 6))
    widths = random.uniform(0.3, 0.8, 8)
    which = random.integers(8, size=n)
    X = centres[which] + widths[which, None] * random.standard_normal((n, 6))
    return np.where(strange[:, None], random.uniform(-4, 4, (n, 6)), X), strange.astype(int)


def drifting_clusters(random: _Random, n: int) -> _Pair:
    """Return four moving clouds in five dimensions; anomalies are uniform in the unit box."""
    strange, which = _some(random, n), random.integers(4, size=n)
    where = moving(random, random.random((4, 5)), 0.0003, n)
    X = where(which) + 0.05 * random.standard_normal((n, 5))
    return np.where(strange[:, None], random.random((n, 5)), X), strange.astype(int)


def units(random: _Random, n: int) -> _Pair:
    """Return ten correlated features in odd units; in anomalies one is off by four deviations."""
    strange = _some(random, n)
    X = random.standard_normal((n, 10)) + random.standard_normal((n, 1))
    rows = np.flatnonzero(strange)
    X[rows, random.integers(10, size=len(rows))] += random.choice([-4.0, 4.0], len(rows)) * 2**0.5
    return in_odd_units(random, X), strange.astype(int)

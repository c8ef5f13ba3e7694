"""Streams with labels. Each function takes a random generator and the number of rows."""

import numpy as np
from sklearn.datasets import load_digits

from kernelstream.streams import counting
from kernelstream_lab.benchmark.shapes import (
    in_odd_units,
    leaf_of,
    moving,
    river_table,
    with_outliers,
)

__all__ = [
    "agrawal", "bananas", "checkerboard", "digits_counting", "digits_switching", "hyperplane",
    "image_segments", "late_labels", "led", "new_classes", "outliers", "phishing", "random_tree",
    "rbf_drift", "sea", "units", "waveform", "yeast",
]  # fmt: skip

_Random = np.random.Generator
_Pair = tuple[np.ndarray, np.ndarray]


def digits_counting(random: _Random, n: int) -> _Pair:
    """Return digits in the order of a counter that runs from 00 to 99, eight times."""
    digits = load_digits()
    order = random.permutation(len(digits.target))
    X, y = counting(digits.data[order], digits.target[order], n_digits=2, n_passes=n // 200)
    return X, y


def digits_switching(random: _Random, n: int) -> _Pair:
    """Return digits 0 and 1, then 2 and 3, and so on: the two labels change their meaning."""
    digits = load_digits()
    order = random.permutation(len(digits.target))[:n]
    order = order[np.argsort(digits.target[order] // 2, kind="stable")]
    return digits.data[order], digits.target[order] % 2


def bananas(random: _Random, n: int) -> _Pair:
    """Return River's bananas."""
    X, y = river_table("Bananas")
    return X[:n], y[:n].astype(int)


def image_segments(random: _Random, n: int) -> _Pair:
    """Return River's image segments, in the order of the file."""
    X, names = river_table("ImageSegments")
    return X[:n], np.unique(names, return_inverse=True)[1][:n]


def phishing(random: _Random, n: int) -> _Pair:
    """Return River's phishing."""
    X, y = river_table("Phishing")
    return X[:n], y[:n].astype(int)


def yeast(random: _Random, n: int) -> _Pair:
    """Return River's yeast with its second label, which 4 genes in 10 have."""
    X, y = river_table("Yeast", ["Class2"])
    return X[:n], y[:n, 0].astype(int)


def sea(random: _Random, n: int) -> _Pair:
    """Return SEA (Street and Kim 2001): four thresholds one after another, 10 % wrong labels."""
    X = random.uniform(0, 10, (n, 3))
    threshold = np.array([8.0, 9.0, 7.0, 9.5])[4 * np.arange(n) // n]
    return X, _flipped(random, X[:, 0] + X[:, 1] <= threshold, 0.1)


def agrawal(random: _Random, n: int) -> _Pair:
    """Return loans by three functions of Agrawal and others (1993), one after another."""
    salary = random.uniform(20e3, 150e3, n)
    commission = np.where(salary >= 75e3, 0.0, random.uniform(10e3, 75e3, n))
    age = random.integers(20, 81, n)
    education, car = random.integers(0, 5, n), random.integers(1, 21, n)
    zipcode, years = random.integers(0, 9, n), random.integers(1, 31, n)
    house = (9 - zipcode) * 1e5 * random.uniform(0.5, 1.5, n)
    loan = random.uniform(0, 500e3, n)
    X = np.stack([salary, commission, age, education, car, zipcode, house, years, loan], axis=1)
    by_age = (age < 40) | (age >= 60)
    low = np.where(age < 40, 50e3, np.where(age < 60, 75e3, 25e3))
    by_salary = (salary >= low) & (salary <= low + 50e3)
    by_income = 0.67 * (salary + commission) - 0.2 * loan - 20e3 > 0
    concept = 3 * np.arange(n) // n
    return X, _flipped(random, np.choose(concept, [by_age, by_salary, by_income]), 0.05)


def hyperplane(random: _Random, n: int) -> _Pair:
    """Return a hyperplane of drifting weights (Hulten and others 2001), 5 % wrong labels."""
    X = random.random((n, 10))
    direction = np.cumprod(np.where(random.random((n, 10)) < 0.002, -1, 1), axis=0)
    weights = random.random(10) + np.cumsum(0.001 * direction, axis=0)
    return X, _flipped(random, (weights * (X - 0.5)).sum(axis=1) > 0, 0.05)


def rbf_drift(random: _Random, n: int, speed: float = 0.0005, n_classes: int = 5) -> _Pair:
    """Return fifty Gaussian clouds in ten dimensions; their centres move and bounce off walls."""
    n_centres, d = 50, 10
    labels = random.integers(n_classes, size=n_centres)
    widths, shares = random.uniform(0, 0.2, n_centres), random.random(n_centres)
    where = moving(random, random.random((n_centres, d)), speed, n)
    which = random.choice(n_centres, n, p=shares / shares.sum())
    direction = random.standard_normal((n, d))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    length = widths[which] * random.standard_normal(n) * 2
    return where(which) + length[:, None] * direction, labels[which]


def late_labels(random: _Random, n: int) -> _Pair:
    """Return the same clouds with three classes and half the speed."""
    return rbf_drift(random, n, speed=0.00025, n_classes=3)


# which of seven segments are lit for the digits from 0 to 9
_SEGMENTS = np.array([[int(bit) for bit in shown] for shown in (
    "1110111", "0010010", "1011101", "1011011", "0111010",
    "1101011", "1101111", "1010010", "1111111", "1111011",
)])  # fmt: skip


def led(random: _Random, n: int) -> _Pair:
    """Return LED digits (Breiman and others 1984): 10 % wrong bits, 17 irrelevant bits.

    Twice the seven bits that count move to other columns.
    """
    y = random.integers(10, size=n)
    bits = np.concatenate(
        [_SEGMENTS[y] ^ (random.random((n, 7)) < 0.1), random.integers(2, size=(n, 17))], axis=1
    )
    columns = np.stack([np.arange(24), random.permutation(24), random.permutation(24)])
    return np.take_along_axis(bits, columns[3 * np.arange(n) // n], axis=1), y


def waveform(random: _Random, n: int) -> _Pair:
    """Return mixtures of two of three triangles with noise (Breiman and others 1984)."""
    peaks = np.array([11, 15, 7])
    triangles = np.maximum(0.0, 6.0 - np.abs(np.arange(1, 22) - peaks[:, None]))
    pairs = np.array([[0, 1], [0, 2], [1, 2]])
    y, share = random.integers(3, size=n), random.random((n, 1))
    waves = share * triangles[pairs[y, 0]] + (1 - share) * triangles[pairs[y, 1]]
    return np.pad(waves, ((0, 0), (0, 19))) + random.standard_normal((n, 40)), y


def random_tree(random: _Random, n: int) -> _Pair:
    """Return three classes on the leaves of a random tree; 5 % of the labels are random."""
    X = random.random((n, 10))
    y = random.integers(3, size=2**6)[leaf_of(random, X, 6)]
    return X, np.where(random.random(n) < 0.05, random.integers(3, size=n), y)


def checkerboard(random: _Random, n: int) -> _Pair:
    """Return a board of four times four fields that rotates once by a right angle."""
    X = random.uniform(-1, 1, (n, 2))
    angle = np.linspace(0, np.pi / 2, n)
    u = X[:, 0] * np.cos(angle) - X[:, 1] * np.sin(angle)
    v = X[:, 0] * np.sin(angle) + X[:, 1] * np.cos(angle)
    return X, (np.floor(2 * u) + np.floor(2 * v)).astype(int) % 2


def new_classes(random: _Random, n: int) -> _Pair:
    """Return twenty classes of two Gaussian clouds each, which appear one after another."""
    n_classes, d = 20, 10
    centres = 2.0 * random.standard_normal((n_classes, 2, d))
    known = np.minimum(2 + n_classes * np.arange(n) // n, n_classes)
    y = random.integers(known)
    return centres[y, random.integers(2, size=n)] + random.standard_normal((n, d)), y


def outliers(random: _Random, n: int) -> _Pair:
    """Return two moons and four features of noise; 1 % of the rows are multiplied by 1e6."""
    y, angle = random.integers(2, size=n), random.uniform(0, np.pi, n)
    side = 1 - 2 * y
    moons = np.stack([side * np.cos(angle) + y, side * np.sin(angle) + 0.5 * y], axis=1)
    X = np.concatenate([moons + 0.2 * random.standard_normal((n, 2)),
                        random.standard_normal((n, 4))], axis=1)  # fmt: skip
    return with_outliers(random, X), y


def units(random: _Random, n: int) -> _Pair:
    """Return a quadratic concept of four of eight features, each in its own unit."""
    X = random.standard_normal((n, 8))
    y = X[:, 0] * X[:, 1] + X[:, 2] ** 2 + X[:, 3] > 1
    return in_odd_units(random, X), _flipped(random, y, 0.02)


def _flipped(random: _Random, y: np.ndarray, share: float) -> np.ndarray:
    """Return labels of two classes with a share of wrong ones."""
    return (y ^ (random.random(len(y)) < share)).astype(int)

"""Helpers that generators of several tasks share."""

from typing import Any

import numpy as np

__all__ = [
    "in_odd_units",
    "leaf_of",
    "moving",
    "river_table",
    "with_outliers",
]


def in_odd_units(random: np.random.Generator, X: np.ndarray) -> np.ndarray:
    """Return the features in units from 1e-6 to 1e6, with offsets of up to ten units."""
    units = 10.0 ** random.permutation(np.linspace(-6, 6, X.shape[1]))
    return (X + random.uniform(-10, 10, X.shape[1])) * units


def with_outliers(random: np.random.Generator, X: np.ndarray) -> np.ndarray:
    """Return the rows with one percent of them multiplied by 1e6."""
    return X * np.where(random.random(len(X)) < 0.01, 1e6, 1.0)[:, None]


def leaf_of(random: np.random.Generator, X: np.ndarray, depth: int) -> np.ndarray:
    """Return the leaf that each row reaches in a random tree over features in [0, 1]."""
    leaf = np.zeros(len(X), dtype=int)
    for level in range(depth):
        n_nodes = 2**level
        feature = random.integers(X.shape[1], size=n_nodes)
        threshold = random.uniform(0.25, 0.75, n_nodes)
        goes_right = X[np.arange(len(X)), feature[leaf]] > threshold[leaf]
        leaf = 2 * leaf + goes_right
    return leaf


def moving(random: np.random.Generator, centres: np.ndarray, speed: float, n: int) -> Any:
    """Return the centre of each row. Centres move straight, and bounce off the walls."""
    direction = random.standard_normal(centres.shape)
    velocity = speed * direction / np.linalg.norm(direction, axis=1, keepdims=True)

    def where(which: np.ndarray) -> np.ndarray:
        place = (centres[which] + np.arange(n)[:, None] * velocity[which]) % 2.0
        return np.where(place > 1.0, 2.0 - place, place)

    return where


def river_table(name: str, targets: list[str] | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return all rows of a data set of River, in their order, and their targets."""
    from river import datasets

    X, y = [], []
    for x, target in getattr(datasets, name)():
        X.append(list(x.values()))
        y.append(target if targets is None else [target[key] for key in targets])
    return np.array(X, dtype=float), np.array(y)

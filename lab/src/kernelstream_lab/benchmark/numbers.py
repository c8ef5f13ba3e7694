"""Streams of numbers to predict. Each function takes a random generator and the number of rows."""

import numpy as np

from kernelstream.streams import flipping_weights
from kernelstream_lab.benchmark.shapes import in_odd_units, leaf_of, river_table, with_outliers

__all__ = [
    "flipping", "friedman_drift", "heavy_tails", "late_numbers", "mackey_glass", "many_features",
    "outliers", "planes", "robot_arm", "sp500", "steps", "trump_approval", "units", "water_flow",
]  # fmt: skip

_Random = np.random.Generator
_Pair = tuple[np.ndarray, np.ndarray]


def _friedman(U: np.ndarray) -> np.ndarray:
    """Return Friedman's function (1991) of five features in [0, 1]."""
    return (
        10 * np.sin(np.pi * U[:, 0] * U[:, 1])
        + 20 * (U[:, 2] - 0.5) ** 2
        + 10 * U[:, 3]
        + 5 * U[:, 4]
    )


def friedman_drift(random: _Random, n: int) -> _Pair:
    """Return Friedman's function of five of ten features, which change their roles twice."""
    X = random.random((n, 10))
    roles = np.stack([np.arange(10), random.permutation(10), random.permutation(10)])
    played = np.take_along_axis(X, roles[3 * np.arange(n) // n], axis=1)
    return X, _friedman(played) + random.standard_normal(n)


def robot_arm(random: _Random, n: int) -> _Pair:
    """Return the distance between a robot's hand and a target, by four angles and four lengths."""
    angles = random.uniform(-np.pi / 2, np.pi / 2, (n, 4))
    lengths = random.uniform(0.2, 1.0, (n, 4))
    bearing = np.cumsum(angles, axis=1)
    x, y = (lengths * np.cos(bearing)).sum(axis=1), (lengths * np.sin(bearing)).sum(axis=1)
    distance = np.hypot(x - 0.5, y - 0.5) + 0.05 * random.standard_normal(n)
    return np.concatenate([angles, lengths], axis=1), distance


def flipping(random: _Random, n: int) -> _Pair:
    """Return Sutton's stream (1992): one of five weights changes its sign every 100 rows."""
    return flipping_weights(n, every=100, noise=0.3, random_state=int(random.integers(2**31)))


def water_flow(random: _Random, n: int) -> _Pair:
    """Return River's water flow of the next hour, with the 24 hours before it."""
    from river import datasets

    series = np.array([y for _, y in datasets.WaterFlow()])
    windows = np.lib.stride_tricks.sliding_window_view(series, 25)[:n]
    return windows[:, :24], windows[:, 24]


def trump_approval(random: _Random, n: int) -> _Pair:
    """Return River's approval ratings, by five agencies and the date."""
    X, y = river_table("TrumpApproval")
    return X[:n], y[:n]


def sp500(random: _Random, n: int) -> _Pair:
    """Return the returns of ten of River's stocks, and the mean return of the next day."""
    X, y = river_table("SP500Stocks")
    return X[:n], y[:n]


def units(random: _Random, n: int) -> _Pair:
    """Return Friedman's function with features in odd units and a target in the millions."""
    X = random.random((n, 10))
    y = 1e6 * (_friedman(X) + random.standard_normal(n)) + 1e8
    return in_odd_units(random, X), y


def outliers(random: _Random, n: int) -> _Pair:
    """Return Friedman's function; 1 % of the rows are multiplied by 1e6, their targets are not."""
    X = random.random((n, 10))
    return with_outliers(random, X), _friedman(X) + random.standard_normal(n)


def heavy_tails(random: _Random, n: int) -> _Pair:
    """Return six lognormal features and a function of their logarithms, with noise of t(3)."""
    Z = random.standard_normal((n, 6))
    y = np.sin(2 * Z[:, 0]) + Z[:, 1] * (Z[:, 2] > 0) + 0.5 * Z[:, 3]
    return np.exp(1.5 * Z), y + 0.2 * random.standard_t(3, n)


def many_features(random: _Random, n: int) -> _Pair:
    """Return fifty normal features; the target depends on five, on one of them by its square."""
    X = random.standard_normal((n, 50))
    y = X[:, 0] + X[:, 1] * X[:, 2] + X[:, 3] ** 2 - 2 * np.tanh(X[:, 4])
    return X, y + 0.2 * random.standard_normal(n)


def planes(random: _Random, n: int) -> _Pair:
    """Return two planes, selected by the first feature (Breiman and others 1984)."""
    first = random.choice([-1.0, 1.0], (n, 1))
    others = random.integers(-1, 2, (n, 9)).astype(float)
    high = 3 + 3 * others[:, 0] + 2 * others[:, 1] + others[:, 2]
    low = -3 + 3 * others[:, 3] + 2 * others[:, 4] + others[:, 5]
    y = np.where(first[:, 0] > 0, high, low) + random.standard_normal(n)
    return np.concatenate([first, others], axis=1), y


def mackey_glass(random: _Random, n: int) -> _Pair:
    """Return six values of the Mackey-Glass series (delay 17), and the one six steps ahead."""
    per_step, delay, lags, ahead = 10, 170, 6, 6
    total = per_step * (n + 6 * (lags + 1) + 200)
    z = np.full(total + delay, 1.2) + 0.05 * random.standard_normal(total + delay)
    for t in range(delay, total + delay - 1):  # by Euler's method, ten steps a row
        old = z[t - delay]
        z[t + 1] = z[t] + (0.2 * old / (1 + old**10) - 0.1 * z[t]) / per_step
    series = z[delay + 200 * per_step :: per_step]
    series = series + 0.01 * random.standard_normal(len(series))
    rows = np.arange(n)[:, None] + 6 * np.arange(lags)
    return series[rows], series[rows[:, -1] + ahead]


def late_numbers(random: _Random, n: int) -> _Pair:
    """Return a wave in four features whose direction turns slowly."""
    X = random.standard_normal((n, 4))
    angle = np.linspace(0, np.pi, n)
    u = X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle)
    return X, np.sin(2 * u) + 0.5 * X[:, 2] * X[:, 3] + 0.1 * random.standard_normal(n)


def steps(random: _Random, n: int) -> _Pair:
    """Return one number per leaf of a random tree of depth 5, with noise 0.2."""
    X = random.random((n, 8))
    values = random.standard_normal(2**5)
    return X, values[leaf_of(random, X, 5)] + 0.2 * random.standard_normal(n)

"""Regression on a dictionary compared with batch SVR, for three experiments."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.svm import SVR

from kernelstream.budgets import Independent
from kernelstream.kernels import RBF, Homogenized
from kernelstream.presets import make

__all__ = ["Problem", "Score", "batch", "mean_error", "online", "split", "unit_cube"]


class Problem(NamedTuple):
    """The parameters of the paper: sigma of the kernel, nu (3.8), epsilon and C of batch SVR."""

    sigma: float
    tolerance: float
    epsilon: float
    C: float

    def kernel(self) -> Homogenized:
        """Return an RBF kernel plus lambda^2, with lambda = 0.1."""
        return Homogenized(RBF(1 / (2 * self.sigma**2)), 0.1)


class Score(NamedTuple):
    """Mean squared error on the test rows, and support vectors as a share of the training rows."""

    error: float
    support: float


def online(preset: str, problem: Problem) -> Any:
    """Make a new SOG-SVR: "sog-svr", or "sog-svr-paper" for the rule of the paper."""
    budget = Independent(problem.tolerance)
    return make(preset, "regressor", kernel=problem.kernel(), budget=budget)


def mean_error(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Return the mean squared error of a model."""
    return float(np.mean((model.predict(X) - y) ** 2))


def batch(problem: Problem, train: Any, test: Any) -> Score:
    """Fit scikit-learn's SVR with the same kernel, and test it."""
    model = SVR(kernel=problem.kernel(), C=problem.C, epsilon=problem.epsilon).fit(*train)
    return Score(mean_error(model, *test), len(model.support_) / len(train[0]))


def unit_cube(X: np.ndarray) -> np.ndarray:
    """Scale every column to the range from 0 to 1."""
    low, high = X.min(axis=0), X.max(axis=0)
    return (X - low) / (high - low)


def split(X: np.ndarray, y: np.ndarray, n_train: int, random: np.random.Generator) -> Any:
    """Split the rows at random into training and test rows, ((X, y), (X, y))."""
    order = random.permutation(len(X))
    train, test = order[:n_train], order[n_train:]
    return (X[train], y[train]), (X[test], y[test])

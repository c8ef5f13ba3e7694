"""Data sets of OpenML, downloaded through scikit-learn."""

import socket
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from sklearn.datasets import fetch_openml

__all__ = ["OpenML", "Table"]

_SECONDS_TO_ANSWER = 20.0


class Table(NamedTuple):
    """A table of numbers from OpenML: names of the features, the features and the target."""

    names: list[str]
    X: np.ndarray
    y: np.ndarray


class OpenML(NamedTuple):
    """The id of a data set at OpenML, and how its table is converted to the arrays of our files."""

    data_id: int
    to_arrays: Callable[[Table], dict[str, np.ndarray]]

    def fetch(self) -> dict[str, np.ndarray]:
        """Download the arrays. Nothing is written."""
        with _impatient(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about attempts that failed before one succeeded
            table = fetch_openml(
                data_id=self.data_id, as_frame=False, parser="liac-arff", cache=False
            )
        X, names = np.asarray(table.data, float), list(table.feature_names)
        for name, values in table.categories.items():  # X has the positions of the values
            column = names.index(name)
            X[:, column] = np.array(values, float)[X[:, column].astype(int)]
        return self.to_arrays(Table(names, X, np.asarray(table.target, float)))


@contextmanager
def _impatient() -> Iterator[None]:
    """Set a timeout for a server that does not answer; by default there is none."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_SECONDS_TO_ANSWER)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)

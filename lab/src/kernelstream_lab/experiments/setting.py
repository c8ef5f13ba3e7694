"""The input of an experiment: data, seed, full or quick run, and a progress callback."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from kernelstream import datasets

__all__ = ["Digits", "Setting"]

Item = TypeVar("Item")
Choice = TypeVar("Choice")


class Digits(NamedTuple):
    """Images of digits, and the shape of one image."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    shape: tuple[int, int]

    def gamma(self, sigma: float, n_pixels: int) -> float:
        """Return gamma, 1 / (2 sigma^2) for `n_pixels`, scaled to the pixels of these images."""
        return n_pixels / self.X.shape[1] / (2 * sigma**2)

    def first(self, n_rows: int) -> "Digits":
        """Return a copy with at most `n_rows` training rows."""
        return self._replace(X=self.X[:n_rows], y=self.y[:n_rows])


class Setting:
    """The input of an experiment.

    Parameters
    ----------
    data : path or None
        The folder in which data is looked for first.
    seed : int
        Seed of the random generator.
    quick : bool
        Whether to run only a small part.
    progress : callable or None
        Called with the current action and the share of the work that is done.
    """

    def __init__(
        self,
        data: str | Path | None,
        seed: int,
        quick: bool,
        progress: Callable[[str, float], None] | None = None,
    ):
        self.data = data
        self.seed = seed
        self.quick = quick
        self.remarks: list[str] = []
        self._tell = progress or (lambda text, share: None)
        if quick:
            self.remarks.append(
                "A quick run on a small part of the data: it shows that the experiment works, and "
                "its figures mean little."
            )

    def choose(self, full: Choice, quick: Choice) -> Choice:
        """Return the first value in a full run, the second in a quick run."""
        return quick if self.quick else full

    def each(self, items: Iterable[Item], label: Callable[[Item], str] = str) -> Iterator[Item]:
        """Yield the items one by one, and report each to the progress callback."""
        todo = list(items)
        for position, item in enumerate(todo):
            self._tell(label(item), position / len(todo))
            yield item

    def random(self, number: int = 0) -> np.random.Generator:
        """Return the random generator of a trial."""
        return np.random.default_rng(10_000 * self.seed + number)

    def load(self, name: str) -> Any:
        """Load a data set, or raise a `DatasetError` that explains how to get it.

        A quick run looks only in the given folders, because a download is not quick.
        """
        if self.quick and not (self.data or os.environ.get("KERNELSTREAM_DATA")):
            raise datasets.DatasetError(
                f"the data set {name!r} was not looked for.\nA quick run fetches nothing: name the "
                "folder that has it by --data or by $KERNELSTREAM_DATA."
            )
        return datasets.load(name, self.data)

    def usps(self) -> Digits:
        """Return USPS in [-1, 1]. A quick run without it uses scikit-learn's digits."""
        return self._digits("usps", (16, 16), lambda X: 2.0 * X - 1.0)

    def mnist(self) -> Digits:
        """Return MNIST in [0, 1]. A quick run without it uses scikit-learn's digits."""
        return self._digits("mnist", (28, 28), lambda X: X.astype(np.float32))

    def _digits(
        self, name: str, shape: tuple[int, int], like: Callable[[np.ndarray], np.ndarray]
    ) -> Digits:
        try:
            found = self.load(name)
        except datasets.DatasetError as error:
            if not self.quick:
                raise
            reason = str(error).splitlines()[0].rstrip(".")
            self.remarks.append(f"{reason}: these are scikit-learn's digits of 8 x 8 pixels.")
            return self._stand_in(like)
        return Digits(found.X_train, found.y_train, found.X_test, found.y_test, shape)

    def _stand_in(self, like: Callable[[np.ndarray], np.ndarray]) -> Digits:
        found = datasets.load("digits")
        X = like(found.X)
        return Digits(X[:1500], found.y[:1500], X[1500:], found.y[1500:], (8, 8))

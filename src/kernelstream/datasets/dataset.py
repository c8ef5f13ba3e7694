"""The data sets that `load` returns."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Dataset"]


@dataclass(frozen=True, repr=False, eq=False)
class Dataset:
    """Rows, their labels or targets, and further arrays.

    Attributes
    ----------
    name, description : str
        The name of the data set, and one or two sentences about it.
    X : ndarray
        All rows, in the original order, or the frames of a video.
    y : ndarray or None
        The labels or targets of the rows; None for videos.
    X_train, y_train, X_test, y_test : ndarray or None
        The two parts of the usual split; None if there is no split.
    details : dict of str to ndarray
        Further arrays, such as the names of the features. They are also attributes.

    Examples
    --------
    >>> import kernelstream as ks
    >>> data = ks.datasets.load("digits")
    >>> data
    <Dataset digits: X (1797, 64) float64, y (1797,) int64>
    >>> data.target_names.tolist() == data.details["target_names"].tolist()
    True
    >>> X, y = data
    """

    name: str
    description: str
    X: np.ndarray
    y: np.ndarray | None = None
    X_train: np.ndarray | None = None
    y_train: np.ndarray | None = None
    X_test: np.ndarray | None = None
    y_test: np.ndarray | None = None
    details: dict[str, np.ndarray] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        details = self.__dict__.get("details", {})  # does not exist yet while a copy is being made
        if name in details:
            return details[name]
        raise AttributeError(
            f"the data set has no {name!r}; its details are {', '.join(details) or 'none'}."
        )

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *self.details])

    def __iter__(self) -> Iterator[Any]:
        return iter((self.X, self.y))

    def __repr__(self) -> str:
        arrays = {"X": self.X, "y": self.y, **self.details}
        shown = ", ".join(
            f"{name} {array.shape} {_type_name(array)}"
            for name, array in arrays.items()
            if array is not None and len(array) == len(self.X)
        )
        return f"<Dataset {self.name}: {shown}>"


def _type_name(array: np.ndarray) -> str:
    return "str" if array.dtype.kind == "U" else str(array.dtype)

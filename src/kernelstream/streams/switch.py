"""A stream of two classes, which two other classes then replace."""

from typing import Any

import numpy as np

from kernelstream.parts import integer_at_least

__all__ = ["switch"]


def switch(
    X: Any, y: Any, first: tuple = (0, 1), then: tuple = (2, 3), n_rows: int = 500
) -> tuple[np.ndarray, np.ndarray]:
    """Make a stream of two classes, followed by two other classes, with labels -1 and +1.

    The meaning of the labels changes suddenly (section 5 of the ISSPA paper on SVMD). Rows keep
    their order.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The rows to choose from.
    y : array-like of shape (n_samples,)
        Their labels.
    first, then : pair of labels, default=(0, 1) and (2, 3)
        The classes that become -1 and +1 before the switch and after it.
    n_rows : int, default=500
        The number of rows before the switch, and also after it.

    Returns
    -------
    X : ndarray of shape (2 * n_rows, n_features)
        The rows of the stream.
    y : ndarray of shape (2 * n_rows,)
        The labels -1 and +1.

    References
    ----------
    Karatzoglou, Vishwanathan, Schraudolph, Smola: Step Size-Adapted Online Support Vector Learning.
    ISSPA 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.streams import switch
    >>> X, y = switch(np.arange(8)[:, None], [0, 3, 1, 2, 1, 0, 3, 2], n_rows=2)
    >>> X.ravel().tolist(), y.tolist()
    ([0, 2, 1, 3], [-1, 1, 1, -1])
    """
    X, y = np.asarray(X), np.asarray(y)
    integer_at_least("n_rows", n_rows, 1)
    before = _first_rows(y, "first", first, n_rows)
    after = _first_rows(y, "then", then, n_rows)
    is_second = np.concatenate([y[before] == first[1], y[after] == then[1]])
    return X[np.concatenate([before, after])], np.where(is_second, 1, -1)


def _first_rows(y: np.ndarray, name: str, pair: tuple, n_rows: int) -> np.ndarray:
    if len(pair) != 2 or pair[0] == pair[1]:
        raise ValueError(f"{name}={pair!r}: give two labels, one for -1 and one for +1.")
    found = np.flatnonzero((y == pair[0]) | (y == pair[1]))
    if len(found) < n_rows:
        raise ValueError(
            f"n_rows={n_rows}, and y has {len(found)} rows of {name}={pair!r}: use fewer rows, or "
            "more data."
        )
    return found[:n_rows]

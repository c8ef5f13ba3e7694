"""A kernel of trees that grow on the stream."""

from typing import Any

import numpy as np
from scipy import sparse

from kernelstream.kernels.base import Kernel
from kernelstream.parts import integer_at_least, one_of, parameters, part

__all__ = ["Forest"]

_CRITERIA = {"classification": "entropy", "regression": "squared_error"}


@part("kernel")
@parameters
class Forest(Kernel):
    """How many nodes two rows share on their paths through trees that grow on the stream.

    Every node of every tree is an explicit feature: ``1 / sqrt(n_trees)`` for rows that pass it,
    so that ``k(x, z)`` is the mean number of common nodes and ``k(x, x)`` the mean length of a
    path. (One factor for all, so that features are as they were when the trees have grown.) The
    model is one weight per node, and any learner's. The trees see the targets. What predicts a row
    are the trees as they were before the row was learned.

    A leaf tests a few splits: a feature in which two consecutive arrivals differed, and a threshold
    drawn between them. At the 16th arrival, and whenever half as many again have come, the best is
    taken if it is worth its cost: ``n * (information gain) - (classes - 1) / 2 > 2`` nats, or for
    numbers ``n / 2 * log(SSE / SSE of the split) - log(n) / 2 > 2``, where n and the sums are those
    of the rows that came since the split was first tested. No leaf lies deeper than 32. Random
    numbers follow from the number of the row: however the stream is cut into blocks, the trees are
    the same.

    Rows are best left as they are: only the order of a feature's values matters to a tree, and how
    they are spaced. Sparse rows are made dense, a few at a time.

    Parameters
    ----------
    n_trees : int, default=32
    max_nodes : int, default=255
        The most nodes of a tree. The model has room for ``n_trees * max_nodes`` weights, and goes
        with ``budget="auto"`` only.
    n_candidates : int, default=10
        How many splits a leaf tests.
    criterion : {"auto", "entropy", "squared_error"}, default="auto"
        What a split is to explain: classes or numbers. "auto" is what the task needs.
    random_state : int, default=0
        Seed of the random numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelstream as ks
    >>> X = np.random.default_rng(0).uniform(size=(500, 2))
    >>> y = (X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)
    >>> model = ks.KernelClassifier(ks.kernels.Forest(), loss="log_loss").partial_fit(X, y)
    >>> bool((model.predict(X) == y).mean() > 0.95)
    True
    """

    n_trees: int = 32
    max_nodes: int = 255
    n_candidates: int = 10
    criterion: str = "auto"
    random_state: int = 0

    has_features = True
    feature_store = "forest"
    knows_diagonal = False

    def check(self) -> None:
        for name in ("n_trees", "max_nodes", "n_candidates"):
            integer_at_least(name, getattr(self, name), 1)
        one_of("criterion", self.criterion, ["auto", *_CRITERIA.values()])
        if integer_at_least("random_state", self.random_state, 0) >= 2**63:
            raise ValueError(
                f"random_state={self.random_state} is too large: give less than 2**63."
            )

    def for_task(self, task: str) -> "Forest":
        if self.criterion != "auto" or task not in _CRITERIA:
            return self
        return Forest(**{**self.get_params(), "criterion": _CRITERIA[task]})

    def check_with(self, choice):
        wanted = _CRITERIA.get(choice.task)
        if wanted is None:
            raise ValueError(
                f"kernel={self!r} learns from targets, and {choice.task} has none: use another "
                "kernel, such as RBF or RandomFourier."
            )
        if self.criterion not in ("auto", wanted):
            raise ValueError(
                f"criterion={self.criterion!r} is not for {choice.task}: give {wanted!r} or 'auto'."
            )
        if not choice.budget.is_folded:
            raise ValueError(
                f"kernel={self!r} grows with the stream, and so goes with budget='auto' and "
                f"updates that need no points, not with budget={choice.budget!r}."
            )

    def n_explicit(self, n_features):
        return int(self.n_trees) * int(self.max_nodes)

    def row_cache(self, X):
        """Return the largest number of each row: trees compare, and nothing else can overflow."""
        if sparse.issparse(X):
            return np.asarray(abs(X).max(axis=1).todense(), X.dtype).reshape(-1)
        return np.abs(X).max(axis=1, initial=0.0)

    def features(self, X, x):
        raise TypeError(
            f"{self!r} has no features before its trees have grown: give it to an estimator by "
            "itself, as kernel=Forest(...) with budget='auto'."
        )

    def block(self, P: Any, X: Any, p: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
        self.features(X, x)

    def diagonal(self, x):
        return None

    def compiles(self) -> bool:
        return False

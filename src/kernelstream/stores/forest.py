"""Explicit features that are the nodes on a row's paths through trees, which grow on the way."""

import math
from typing import Any

import numpy as np
from scipy import sparse

from kernelstream.compile import Call, as_argument, compiled, entry_point
from kernelstream.kernels import Kernel
from kernelstream.parts import LARGEST_NUMBER
from kernelstream.stores.base import CheckedCache, Memory, Values
from kernelstream.stores.folded import FoldedStore
from kernelstream.stores.tree_statistics import CLASS_COUNTS, MOMENTS
from kernelstream.stores.trees import (
    DEEPEST,
    Changes,
    Setting,
    Trees,
    copy_changed,
    count_common,
    grow,
    grown_changes,
    grown_trees,
    new_changes,
    new_trees,
    predict_leaves,
    walk,
)

__all__ = ["ForestStore", "SparseForestStore"]

_STATISTICS: dict[str, Any] = {"entropy": CLASS_COUNTS, "squared_error": MOMENTS}
_ROWS = 64  # sparse rows that are made dense at a time
# What a file has of each node, and of each leaf that may still be split.
_OF_NODES = ("left", "feature", "threshold", "arrived", "due", "n_tested")
_OF_LEAVES = ("tested_feature", "tested_value")


@compiled
def _copy_row(X, out):
    for j in range(X.shape[1]):
        out[0, j] = X[0, j]


class ForestStore(FoldedStore):
    """Trees that learn. A row's features are the nodes on its paths, before it was learned.

    A node is a feature from its creation on, and stays one; so it does not matter how the stream is
    cut into blocks.
    """

    writes_in_loop = False  # trees learn before the loop does

    def __init__(self, kernel: Kernel, n_slots: int, n_features: int, dtype: np.dtype):
        super().__init__(kernel, n_slots, n_features, dtype)
        chosen: Any = kernel
        self.statistic = _statistic_of(chosen)
        self.n_trees = int(chosen.n_trees)
        self.setting = Setting(int(chosen.max_nodes), np.uint64(chosen.random_state))
        n_columns = int(self.statistic.first_columns())
        self.trees: Trees = new_trees(
            self.n_trees, n_slots, int(chosen.n_candidates), n_columns, self.statistic
        )
        self.changes: Changes = new_changes(n_slots, n_columns)
        self._saved: Trees | None = None  # as they were when the last block began
        self._code: dict[str, Any] = {}
        self._entries: Any = None  # see `row_entries`

    @staticmethod
    def n_bytes(kernel: Kernel, n_slots: int, n_features: int, dtype: np.dtype) -> int:
        """Return how much memory trees take that have seen one class."""
        chosen: Any = kernel
        statistic = _statistic_of(chosen)
        of_sides = 2 * np.dtype(statistic.side_type()).itemsize
        of_splits = int(chosen.n_candidates) * (16 + of_sides * int(statistic.first_columns()))
        return n_slots * (8 * (8 + int(statistic.first_columns())) + of_splits)

    @property
    def n_first(self) -> int:
        """Return the roots are there before any row has been learned."""
        return self.n_trees

    @property
    def n_nodes(self) -> int:
        """Return how many nodes the trees have."""
        return int(self.trees.n_nodes[0])

    # --- features --------------------------------------------------------------------------------

    def basis(self, n_points: int, X: Any, x: np.ndarray) -> Any:
        """Return the nodes on the paths of rows, a line each."""
        if not sparse.issparse(X):
            return self._paths(X).T
        pieces = [X[start : start + _ROWS] for start in range(0, X.shape[0], _ROWS)]
        return sparse.vstack([self._paths(piece) for piece in pieces], format="csr").T

    def _paths(self, X: Any) -> sparse.csr_array:
        """Return the features of rows, in memory of their own: several threads may predict."""
        rows = self._dense(X)
        indptr, indices = self._room_for(len(rows), Memory())
        self._call("walk", walk, self.trees, rows, indptr, indices)
        return self._as_features(indptr, indices)

    def features(
        self, n_points: int, X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray
    ) -> sparse.csr_array:
        """Return the features of rows that are to be learned; the trees learn them."""
        return self.learn(X, y, weight)[0]

    def tile(
        self, n_points: int, X: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray, coef: Any,
        lines: list[slice] | None = None,
    ) -> Values:  # fmt: skip
        """Return the kernel values and features of rows, which the trees learn on the way."""
        phi = self.features(n_points, X, x, y, weight)
        return self.values_of(phi, np.diff(phi.indptr) / self.n_trees, coef)

    def learn(
        self, X: Any, y: np.ndarray, weight: np.ndarray, predicts: bool = False
    ) -> tuple[sparse.csr_array, np.ndarray]:
        """Learn rows; the features that each had before, and what leaves predicted for it then.

        Parameters
        ----------
        X : ndarray or csr_array of shape (rows, features)
        y, weight : ndarray of shape (rows,)
        predicts : bool, default=False

        Returns
        -------
        phi : csr_array of shape (rows, nodes)
            In memory that the next call uses again.
        predictions : ndarray of shape (rows, classes or 1)
            As of `leaf_predictions`; without columns if not asked for.
        """
        rows, y, weight = self._dense(X), as_argument(y), as_argument(weight)
        if not len(rows) == len(y) == len(weight):
            raise ValueError(f"there are {len(rows)} rows, {len(y)} targets, {len(weight)} weights")
        self._make_columns(int(self.statistic.columns_for(y.max(initial=0.0))))
        indptr, indices = self._room_for(len(rows), self.memory)
        n_columns = self.trees.own.shape[1] if predicts else 0
        predictions = np.zeros((len(rows), n_columns))
        self._call(
            "grow", grow, self.trees, self.changes, self.statistic, self.setting, rows, y, weight,
            indptr, indices, predictions,
        )  # fmt: skip
        return self._as_features(indptr, indices), predictions[:, : self._n_predicted()]

    def write_products(self, phi: Any, k: np.ndarray) -> None:
        """Write how many nodes every two rows have in common, over the number of trees."""
        passing = self.memory.lend("passing", (self.n_slots,), np.uint64)
        n_digits = (self.n_trees * (DEEPEST + 1)).bit_length()
        digits = self.memory.lend("digits", (n_digits,), np.uint64)
        count_common(phi.indptr, phi.indices, self.n_trees, passing, digits, k)

    def leaf_predictions(self, X: Any) -> np.ndarray:
        """Average the statistics of the leaves of rows over the trees.

        Frequencies of classes (of -1 and +1, where there is a single output), or the mean of the
        target, of shape (rows, 1). A leaf counts its parent's as one row more.

        Parameters
        ----------
        X : ndarray or csr_array of shape (rows, features)

        Returns
        -------
        ndarray of shape (rows, classes or 1)
        """
        rows = self._dense(X)
        out = np.zeros((len(rows), self._n_predicted()))
        self._call("predict", predict_leaves, self.trees, self.statistic, rows, out)
        return out

    def _n_predicted(self) -> int:
        return int(self.trees.n_columns[0]) if self.statistic is CLASS_COUNTS else 1

    def _dense(self, X: Any) -> np.ndarray:
        """Return rows as the trees look at them, whatever their precision."""
        if X.shape[1] != self.n_features:  # compiled code would read what is not there
            raise ValueError(f"rows have {X.shape[1]} features, not {self.n_features}")
        return as_argument(X.toarray() if sparse.issparse(X) else X)

    def _room_for(self, n_rows: int, memory: Memory) -> tuple[np.ndarray, np.ndarray]:
        """Return memory for the nodes on the paths of rows."""
        indptr = np.empty(n_rows + 1, np.int32)
        return indptr, memory.lend("nodes", (n_rows * self.n_trees * (DEEPEST + 1),), np.int32)

    def _as_features(self, indptr: np.ndarray, indices: np.ndarray) -> sparse.csr_array:
        """Return features of equal size, such that k(x, x) is the mean length of a path."""
        indices = indices[: indptr[-1]]
        data = np.full(len(indices), 1.0 / math.sqrt(self.n_trees), self.dtype)
        shape = len(indptr) - 1, self.n_nodes
        return sparse.csr_array((data, indices, indptr), shape=shape)

    def learning_calls(self, X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> list[Call]:
        """Return the calls that learn a row; what its features were before stands in `row_entries`.

        There must be columns for its target (`make_columns_for`).
        """
        _, indices, indptr = self.row_entries()
        rows, calls = X, []
        if X.dtype != np.float64:  # as the trees look at rows
            rows = np.zeros(X.shape)
            calls.append(Call(_copy_row, X, rows))
        grows = Call(
            grow, self.trees, self.changes, self.statistic, self.setting, rows, y, weight, indptr,
            indices, np.zeros((1, 0)),
        )  # fmt: skip
        return [*calls, grows]

    def make_columns_for(self, n_outputs: int) -> None:
        """Make room for all targets of a model with so many outputs."""
        self._make_columns(int(self.statistic.columns_for(max(n_outputs - 1, 1))))

    def row_entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Allocate memory for the features of one row: data, indices and indptr."""
        if self._entries is None:
            indptr, indices = self._room_for(1, Memory())
            data = np.full(indices.size, 1.0 / math.sqrt(self.n_trees), self.dtype)
            self._entries = data, indices, indptr
        return self._entries

    def nodes_of_row(self, X: np.ndarray) -> np.ndarray:
        """Return the nodes on the paths of a row, in memory of their own."""
        indptr, indices = self._room_for(1, Memory())
        self._call("walk", walk, self.trees, self._dense(X), indptr, indices)
        return indices[: indptr[1]]

    def _make_columns(self, wanted: int) -> None:
        """Make room for classes that rows bring, and for as many again."""
        if wanted > self.trees.own.shape[1]:
            saved = self._saved
            self._saved = None if saved is None else grown_trees(saved, 2 * wanted)
            self.changes = grown_changes(self.changes, 2 * wanted)
            self.trees = grown_trees(self.trees, 2 * wanted)

    def _call(self, name: str, function: Any, *arguments: Any) -> None:
        """Call compiled code, whose arguments always have the same types."""
        if name not in self._code:
            self._code[name] = entry_point(function, *arguments)
        self._code[name](*arguments)

    # --- undoing ---------------------------------------------------------------------------------

    def begin(self) -> None:
        """Remember the present trees, to which `undo` returns."""
        if self._saved is None:
            self._saved = self._copied()
            self.changes = new_changes(self.n_slots, self.trees.own.shape[1])
        else:
            self._call("copy", copy_changed, self.trees, self._saved, self.changes)

    def undo(self) -> None:
        """Take back what rows have changed since `begin`."""
        self._call("copy", copy_changed, self._saved, self.trees, self.changes)

    def _copied(self) -> Trees:
        """Return a copy of the trees, of the same size."""
        n, trees = self.n_nodes, self.trees
        copy = new_trees(
            self.n_trees, self.n_slots, trees.tested_feature.shape[1], trees.own.shape[1],
            self.statistic,
        )  # fmt: skip
        for name, array in trees._asdict().items():
            if name == "sides":
                copy.sides[:, :n] = array[:, :n]
            else:
                getattr(copy, name)[:n] = array[:n]
        return copy

    def copy(self, n_points: int) -> "ForestStore":
        """Return a copy with trees of its own."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.trees, copy._saved, copy._entries = self._copied(), None, None
        copy.changes = new_changes(self.n_slots, self.trees.own.shape[1])
        return copy

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "memory": None, "_saved": None, "_code": {}, "_entries": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, memory=Memory())

    def widen(self, n_features: int) -> None:
        """Let rows have more features, or fewer, if no tree has looked at the others."""
        trees, n = self.trees, self.n_nodes
        last = max(trees.feature[:n].max(), trees.tested_feature[:n].max(initial=0))
        if last >= n_features:
            raise ValueError(f"rows cannot have {n_features} features: a tree looks at {last}.")
        self.n_features = n_features

    # --- to and from arrays ----------------------------------------------------------------------

    def _is_open(self) -> np.ndarray:
        """Return which nodes are leaves that look for splits."""
        trees, n = self.trees, self.n_nodes
        may_grow = trees.sizes + 2 <= self.setting.max_nodes
        return (trees.left[:n] == 0) & (trees.arrived[:n] > 0) & may_grow[trees.tree[:n]]

    def to_arrays(self, n_points: int) -> dict[str, np.ndarray]:
        """Return the trees; what splits have counted, of leaves that may still be split."""
        trees, n, leaves = self.trees, self.n_nodes, np.flatnonzero(self._is_open())
        columns = int(trees.n_columns[0])
        return {
            **{f"trees.{name}": getattr(trees, name)[:n] for name in _OF_NODES},
            **{f"trees.{name}": getattr(trees, name)[leaves] for name in _OF_LEAVES},
            "trees.own": trees.own[:n, :columns],
            "trees.sides": trees.sides[:columns, leaves],
            "trees.n_rows": trees.n_rows,
        }

    def fill(self, arrays: dict[str, np.ndarray], checked_cache: CheckedCache) -> None:
        """Take over what `to_arrays` gave, checked so that no path leads out of the trees."""
        n, columns = arrays["trees.own"].shape
        if n != arrays["expansion.n_points"][0] or not self.n_trees <= n <= self.n_slots:
            raise ValueError(f"there are {n} nodes")
        least = int(self.statistic.first_columns())
        if columns < least or (self.statistic is MOMENTS and columns != least):
            raise ValueError(f"there are {columns} numbers of each leaf")
        self._make_columns(columns)
        trees = self.trees
        for name in _OF_NODES:
            _put(f"trees.{name}", arrays, getattr(trees, name)[:n])
        _put("trees.own", arrays, trees.own[:n, :columns])
        _put("trees.n_rows", arrays, trees.n_rows)
        trees.n_nodes[0], trees.n_columns[0] = n, columns
        self._place_nodes()
        leaves = np.flatnonzero(self._is_open())
        for name in (*_OF_LEAVES, "sides"):
            array = getattr(trees, name)
            where = (slice(columns), leaves) if name == "sides" else (leaves,)
            found = np.empty_like(array[where])
            _put(f"trees.{name}", arrays, found)
            array[where] = found
        self._check_numbers(leaves)

    def _place_nodes(self) -> None:
        """Find the tree and the depth of every node, and refuse what is no tree."""
        trees, n = self.trees, self.n_nodes
        left = trees.left[:n]
        parents = np.flatnonzero(left)
        # every node but the roots is one of two children of one node before it
        expected = np.arange(self.n_trees, n, 2)
        if not np.array_equal(np.sort(left[parents]), expected) or n % 2 != self.n_trees % 2:
            raise ValueError("the nodes are no trees")
        if not (left[parents] > parents).all():
            raise ValueError("a node comes before its parent")
        level = np.arange(self.n_trees)
        trees.depth[:n] = 0
        while level.size:
            level = level[left[level] > 0]
            for side in range(2):
                children = left[level] + side
                trees.tree[children] = trees.tree[level]
                trees.depth[children] = trees.depth[level] + 1
            level = np.concatenate([left[level], left[level] + 1])
        trees.sizes[:] = np.bincount(trees.tree[:n], minlength=self.n_trees)
        if trees.sizes.max() > max(self.setting.max_nodes, 1) or trees.depth.max() > DEEPEST:
            raise ValueError("a tree is too large")

    def _check_numbers(self, leaves: np.ndarray) -> None:
        """Refuse numbers that learning never leaves behind."""
        trees, n = self.trees, self.n_nodes
        n_candidates = trees.tested_feature.shape[1]
        features = (trees.feature[:n], trees.tested_feature[leaves])
        is_sound = all(((f >= 0) & (f < self.n_features)).all() for f in features)
        tested = trees.n_tested[:n]
        is_sound &= bool(((tested >= 0) & (tested <= n_candidates)).all())
        is_sound &= bool(((trees.arrived[:n] >= 0) & (trees.due[:n] > trees.arrived[:n])).all())
        is_sound &= bool((trees.due[:n] < 2**62).all()) and bool(0 <= trees.n_rows[0] < 2**48)
        counted = trees.own[:n], trees.sides[:, leaves]
        values = (trees.threshold[:n], trees.tested_value[leaves], *counted)
        is_sound &= all((np.abs(a) <= np.float64(LARGEST_NUMBER)).all() for a in values)
        means = () if self.statistic is CLASS_COUNTS else (1,)
        for numbers in (counted[0].T, counted[1]):
            is_sound &= bool((np.delete(numbers, means, axis=0) >= 0).all())
        if not is_sound:
            raise ValueError("the trees have numbers that make no sense")


class SparseForestStore(ForestStore):
    """The same for sparse rows, which are made dense a few at a time."""

    is_sparse = True


def _statistic_of(kernel: Any) -> Any:
    """Return the statistics of leaves, by the criterion of the trees."""
    if kernel.criterion not in _STATISTICS:
        raise ValueError(
            f"criterion={kernel.criterion!r} must be known before trees can grow: give 'entropy' "
            "for classes, 'squared_error' for numbers."
        )
    return _STATISTICS[kernel.criterion]


def _put(name: str, arrays: dict[str, np.ndarray], target: np.ndarray) -> None:
    """Take over an array of a file, if it is of the same kind."""
    found = arrays[name]
    if found.shape != target.shape or found.dtype != target.dtype:
        raise ValueError(f"{name} is of type {found.dtype} and shape {found.shape}")
    target[...] = found

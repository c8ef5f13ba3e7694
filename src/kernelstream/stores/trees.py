"""Trees that grow while rows come, all of them in flat arrays.

A node is a number, given in the order of creation over all trees; the first nodes are the roots.
The two children of a node are made together and have consecutive numbers, larger than its own.

A leaf tests a few splits. A split is a feature in which two consecutive arrivals at the leaf
differed, and a threshold between them; it counts what arrives on either side. At the 16th arrival
of a leaf, and whenever half as many again have come, the leaf is split where that pays.

Random numbers follow from the number of the row, so that it does not matter how a stream is cut
into blocks. What is written is noted (`Changes`), so that a block can be undone at the cost of what
it changed.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from kernelstream.compile import compiled, helper

__all__ = [
    "DEEPEST", "Changes", "Setting", "Trees", "copy_changed",
    "count_common", "grow", "grown_changes", "grown_trees", "new_changes", "new_trees",
    "predict_leaves", "walk",
]  # fmt: skip

DEEPEST = 32  # no leaf lies deeper: the work for a row is bounded, whatever the order of rows
_FIRST_CHECK = 16
_LEAST_GAIN = 2.0  # nats, beyond what the numbers of a further leaf cost


class Trees(NamedTuple):
    """Everything that trees remember."""

    left: Any  # (nodes,): the first of a node's two children; 0 for a leaf
    feature: Any  # (nodes,): a row goes to the second child if this feature of it
    threshold: Any  # (nodes,): is larger than this
    tree: Any  # (nodes,)
    depth: Any  # (nodes,)
    arrived: Any  # (nodes,): how many rows a leaf has learned
    due: Any  # (nodes,): and how many it will have when its splits are compared next
    n_tested: Any  # (nodes,): how many splits a leaf tests
    tested_feature: Any  # (nodes, candidates): of these splits, and of those still to be found
    tested_value: Any  # (nodes, candidates): their thresholds, or the last arrival's value
    own: Any  # (nodes, columns): what a leaf has learned of its targets
    sides: Any  # (columns, nodes, candidates, 2): the same on the two sides of each split
    sizes: Any  # (trees,): how many nodes each has
    n_nodes: Any
    n_rows: Any  # rows learned so far, from which random numbers follow
    n_columns: Any  # how many columns are in use: classes, or moments


class Changes(NamedTuple):
    """Which nodes, and which sides, were written."""

    is_noted: Any  # (nodes,)
    nodes: Any  # (nodes,): the first n_nodes of it
    n_nodes: Any
    side_is_noted: Any  # (columns * nodes,)
    sides: Any  # (columns * nodes,): the first n_sides of it
    n_sides: Any


class Setting(NamedTuple):
    """What does not change while trees grow."""

    max_nodes: int  # of a tree
    seed: Any


def new_trees(
    n_trees: int, n_nodes: int, n_candidates: int, n_columns: int, statistic: Any
) -> Trees:
    """Return trees that consist of roots."""
    integers = [np.zeros(n_nodes, np.int64) for _ in range(7)]
    left, feature, tree, depth, arrived, due, n_tested = integers
    tree[:n_trees], due[:n_trees] = np.arange(n_trees), _FIRST_CHECK
    return Trees(
        left=left, feature=feature, threshold=np.zeros(n_nodes), tree=tree, depth=depth,
        arrived=arrived, due=due, n_tested=n_tested,
        tested_feature=np.zeros((n_nodes, n_candidates), np.int64),
        tested_value=np.zeros((n_nodes, n_candidates)),
        own=np.zeros((n_nodes, n_columns)),
        sides=np.zeros((n_columns, n_nodes, n_candidates, 2), statistic.side_type()),
        sizes=np.ones(n_trees, np.int64),
        n_nodes=np.array([n_trees]), n_rows=np.zeros(1, np.int64),
        n_columns=np.array([statistic.first_columns()]),
    )  # fmt: skip


def new_changes(n_nodes: int, n_columns: int) -> Changes:
    """Return a record of changes with nothing in it."""
    nodes, sides = (
        (np.zeros(n, np.bool_), np.zeros(n, np.int64), np.zeros(1, np.int64))
        for n in (n_nodes, n_nodes * n_columns)
    )
    return Changes(*nodes, *sides)


def grown_trees(trees: Trees, n_columns: int) -> Trees:
    """Return the same trees with room for more columns."""
    before = trees.own.shape[1]
    own = np.zeros((len(trees.own), n_columns))
    sides = np.zeros((n_columns, *trees.sides.shape[1:]), trees.sides.dtype)
    n = int(trees.n_nodes[0])
    own[:n, :before], sides[:before, :n] = trees.own[:n], trees.sides[:, :n]
    return trees._replace(own=own, sides=sides)


def grown_changes(changes: Changes, n_columns: int) -> Changes:
    """Return the same changes with room for more columns, whose sides come after those before."""
    grown = new_changes(len(changes.nodes), n_columns)
    n = len(changes.sides)
    grown.side_is_noted[:n], grown.sides[:n] = changes.side_is_noted, changes.sides
    return changes._replace(
        side_is_noted=grown.side_is_noted, sides=grown.sides, n_sides=changes.n_sides
    )


# --- random numbers -------------------------------------------------------------------------------

_GOLDEN, _FIRST_FACTOR, _SECOND_FACTOR = (
    np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
_11, _27, _30, _31, _ZERO, _ONE = (np.uint64(n) for n in (11, 27, 30, 31, 0, 1))


@helper
def uniform(seed, position):
    """Return a random number from [0, 1) by splitmix64 (Steele, Lea and Flood, 2014)."""
    z = seed + (np.uint64(position) + _ONE) * _GOLDEN
    z = (z ^ (z >> _30)) * _FIRST_FACTOR
    z = (z ^ (z >> _27)) * _SECOND_FACTOR
    z = z ^ (z >> _31)
    return np.float64(z >> _11) * 2.0**-53


# --- growing --------------------------------------------------------------------------------------


@helper
def _note(changes, node):
    if not changes.is_noted[node]:
        changes.is_noted[node] = True
        changes.nodes[changes.n_nodes[0]] = node
        changes.n_nodes[0] += 1


@helper
def _note_side(changes, place):
    if not changes.side_is_noted[place]:
        changes.side_is_noted[place] = True
        changes.sides[changes.n_sides[0]] = place
        changes.n_sides[0] += 1


@helper
def _renew_tests(trees, seed, position, node, x):
    """Find one more split, if the row allows; other places for splits wait for the next arrival.

    Such a place holds a random feature and the row's value of it, so that no row has to be kept.
    The next arrival makes a split of the first that it differs in.
    """
    features, values = trees.tested_feature[node], trees.tested_value[node]
    n, n_candidates = trees.n_tested[node], features.shape[0]
    if trees.arrived[node] > 1:
        for c in range(n, n_candidates):
            here, before = x[features[c]], values[c]
            if here != before:
                low, high = min(here, before), max(here, before)
                threshold = low + uniform(seed, position + n_candidates) * (high - low)
                features[n] = features[c]
                values[n] = threshold if threshold < high else low
                n += 1
                break
    for c in range(n, n_candidates):
        features[c] = int(uniform(seed, position + c) * x.shape[0])
        values[c] = x[features[c]]
    trees.n_tested[node] = n


@helper
def _split_if_it_pays(trees, changes, statistic, node):
    """Compare the splits of a leaf; make it the parent of two if the best is worth its cost."""
    best, most = -1, _LEAST_GAIN
    n_columns = trees.n_columns[0]
    for c in range(trees.n_tested[node]):
        gain = statistic.gain_of(trees.sides, node, c, n_columns)
        if gain > most:
            best, most = c, gain
    if best < 0:
        return
    left = trees.n_nodes[0]
    for side in range(2):
        child = left + side
        _note(changes, child)
        trees.tree[child] = trees.tree[node]
        trees.depth[child] = trees.depth[node] + 1
        trees.due[child] = _FIRST_CHECK
        statistic.hand_down(trees.own, trees.sides, node, best, side, child, n_columns)
    trees.feature[node] = trees.tested_feature[node, best]
    trees.threshold[node] = trees.tested_value[node, best]
    trees.left[node] = left
    trees.n_nodes[0] += 2
    trees.sizes[trees.tree[node]] += 2


@helper(inlines=True)
def _learn_at(trees, changes, statistic, setting, tree, node, x, y, weight):
    """Let a leaf learn a row."""
    _note(changes, node)
    statistic.observe_leaf(trees.own, node, y, weight)
    if trees.sizes[tree] + 2 > setting.max_nodes or trees.depth[node] == DEEPEST:
        return  # it will never be split
    arrived = trees.arrived[node] + 1
    trees.arrived[node] = arrived
    n_nodes, n_candidates = trees.tested_feature.shape
    if trees.n_tested[node] < n_candidates:
        position = (trees.n_rows[0] * trees.sizes.shape[0] + tree) * (n_candidates + 1)
        _renew_tests(trees, setting.seed, position, node, x)
    for c in range(trees.n_tested[node]):
        side = 1 if x[trees.tested_feature[node, c]] > trees.tested_value[node, c] else 0
        statistic.observe_side(trees.sides, node, c, side, y, weight)
    first, end = statistic.columns_of(y)
    for k in range(first, end):
        _note_side(changes, k * n_nodes + node)
    if arrived == trees.due[node]:
        trees.due[node] += arrived // 2
        _split_if_it_pays(trees, changes, statistic, node)


@partial(compiled, nogil=True)
def grow(trees, changes, statistic, setting, X, y, weight, indptr, indices, predictions):
    """Learn rows in order, and write the nodes on the paths that each took before it was learned.

    `predictions` are the mean over the trees of what leaves knew of their targets by then
    (`add_leaf`), or has no columns.
    """
    n_trees, n_written = trees.sizes.shape[0], 0
    indptr[0] = 0
    for i in range(X.shape[0]):
        x = X[i]
        learns = weight[i] > 0.0  # a row without weight is as good as absent
        if learns:
            trees.n_columns[0] = max(trees.n_columns[0], statistic.columns_for(y[i]))
        for tree in range(n_trees):
            node = tree
            indices[n_written] = node
            n_written += 1
            while trees.left[node] > 0:
                goes_right = x[trees.feature[node]] > trees.threshold[node]
                node = trees.left[node] + (1 if goes_right else 0)
                indices[n_written] = node
                n_written += 1
            if predictions.shape[1] > 0:
                statistic.add_leaf(trees.own, node, trees.n_columns[0], predictions[i])
            if learns:
                _learn_at(trees, changes, statistic, setting, tree, node, x, y[i], weight[i])
        for k in range(predictions.shape[1]):
            predictions[i, k] /= n_trees
        if learns:
            trees.n_rows[0] += 1
        indptr[i + 1] = n_written


@partial(compiled, nogil=True)
def walk(trees, X, indptr, indices):
    """Write the nodes on the paths of rows."""
    n_written = 0
    indptr[0] = 0
    for i in range(X.shape[0]):
        x = X[i]
        for tree in range(trees.sizes.shape[0]):
            node = tree
            indices[n_written] = node
            n_written += 1
            while trees.left[node] > 0:
                goes_right = x[trees.feature[node]] > trees.threshold[node]
                node = trees.left[node] + (1 if goes_right else 0)
                indices[n_written] = node
                n_written += 1
        indptr[i + 1] = n_written


@partial(compiled, nogil=True)
def count_common(indptr, indices, n_trees, passing, digits, k):
    """Write how many nodes every two rows have in common, over the number of trees.

    With 64 rows at a time: `passing` has a bit for each of them that passes a node, and `digits`
    are the binary digits of 64 counters, to which such a word is added at once.
    """
    for start in range(0, k.shape[0], 64):
        for e in range(indices.shape[0]):
            passing[indices[e]] = _ZERO
        for i in range(start, k.shape[0]):
            for d in range(digits.shape[0]):
                digits[d] = _ZERO
            own = _ONE << np.uint64(i - start) if i < start + 64 else _ZERO
            for e in range(indptr[i], indptr[i + 1]):
                carry = passing[indices[e]] | own
                passing[indices[e]] = carry
                d = 0
                while carry != _ZERO:
                    digit = digits[d]
                    digits[d] = digit ^ carry
                    carry = digit & carry
                    d += 1
            for j in range(start, min(start + 64, i + 1)):
                count = 0
                for d in range(digits.shape[0]):
                    count += int((digits[d] >> np.uint64(j - start)) & _ONE) << d
                k[i, j] = count / n_trees
                k[j, i] = k[i, j]


@partial(compiled, nogil=True)
def predict_leaves(trees, statistic, X, out):
    """Write the mean over the trees of what the leaves of rows know of their targets."""
    n_trees = trees.sizes.shape[0]
    for i in range(X.shape[0]):
        for tree in range(n_trees):
            node = tree
            while trees.left[node] > 0:
                goes_right = X[i, trees.feature[node]] > trees.threshold[node]
                node = trees.left[node] + (1 if goes_right else 0)
            statistic.add_leaf(trees.own, node, trees.n_columns[0], out[i])
        for k in range(out.shape[1]):
            out[i, k] /= n_trees


# --- undoing --------------------------------------------------------------------------------------


@partial(compiled, nogil=True)
def copy_changed(source, target, changes):
    """Copy what was written from one state of trees to another, and note that nothing is."""
    n_candidates, n_nodes = source.tested_feature.shape[1], source.left.shape[0]
    for m in range(changes.n_nodes[0]):
        node = changes.nodes[m]
        changes.is_noted[node] = False
        target.left[node] = source.left[node]
        target.feature[node] = source.feature[node]
        target.threshold[node] = source.threshold[node]
        target.tree[node] = source.tree[node]
        target.depth[node] = source.depth[node]
        target.arrived[node] = source.arrived[node]
        target.due[node] = source.due[node]
        target.n_tested[node] = source.n_tested[node]
        for c in range(n_candidates):
            target.tested_feature[node, c] = source.tested_feature[node, c]
            target.tested_value[node, c] = source.tested_value[node, c]
        for k in range(source.own.shape[1]):
            target.own[node, k] = source.own[node, k]
    for m in range(changes.n_sides[0]):
        place = changes.sides[m]
        changes.side_is_noted[place] = False
        k, node = place // n_nodes, place % n_nodes
        for c in range(n_candidates):
            target.sides[k, node, c, 0] = source.sides[k, node, c, 0]
            target.sides[k, node, c, 1] = source.sides[k, node, c, 1]
    for tree in range(source.sizes.shape[0]):
        target.sizes[tree] = source.sizes[tree]
    target.n_nodes[0] = source.n_nodes[0]
    target.n_rows[0] = source.n_rows[0]
    target.n_columns[0] = source.n_columns[0]
    changes.n_nodes[0] = 0
    changes.n_sides[0] = 0

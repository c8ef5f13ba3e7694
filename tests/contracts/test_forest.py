"""Trees that grow on the stream: against a plain witness, exact in blocks, safe, in files."""

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kernelstream as ks
from kernelstream.budgets import Folded
from kernelstream.estimators.files import from_bytes
from kernelstream.kernels import Forest, Nystroem
from kernelstream.learner.learn import learn_tile
from kernelstream.learner.machine import Machine
from kernelstream.stores import ForestStore, as_sparse_rows
from kernelstream.stores.trees import DEEPEST

from .combinations import LOSSES, MARGINS, STEP_SIZES, UPDATES, Combination, is_allowed
from .combinations import problem as problem_of
from .test_tiles import assert_same, everything

SMALL = {"n_trees": 3, "max_nodes": 15, "n_candidates": 4}


def problem(n_rows, seed, classes=True, n_features=3):
    """Rows with ties, which trees must cope with, and a step function of them."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_features)).round(1)
    y = np.where(X[:, 0] > 0.3, 2.0, np.where(X[:, 1] > 0.0, 1.0, 0.0))
    if not classes:
        y = 100.0 + 3.0 * y + 0.1 * random.normal(size=n_rows)
    weight = random.choice([0.0, 1.0, 1.0, 1.0, 2.5], size=n_rows)
    return X, y, weight


def store_of(n_features=3, criterion="entropy", dtype=float, **params):
    kernel = Forest(**{**SMALL, "criterion": criterion, **params})
    return ForestStore(kernel, kernel.n_explicit(n_features), n_features, np.dtype(dtype))


# --- the witness ----------------------------------------------------------------------------------


def splitmix64(seed, position):
    """The generator of Steele, Lea and Flood (2014), whose state after n steps is known."""
    mask = 2**64 - 1
    z = (seed + (position + 1) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return ((z ^ (z >> 31)) >> 11) / 2**53


class Split:
    """A feature and a threshold, and the rows since it was first tested."""

    def __init__(self, feature, threshold):
        self.feature, self.threshold, self.sides = feature, threshold, ([], [])

    def side(self, x):
        return int(x[self.feature] > self.threshold)


class Node:
    def __init__(self, number, depth, rows=(), prior=None):
        self.number, self.depth, self.rows, self.prior = number, depth, list(rows), prior
        self.splits, self.waiting, self.arrived, self.due = [], [], 0, 16
        self.children = self.split = None


def entropy_gain(sides, n_classes):
    def bits(rows):
        counts = np.zeros(n_classes)
        for y, weight in rows:
            counts[int(y)] += weight
        shares = counts[counts > 0] / counts.sum()
        return counts.sum() * -(shares * np.log(shares)).sum()

    left, right = sides
    return bits(left + right) - bits(left) - bits(right) - (n_classes - 1) / 2


def variance_gain(sides, n_classes):
    def squares(rows):
        y, weight = np.array(rows).T
        return (weight * (y - np.average(y, weights=weight)) ** 2).sum()

    left, right = sides
    if not left or not right:
        return 0.0
    n = sum(weight for _, weight in left + right)
    within, total = squares(left) + squares(right), squares(left + right)
    return n / 2 * math.log(total / max(within, 1e-12 * total)) - math.log(n) / 2


class Witness:
    """Trees of objects, which keep every row."""

    def __init__(self, n_trees, max_nodes, n_candidates, criterion, seed=0):
        self.roots = [Node(t, 0) for t in range(n_trees)]
        self.sizes, self.n_nodes = [1] * n_trees, n_trees
        self.max_nodes, self.n_candidates, self.seed = max_nodes, n_candidates, seed
        self.gain = {"entropy": entropy_gain, "squared_error": variance_gain}[criterion]
        self.n_rows, self.n_classes = 0, 1

    def path(self, root, x):
        nodes = [root]
        while nodes[-1].children:
            nodes.append(nodes[-1].children[nodes[-1].split.side(x)])
        return nodes

    def learn(self, x, y, weight):
        """The nodes on the row's paths; then learn it."""
        paths = [self.path(root, x) for root in self.roots]
        numbers = [node.number for path in paths for node in path]
        if weight > 0:
            self.n_classes = max(self.n_classes, int(y) + 1)
            for tree, path in enumerate(paths):
                self.learn_at(tree, path[-1], x, y, weight)
            self.n_rows += 1
        return numbers

    def draw(self, tree, which):
        n_trees, n_draws = len(self.roots), self.n_candidates + 1
        return splitmix64(self.seed, (self.n_rows * n_trees + tree) * n_draws + which)

    def learn_at(self, tree, leaf, x, y, weight):
        leaf.rows.append((y, weight))
        if self.sizes[tree] + 2 > self.max_nodes or leaf.depth == DEEPEST:
            return
        leaf.arrived += 1
        if len(leaf.splits) < self.n_candidates:
            for feature, value in leaf.waiting:
                if x[feature] != value:
                    low, high = sorted([x[feature], value])
                    share = self.draw(tree, self.n_candidates)
                    leaf.splits.append(Split(feature, low + share * (high - low)))
                    break
            features = [
                int(self.draw(tree, c) * len(x)) for c in range(len(leaf.splits), self.n_candidates)
            ]
            leaf.waiting = [(feature, x[feature]) for feature in features]
        for split in leaf.splits:
            split.sides[split.side(x)].append((y, weight))
        if leaf.arrived == leaf.due:
            leaf.due += leaf.due // 2
            gains = [self.gain(split.sides, self.n_classes) for split in leaf.splits]
            if gains and max(gains) > 2.0:
                self.split(tree, leaf, leaf.splits[int(np.argmax(gains))])

    def split(self, tree, leaf, split):
        leaf.split, leaf.children = split, []
        for rows in split.sides:
            leaf.children.append(Node(self.n_nodes, leaf.depth + 1, rows, self.of(leaf)))
            self.n_nodes += 1
        self.sizes[tree] += 2

    def of(self, leaf):
        """Frequencies, or the mean, of what a leaf has seen; its parent's count as one row."""
        y, weight = np.array(leaf.rows or [(0.0, 0.0)]).T
        if self.gain is variance_gain:
            total, n = (weight * y).sum(), weight.sum()
        else:
            total, n = np.bincount(y.astype(int), weight, minlength=3), weight.sum()
        if leaf.prior is not None:
            total, n = total + leaf.prior, n + 1.0
        return total / max(n, 1e-300)

    def predict(self, x):
        return np.mean([self.of(self.path(root, x)[-1]) for root in self.roots], axis=0)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10_000), st.sampled_from(["entropy", "squared_error"]),
    st.sampled_from([{}, {"n_candidates": 1}, {"max_nodes": 1}, {"n_trees": 1, "max_nodes": 99}]),
)  # fmt: skip
def test_trees_grow_as_a_plain_witness_does(seed, criterion, params):
    X, y, weight = problem(400, seed, criterion == "entropy")
    store = store_of(criterion=criterion, random_state=seed, **params)
    chosen = {**SMALL, **params}
    witness = Witness(**chosen, criterion=criterion, seed=seed)
    cuts = np.sort(np.random.default_rng(seed).integers(0, 401, 3))
    for part in np.split(np.arange(400), cuts):
        phi, predictions = store.learn(X[part], y[part], weight[part], predicts=True)
        for i, line in enumerate(part):
            if i % 20 == 0:
                assert_near(predictions[i], witness.predict(X[line]))
            paths = witness.learn(X[line], y[line], weight[line])
            assert phi.indices[phi.indptr[i] : phi.indptr[i + 1]].tolist() == paths
    assert store.n_nodes == witness.n_nodes
    if "max_nodes" not in params:
        assert store.n_nodes > chosen["n_trees"]
    for found, x in zip(store.leaf_predictions(X[:20]), X, strict=False):
        assert_near(found, witness.predict(x))


def assert_near(found, expected):
    """Classes that have not come yet have no column."""
    np.testing.assert_allclose(found, np.atleast_1d(expected)[: len(found)], atol=1e-9)
    assert not np.atleast_1d(expected)[len(found) :].any()


# --- in a model -----------------------------------------------------------------------------------

combinations = st.builds(
    Combination,
    loss=st.sampled_from([loss for loss in LOSSES if loss[0] != "novelty"]),
    margin=st.sampled_from(list(MARGINS)),
    step_size=st.sampled_from(list(STEP_SIZES)),
    kernel=st.just("linear"),
    budget=st.just("unbounded"),
    update=st.sampled_from(list(UPDATES)),
    intercept=st.booleans(),
    regularization=st.sampled_from([0.0, 1e-6, 0.05]),
).filter(is_allowed)


def machine_of(combination, sparse_rows=False, averaged=False):
    kernel = Forest(**SMALL).for_task(combination.loss[0])
    parts = replace(combination.parts(), budget=Folded(), kernel=kernel, averaged=averaged)
    machine = Machine(parts, 3, combination.n_outputs, np.dtype(float), sparse_rows)
    machine.scratch["learn"] = learn_tile.py_func
    return machine


@settings(max_examples=30, deadline=None)
@given(combinations, st.integers(0, 1000), st.booleans(), st.booleans())
def test_blocks_do_not_matter(combination, seed, sparse_rows, averaged):
    X, y, weight = problem_of(combination, 150, seed)
    one_by_one, blocks = (machine_of(combination, s, averaged) for s in (False, sparse_rows))
    rows = as_sparse_rows(X) if sparse_rows else X
    one_by_one.learn(X, y, weight, tile_rows=1)
    cuts = np.sort(np.random.default_rng(seed).integers(0, 151, 3))
    for part in np.split(np.arange(150), cuts):
        if part.size:
            blocks.learn(rows[part], y[part], weight[part], tile_rows=70)
    found, expected = everything(blocks), everything(one_by_one)
    assert_same(found, expected, 1e-9)
    for name, array in one_by_one.store.to_arrays(0).items():
        assert np.array_equal(array, blocks.store.to_arrays(0)[name]), name
    np.testing.assert_allclose(blocks.scores(rows), one_by_one.scores(X), atol=1e-9)


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("preset", ["adagrad", "smd-linear", "rls"])
def test_a_step_size_per_node(preset):
    """Nodes that appear later have weights, steps and covariances as if they had been there."""
    X, y, weight = problem(200, 8)
    block, rows = (ks.make(preset, "classifier", kernel=Forest(**SMALL)) for _ in range(2))
    block.partial_fit(X, y, classes=[0, 1, 2], sample_weight=weight)
    for part in np.array_split(np.arange(200), 30):
        rows.partial_fit(X[part], y[part], classes=[0, 1, 2], sample_weight=weight[part])
    assert block.machine_.n_points > SMALL["n_trees"]
    np.testing.assert_allclose(rows.coef_, block.coef_, atol=1e-9)
    np.testing.assert_allclose(rows.decision_function(X), block.decision_function(X), atol=1e-9)


def test_the_norm_is_that_of_the_weights():
    X, y, _ = problem(300, 0)
    model = ks.KernelClassifier(Forest(**SMALL), loss="log_loss").partial_fit(X, y)
    norm2 = model.machine_.state.expansion.norm2[0]
    assert norm2 == pytest.approx((model.coef_**2).sum(), rel=1e-9)


@pytest.mark.parametrize("criterion", ["entropy", "squared_error"])
def test_a_block_is_undone_byte_by_byte(criterion):
    """Also where it brought classes, and nodes that were written again afterwards."""
    X, y, weight = problem(600, 1, criterion == "entropy")
    store, never_failed = (store_of(criterion=criterion, max_nodes=63) for _ in range(2))
    early = y < 2 if criterion == "entropy" else np.ones(600, bool)
    first, failed, third = np.split(np.arange(600), [200, 400])
    first = first[early[first]]
    for block in np.array_split(first, 5):
        store.begin()
        store.learn(X[block], y[block], weight[block])
        store.end()
    never_failed.learn(X[first], y[first], weight[first])
    n_before, before = store.n_nodes, store.copy(0)
    store.begin()
    store.learn(X[failed], y[failed], weight[failed])
    assert store.n_nodes > n_before
    store.undo()
    for name, array in store.trees._asdict().items():
        common = tuple(slice(n) for n in getattr(before.trees, name).shape)
        assert array[common].tobytes() == getattr(before.trees, name).tobytes(), name
        assert not np.delete(array, np.s_[: common[-1].stop], -1).any()  # of further classes
    for block in np.array_split(third, 3):
        store.begin()
        store.learn(X[block], y[block], weight[block])
    never_failed.learn(X[third], y[third], weight[third])
    for name, array in never_failed.to_arrays(0).items():
        assert np.array_equal(array, store.to_arrays(0)[name]), name


def test_a_machine_is_rolled_back():
    combination = Combination(("classification", "log_loss", "many"))
    X, y, weight = problem(300, 9)
    machine, never_failed = machine_of(combination), machine_of(combination)
    for m in (machine, never_failed):
        m.learn(X[:100], y[:100], weight[:100])
    before = {name: array.copy() for name, array in machine.to_arrays().items()}
    machine.begin()
    machine.learn(X[100:200], y[100:200], weight[100:200])
    assert len(machine.to_arrays()["trees.left"]) > len(before["trees.left"])
    machine.roll_back()
    for name, array in machine.to_arrays().items():
        assert array.tobytes() == before[name].tobytes(), name
    for m in (machine, never_failed):
        m.learn(X[200:], y[200:], weight[200:])
    for name, array in machine.to_arrays().items():
        assert array.tobytes() == never_failed.to_arrays()[name].tobytes(), name


def test_a_copy_is_on_its_own():
    X, y, weight = problem(300, 2)
    store = store_of()
    store.learn(X[:200], y[:200], weight[:200])
    copy, pickled = store.copy(0), pickle.loads(pickle.dumps(store))
    before = {name: array.copy() for name, array in store.to_arrays(0).items()}
    for other in (copy, pickled):
        other.begin()
        other.learn(X[200:], y[200:], weight[200:])
        for name, array in store.to_arrays(0).items():
            assert np.array_equal(array, before[name]), name
    store.learn(X[200:], y[200:], weight[200:])
    for name, array in store.to_arrays(0).items():
        assert np.array_equal(array, copy.to_arrays(0)[name]), name
        assert np.array_equal(array, pickled.to_arrays(0)[name]), name


def test_precision_and_sparse_rows_do_not_matter():
    X, y, weight = problem(300, 3)
    X = X.astype(np.float32)
    single, double = store_of(dtype=np.float32), store_of()
    phi, _ = single.learn(X, y, weight)
    assert phi.dtype == np.float32
    expected, _ = double.learn(X.astype(float), y, weight)
    assert np.array_equal(phi.indices, expected.indices)
    assert np.array_equal(double.basis(0, as_sparse_rows(X), None).toarray(),
                          double.basis(0, X, None).toarray())  # fmt: skip


def test_a_path_ends():
    """Rows that move on make trees that are lists; none is longer than there is room for."""
    n_phases, n = DEEPEST + 10, 100
    values = np.repeat(np.arange(n_phases), n) + np.tile([0.0, 1.0], n_phases * n // 2)
    store = store_of(1, n_trees=1, max_nodes=999)
    for x in np.split(values, n_phases):
        store.learn(x[:, None], x % 2, np.ones(n))
    assert store.trees.depth.max() == DEEPEST
    assert np.diff(store.basis(0, values[:, None], None).T.indptr).max() == DEEPEST + 1


# --- files and errors -----------------------------------------------------------------------------


def test_changed_trees_are_refused_or_sound():
    X, y, _ = problem(300, 4)
    model = ks.KernelClassifier(Forest(**SMALL), loss="log_loss").partial_fit(X, y)
    store, random = model.machine_.store, np.random.default_rng(0)
    arrays = {name: np.array(array) for name, array in model.machine_.to_arrays().items()}
    junk = {"i": [-1, 0, 1, 7, 10**6, 2**62, -(2**62)], "f": [np.nan, np.inf, 1e300, -0.5, 9.0]}
    names, n_sound = [name for name in arrays if name.startswith("trees.")], 0
    for name in names:
        for _ in range(60):
            changed = {**arrays, name: arrays[name].copy()}
            flat = changed[name].reshape(-1)
            with np.errstate(all="ignore"):
                flat[random.integers(len(flat))] = random.choice(junk[flat.dtype.kind])
            other = ForestStore(store.kernel, store.n_slots, 3, store.dtype)
            try:
                other.fill(changed, None)
            except ValueError:
                continue
            n_sound += 1
            phi, _ = other.learn(X, y, np.ones(len(X)))
            assert 0 <= phi.indices.min() <= phi.indices.max() < store.n_slots
    assert n_sound > 0
    for name in names:
        for harmed in (arrays[name][..., :-1], arrays[name].astype(np.float16)):
            other = ForestStore(store.kernel, store.n_slots, 3, store.dtype)
            with pytest.raises(ValueError, match=r"there are|of type"):
                other.fill({**arrays, name: harmed}, None)


def test_saved_and_gone_on():
    """Bit for bit; and rows may get more features."""
    X, y, _ = problem(300, 5)
    model = ks.KernelClassifier(Forest(**SMALL), loss="log_loss").partial_fit(X[:200], y[:200])
    again = from_bytes(model.to_bytes())
    assert again.kernel_.criterion == "entropy"
    for m in (model, again):
        m.widen(5)
        m.partial_fit(np.hstack([X[200:], X[200:, :2]]), y[200:])
    assert model.to_bytes() == again.to_bytes()
    with pytest.raises(ValueError, match="a tree looks at"):
        model.widen(1)


def test_trees_of_numbers_are_saved():
    X, y, weight = problem(300, 5, classes=False)
    store, again = (store_of(criterion="squared_error") for _ in range(2))
    store.learn(X[:200], y[:200], weight[:200])
    again.fill({**store.to_arrays(0), "expansion.n_points": np.array([store.n_nodes])}, None)
    for other in (store, again):
        other.learn(X[200:], y[200:], weight[200:])
    for name, array in store.to_arrays(0).items():
        assert np.array_equal(array, again.to_arrays(0)[name]), name


def test_a_single_output_knows_two_classes():
    X, y, weight = problem(300, 6)
    labels, signs = store_of(), store_of()
    labels.learn(X, (y > 0).astype(float), weight)
    signs.learn(X, np.where(y > 0, 1.0, -1.0), weight)
    found = signs.leaf_predictions(X)
    assert np.array_equal(found, labels.leaf_predictions(X))
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert ((found[:, 1] > 0.5) == (y > 0)).mean() > 0.8


def test_what_it_goes_with():
    X, y, _ = problem(30, 7)
    with pytest.raises(ValueError, match="has none: use another"):
        ks.NoveltyDetector(Forest()).partial_fit(X)
    with pytest.raises(ValueError, match="budget='auto'"):
        ks.KernelClassifier(Forest(), budget=5).partial_fit(X, y)
    with pytest.raises(ValueError, match="give 'entropy' or 'auto'"):
        ks.KernelClassifier(Forest(criterion="squared_error")).partial_fit(X, y)
    with pytest.raises(TypeError, match="give it to an estimator"):
        Forest()(X)
    with pytest.raises(TypeError, match="give it to an estimator"):
        ks.KernelClassifier(Nystroem(Forest(), 5)).partial_fit(X, y)
    with pytest.raises(ValueError, match="max_nodes"):
        Forest(max_nodes=0)
    with pytest.raises(ValueError, match="criterion"):
        Forest(criterion="gini")

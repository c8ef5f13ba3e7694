"""Any number of threads predict while one learns; learning calls wait for each other; Ctrl-C.

These run compiled code, which lets go of Python's lock. Together they take some twenty seconds.
"""

import copy
import pickle
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import kernelstream as ks

SECONDS = 5.0  # of every test with readers
random = np.random.default_rng(0)
X = random.normal(size=(6000, 4))
PROBE = random.normal(size=(50, 4))


def labels_that_join(n_rows, every=400):
    """A new class every now and then."""
    n_classes = 2 + np.arange(n_rows) // every
    return (np.abs(X[:n_rows] @ [3.0, 1.0, 2.0, 1.0]) * 10).astype(int) % n_classes


def blocks_of(n_rows, size):
    return [slice(start, start + size) for start in range(0, n_rows, size)]


def answers_after_each_block(model, learn, read, blocks):
    """What a model answers before the first block and after each; the first fits it."""
    answers = []
    for block in blocks:
        learn(model, block)
        answers.append(read(model))
    return answers


def read_while_learning(model, learn, read, blocks, seconds=SECONDS):
    """Everything that three readers saw while one thread learned the blocks, for some seconds."""
    seen, errors, done = [], [], threading.Event()

    def keep_reading():
        try:
            while not done.is_set():
                seen.append(read(model))
                time.sleep(0)  # others may have their turn
        except Exception as error:
            errors.append(error)

    readers = [threading.Thread(target=keep_reading) for _ in range(3)]
    for reader in readers:
        reader.start()
    pause = seconds / len(blocks)
    try:
        for block in blocks:
            began = time.monotonic()
            learn(model, block)
            time.sleep(max(0.0, pause - (time.monotonic() - began)))
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert not errors, errors[:3]
    return seen


def assert_each_is_one_of(seen, allowed):
    """Every answer is that of a model between two blocks, to rounding."""
    assert len(seen) > 20
    by_shape = {}
    for answer in allowed:
        by_shape.setdefault(answer.shape, []).append(answer)
    by_shape = {shape: np.stack(answers) for shape, answers in by_shape.items()}
    for answer in seen:
        candidates = by_shape[answer.shape]
        axes = tuple(range(1, candidates.ndim))
        assert np.abs(candidates - answer).max(axis=axes).min() <= 1e-9


def scores_of(model):
    return model.decision_function(PROBE)


def learn_block(y):
    return lambda model, block: model.partial_fit(X[block], y[block])


def learn_rows(y):
    def learn(model, block):
        for row, label in zip(X[block], y[block].tolist(), strict=True):
            model.learn_one(row, label)

    return learn


@pytest.mark.parametrize("budget", [64, ks.budgets.LeastLoss(32), None], ids=str)
def test_readers_see_a_classifier_between_blocks_while_classes_join(budget):
    y = labels_that_join(2000)
    learn, blocks = learn_block(y), blocks_of(2000, 50)
    new = ks.KernelClassifier(gamma=0.5, budget=budget)
    allowed = answers_after_each_block(clone(new), learn, scores_of, blocks)
    model = clone(new)
    learn(model, blocks[0])
    seen = read_while_learning(model, learn, scores_of, blocks[1:])
    assert_each_is_one_of(seen, allowed)
    np.testing.assert_allclose(scores_of(model), allowed[-1], rtol=1e-9, atol=1e-9)


def test_labels_and_scores_belong_together_while_classes_join():
    y = labels_that_join(2000, every=60)
    model = ks.KernelClassifier(gamma=0.5, loss="log_loss", budget=64).partial_fit(X[:50], y[:50])

    def read(model):
        labels, probabilities = model.predict(PROBE), model.predict_proba(PROBE)
        assert np.isfinite(probabilities).all()
        assert set(labels.tolist()) <= set(model.classes_.tolist())
        assert model.predict_one(PROBE[0]) in model.classes_
        restored = pickle.loads(pickle.dumps(model))
        assert restored.dual_coef_.shape[1] == len(restored.support_vectors_)
        return labels

    read_while_learning(model, learn_block(y), read, blocks_of(2000, 20)[2:], seconds=2.0)


def test_readers_see_a_model_between_rows_that_are_learned_one_by_one():
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    rows = blocks_of(1500, 1)

    def start():
        model = ks.KernelClassifier(gamma=0.5, budget=32)
        return model.partial_fit(X[:50], y[:50], classes=[0, 1])

    model = start()
    allowed = [scores_of(model), *answers_after_each_block(model, learn_rows(y), scores_of, rows)]
    model = start()
    seen = read_while_learning(model, learn_rows(y), scores_of, rows, seconds=2.0)
    assert_each_is_one_of(seen, allowed)
    np.testing.assert_allclose(scores_of(model), allowed[-1], rtol=1e-9, atol=1e-9)


def test_readers_see_the_model_before_or_after_a_fit():
    """Also where the new model has other labels than the one before."""
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    fits = [(slice(0, 600), y + 10), (slice(600, 1800), y + 20), (slice(0, 300), y + 30)]

    def learn(model, which):
        rows, labels = fits[which]
        model.fit(X[rows], labels[rows])

    def read(model):
        return np.append(model.predict(PROBE), model.predict_one(PROBE[0]))

    new = lambda: ks.KernelClassifier(gamma=0.5, budget=64, on_bad_row="skip")  # noqa: E731
    allowed = [a[:-1] for a in answers_after_each_block(new(), learn, read, [0, 1, 2])]
    model = new()
    learn(model, 0)
    seen = read_while_learning(model, learn, read, [1, 2, 0] * 20, seconds=2.0)
    assert_each_is_one_of([answer[:-1] for answer in seen], allowed)


class Diary(ks.KernelClassifier):
    """A classifier that notes the order in which blocks were learned."""

    def checked(self, X, y, *rest):
        self.__dict__.setdefault("_diary", []).append(int(X[0, 0]))
        return super().checked(X[:, 1:], y, *rest)


@pytest.mark.parametrize("budget", [32, None], ids=str)
def test_learning_calls_of_several_threads_wait_for_each_other(budget):
    y = labels_that_join(3000)
    blocks = blocks_of(3000, 10)
    numbered = [np.column_stack([np.full(10, i), X[block]]) for i, block in enumerate(blocks)]
    model = Diary(gamma=0.5, budget=budget)

    def learn_share(share):
        for i in range(share, len(blocks), 4):
            model.partial_fit(numbered[i], y[blocks[i]])
            model.learn_one(X[i], 0)

    model.partial_fit(numbered[0], y[blocks[0]])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(learn_share, range(4)))
    assert model.n_seen_ == 10 + 3000 + len(blocks)
    assert len(model._diary) == len(blocks) + 1
    assert np.isfinite(model.dual_coef_).all()
    assert model.n_support_ <= (budget or np.inf)
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(restored.dual_coef_, model.dual_coef_)


def test_blocks_of_several_threads_are_learned_whole():
    """The model is the one that learns the same blocks in the order of the diary."""
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    blocks = blocks_of(3000, 10)
    numbered = [np.column_stack([np.full(10, i), X[block]]) for i, block in enumerate(blocks)]
    model = Diary(gamma=0.5, budget=32).partial_fit(numbered[0], y[blocks[0]], classes=[0, 1])
    with ThreadPoolExecutor(4) as pool:
        list(
            pool.map(lambda i: model.partial_fit(numbered[i], y[blocks[i]]), range(1, len(blocks)))
        )
    alone = ks.KernelClassifier(gamma=0.5, budget=32)
    for i in model._diary:
        alone.partial_fit(X[blocks[i]], y[blocks[i]], classes=[0, 1])
    assert sorted(model._diary) == list(range(len(blocks)))
    np.testing.assert_allclose(model.dual_coef_, alone.dual_coef_, rtol=1e-9, atol=1e-12)


def test_a_fleet_is_read_from_four_threads():
    fleet = ks.Fleet("svmd", "classifier", 500, 4, classes=[0, 1], gamma=0.5, budget=8)
    for start in range(0, 3000, 500):
        rows = slice(start, start + 500)
        fleet.learn(X[rows], (X[rows, 0] > 0).astype(int))
    expected = fleet.score_samples(X[:500])
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: fleet.score_samples(X[:500]), range(400)))
    for answer in answers:
        np.testing.assert_array_equal(answer, expected)


def small_fleet():
    return ks.Fleet("svmd", "regressor", 20, 4, gamma=0.5, budget=8)


def test_disjoint_models_of_a_fleet_learn_in_two_threads_while_others_read():
    y = np.sin(X[:, 0])
    members = random.integers(0, 20, len(X))
    halves = [np.flatnonzero(members % 2 == half) for half in (0, 1)]
    alone, together = small_fleet(), small_fleet()
    for start in range(0, 2900, 10):
        for half in halves:
            rows = half[start : start + 10]
            alone.learn(X[rows], y[rows], models=members[rows])

    def learn_half(half):
        for start in range(0, 2900, 10):
            rows = half[start : start + 10]
            together.learn(X[rows], y[rows], models=members[rows])

    done = threading.Event()
    wrong = []

    def keep_reading():
        while not done.is_set():
            if not np.isfinite(together.score_samples(X[:20])).all():
                wrong.append("not finite")

    reader = threading.Thread(target=keep_reading)
    reader.start()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(learn_half, halves))
    done.set()
    reader.join()
    assert not wrong
    np.testing.assert_array_equal(together.n_seen_, alone.n_seen_)
    np.testing.assert_allclose(
        together.score_samples(X[:20]), alone.score_samples(X[:20]), rtol=1e-9
    )


def test_readers_of_a_fleet_see_it_between_blocks():
    y = np.sin(X[:, 0])
    blocks = blocks_of(6000, 200)
    members = np.tile(np.arange(20), 10)  # ten rows for each model in every block

    def learn(fleet, block):
        fleet.learn(X[block], y[block], models=members)

    def read(fleet):
        return fleet.score_samples(PROBE[:20])

    allowed = answers_after_each_block(small_fleet(), learn, read, blocks)
    fleet = small_fleet()
    learn(fleet, blocks[0])
    seen = read_while_learning(fleet, learn, read, blocks[1:], seconds=3.0)
    assert_each_is_one_of(seen, allowed)


# --- Ctrl-C --------------------------------------------------------------------------------------

INTERRUPTED = {
    "oldest": ("svmd", {"budget": 16}),
    "merge": ("pa", {"budget": ks.budgets.Merge(16)}),
    "projected": ("pa", {"budget": ks.budgets.LeastLoss(16)}),
    "dictionary": ("sog-svr", {"budget": ks.budgets.Independent(0.01, size=16)}),
    "unbounded": ("norma", {"budget": None}),
    "sparse": ("norma", {"budget": 16}),
}


def interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timer signals")
@pytest.mark.parametrize("name", INTERRUPTED)
def test_an_interrupt_leaves_a_row_learned_or_not(name):
    preset, params = INTERRUPTED[name]
    rows = [sparse.csr_array(x[None]) if name == "sparse" else x for x in X[:600]]
    y = np.sin(X[:, 0]).tolist()
    first = sparse.csr_array(X[:20]) if name == "sparse" else X[:20]
    start = ks.make(preset, "regressor", gamma=0.5, **params).partial_fit(first, y[:20])
    start.learn_one(rows[0], y[0])
    alone = copy.deepcopy(start)
    expected = {alone.n_seen_: alone.to_bytes()}
    seconds = []
    for row, target in zip(rows, y[: len(rows)], strict=True):
        began = time.perf_counter()
        alone.learn_one(row, target)
        seconds.append(time.perf_counter() - began)
        expected[alone.n_seen_] = alone.to_bytes()
    usual = float(np.median(seconds))  # a mean would be that of the slowest rows
    interrupts = 0
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        while interrupts < 50:  # how many a pass has depends on the machine
            model = copy.deepcopy(start)
            model.learn_one(rows[0], y[0])  # what a copy makes once is made now
            i, patience = 1, 5.0
            while i < len(rows):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 1e-6 + patience * usual * random.random())
                    while i < len(rows):
                        model.learn_one(rows[i], y[i])
                        i += 1
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except KeyboardInterrupt:
                    interrupts += 1
                    assert model.to_bytes() == expected[model.n_seen_]
                    stuck = i == model.n_seen_ - start.n_seen_  # at a row that takes long
                    patience = 2.0 * patience if stuck else 5.0
                    i = model.n_seen_ - start.n_seen_
            assert model.to_bytes() == alone.to_bytes()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

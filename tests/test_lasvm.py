"""LASVM on a stream: the slow specification, any blocks, the batch problem, a size, files."""

import threading

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC

import kernelstream as ks
from kernelstream import budgets, kernels, losses, margins, step_sizes, updates
from kernelstream.learner import lasvm, machine
from kernelstream.learner.machine import Machine, Parts
from tests.reference.active import ActiveReference


def problem(seed=0, n_rows=120, noise=0.1, many=False):
    """Rows with a curved boundary, and wrong labels among them."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 3))
    signal = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    y = np.digitize(signal, [-0.5, 0.5]) if many else (signal > 0).astype(int)
    wrong = random.random(n_rows) < noise
    return X, np.where(wrong, random.integers(0, 3 if many else 2, n_rows), y)


def digits(n_rows=400):
    X, y = load_digits(return_X_y=True)
    return X[:n_rows] / 16, y[:n_rows]


def new(**params):
    return ks.make("lasvm", "classifier", **{"gamma": 0.5, "C": 5.0, **params})


def active_set(model):
    """The rows of the active set, their labels' numbers, and the limits of their coefficients."""
    n, active = model.n_support_, model.machine_.state.update
    return model.support_vectors_, active.y[:n], active.limit[:n]


def assert_feasible(model):
    """0 <= y alpha <= C at every point, and the sum of all alpha zero, in every output."""
    _, y, limit = active_set(model)
    alpha = model.dual_coef_
    for k, line in enumerate(alpha):
        sign = y if len(alpha) == 1 and (y != 0).all() else np.where(y == k, 1, -1)
        assert (sign * line >= 0).all()
        assert (sign * line <= limit * (1 + 1e-12)).all()
        assert abs(line.sum()) <= 1e-9 * limit.max(initial=1.0)


def assert_same_bytes(*models):
    assert len({model.to_bytes() for model in models}) == 1


# --- the specification ----------------------------------------------------------------------------

BUDGETS = [budgets.Unbounded(), budgets.OldestOut(14), budgets.SmallestOut(14)]


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
@pytest.mark.parametrize("kernel", [kernels.RBF(0.5), kernels.Polynomial(2, 0.5, 1.0)], ids=repr)
def test_any_tile_is_what_the_paper_says(many, budget, kernel, monkeypatch):
    monkeypatch.setattr(machine, "entry_point", lambda function, *_: function.py_func)
    monkeypatch.setattr(lasvm, "finish_active_set", lasvm.finish_active_set.py_func)
    X, y = problem(1, 90, many=many)
    y = y.astype(float) if many else np.where(y > 0, 1.0, -1.0)
    weight = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 2.0], size=90)
    parts = Parts(
        kernel=kernel, loss=losses.find("classification", "hinge", not many).rule,
        margin=margins.Fixed(0.8), step_size=step_sizes.Constant(1.0), update=updates.LASVM(0.02),
        budget=budget, fit_intercept=True, regularization=0.5, loss_weight=2.0,
    )  # fmt: skip
    n_outputs = 3 if many else 1
    reference = ActiveReference(parts, 3, n_outputs)
    expected = [reference.learn(*row) for row in zip(X, y, weight, strict=True)]
    learners = [Machine(parts, 3, n_outputs, np.dtype(float)) for _ in range(3)]
    for learner, tile_rows in zip(learners, (1, 7, 64), strict=True):
        trail = learner.learn(X, y, weight, tile_rows=tile_rows)[0]
        np.testing.assert_allclose(trail.scores, expected, rtol=1e-9, atol=1e-9)
        assert trail.n_points[-1] == len(reference.y)
    reference.finish()
    for learner in learners:
        lasvm.finish_active(learner)
        np.testing.assert_allclose(learner.coefficients(), reference.alpha.T, atol=1e-8)
        np.testing.assert_allclose(learner.store.stored(learner.n_points), reference.points)
        np.testing.assert_allclose(learner.state.intercept.b, reference.b, atol=1e-8)
        gradients = [reference.gradient(k) for k in range(n_outputs)]
        found = learner.state.update.gradients[:, : learner.n_points]
        np.testing.assert_allclose(found, gradients, atol=1e-8)
        f = learner.coefficients() @ kernel(reference.points)
        assert learner.state.expansion.norm2[0] == pytest.approx(
            (learner.coefficients() * f).sum(), rel=1e-8
        )


# --- blocks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [None, 60, budgets.SmallestOut(60)])
@pytest.mark.parametrize("classes", [None, range(10)])
def test_blocks_of_any_size_and_single_rows_give_the_same_model(budget, classes):
    X, y = digits()
    whole = new(budget=budget, gamma=0.1).partial_fit(X, y, classes=classes)
    assert budget is None or whole.n_support_ <= 60
    assert_feasible(whole)
    for size in (7, 150):
        model = new(budget=budget, gamma=0.1)
        for start in range(0, 400, size):
            rows = slice(start, start + size)
            model.partial_fit(X[rows], y[rows], classes=None if start else classes)
        np.testing.assert_array_equal(model.dual_coef_, whole.dual_coef_)
        np.testing.assert_array_equal(model.support_vectors_, whole.support_vectors_)
        np.testing.assert_array_equal(model.intercept_, whole.intercept_)
    ones = new(budget=budget, gamma=0.1).partial_fit(X[:1], y[:1], classes=classes)
    for x, label in zip(X[1:], y[1:], strict=True):
        ones.learn_one(x, label)
    np.testing.assert_array_equal(ones.dual_coef_, whole.dual_coef_)
    np.testing.assert_array_equal(ones.intercept_, whole.intercept_)
    assert ones.n_seen_ == whole.n_seen_ == 400
    assert [ones.predict_one(x) for x in X[:20]] == whole.predict(X[:20]).tolist()


def test_prequential_asks_before_it_learns():
    X, y = problem(2, 300)
    result = ks.prequential(new(), X, y)
    model = new().partial_fit(X[:1], y[:1], classes=[0, 1])
    for i in range(1, 300):
        assert model.decision_function(X[i : i + 1])[0] == pytest.approx(result.scores[i], abs=1e-9)
        model.learn_one(X[i], y[i])
        assert result.n_support[i] == model.n_support_
    sign = np.where(y == 1, 1, -1)
    np.testing.assert_allclose(result.losses, np.maximum(0, 1 - sign * result.scores), atol=1e-12)


def test_a_stream_that_is_not_linear_is_learned():
    X, y = problem(3, 3000, noise=0.0)
    result = ks.prequential(new(), X, y)
    assert result.errors[2000:].mean() < 0.05
    linear = ks.prequential(new(kernel="linear", gamma="auto"), X, y)
    assert linear.errors[2000:].mean() > 0.2


@pytest.mark.usefixtures("without_compiler")
def test_classes_may_come_late():
    X, y = digits(200)
    late = np.argsort(y == 7, kind="stable")  # sevens come last
    X, y = X[late], y[late]
    model = new(gamma=0.1)
    for rows in (slice(0, 150), slice(150, None)):
        model.partial_fit(X[rows], y[rows])
    assert set(model.classes_) == set(range(10))
    assert_feasible(model)
    assert (model.predict(X[y == 7]) == 7).all()
    assert (model.predict(X) == y).mean() > 0.97


@pytest.mark.usefixtures("without_compiler")
def test_a_stream_may_begin_with_one_class():
    X, y = problem(4, 60, noise=0.0)
    X, y = X[np.argsort(y, kind="stable")], np.sort(y)
    model = new(budget=20)
    for i, (x, label) in enumerate(zip(X, y, strict=True)):
        model.partial_fit(x[None], [label], classes=[0, 1])
        if label == 0:
            assert (model.predict(X) == 0).all()
            assert model.n_support_ == min(i + 1, 10)  # no more than a few, until they are needed
    assert (model.predict(X) == y).mean() > 0.7
    model.finish()
    assert_feasible(model)


@pytest.mark.usefixtures("without_compiler")
def test_a_weight_multiplies_c_and_zero_is_absent():
    X, y = problem(5, 100)
    weight = np.random.default_rng(0).choice([0.0, 1.0, 3.0], size=100)
    kept = weight > 0
    model = new().partial_fit(X, y, classes=[0, 1], sample_weight=weight)
    alone = new().partial_fit(X[kept], y[kept], classes=[0, 1], sample_weight=weight[kept])
    np.testing.assert_array_equal(model.dual_coef_, alone.dual_coef_)
    assert model.n_seen_ == kept.sum()
    rows, _, limit = active_set(model)
    number = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in rows]
    np.testing.assert_allclose(limit, 5.0 * weight[number])
    tripled = new().partial_fit(X, y, classes=[0, 1], sample_weight=np.full(100, 3.0))
    np.testing.assert_array_equal(
        tripled.dual_coef_, new(C=15.0).partial_fit(X, y, classes=[0, 1]).dual_coef_
    )


def test_a_row_without_weight_is_absent_in_fit_too():
    X, y = problem(5, 150)
    weight = np.random.default_rng(0).choice([0.0, 1.0, 3.0], size=150)
    kept = weight > 0
    model = new().fit(X, y, sample_weight=weight)
    alone = new().fit(X[kept], y[kept], sample_weight=weight[kept])
    np.testing.assert_array_equal(model.dual_coef_, alone.dual_coef_)


# --- the batch problem ----------------------------------------------------------------------------


def objective(alpha, rows, gamma=0.5):
    """The dual of the SVM: sum |alpha| - 1/2 ||f||^2."""
    return np.abs(alpha).sum() - 0.5 * alpha @ kernels.RBF(gamma)(rows) @ alpha


@pytest.mark.parametrize("C", [1.0, 10.0, 100.0])
@pytest.mark.parametrize("budget", [None, 60])
def test_finishing_solves_the_svm_on_the_active_set(C, budget):
    X, y = problem(6, 600)
    model = new(C=C, budget=budget).partial_fit(X, y, classes=[0, 1])
    before = objective(model.dual_coef_[0], model.support_vectors_)
    n_seen = model.n_seen_
    assert model.finish() is model
    rows, labels, _ = active_set(model)
    exact = SVC(C=C, gamma=0.5, tol=1e-8).fit(rows, labels)
    best = objective(exact.dual_coef_[0], exact.support_vectors_)
    assert before < best
    assert objective(model.dual_coef_[0], rows) == pytest.approx(best, rel=1e-5)
    np.testing.assert_allclose(
        model.decision_function(X), exact.decision_function(X), atol=0.02 * max(C, 1) ** 0.5
    )
    assert_feasible(model)
    assert model.n_seen_ == n_seen
    again = model.to_bytes()
    assert model.finish().to_bytes() == again
    model.partial_fit(X[:50], y[:50])  # and goes on
    assert_feasible(model)


def test_one_pass_and_finishing_come_near_the_svm_of_all_rows():
    """As the authors found: its error, and most of its objective; more passes of `fit` give all."""
    X, y = problem(7, 3000, noise=0.02)
    test, truth = problem(8, 2000, noise=0.0)
    exact = SVC(C=5.0, gamma=0.5, tol=1e-6).fit(X, y)
    best = objective(exact.dual_coef_[0], exact.support_vectors_)
    model = new().partial_fit(X, y, classes=[0, 1]).finish()
    found = objective(model.dual_coef_[0], model.support_vectors_)
    assert 0.97 * best < found <= best * (1 + 1e-9)
    assert (model.predict(test) != truth).mean() <= (exact.predict(test) != truth).mean() + 0.01
    fitted = new(n_epochs=10).fit(X, y)
    assert objective(fitted.dual_coef_[0], fitted.support_vectors_) == pytest.approx(best, rel=1e-3)


def test_a_stream_goes_on_from_fit():
    X, y = digits()
    model = new(gamma=0.1).fit(X[:300], y[:300])
    gradients = model.machine_.state.update.gradients[:, : model.n_support_]
    sign = np.where(active_set(model)[1] == np.arange(10)[:, None], 1.0, -1.0)
    f = model.dual_coef_ @ model.kernel_(model.support_vectors_)
    np.testing.assert_allclose(gradients, sign - f, atol=1e-9)
    model.partial_fit(X[300:], y[300:])
    assert model.n_seen_ == 400
    assert_feasible(model)
    f = model.decision_function(model.support_vectors_) - model.intercept_
    sign = np.where(active_set(model)[1] == np.arange(10)[:, None], 1.0, -1.0)
    gradients = model.machine_.state.update.gradients[:, : model.n_support_]
    np.testing.assert_allclose(gradients, sign - f.T, atol=1e-9)
    assert (model.predict(X) == y).mean() > 0.98


@pytest.mark.usefixtures("without_compiler")
def test_others_have_nothing_to_finish():
    X, y = problem(0, 40)
    for preset in ("svmd", "pa"):
        model = ks.make(preset, "classifier").partial_fit(X, y)
        before = model.to_bytes()
        assert model.finish() is model
        assert model.to_bytes() == before
    with pytest.raises(NotFittedError):
        ks.KernelClassifier().finish()
    with pytest.raises(NotFittedError):
        new().finish()


# --- a size ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [budgets.OldestOut, budgets.SmallestOut])
@pytest.mark.parametrize("C", [0.5, 5.0, 500.0])
@pytest.mark.parametrize("many", [False, True])
def test_with_a_size_coefficients_stay_feasible(policy, C, many):
    X, y = problem(9, 400, many=many)
    weight = np.random.default_rng(0).choice([0.0, 0.3, 1.0, 4.0], size=400)
    model = new(C=C, budget=policy(25))
    for start in range(0, 400, 20):
        rows = slice(start, start + 20)
        model.partial_fit(X[rows], y[rows], sample_weight=weight[rows])
        assert model.n_support_ <= 25
        assert_feasible(model)
        f = model.label_scores(model.support_vectors_) - model.intercept_
        n_outputs = f.shape[1]
        sign = np.where(active_set(model)[1] == np.arange(n_outputs)[:, None], 1.0, -1.0)
        gradients = model.machine_.state.update.gradients[:, : model.n_support_]
        np.testing.assert_allclose(gradients, sign - f.T, atol=1e-9 * (1 + C))
    assert_feasible(model.finish())


def test_with_a_size_it_follows_a_change_and_memory_is_flat():
    X, y = problem(10, 6000, noise=0.05)
    y[3000:] = 1 - y[3000:]
    model = new(C=1.0, budget=120)
    errors = ks.prequential(model, X, y).errors
    assert errors[2000:3000].mean() < 0.25
    assert errors[5000:].mean() < 0.25
    learner = model.machine_
    lines, _ = learner.scratch["lines"]
    assert learner.n_slots == 120
    assert lines.lines.shape == (120, 120)
    assert learner.state.update.gradients.shape == (1, 120)


def test_fit_keeps_to_a_size_and_finishes():
    X, y = problem(11, 500)
    model = new(budget=40, n_epochs=3, random_state=0).fit(X, y)
    assert model.n_passes_ == 3
    assert model.n_support_ <= 40
    assert_feasible(model)
    assert len(np.unique(model.support_vectors_, axis=0)) == model.n_support_  # none comes twice
    before = model.to_bytes()
    assert model.finish().to_bytes() == before
    by_hand = new(budget=40).partial_fit(X, y, classes=[0, 1]).finish()
    np.testing.assert_array_equal(new(budget=40).fit(X, y).dual_coef_, by_hand.dual_coef_)


# --- kernels, rows, files, refusals ---------------------------------------------------------------


@pytest.mark.parametrize("budget", [None, 50])
def test_sparse_rows_and_functions_are_the_same_stream(budget):
    X, y = digits(250)
    expected = new(gamma=0.1, budget=budget).partial_fit(X, y)
    sparse = new(gamma=0.1, budget=budget)
    function = new(
        kernel=lambda A, B: kernels.RBF(0.1)(A, B), gamma="auto", budget=budget
    )  # fmt: skip
    for start in range(0, 250, 60):
        rows = slice(start, start + 60)
        sparse.partial_fit(csr_array(X[rows]), y[rows])
        function.partial_fit(X[rows], y[rows])
    for model in (sparse, function, expected):
        model.finish()
        assert_feasible(model)
    for model in (sparse, function):
        np.testing.assert_allclose(
            model.decision_function(X), expected.decision_function(X), atol=1e-8
        )
        assert model.n_support_ == expected.n_support_


def test_float32_rows():
    X, y = digits(200)
    model = new(gamma=0.1).partial_fit(X.astype(np.float32), y)
    twin = new(gamma=0.1).partial_fit(X, y)
    assert model.support_vectors_.dtype == np.float32
    np.testing.assert_allclose(model.decision_function(X), twin.decision_function(X), atol=1e-4)


def test_the_cache_changes_nothing():
    X, y = digits()
    models = [
        new(gamma=0.1, update=updates.LASVM(cache_mb=cache_mb)).partial_fit(X, y).finish()
        for cache_mb in (256, 1e-6)
    ]
    lines, _ = models[1].machine_.scratch["lines"]
    assert lines.lines.shape[0] == 64 < models[1].n_support_
    np.testing.assert_array_equal(models[0].dual_coef_, models[1].dual_coef_)
    np.testing.assert_array_equal(models[0].intercept_, models[1].intercept_)


CASES = {
    "two classes": (np.asarray, {}),
    "a size": (np.asarray, {"budget": 50}),
    "sparse": (csr_array, {"budget": 50}),
    "normalized": (
        np.asarray,
        {"kernel": kernels.Normalized(kernels.Polynomial(3, 1.0, 1.0)), "gamma": "auto"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_loaded_model_goes_on_bit_for_bit(case, tmp_path, request):
    rows, params = CASES[case]
    X, y = digits(300)
    if case == "two classes":
        y = (y > 4).astype(int)
    if case == "normalized":  # a kernel that is compiled for no other test
        request.getfixturevalue("without_compiler")
        X, y = problem(16, 150)
    X = rows(X)
    model = new(**{"gamma": 0.1, **params}).partial_fit(X[:50], y[:50])
    for start in range(50, len(y), 50):
        model.save(tmp_path / "model.ks")
        twin = ks.load(tmp_path / "model.ks")
        assert_same_bytes(model, twin)
        block = slice(start, start + 50)
        for one in (model, twin):
            one.partial_fit(X[block], y[block])
            one.learn_one(X[[start]] if rows is csr_array else X[start], y[start])
        assert_same_bytes(model, twin)
    if case != "normalized":
        assert_same_bytes(model.finish(), twin.finish())


def test_a_checkpointer_finds_its_place(tmp_path):
    X, y = digits(300)

    def learn(folder, last):
        keeper = ks.Checkpointer(folder, every_rows=100)
        model, position = keeper.resume(lambda: new(gamma=0.1, budget=50))
        for start in range(position, last, 50):
            model.partial_fit(X[start : start + 50], y[start : start + 50])
            keeper.step(model, start + 50)
        return model, position

    learn(tmp_path / "stopped", 250)
    model, position = learn(tmp_path / "stopped", 300)
    assert position == 200
    assert_same_bytes(model, learn(tmp_path / "whole", 300)[0])


@pytest.mark.parametrize("rows", [np.asarray, csr_array], ids=["dense", "sparse"])
def test_a_refused_row_leaves_everything_as_it_was(rows):
    X, y = problem(13, 200)
    model = new(budget=30, regularization=1e-300, kernel="linear", gamma="auto")
    twin = new(budget=30, regularization=1e-300, kernel="linear", gamma="auto")
    model.partial_fit(rows(X[:100]), y[:100], classes=[0, 1])
    twin.partial_fit(rows(X[:100]), y[:100], classes=[0, 1])
    before = model.to_bytes()
    bad = X[100:140].copy()
    bad[20] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(rows(bad), y[100:140])
    assert model.to_bytes() == before
    bad[20] = [1e200, 0, 0]
    with pytest.raises(ValueError, match="row 20 was refused"):
        model.partial_fit(rows(bad), y[100:140])
    with pytest.raises(ValueError, match="was refused"):
        model.learn_one(bad[20], 1)
    assert model.to_bytes() == before
    for one in (model, twin):  # nothing is left behind, in the cache neither
        one.partial_fit(rows(X[100:]), y[100:])
    assert_same_bytes(model, twin)


@pytest.fixture(params=[False, True], ids=["alone", "with another thread"])
def another_thread(request):
    """Blocks are learned by a draft where other threads could read."""
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    if request.param:
        thread.start()
    yield
    done.set()
    if request.param:
        thread.join()


@pytest.mark.usefixtures("another_thread")
def test_a_step_that_cannot_be_represented_is_refused():
    X, y = problem(14, 200)
    model = new(budget=30).partial_fit(X[:100], y[:100], classes=[0, 1])
    twin = new(budget=30).partial_fit(X[:100], y[:100], classes=[0, 1])
    before = model.to_bytes()
    learn, calls = model.machine_.scratch["learn"], []

    def refuses(*arguments):  # learns all rows, and says that the fourth was not
        calls.append(learn(*arguments))
        return 3

    model.machine_.scratch["learn"] = refuses
    with pytest.raises(ValueError, match="row 3 was refused: the step it asks for is too large"):
        model.partial_fit(X[100:130], y[100:130])
    model.machine_.scratch["learn"] = lambda *arguments: learn(*arguments) * 0
    with pytest.raises(ValueError, match="was refused"):
        model.learn_one(X[100], y[100])
    assert calls == [30]
    model.machine_.scratch["learn"] = learn
    assert model.to_bytes() == before
    for one in (model, twin):
        one.partial_fit(X[100:], y[100:])
    assert_same_bytes(model, twin)


@pytest.mark.usefixtures("without_compiler")
def test_bad_rows_may_be_left_out():
    X, y = problem(15, 100)
    bad = X.copy()
    bad[::7] = np.nan
    kept = np.arange(100) % 7 != 0
    model = new(on_bad_row="skip").partial_fit(bad, y, classes=[0, 1])
    np.testing.assert_array_equal(
        model.dual_coef_, new().partial_fit(X[kept], y[kept], classes=[0, 1]).dual_coef_
    )
    assert model.n_skipped_ == 15


def test_what_does_not_go_together_is_said():
    X, y = problem(0, 20)
    for budget in (budgets.LeastLoss(9), budgets.Merge(9), 1):
        with pytest.raises(ValueError, match="or OldestOut"):
            new(budget=budget).partial_fit(X, y)
    with pytest.raises(ValueError, match="which a fleet cannot"):
        ks.Fleet("lasvm", "classifier", n_models=3, n_features=2, budget=10)
    few = new(kernel=lambda A, B: A @ B.T, gamma="auto")
    few.partial_fit(X, y)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lasvm, "_LARGEST_TABLE", 16)
        with pytest.raises(ValueError, match="budget=4096"):
            few.partial_fit(X, y)

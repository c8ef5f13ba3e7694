"""Classes that were not declared: their cost grows with their number, and ids are noticed."""

import copy
import warnings

import numpy as np
import pytest

import kernelstream as ks
from kernelstream.learner import sizing
from kernelstream.learner.loops.expansion import ExpansionLoop
from kernelstream.learner.state import arrays

pytestmark = [
    pytest.mark.usefixtures("without_compiler"),
    pytest.mark.filterwarnings("ignore:y has .* distinct numbers"),  # labels are numbers here
]
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(400, 3))
BUDGETS = [20, ks.budgets.SmallestOut(15), ks.budgets.LeastLoss(10), ks.budgets.Merge(10), None]


def new_model(**params):
    return ks.KernelClassifier(**{"kernel": ks.kernels.RBF(0.5), "budget": 20, **params})


class Counts:
    """How often a state was copied, and how many numbers in all; how many tiles were learned."""

    def __init__(self, monkeypatch):
        self.copies = self.numbers = self.tiles = 0
        resize, learn = sizing.resize, ExpansionLoop.learn

        def counted_resize(state, fields, sizes, zeros):
            self.copies += 1
            larger = resize(state, fields, sizes, zeros)
            self.numbers += sum(array.size for _, array in arrays(larger))
            return larger

        def counted_learn(*arguments):
            self.tiles += 1
            return learn(*arguments)

        monkeypatch.setattr(sizing, "resize", counted_resize)
        monkeypatch.setattr(ExpansionLoop, "learn", counted_learn)


@pytest.mark.parametrize("loss", ["hinge", "log_loss"])
@pytest.mark.parametrize("one_by_one", [False, True])
def test_the_work_for_new_classes_grows_with_their_number(monkeypatch, loss, one_by_one):
    work = {}
    for n in (100, 200, 400):
        with monkeypatch.context() as patch:
            counts, model = Counts(patch), new_model(loss=loss, budget=5)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if one_by_one:
                    for x, label in zip(X[:n], range(n), strict=True):
                        model.learn_one(x, label)
                else:
                    model.partial_fit(X[:n], np.arange(n))
        assert model.classes_.tolist() == list(range(n))
        work[n] = counts
    assert work[400].copies <= 10
    assert work[400].copies - work[200].copies <= 1  # twice the classes: one more copy
    assert work[400].numbers <= 2.2 * work[200].numbers <= 2.2**2 * work[100].numbers
    assert work[400].tiles <= 400


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("intercept", [False, True])
def test_many_late_classes_are_the_same_however_the_stream_is_cut(budget, intercept):
    y = np.concatenate([np.arange(70), RANDOM.integers(0, 80, 80)])
    whole, blocks, ones = (new_model(budget=budget, fit_intercept=intercept) for _ in range(3))
    whole.partial_fit(X[:150], y)
    for start in range(0, 150, 37):
        stop = min(start + 37, 150)
        blocks.partial_fit(X[start:stop], y[start:stop])
    for x, label in zip(X, y, strict=False):
        ones.learn_one(x, label)
    for other in (blocks, ones):
        assert other.classes_.tolist() == whole.classes_.tolist()
        np.testing.assert_allclose(other.dual_coef_, whole.dual_coef_, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(other.intercept_, whole.intercept_, rtol=1e-9, atol=1e-9)
        assert other.step_size_ == pytest.approx(whole.step_size_, rel=1e-9)


def test_a_late_class_is_unknown_up_to_its_first_row_in_prequential_too():
    y = np.repeat(np.arange(100), 4)
    result = ks.prequential(new_model(), X, y, declare_classes=False)
    assert result.scores.shape == (400, 100)
    begins = (np.arange(400) % 4 == 0) & (y > 0)  # at row 0 there is one label to choose from
    np.testing.assert_array_equal(np.isnan(result.scores).sum(axis=1), 99 - y + begins)
    rows = new_model()
    for i, (x, label) in enumerate(zip(X, y, strict=True)):
        if i and label in rows.classes_:
            np.testing.assert_allclose(
                rows.label_scores(x[None])[0], result.scores[i, : label + 1], atol=1e-9
            )
        rows.learn_one(x, label)


@pytest.mark.parametrize("n_before", [5, 60, 70])
def test_a_block_that_is_refused_leaves_no_class_behind(n_before):
    """Also where it would have made the model keep nonzeros alone, from 64 classes on."""
    model = new_model(kernel="linear").partial_fit(X[:n_before], np.arange(n_before))
    before, bad = model.to_bytes(), X[:50].copy()
    bad[40] = 1e90
    for _ in range(2):
        with pytest.raises(ks.BadRow, match="row 40"):
            model.partial_fit(bad, np.arange(100, 150))
        assert model.to_bytes() == before
    twin = copy.deepcopy(model)
    for one in (model, twin):
        one.partial_fit(X[100:200], np.arange(100) + 200)
    assert model.to_bytes() == twin.to_bytes()
    fresh = new_model(kernel="linear").partial_fit(X[:n_before], np.arange(n_before))
    fresh.partial_fit(X[100:200], np.arange(100) + 200)
    assert fresh.to_bytes() == model.to_bytes()


def test_many_late_classes_take_as_little_as_declared_ones(tmp_path):
    y = np.tile(np.arange(100), 4)
    late = new_model().partial_fit(X, y)
    assert late.machine_.state.expansion.coef.shape[0] == 2
    late.save(tmp_path / "late.ks")
    twin = ks.load(tmp_path / "late.ks")
    assert twin.to_bytes() == late.to_bytes()
    np.testing.assert_array_equal(twin.predict(X), late.predict(X))


def test_labels_that_look_like_ids_are_warned_of_once():
    ids = np.array([f"order {i}" for i in range(400)])
    model = new_model(budget=5)
    with pytest.warns(UserWarning, match=r"256 classes in 256 rows.*identifier.*KernelRegressor"):
        model.partial_fit(X[:256], ids[:256])
    model.partial_fit(X[256:], ids[256:])  # any further warning would be an error here
    with pytest.warns(UserWarning, match="400 classes in 400 rows"):
        new_model(budget=5).fit(X, ids)
    with pytest.warns(UserWarning, match="400 classes in 400 rows"):
        ks.prequential(new_model(budget=5), X, ids)


def test_many_classes_are_no_ids():
    y = np.tile(np.arange(300), 2)[:400]
    names = y.astype(str)
    model = new_model(budget=5).partial_fit(X[:200], names[:200])
    model.partial_fit(X[200:], names[:200])
    declared = new_model(budget=5).partial_fit(X[:5], y[:5], classes=np.arange(1000))
    declared.partial_fit(X[:5], y[:5] + 1000)

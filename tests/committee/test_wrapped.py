"""Estimators of scikit-learn and River as members of committees, and committees as members."""

import itertools
import pickle
import warnings

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import (
    Perceptron,
    SGDClassifier,
    SGDOneClassSVM,
    SGDRegressor,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.naive_bayes import CategoricalNB, GaussianNB, MultinomialNB
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelstream as ks
from kernelstream.committee import Wrapped

anomaly = pytest.importorskip("river.anomaly")
linear_model = pytest.importorskip("river.linear_model")
multiclass = pytest.importorskip("river.multiclass")
naive_bayes = pytest.importorskip("river.naive_bayes")
preprocessing = pytest.importorskip("river.preprocessing")

RANDOM = np.random.default_rng(0)
ROWS, LABELS = load_iris(return_X_y=True)
ORDER = RANDOM.permutation(len(ROWS))
ROWS, LABELS = ROWS[ORDER], LABELS[ORDER]
NAMES = np.array(["setosa", "versicolor", "virginica"])[LABELS]
X = RANDOM.normal(size=(400, 3)) * [1.0, 100.0, 0.01]
NUMBERS = 1000.0 + 50.0 * X[:, 0] + X[:, 1]

pytestmark = pytest.mark.usefixtures("without_compiler")


def sgd(**options):
    return SGDClassifier(random_state=0, **options)


def river_classifier():
    return preprocessing.StandardScaler() | linear_model.SoftmaxRegression()


MEMBERS = {
    "classifier": [
        lambda: sgd(), lambda: sgd(loss="log_loss"), lambda: Perceptron(random_state=0),
        lambda: GaussianNB(), lambda: Wrapped(sgd(), scaling="running"),
        lambda: river_classifier(), lambda: naive_bayes.GaussianNB(),
        lambda: multiclass.OneVsRestClassifier(linear_model.Perceptron()),
    ],
    "regressor": [
        lambda: SGDRegressor(random_state=0),
        lambda: MLPRegressor(hidden_layer_sizes=(5,), random_state=0),
        lambda: Wrapped(
            SGDRegressor(random_state=0), scaling="running", target_scaling="running"
        ),
        lambda: preprocessing.StandardScaler() | linear_model.LinearRegression(),
        lambda: Wrapped(linear_model.PARegressor(), scaling="running"),
    ],
    "novelty": [
        lambda: SGDOneClassSVM(random_state=0),
        lambda: Wrapped(SGDOneClassSVM(random_state=0), scaling="running"),
        lambda: preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees(seed=0, n_trees=3, height=3),
        lambda: preprocessing.StandardScaler() | anomaly.LODA(seed=0),
    ],
}  # fmt: skip
TWO = ks.Committee(["pa", "svmd"], "classifier")
PLAIN = {"classifier": "linear-pa", "regressor": "linear-pa", "novelty": "norma"}
KINDS = [(task, i) for task, members in MEMBERS.items() for i in range(len(members))]


DATA = {"classifier": (ROWS, NAMES), "regressor": (X, NUMBERS), "novelty": (X, None)}


def committee(task, i, **options):
    return ks.Committee([PLAIN[task], MEMBERS[task][i]()], task, **options)


def learn(model, task, start, stop, **options):
    rows, y = DATA[task]
    return model.partial_fit(rows[start:stop], None if y is None else y[start:stop], **options)


def said(model, task):
    read = model.predict if task == "regressor" else model.decision_function
    return read(DATA[task][0][:60])


def member_of(model):
    return model.machine_.members[1]


@pytest.mark.parametrize(("task", "i"), KINDS)
@settings(max_examples=4)
@given(cuts=st.lists(st.integers(1, 119), max_size=4))
def test_any_split_gives_the_same_committee(task, i, cuts):
    whole, pieces = (committee(task, i) for _ in range(2))
    learn(whole, task, 0, 120)
    ends = [0, *sorted(cuts), 120]
    for start, stop in itertools.pairwise(ends):
        if stop == start + 1:
            rows, y = DATA[task]
            pieces.learn_one(rows[start], None if y is None else y[start])
        elif stop > start:
            learn(pieces, task, start, stop)
    assert pieces.n_seen_ == whole.n_seen_ == 120
    np.testing.assert_allclose(said(pieces, task), said(whole, task), rtol=1e-9, atol=1e-9)
    assert member_of(pieces).n_seen == 120


@pytest.mark.parametrize(("task", "i"), KINDS)
def test_rows_one_by_one(task, i):
    rows, y = DATA[task]
    whole, single = (committee(task, i) for _ in range(2))
    learn(whole, task, 0, 60)
    for row in range(60):
        single.learn_one(rows[row], None if y is None else y[row])
    np.testing.assert_allclose(said(single, task), said(whole, task), rtol=1e-9, atol=1e-9)
    one = single.predict_one(rows[0])
    expected = whole.predict(rows[:1])[0]
    assert one == (pytest.approx(expected) if task == "regressor" else expected)


@pytest.mark.parametrize(("task", "i"), KINDS)
def test_a_refused_row_leaves_no_trace(task, i):
    rows, y = DATA[task]
    model, twin = (learn(committee(task, i), task, 0, 50) for _ in range(2))
    bad = rows[50:100].copy()
    bad[30, 0] = 1e200
    with pytest.raises(ValueError, match="row 30"):
        model.partial_fit(bad, None if y is None else y[50:100])
    with pytest.raises(ValueError, match="row 0"):
        model.learn_one(bad[30], None if y is None else y[80])
    assert (said(model, task) == said(twin, task)).all()
    for one in (model, twin):
        learn(one, task, 50, 100)
    assert (said(model, task) == said(twin, task)).all()


@pytest.mark.parametrize(("task", "i"), KINDS)
def test_pickles_and_joblib_go_on(task, i, tmp_path):
    model = learn(committee(task, i), task, 0, 60)
    joblib.dump(model, tmp_path / "model.joblib")
    twins = [
        pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model.joblib", mmap_mode="r"),
    ]  # fmt: skip
    learn(model, task, 60, 100)
    for twin in twins:
        learn(twin, task, 60, 100)
        assert (said(twin, task) == said(model, task)).all()


@pytest.mark.parametrize(("task", "i"), KINDS)
def test_it_cannot_be_saved_without_code(task, i, tmp_path):
    model = learn(committee(task, i), task, 0, 60)
    with pytest.raises(ValueError, match=r"cannot be saved.*pickle or joblib"):
        model.save(tmp_path / "model.ks")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("task", "i"), KINDS)
def test_a_member_counts_if_it_is_right(task, i):
    """Alone, it is better than the majority or the mean."""
    model = ks.Committee([MEMBERS[task][i]()], task)
    if task == "novelty":
        learn(model, task, 0, 400)
        usual, far = model.decision_function(X[:200]), model.decision_function(30 * X[:200])
        assert usual.mean() > far.mean()
        return
    rows, y = DATA[task]
    model.partial_fit(rows[:100], y[:100])
    baseline = 0.6 if task == "classifier" else np.var(NUMBERS)
    assert ks.prequential(model, rows[100:], y[100:]).error_rate < baseline


def test_what_the_estimator_itself_would_say():
    """Independent witness: the estimator, fed row by row."""
    model, alone = ks.Committee([GaussianNB()], "classifier"), GaussianNB()
    classes = np.unique(NAMES)
    expected = []
    for i in range(100):
        expected.append(np.zeros(3))
        if i:
            with np.errstate(all="ignore"):
                p = alone.predict_proba(ROWS[i : i + 1])[0]
            expected[i] = np.log(np.clip(np.nan_to_num(p), 1e-4, None))
            expected[i][np.isnan(p)] = 0.0
        alone.partial_fit(ROWS[i : i + 1], NAMES[i : i + 1], classes)
    model.partial_fit(ROWS[:1], NAMES[:1], classes)
    (member,) = model.machine_.members
    rest = slice(1, 100)
    trail = member.learn(ROWS[rest], LABELS[rest].astype(float), np.ones(99))[0]
    np.testing.assert_allclose(trail.scores, expected[1:], atol=1e-12)


def test_scaled_rows_are_those_of_the_scaling():
    """What a member with a scaling sees is what a machine with it sees."""
    seen = []

    class Spy(SGDRegressor):
        def partial_fit(self, X, y, **options):
            seen.append((X[0].copy(), float(y[0])))
            return super().partial_fit(X, y, **options)

    spy = Wrapped(Spy(), scaling="running", target_scaling="running")
    ks.Committee([spy], "regressor").partial_fit(X[:50], NUMBERS[:50])
    rows, y = np.array([row for row, _ in seen]), np.array([target for _, target in seen])
    assert np.abs(rows[20:]).max() < 4.0
    assert np.abs(y[20:]).max() < 4.0
    for i in (20, 40):
        away = (NUMBERS[i] - NUMBERS[:i].mean()) / NUMBERS[:i].std()
        assert y[i] == pytest.approx(away)


def test_classes_that_come_late():
    """A member of scikit-learn begins again, and the user is told once; River's goes on."""
    order = np.argsort(LABELS, kind="stable")
    order = np.concatenate([order[:50], order[50:100][::-1], order[100:]])
    rows, names = ROWS[order], NAMES[order]
    for start in (0, 40, 140):  # before the second class, and then again
        ks.Committee([GaussianNB()], "classifier").partial_fit(rows[start:], names[start:])
    mixed = np.concatenate([RANDOM.permutation(100), np.arange(100, 150)])
    model = ks.Committee(["linear-pa", sgd(), river_classifier()], "classifier")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(np.tile(rows[mixed[:100]], (2, 1)), np.tile(names[mixed[:100]], 2))
    with pytest.warns(UserWarning, match=r"SGDClassifier begins again at a new.*classes=") as told:
        model.partial_fit(rows[100:], names[100:])
    assert len(told) == 1
    _, restarted, river = model.machine_.members
    assert (restarted.n_learned, river.n_learned) == (50, river.n_seen - 1)
    assert model.classes_.tolist() == sorted(np.unique(names))
    twin = ks.Committee(["linear-pa", sgd(), river_classifier()], "classifier")
    for i in [*mixed[:100], *mixed[:100]]:
        twin.learn_one(rows[i], names[i])
    with pytest.warns(UserWarning, match="begins again"):
        twin.learn_one(rows[100], names[100])
    for i in range(101, 150):
        twin.learn_one(rows[i], names[i])
    one_by_one, in_blocks = twin.decision_function(ROWS), model.decision_function(ROWS)
    np.testing.assert_allclose(one_by_one, in_blocks, atol=1e-9)


def test_a_machine_that_tells_two_classes_apart():
    model = ks.Committee(["pa", linear_model.LogisticRegression()], "classifier")
    two = LABELS < 2
    model.partial_fit(ROWS[two], NAMES[two])
    assert model.score(ROWS[two], NAMES[two]) > 0.9
    with pytest.raises(ValueError, match=r"LogisticRegression tells two.*OneVsRestClassifier"):
        model.partial_fit(ROWS, NAMES)
    with pytest.raises(ValueError, match="OneVsRest"):
        ks.Committee([linear_model.LogisticRegression()], "classifier").fit(ROWS, NAMES)


@pytest.mark.parametrize("member", [sgd(), sgd(loss="log_loss"), linear_model.LogisticRegression()])
@pytest.mark.parametrize("are_declared", [False, True])
def test_two_classes(member, are_declared):
    """With one score, or with one for each where classes may still come."""
    two = LABELS < 2
    model = ks.Committee({"it": member}, "classifier")
    start = {"classes": ["setosa", "versicolor"]} if are_declared else {}
    model.partial_fit(ROWS[two][:1], NAMES[two][:1], **start)
    model.partial_fit(ROWS[two], NAMES[two])
    assert model.score(ROWS[two], NAMES[two]) > 0.9


def test_weights():
    twice = np.where(np.arange(100) % 3 == 0, 2.0, 1.0)
    for task, i in [("classifier", 0), ("classifier", 3), ("regressor", 0), ("novelty", 0)]:
        model = committee(task, i)
        learn(model, task, 0, 100, **({} if task == "novelty" else {"sample_weight": twice}))
        plain = learn(committee(task, i), task, 0, 100)
        assert task == "novelty" or (said(model, task) != said(plain, task)).any()
    zeros = learn(committee("classifier", 0), "classifier", 0, 100)
    before = said(zeros, "classifier")
    learn(zeros, "classifier", 100, 150, sample_weight=np.zeros(50))
    assert (said(zeros, "classifier") == before).all()
    for member, match in [
        (naive_bayes.GaussianNB(), "GaussianNB"),
        (NoWeights(), "NoWeights"),
    ]:
        with pytest.raises(ValueError, match=f"{match} cannot learn rows with weights.*leave"):
            ks.Committee([member], "classifier").partial_fit(ROWS, NAMES, sample_weight=2 * ORDER)
    balanced = committee("classifier", 4, class_weight="balanced")
    assert learn(balanced, "classifier", 0, 150).score(ROWS, NAMES) > 0.8


class NoWeights(ClassifierMixin, BaseEstimator):
    """Repeats the last label."""

    def partial_fit(self, X, y, classes=None):
        self.classes_, self.last_ = classes, y[-1]
        return self

    def predict(self, X):
        return np.full(len(X), self.last_)


def test_an_estimator_that_only_votes():
    model = ks.Committee([NoWeights()], "classifier")
    y = np.repeat(["a", "b", "a", "b"], 50)
    assert ks.prequential(model, ROWS[:1].repeat(200, axis=0), y).error_rate < 0.2


def test_sparse_rows():
    sparse_rows = sparse.csr_array(ROWS * (ROWS > 1.0))
    for member in (sgd(), MultinomialNB(), river_classifier(), Wrapped(sgd(), scaling="running")):
        model = ks.Committee(["linear-pa", member], "classifier").partial_fit(sparse_rows, NAMES)
        twin = ks.Committee(["linear-pa", member], "classifier")
        for i in range(150):
            twin.partial_fit(sparse_rows[i : i + 1], NAMES[i : i + 1])
        np.testing.assert_allclose(
            model.decision_function(sparse_rows), twin.decision_function(sparse_rows), atol=1e-9
        )
        assert model.score(sparse_rows, NAMES) > 0.6


def test_float32_and_missing_values():
    rows = ROWS.astype(np.float32)
    rows[::7, 1] = np.nan
    model = ks.Committee([sgd(), naive_bayes.GaussianNB(), "linear-pa"], "classifier")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.partial_fit(rows, NAMES).score(rows, NAMES) > 0.8


def test_what_an_estimator_refuses_is_a_row_that_is_refused():
    rows = np.abs(ROWS)
    rows[40, 2] = -1.0  # of which MultinomialNB knows nothing
    model = ks.Committee(["linear-pa", MultinomialNB()], "classifier")
    with pytest.raises(ValueError, match="row 40 was refused: MultinomialNB cannot learn it"):
        model.partial_fit(rows, NAMES)
    skipping = ks.Committee(["linear-pa", MultinomialNB()], "classifier", on_bad_row="skip")
    skipping.partial_fit(rows, NAMES)
    (reason,) = skipping.skipped_
    assert reason.startswith("MultinomialNB cannot learn it")
    assert (skipping.n_seen_, skipping.n_skipped_) == (149, 1)


def test_members_of_no_use_do_no_harm():
    """Predictions of SGD without scaling are near 1e20 here, or not finite."""
    y = X[:, 0]
    rows = 1e6 * X
    good = ks.KernelRegressor(scaling="running", target_scaling="running")
    both = ks.Committee([good, SGDRegressor(random_state=0)], "regressor", on_bad_row="skip")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        error = ks.prequential(both, rows, y).error_rate
    alone = ks.prequential(ks.Committee([good], "regressor"), rows, y).error_rate
    assert np.isfinite(both.predict(rows)).all()
    assert error < 1.5 * alone


def test_readers_see_a_whole_committee():
    """With other threads about, a draft learns, and what was read before stays as it was."""
    model = learn(committee("classifier", 0), "classifier", 0, 50)
    machine = model.machine_
    before = machine.scores(ROWS)
    with machine.gate:
        learn(model, "classifier", 50, 100)
    assert model.machine_ is not machine
    assert (machine.scores(ROWS) == before).all()
    twin = learn(learn(committee("classifier", 0), "classifier", 0, 50), "classifier", 50, 100)
    assert (said(model, "classifier") == said(twin, "classifier")).all()


def test_the_given_estimator_stays_as_it_is():
    member, other = GaussianNB(), naive_bayes.GaussianNB()
    fitted = GaussianNB().fit(ROWS, NAMES)
    model = ks.Committee({"a": member, "b": other, "c": fitted}, "classifier")
    copy = clone(model).partial_fit(ROWS, NAMES)
    assert list(copy.weights_) == ["a", "b", "c"]
    assert not hasattr(member, "theta_")
    assert not other.class_counts
    assert fitted.classes_.tolist() == np.unique(NAMES).tolist()
    assert {type(m.estimator).__name__ for m in copy.machine_.members} == {"GaussianNB"}


def test_names():
    model = ks.Committee([sgd(), sgd(), Wrapped(GaussianNB()), "pa"], "classifier")
    names = list(model.partial_fit(ROWS, NAMES).weights_)
    assert names == ["SGDClassifier-1", "SGDClassifier-2", "GaussianNB", "pa"]
    for twice in ([("x", "pa"), ("x", "svmd")], [("pa-1", "svmd"), "pa", "pa"]):
        with pytest.raises(ValueError, match=r"members has the name '(x|pa-1)' twice"):
            ks.Committee(twice, "classifier").partial_fit(ROWS, NAMES)


@pytest.mark.parametrize(
    ("member", "task", "why"),
    [
        (SGDRegressor(), "classifier", "'svmd', or"), (GaussianNB(), "regressor", "'svmd', or"),
        (GaussianNB(), "novelty", "'svmd', or"), (object(), "novelty", "'svmd', or"),
        (linear_model.LinearRegression(), "classifier", "'svmd', or"), (3, "regressor", "'svmd'"),
        (anomaly.HalfSpaceTrees(), "regressor", "'svmd', or"),
        (preprocessing.StandardScaler(), "regressor", "'svmd', or"),
        (make_pipeline(StandardScaler(), sgd()), "classifier", r"last step.*Wrapped\("),
        (GaussianNB, "classifier", r"it is a class.*GaussianNB\("),
        (ks.KernelClassifier, "classifier", r"it is a class.*KernelClassifier\("),
        (ks.AutoRegressor(), "classifier", "since it is for regression"),
        (Wrapped(ks.KernelClassifier()), "classifier", "give it without Wrapped"),
    ],
)  # fmt: skip
def test_who_cannot_be_a_member(member, task, why):
    kind = {"classifier": "classification", "regressor": "regression"}.get(task, task)
    message = rf"(?s)cannot be a member of a committee for {kind}.*{why}"
    with pytest.raises(TypeError, match=message):
        ks.Committee(["svmd", member], task).partial_fit(ROWS, LABELS)


@pytest.mark.parametrize("members", [GaussianNB(), "svmd", None, [], river_classifier()])
def test_members_that_are_no_list(members):
    with pytest.raises(ValueError, match=r"members=(?s:.*) are none: give a list"):
        ks.Committee(members, "classifier").partial_fit(ROWS, LABELS)


def test_what_can_never_be_learned_is_no_bad_row():
    """It is told, even where bad rows are skipped, and nothing has been learned."""
    for member, match in [
        (sgd(class_weight="balanced"), "SGDClassifier cannot learn even its first row.*balanced"),
        (linear_model.LogisticRegression(), "LogisticRegression tells two classes apart"),
        (preprocessing.StandardScaler() | linear_model.LogisticRegression(), "LogisticRegression"),
        (OneVsRestClassifier(sgd()), "OneVsRestClassifier cannot learn rows with weights"),
    ]:
        model = ks.Committee([member, "pa"], "classifier", on_bad_row="skip")
        weight = 2.0 + np.zeros(150) if "weights" in match else None
        with pytest.raises(ValueError, match=match):
            model.partial_fit(ROWS, NAMES, sample_weight=weight)
        assert not hasattr(model, "n_seen_")


def test_weights_that_a_pipeline_would_drop():
    softmax = preprocessing.StandardScaler() | linear_model.SoftmaxRegression()
    with pytest.raises(ValueError, match="SoftmaxRegression cannot learn rows with weights"):
        ks.Committee([softmax], "classifier").partial_fit(ROWS, NAMES, sample_weight=2.0 + ORDER)
    logistic = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    two = LABELS < 2
    model, plain = (ks.Committee([logistic], "classifier") for _ in range(2))
    model.partial_fit(ROWS[two], NAMES[two], sample_weight=np.where(LABELS[two], 1.0, 9.0))
    plain.partial_fit(ROWS[two], NAMES[two])
    assert (model.decision_function(ROWS) != plain.decision_function(ROWS)).any()


def test_a_member_that_says_nothing_is_told_of():
    """Variances of single rows are zero where a feature is constant, and probabilities NaN."""
    rows = np.column_stack([ROWS, np.ones(len(ROWS))])
    model, alone = (ks.Committee(ms, "classifier") for ms in (["pa", GaussianNB()], ["pa"]))
    with pytest.warns(UserWarning, match=r"GaussianNB has said nothing.*NaN.*without it") as told:
        model.partial_fit(rows, NAMES)
    assert len(told) == 1
    assert (model.predict(rows) == alone.partial_fit(rows, NAMES).predict(rows)).mean() > 0.95


def test_a_row_that_a_member_cannot_score():
    """It says nothing of it, and the others do."""
    rows = np.arange(60)[:, None] % 3
    model = ks.Committee([CategoricalNB(min_categories=3), "linear-pa"], "classifier")
    model.partial_fit(rows, np.arange(60) % 2)
    assert model.predict([[1], [7]]).shape == (2,)
    assert (member_of_first(model).scores(np.array([[7.0]])) == 0.0).all()
    model.partial_fit([[7]], [0])
    assert (member_of_first(model).scores(np.array([[7.0]])) != 0.0).all()
    pairs = ks.Committee([OneVsOneClassifier(sgd()), "linear-pa"], "classifier")
    pairs.partial_fit(ROWS, NAMES)  # which cannot say anything before each class has come
    assert (member_of_first(pairs).scores(ROWS) != 0.0).any()

    class TooWide(NoWeights):
        def decision_function(self, X):
            return np.zeros((len(X), 5))

    ks.Committee([TooWide(), "linear-pa"], "classifier").partial_fit(ROWS[:60], NAMES[:60])

    class Picky(NoWeights):
        def decision_function(self, X):
            if (X > 50.0).any():
                raise ValueError("too large")
            return X[:, 0] - 5.5

    for classes in (None, [0, 1]):  # one score of two classes, among rows that have none
        picky = ks.Committee([Picky(), "linear-pa"], "classifier")
        two = LABELS < 2
        picky.partial_fit(ROWS[two][:20], LABELS[two][:20], classes=classes)
        one, none = member_of_first(picky).scores(np.array([ROWS[0], ROWS[0] + 60.0]))
        assert (one != 0.0).all()
        assert (none == 0.0).all()


def member_of_first(model):
    return model.machine_.members[0]


def test_what_happens_to_the_given_estimator_later_does_not_matter():
    given = sgd(loss="log_loss")
    model = ks.Committee({"it": given, "pa": "linear-pa"}, "classifier")
    model.partial_fit(ROWS[LABELS < 2][:50], NAMES[LABELS < 2][:50])
    given.set_params(loss="hinge")
    model.partial_fit(ROWS[LABELS == 2][:10], NAMES[LABELS == 2][:10])
    assert member_of_first(model).estimator.loss == "log_loss"


def test_models_by_key_have_files():
    member = ks.Committee(["linear-pa", sgd()], "classifier")
    for model in (member, ks.Committee([member, "pa"], "classifier")):
        with pytest.raises(ValueError, match=r"cannot be the model of each key.*another library"):
            ks.KeyedFleet(model, "classifier")
    ks.KeyedFleet(ks.Committee(["linear-pa"], "classifier"), "classifier")


def test_scalings_that_cannot_be():
    with pytest.raises(ValueError, match=r"scaling='renewed' is for machines.*give 'running'"):
        ks.Committee([Wrapped(sgd(), scaling="renewed")], "classifier").partial_fit(ROWS, NAMES)
    with pytest.raises(ValueError, match=r"target_scaling='running' is for regressors"):
        ks.Committee([Wrapped(sgd(), target_scaling="running")], "classifier").fit(ROWS, NAMES)


def test_other_features():
    model = learn(committee("classifier", 0), "classifier", 0, 100)
    with pytest.raises(ValueError, match="'SGDClassifier' keeps to the 4 features"):
        model.widen(6)
    nested = ks.Committee({"x": ks.Committee(["linear-pa", sgd()], "classifier")}, "classifier")
    with pytest.raises(ValueError, match="'x' keeps to the 4 features"):
        nested.partial_fit(ROWS, NAMES).widen(9)


@pytest.mark.filterwarnings("ignore:overflow")  # of random numbers, as plain Python
@pytest.mark.parametrize("member", [ks.AutoClassifier(), TWO])
def test_committees_are_members_too(member, tmp_path):
    digits, y = load_digits(return_X_y=True)
    digits, y = digits[:120, 20:30], y[:120] % 3

    def new():
        return ks.Committee({"it": member, "linear": "linear-pa"}, "classifier")

    whole, pieces = new().partial_fit(digits, y), new()
    for i in range(20):
        pieces.learn_one(digits[i], y[i])
    pieces.partial_fit(digits[20:70], y[20:70])
    pieces.save(tmp_path / "model.ks")
    pieces = ks.load(tmp_path / "model.ks")
    before = pieces.to_bytes()
    bad = digits[70:].copy()
    bad[9, 0] = 1e200
    with pytest.raises(ValueError, match="row 9"):
        pieces.partial_fit(bad, y[70:])
    assert pieces.to_bytes() == before
    pieces.partial_fit(digits[70:], y[70:])
    np.testing.assert_allclose(pieces.predict_proba(digits), whole.predict_proba(digits), atol=1e-9)
    balanced = clone(member).set_params(class_weight="balanced")
    with pytest.raises(ValueError, match="give class_weight and missing to the committee"):
        ks.Committee([balanced], "classifier").partial_fit(digits, y)


@pytest.mark.filterwarnings("ignore:overflow")
def test_detectors_and_regressors_that_are_committees(tmp_path):
    detector = ks.Committee([ks.AutoDetector(), "norma"], "novelty")
    regressor = ks.Committee([ks.AutoRegressor(), "linear-pa"], "regressor")
    for model in (detector, regressor):
        rows = X.astype(np.float32)
        y = [] if model is detector else [NUMBERS[:60]]
        model.partial_fit(rows[:60], *y)
        model.learn_one(rows[60], *([] if model is detector else NUMBERS[60:61]))
        model.save(tmp_path / "model.ks")
        twin = ks.load(tmp_path / "model.ks")
        assert (twin.predict(rows) == model.predict(rows)).all()
        twin.learn_one(rows[61], *([] if model is detector else NUMBERS[61:62]))
        assert twin.n_seen_ == 62

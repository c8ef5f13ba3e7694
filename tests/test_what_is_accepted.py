"""Whatever rows, weights, targets and labels a model accepts, a file holds it, bit for bit."""

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import kernelstream as ks
from kernelstream.estimators.files import from_bytes

pytestmark = pytest.mark.usefixtures("without_compiler")
looks_hard = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)

magnitudes = st.sampled_from([0.0, 5e-324, 1e-300, 1e-80, 1e-30, 1.0, 1e3, 1e8, 1e29, 1e40, 1e120])
numbers = st.one_of(magnitudes, magnitudes.map(lambda x: -x), st.floats(-5, 5))
weights = st.one_of(st.just(1.0), st.floats(0, 10), magnitudes, st.just(1e154))
names = st.one_of(
    st.integers(), st.integers(0, 3), st.booleans(), st.text(max_size=3), st.binary(max_size=2),
    st.floats(), st.none(), st.sampled_from(["0", "1", "a", "a\0", np.int8(1), np.float32(2)]),
    st.sampled_from([2**53, 2**53 + 1, 2**64, 0.0, 2.0, b"a", np.str_("b"), 10**5000, (1,)]),
)  # fmt: skip
BUDGETS = [5, None, ks.budgets.SmallestOut(4), ks.budgets.LeastLoss(4), ks.budgets.Merge(4)]
STEPS = ["smd", 0.5, ks.step_sizes.SMD(1.0, 1.0, 1.0), ks.step_sizes.SMD(0.1, 10.0, 0.0)]
MARGINS = [0.5, ks.margins.Nu(0.3), ks.margins.Nu(0.3, "paper"), ks.margins.Nu(0.3, "linear")]
settings_of_a_model = st.fixed_dictionaries({
    "budget": st.sampled_from(BUDGETS), "step_size": st.sampled_from(STEPS),
    "kernel": st.sampled_from(["rbf", "linear", "poly"]),
    "update": st.sampled_from(["explicit", "implicit"]),
    "regularization": st.sampled_from([0.0, 1e-6, 1.0]), "C": st.sampled_from([1e-3, 1.0, 1e6]),
})  # fmt: skip


def assert_a_file_holds(model):
    if not model.__sklearn_is_fitted__():
        return
    content = model.to_bytes()
    assert from_bytes(content).to_bytes() == content


@np.errstate(all="ignore")  # of which compiled code knows nothing
def learn(model, rows, targets, sample_weight, one_by_one):
    """Learn what can be learned: all at once, or row by row."""
    if isinstance(model.budget, ks.budgets.Merge):
        model.set_params(kernel="rbf")
    if not one_by_one:
        target = [] if targets is None else [targets]
        model.partial_fit(rows, *target, sample_weight=sample_weight)
        return
    for i, row in enumerate(rows):
        target = [] if targets is None else [targets[i]]
        try:
            model.learn_one(np.asarray(row), *target)
        except (TypeError, ValueError, OverflowError):
            assert model.on_bad_row == "raise"


def rows_of(n):
    row = st.lists(numbers, min_size=2, max_size=2)
    return st.lists(row, min_size=n, max_size=n)


@example(  # coefficients whose squares are zero
    rows=[[0.0, 0.0]] * 12, y=[0.0] * 7 + [1e-300] + [0.0] * 4, weight=[1.0] * 12,
    params={"budget": ks.budgets.Merge(4), "step_size": "smd", "kernel": "rbf",
            "update": "explicit", "regularization": 0.0, "C": 0.001},
    loss="squared_error", margin=0.5, intercept=False, one_by_one=False,
)  # fmt: skip
@settings(looks_hard, max_examples=100)
@given(
    rows=rows_of(12), y=st.lists(numbers, min_size=12, max_size=12),
    weight=st.lists(weights, min_size=12, max_size=12), params=settings_of_a_model,
    loss=st.sampled_from(["squared_error", "epsilon_insensitive", "huber"]),
    margin=st.sampled_from(MARGINS), intercept=st.booleans(), one_by_one=st.booleans(),
)  # fmt: skip
def test_regression(rows, y, weight, params, loss, margin, intercept, one_by_one):
    if loss == "squared_error":
        margin = 1.0
    model = ks.KernelRegressor(
        **params, loss=loss, margin=margin, fit_intercept=intercept, on_bad_row="skip"
    )
    learn(model, rows, y, weight, one_by_one)
    assert_a_file_holds(model)


@settings(looks_hard, max_examples=100)
@given(
    rows=rows_of(12), y=st.lists(names, min_size=12, max_size=12),
    weight=st.lists(weights, min_size=12, max_size=12), params=settings_of_a_model,
    loss=st.sampled_from(["hinge", "log_loss"]), intercept=st.booleans(), one_by_one=st.booleans(),
    policy=st.sampled_from(["raise", "skip"]),
)  # fmt: skip
def test_classification(rows, y, weight, params, loss, intercept, one_by_one, policy):
    model = ks.KernelClassifier(**params, loss=loss, fit_intercept=intercept, on_bad_row=policy)
    if policy == "raise":
        one_by_one = True
    learn(model, rows, y, weight, one_by_one)
    assert_a_file_holds(model)


@settings(looks_hard, max_examples=100)
@given(
    rows=rows_of(12), weight=st.lists(weights, min_size=12, max_size=12),
    params=settings_of_a_model, margin=st.sampled_from(MARGINS), one_by_one=st.booleans(),
)  # fmt: skip
def test_novelty(rows, weight, params, margin, one_by_one):
    model = ks.NoveltyDetector(**params, margin=margin, on_bad_row="skip")
    learn(model, rows, None, weight, one_by_one)
    assert_a_file_holds(model)


X = np.random.default_rng(0).normal(size=(200, 2))
Y = X[:, 0]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("weight", 1e154), r"sample_weight 1e\+154"),
        (("weight", 1e31), "sample_weight"),
        (("y", 1e50), r"target 1e\+50"),
        (("y", -1e31), r"target -1e\+31"),
    ],
)
def test_a_target_or_weight_too_large_is_a_bad_row(row, message):
    which, value = row
    given = {"y": Y.copy(), "weight": np.ones(200)}
    given[which][150] = value
    model = ks.KernelRegressor().partial_fit(X[:100], Y[:100])
    before = model.to_bytes()
    with pytest.raises(ks.BadRow, match=f"row 50.*{message}"):
        model.partial_fit(X[100:], given["y"][100:], given["weight"][100:])
    assert model.to_bytes() == before
    with pytest.raises(ks.BadRow, match=f"row 150.*{message}"):
        ks.KernelRegressor().fit(X, given["y"], given["weight"])
    if which == "y":
        with pytest.raises(ks.BadRow, match=message):
            model.learn_one(X[0], value)
        assert model.to_bytes() == before
    good = np.delete(np.arange(200), 150)
    skipping = ks.KernelRegressor(on_bad_row="skip").partial_fit(X, given["y"], given["weight"])
    alone = ks.KernelRegressor(on_bad_row="skip").partial_fit(X[good], Y[good])
    assert skipping.n_skipped_ == 1
    alone._skipped = skipping._skipped
    assert skipping.to_bytes() == alone.to_bytes()


@pytest.mark.parametrize("which", ["y", "weight"])
def test_a_fleet_refuses_them_too(which):
    given = {"y": np.ones(3), "weight": np.ones(3)}
    given[which][1] = 1e40
    rows = np.ones((3, 2))
    fleets = [
        ks.Fleet("norma", "regressor", 3, 2, budget=4, on_bad_row=p) for p in ("raise", "skip")
    ]
    with pytest.raises(ks.BadRow, match=r"row 1.*too large"):
        fleets[0].learn(rows, given["y"], sample_weight=given["weight"])
    assert fleets[0].n_seen_.tolist() == [0, 0, 0]
    scores = fleets[1].learn(rows, given["y"], sample_weight=given["weight"])
    assert fleets[1].n_seen_.tolist() == [1, 0, 1]
    assert fleets[1].n_skipped_ == 1
    assert np.isnan(scores).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("known", "bad", "message"),
    [([0, 1], "1", "one is a string"), (["0", "1"], 1, "one is a string"), (["a"], b"b", "bytes"),
     ([0, 1], None, "None"), (["a", "b"], float("nan"), "NaN"), ([0, 1], (1, 2), "1d|label|shape"),
     ([2**53, 2**53 + 1], 1.0, "no one type of number"), ([1], 10**5000, "1024 bits")],
    ids=range(8),
)  # fmt: skip
def test_labels_that_a_file_cannot_hold_are_refused(known, bad, message):
    model, skipping = ks.KernelClassifier(), ks.KernelClassifier(on_bad_row="skip")
    for i, label in enumerate(known):
        model.learn_one(X[i], label)
        skipping.learn_one(X[i], label)
    before = model.to_bytes()
    with pytest.raises(ValueError, match=message):
        model.learn_one(X[5], bad)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X[:3], [known[0], bad, known[0]])
    assert model.to_bytes() == before
    assert_a_file_holds(model)
    skipping.learn_one(X[5], bad)
    assert (skipping.n_seen_, skipping.n_skipped_) == (len(known), 1)
    skipping.partial_fit(X[:3], [known[0], bad, known[0]])
    assert (skipping.n_seen_, skipping.n_skipped_) == (len(known) + 2, 2)
    assert skipping.classes_.tolist() == known
    assert_a_file_holds(skipping)


@pytest.mark.parametrize("classes", [[0, 1, "1"], [b"a", b"b"], [None, "a"], [0.0, np.nan]])
def test_declared_classes_are_checked_too(classes):
    with pytest.raises(ValueError, match=r"label|NaN"):
        ks.KernelClassifier().partial_fit(X[:1], classes[:1], classes=classes)
    with pytest.raises(ValueError, match=r"label|NaN"):
        ks.KernelClassifier().fit(X[:4], [classes[0], classes[1], *classes[-2:]])
    with pytest.raises(ValueError, match=r"label|NaN"):
        ks.Fleet("norma", "classifier", 2, 2, budget=4, classes=classes)


@pytest.mark.filterwarnings("ignore:over the last")  # of steps that cannot work
@pytest.mark.filterwarnings("ignore:the step size has been")
@pytest.mark.filterwarnings("ignore:most predictions are far larger")
def test_strong_decay_and_large_steps_stay_within_what_a_file_holds():
    """The scalars of the decay become small, and what is divided by them large."""
    rows = np.tile(X, (8, 1))
    model = ks.KernelRegressor(
        loss="epsilon_insensitive", margin=0.0, step_size=0.2, regularization=1.0, C=1e25,
        budget=ks.budgets.SmallestOut(5),
    )  # fmt: skip
    for start in range(0, len(rows), 40):
        model.partial_fit(rows[start : start + 40], np.tile(Y, 8)[start : start + 40])
        assert_a_file_holds(model)


def test_heavy_rows_do_not_blow_up_an_adaptive_margin():
    model = ks.NoveltyDetector(margin=ks.margins.Nu(0.3, "paper"), C=1e-30)
    model.partial_fit(X, sample_weight=np.full(200, 1e30))
    assert np.isfinite(model.machine_.state.margin.trace[0])
    assert_a_file_holds(model)


@example(names=["a", "a\0"])
@settings(looks_hard, max_examples=100)
@given(names=st.lists(st.text(max_size=3), min_size=1, max_size=6))
def test_names_come_back(names):
    model = ks.KernelClassifier().partial_fit(X[: len(names)], np.array(names, dtype=object))
    twin = from_bytes(model.to_bytes())
    assert twin.classes_.tolist() == list(dict.fromkeys(names))

"""Classes that count more than others: by what was given, or by how rare they are so far."""

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_sample_weight

import kernelstream as ks

RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(240, 3))
SCORES = X[:, 0] + np.sin(2 * X[:, 1])
LABELS = np.array(["common", "rare", "late"])[np.digitize(SCORES, [0.8, 1.6])]
LABELS[:60][LABELS[:60] == "late"] = "rare"
GIVEN = {"rare": 5.0, "late": 2.5}
MODELS = {
    "single": lambda **params: ks.make("linear-pa", "classifier", **params),
    "committee": lambda **params: ks.Committee(["svmd", "linear-pa"], "classifier", **params),
}


def running(y, weight):
    """n / (k n_c) at every row, in so many words."""
    counts, factors = {}, []
    for name, own in zip(y, weight, strict=True):
        counts[name] = counts.get(name, 0.0) + own
        factors.append(sum(counts.values()) / (len(counts) * counts[name]))
    return np.array(factors)


@pytest.mark.parametrize("kind", list(MODELS))
def test_it_is_a_weight_of_rows(kind, tmp_path):
    weight = RANDOM.uniform(0.5, 2.0, size=len(X))
    by_hand = {
        "balanced": weight * running(LABELS, weight),
        "given": weight * np.array([GIVEN.get(name, 1.0) for name in LABELS]),
    }
    plain = MODELS[kind]().partial_fit(X, LABELS, sample_weight=weight).decision_function(X)
    for name, factors in by_hand.items():
        class_weight = GIVEN if name == "given" else name
        expected = MODELS[kind]().partial_fit(X, LABELS, sample_weight=factors)
        pieces = MODELS[kind](class_weight=class_weight)
        for rows in (slice(0, 1), slice(1, 100)):
            pieces.partial_fit(X[rows], LABELS[rows], sample_weight=weight[rows])
        pieces.save(tmp_path / "model.ks")
        pieces = ks.load(tmp_path / "model.ks")
        before = pieces.to_bytes()
        with pytest.raises(ValueError, match="row 1"):
            pieces.partial_fit([[0.0, 0.0, 0.0], [1e300, 0.0, 0.0]], ["rare", "rare"])
        assert pieces.to_bytes() == before
        pieces.partial_fit(X[100:], LABELS[100:], sample_weight=weight[100:])
        said = pieces.decision_function(X)
        np.testing.assert_allclose(said, expected.decision_function(X), atol=1e-9)
        assert abs(said - plain).max() > 1e-3


def test_one_row_at_a_time():
    single = MODELS["single"](class_weight="balanced")
    for x, y in zip(X[:80], LABELS[:80], strict=True):
        single.learn_one(x, y)
    block = MODELS["single"](class_weight="balanced").partial_fit(X[:80], LABELS[:80])
    np.testing.assert_allclose(single.decision_function(X), block.decision_function(X), atol=1e-12)


def test_fit_knows_all_rows():
    weight = compute_sample_weight("balanced", LABELS)
    expected = MODELS["single"]().fit(X, LABELS, sample_weight=weight)
    fitted = MODELS["single"](class_weight="balanced").fit(X, LABELS)
    np.testing.assert_allclose(fitted.coef_, expected.coef_)


def test_two_declared_classes():
    y = (LABELS != "common").astype(int)
    expected = MODELS["single"]().partial_fit(X, y, [0, 1], running(y, np.ones(len(y))))
    pieces = MODELS["single"](class_weight="balanced")
    for start in range(0, len(X), 80):
        pieces.partial_fit(X[start : start + 80], y[start : start + 80], classes=[0, 1])
    np.testing.assert_allclose(pieces.coef_, expected.coef_)


def test_what_is_refused():
    for wrong in ("even", {"rare": 0.0}, {"rare": "much"}, 3.0):
        with pytest.raises(ValueError, match="class_weight="):
            MODELS["single"](class_weight=wrong).partial_fit(X, LABELS)
    member = MODELS["single"](class_weight="balanced")
    with pytest.raises(ValueError, match="to the committee"):
        ks.Committee([member], "classifier").partial_fit(X, LABELS)
    with pytest.raises(ValueError, match="leave class_weight out"):
        ks.Fleet("svmd", "classifier", n_models=2, n_features=3, class_weight="balanced")


def test_weights_of_labels_that_do_not_come():
    with pytest.warns(UserWarning, match="the label 'rar', which is not in y") as told:
        ks.KernelClassifier(class_weight={"rar": 5.0}).fit(X, LABELS)
    assert told[0].filename == __file__
    ks.KernelClassifier(class_weight={"later": 5.0}).partial_fit(X, LABELS)  # it may still come
    with pytest.raises(ValueError, match=r"class_weight has the label 1, .*like 'rare'"):
        ks.KernelClassifier(class_weight={1: 5.0}).partial_fit(X, LABELS)

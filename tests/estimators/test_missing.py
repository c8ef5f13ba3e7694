"""Missing values: the mean of the rows before, however the stream is cut."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kernelstream as ks
from kernelstream.estimators.missing import new_means

RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(150, 4)) * [1.0, 5.0, 0.1, 2.0] + [0.0, 3.0, 0.0, -1.0]
TARGET = np.nan_to_num(X[:, 0] + X[:, 1])
X[RANDOM.random(X.shape) < 0.2] = np.nan
X[:5, 3] = np.nan  # nothing is known of it for a while
LABELS = np.array(["low", "high"])[(TARGET > 3.0).astype(int)]


def by_hand(rows, weight, with_marks):
    """Every value that is missing by the mean of those before it, in so many words."""
    found = np.empty_like(rows)
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            before = rows[:i, j][weight[:i] > 0]
            before = before[~np.isnan(before)]
            found[i, j] = (before.mean() if len(before) else 0.0) if np.isnan(value) else value
    return np.hstack([found, np.isnan(rows)]) if with_marks else found


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["mean", "indicator"]))
def test_means_in_any_blocks(seed, missing):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(random.integers(1, 30), 3)) * 10.0 ** random.integers(-3, 4)
    rows[random.random(rows.shape) < random.choice([0.0, 0.3, 0.9])] = np.nan
    weight = random.integers(0, 3, size=len(rows)).astype(float)
    means, found, start = new_means(missing, rows), [], 0
    while start < len(rows):
        piece = slice(start, start + random.integers(1, 12))
        asked = means.filled(rows[piece][:1])
        means, filled = means.including(rows[piece], weight[piece])
        np.testing.assert_array_equal(asked, filled[:1])
        found.append(filled)
        start = piece.stop
    expected = by_hand(rows, weight, missing == "indicator")
    np.testing.assert_allclose(np.vstack(found), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("missing", ["mean", "indicator"])
def test_a_model_learns_filled_rows(missing, tmp_path):
    filled = by_hand(X, np.ones(len(X)), missing == "indicator")
    expected = ks.make("linear-pa", "classifier").partial_fit(filled, LABELS)
    pieces = ks.make("linear-pa", "classifier", missing=missing)
    for x, y in zip(X[:40], LABELS[:40], strict=True):
        pieces.learn_one(x, y)
    pieces.save(tmp_path / "model.ks")
    pieces = pickle.loads(pickle.dumps(ks.load(tmp_path / "model.ks")))
    before = pieces.to_bytes()
    with pytest.raises(ValueError, match="infinity"):
        pieces.partial_fit([[np.inf, 0.0, 0.0, 0.0]], LABELS[:1])
    with pytest.raises(ValueError, match="row 1"):
        pieces.partial_fit([[np.nan, 0.0, 0.0, 0.0], [0.0, 1e300, 0.0, 0.0]], LABELS[:2])
    assert pieces.to_bytes() == before
    result = ks.prequential(pieces, X[40:], LABELS[40:])
    np.testing.assert_allclose(pieces.coef_, expected.coef_, atol=1e-9)
    assert result.rows.size == 110
    assert pieces.n_features_in_ == 4
    ends = expected.predict(np.vstack([by_hand(np.vstack([X, x]), np.ones(151), False)[-1]
                                       for x in X[:20]])
                            if missing == "mean" else
                            np.vstack([by_hand(np.vstack([X, x]), np.ones(151), True)[-1]
                                       for x in X[:20]]))  # fmt: skip
    assert pieces.predict(X[:20]).tolist() == ends.tolist()
    assert [pieces.predict_one(x) for x in X[:20]] == ends.tolist()


def test_committees_fill_in_by_default():
    committee = ks.Committee(["linear-pa", "svmd"], "regressor").partial_fit(X, TARGET)
    filled = ks.Committee(["linear-pa", "svmd"], "regressor", missing="error")
    filled.partial_fit(by_hand(X, np.ones(len(X)), False), TARGET)
    whole = np.nan_to_num(X)
    np.testing.assert_allclose(committee.predict(whole), filled.predict(whole), atol=1e-9)
    detector = ks.AutoDetector().partial_fit(X)
    assert detector.predict_one(np.full(4, np.nan)) == 1


def test_bad_rows_are_others():
    rows = X[:10].copy()
    rows[3, 1] = np.inf
    model = ks.make("linear-pa", "classifier", missing="mean", on_bad_row="skip")
    model.partial_fit(rows, LABELS[:10])
    assert (model.n_seen_, model.n_skipped_) == (9, 1)
    strict = ks.make("linear-pa", "classifier", on_bad_row="skip")
    strict.partial_fit(rows, LABELS[:10])
    assert strict.n_seen_ == int(np.isfinite(rows).all(axis=1).sum())
    with pytest.raises(ValueError, match="NaN"):
        ks.make("linear-pa", "classifier").partial_fit(rows, LABELS[:10])


def test_what_is_refused():
    with pytest.raises(ValueError, match="missing='median'"):
        ks.make("linear-pa", "classifier", missing="median").partial_fit(X, LABELS)
    with pytest.raises(ValueError, match="missing"):
        ks.Committee([ks.KernelClassifier(missing="mean")], "classifier").partial_fit(X, LABELS)
    with pytest.raises(ValueError, match="missing='median'"):
        ks.Fleet("svmd", "classifier", n_models=2, n_features=3, missing="median")

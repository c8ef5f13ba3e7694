"""Streams that upset learners, for all three tasks: exact in blocks, finite, not far worse than the
most frequent label or the mean, and soon as good as before.
"""

import numpy as np
import pytest
import scipy.sparse

import kernelstream as ks

N = 1600
HALF = N // 2
RANDOM = np.random.default_rng(0)
CALM = RANDOM.normal(size=(N, 4))
LABELS = np.where(CALM[:, 0] * CALM[:, 1] + CALM[:, 2] > 0, "yes", "no")
NUMBERS = CALM[:, 0] * CALM[:, 1] + np.sin(2 * CALM[:, 2]) + 0.1 * RANDOM.normal(size=N)
PLACES = np.arange(N)
LATE = PLACES >= HALF


def changed(values, where, what):
    values = values.copy()
    values[where] = what
    return values


def one_class_first():
    first = np.flatnonzero(LABELS == "yes")[:600]
    order = np.concatenate([first, np.setdiff1d(PLACES, first)])
    return CALM[order], LABELS[order], changed(NUMBERS[order], slice(600), 1.0)


def hundred_classes():
    centres, which = RANDOM.normal(size=(100, 8)) * 3.0, RANDOM.integers(0, 100, N)
    return centres[which] + RANDOM.normal(size=(N, 8)), which, which.astype(float)


STRETCH = (PLACES >= 300) & (PLACES < 700)
CASES = {
    "calm": (CALM, LABELS, NUMBERS),
    "at 1e3": (CALM * 1e3, LABELS, NUMBERS * 1e3),
    "at 1e-6": (CALM * 1e-6, LABELS, NUMBERS * 1e-6),
    "larger units": (np.where(LATE[:, None], 100.0 * CALM, CALM), LABELS, NUMBERS),
    "smaller units": (np.where(LATE[:, None], 0.1 * CALM, CALM), LABELS, NUMBERS),
    "a shifted target": (CALM, LABELS, NUMBERS + 1e6 * LATE),
    "outliers": (CALM * np.where(PLACES % 100 == 99, 1e6, 1.0)[:, None], LABELS, NUMBERS),
    "outliers of the target": (CALM, LABELS, NUMBERS * np.where(PLACES % 100 == 99, 1e6, 1.0)),
    "a constant stretch": (
        changed(CALM, STRETCH, CALM[300]), changed(LABELS, STRETCH, LABELS[300]),
        changed(NUMBERS, STRETCH, NUMBERS[300]),
    ),
    "every row three times": tuple(np.repeat(a, 3, axis=0)[:N] for a in (CALM, LABELS, NUMBERS)),
    "a flip": (CALM, np.where((LABELS == "yes") == LATE, "no", "yes"), NUMBERS * (1 - 2 * LATE)),
    "one class first": one_class_first(),
    "100 classes": hundred_classes(),
    "noise": (CALM, RANDOM.choice(["a", "b"], N, p=[0.9, 0.1]), RANDOM.normal(size=N)),
    "nothing but constants": (np.full((N, 3), 0.1), LABELS, NUMBERS),
}  # fmt: skip
LAST_ROWS = 300
UNRELATED = {"noise", "nothing but constants"}  # from such rows nothing can be learned


def pieces(n_rows):
    """A stream in pieces of all sizes, single rows among them."""
    return np.split(np.arange(n_rows), [1, 2, 3, 70, 71, 500, 501, 502, 1100])


def said(estimator, X, y, read):
    """What a model says after the whole stream, and after it came in pieces and rows."""
    whole, parts = estimator().partial_fit(X, y), estimator()
    for rows in pieces(len(X)):
        if len(rows) == 1:
            parts.learn_one(X[rows[0]], *([] if y is None else [y[rows[0]]]))
        else:
            parts.partial_fit(X[rows], None if y is None else y[rows])
    found = getattr(whole, read)(X[-200:])
    assert np.isfinite(found).all()
    return found, getattr(parts, read)(X[-200:])


@pytest.mark.parametrize("name", CASES)
def test_labels(name):
    X, y, _ = CASES[name]
    np.testing.assert_allclose(*said(ks.AutoClassifier, X, y, "predict_proba"), atol=1e-9)
    result = ks.prequential(ks.AutoClassifier(), X, y, declare_classes=False)
    wrong = result.predictions != y
    counts, frequent = {}, []
    for label in y.tolist():
        frequent.append(max(counts, key=counts.get, default=None) != label)
        counts[label] = counts.get(label, 0) + 1
    assert wrong.mean() < np.mean(frequent) + 0.02
    if name not in UNRELATED:
        assert wrong[-LAST_ROWS:].mean() < 0.3 * np.mean(frequent[-LAST_ROWS:])


@pytest.mark.parametrize("name", CASES)
def test_numbers(name):
    X, _, y = CASES[name]
    whole, parts = said(ks.AutoRegressor, X, y, "predict")
    np.testing.assert_allclose(parts, whole, rtol=1e-9, atol=1e-9 * y.std())
    errors = ks.prequential(ks.AutoRegressor(), X, y).errors
    means = np.concatenate([[0.0], np.cumsum(y)[:-1] / np.arange(1, N)])
    of_mean = (means - y) ** 2
    assert errors.mean() < 1.05 * of_mean.mean()
    if name not in {*UNRELATED, "outliers of the target"}:
        assert np.median(errors[-LAST_ROWS:]) < 0.5 * np.median(of_mean[-LAST_ROWS:])


@pytest.mark.parametrize("name", CASES)
def test_alarms(name):
    X = CASES[name][0]
    np.testing.assert_array_equal(*said(ks.AutoDetector, X, None, "score_samples"))
    model = ks.AutoDetector()
    result = ks.prequential(model, X)
    assert np.isfinite(result.scores).all()
    assert result.error_rate < 0.1
    centre, spread = X[-LAST_ROWS:].mean(axis=0), X[-LAST_ROWS:].std(axis=0)
    assert (model.predict(centre + np.diag(np.maximum(100.0 * spread, 1e-3))) == -1).all()


@pytest.mark.parametrize("is_sparse", [False, True])
def test_ten_thousand_features(is_sparse):
    random = np.random.default_rng(1)
    X = scipy.sparse.random_array((60, 10_000), density=0.01, rng=random, format="csr")
    X = X if is_sparse else X.toarray()
    total = np.asarray(X[:, :100].sum(axis=1)).ravel()
    for estimator, y, read in (
        (ks.AutoClassifier, total > np.median(total), "predict_proba"),
        (ks.AutoRegressor, total, "predict"),
        (ks.AutoDetector, None, "score_samples"),
    ):
        whole, parts = estimator().partial_fit(X, y), estimator()
        for rows in (slice(7), slice(7, 50), slice(50, 60)):
            parts.partial_fit(X[rows], None if y is None else y[rows])
        found = getattr(whole, read)(X)
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, getattr(parts, read)(X), atol=1e-9)

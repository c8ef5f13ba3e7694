"""A label is the same in a block and row by row, or an error says what to do."""

import contextlib
import datetime

import numpy as np
import pandas as pd
import pytest

import kernelstream as ks

pytestmark = pytest.mark.usefixtures("without_compiler")
X = np.eye(4)


def new_model():
    return ks.make("perceptron", "classifier", kernel="linear", budget=None)


def by_rows(labels):
    model = new_model()
    for x, label in zip(X, labels, strict=False):
        model.learn_one(x, label)
    return model


@pytest.mark.parametrize(
    "labels",
    [
        [2**63, 1, 2**63 + 1],
        [2**64 + 1, 2**64, 5],
        [2**63, -1],
        [-(2**63) - 1, 2**63],
        [2**53 + 1, 2**53],
        np.array([2**63, 2**63 + 2, 1], dtype=np.uint64),
        ["a", "a\0", "a\0\0"],
        ["b\0", "b"],
        [True, False],
        ["1", "2", "1"],
        np.array(["x", "yy", "zzz"]),
        pd.Series(["x", "yy"], dtype="string"),
    ],
    ids=range(12),
)
def test_labels_are_exact_in_blocks_rows_and_files(labels, tmp_path):
    expected = list(dict.fromkeys(np.asarray(labels).tolist() if hasattr(labels, "dtype")
                                  else labels))  # fmt: skip
    for model in (new_model().partial_fit(X[: len(labels)], labels), by_rows(list(labels))):
        assert model.classes_.tolist() == expected
        model.save(tmp_path / "model.ks")
        loaded = ks.load(tmp_path / "model.ks")
        assert loaded.classes_.tolist() == expected
        assert [loaded.predict_one(x) for x in X[: len(labels)]] == list(labels)
        assert loaded.predict(X[: len(labels)]).tolist() == list(labels)


def test_classes_beyond_64_bits_join_later():
    model = new_model().partial_fit(X[:2], [1, 2]).partial_fit(X[2:], [2**63, 2**64])
    assert model.classes_.tolist() == [1, 2, 2**63, 2**64]
    model = new_model().partial_fit(X[:2], ["a", "b"]).learn_one(X[2], "a\0")
    assert model.classes_.tolist() == ["a", "b", "a\0"]


@pytest.mark.parametrize(
    "label",
    [
        np.datetime64("2024-01-01T00:00:00", "ns"),
        np.datetime64("2024-01-01"),
        np.timedelta64(5, "ns"),
        pd.Timestamp("2024-01-01"),
        datetime.date(2024, 1, 1),
    ],
)
def test_moments_are_no_labels(label):
    for labels in (
        [label],
        np.array([label]),
        pd.Series([label]),
        pd.Series([label], dtype=object),
    ):
        model = new_model()
        with pytest.raises(ValueError, match="label type"):
            model.partial_fit(X[:1], labels)
        skips = new_model().set_params(on_bad_row="skip")
        with contextlib.suppress(ValueError):
            skips.partial_fit(X[:1], labels)
        assert "n_seen_" not in dir(skips)
    with pytest.raises(ValueError, match="label type"):
        new_model().learn_one(X[0], label)
    learned = new_model().partial_fit(X[:2], [1, 2])
    with pytest.raises(ValueError, match="label type"):
        learned.learn_one(X[0], label)


@pytest.mark.parametrize("make", [new_model, ks.AutoClassifier])
def test_numbers_that_nearly_never_repeat_are_warned_of_before_they_are_learned(make):
    random = np.random.default_rng(0)
    prices = (1000 * random.integers(1, 400, size=60)).astype(float)
    with pytest.warns(UserWarning, match=r"5\d distinct numbers in 60 rows.*AutoRegressor"):
        make().partial_fit(random.normal(size=(60, 2)), prices)


def test_classes_that_would_take_too_much_memory_are_refused(monkeypatch):
    from kernelstream.estimators import many_classes

    model = ks.make("linear-pa", "classifier").partial_fit(np.eye(200), np.arange(200) % 40)
    monkeypatch.setattr(many_classes, "_LARGEST", 400_000)
    before = model.to_bytes()
    with pytest.raises(ValueError, match=r"140 classes so far.*use AutoRegressor"):
        model.partial_fit(np.eye(200), np.arange(200) % 140)
    assert model.to_bytes() == before
    declared = ks.make("linear-pa", "classifier")
    declared.partial_fit(np.eye(200), np.arange(200) % 140, classes=np.arange(140))


def test_probabilities_that_do_not_exist_say_what_to_do_instead():
    model = ks.KernelClassifier().partial_fit(X[:2], [0, 1])
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match=r"loss='log_loss'.*sog-svc") as caught:
        model.predict_proba(X)
    assert caught.value.obj is None  # so that Python does not propose predict_one


@pytest.mark.parametrize("missing", ["error", "mean"])
@pytest.mark.parametrize("as_given", [np.asarray, np.ndarray.tolist, pd.DataFrame])
def test_infinity_names_its_row(missing, as_given):
    rows = np.ones((5, 2))
    rows[3, 1] = np.inf
    for model in (ks.KernelRegressor(missing=missing), ks.AutoRegressor(missing=missing)):
        with pytest.raises(ks.BadRow, match=r"row 3 was refused: .*(infinity|infinite)"):
            model.partial_fit(as_given(rows), np.arange(5.0))

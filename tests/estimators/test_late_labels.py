"""Labels that come late: predicted now, learned when they come, in the order in which they come."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import kernelstream as ks

RANDOM = np.random.default_rng(1)
N = 60
X = RANDOM.normal(size=(N, 3))
LABELS = np.where(X[:, 0] + X[:, 1] > 0, "up", "down")
IDS = [f"row {i}" for i in range(N)]
ORDER = RANDOM.permutation(np.arange(20, N))  # in which labels come


def classifier(**params):
    return ks.make("linear-pa", "classifier", scaling="running", **params)


@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_array])
def test_they_are_learned_as_if_they_came_now(as_rows, tmp_path):
    rows = as_rows(X)
    expected = classifier().partial_fit(rows[:20], LABELS[:20])
    said = expected.predict(rows[20:])
    expected.partial_fit(rows[ORDER], LABELS[ORDER])
    model = classifier().partial_fit(rows[:20], LABELS[:20])
    assert model.predict(rows[20:], ids=IDS[20:]).tolist() == said.tolist()
    assert (model.n_seen_, model.n_waiting_) == (20, 40)
    model.learn_labels([IDS[i] for i in ORDER[:15]], LABELS[ORDER[:15]])
    model.save(tmp_path / "model.ks")
    model = ks.load(tmp_path / "model.ks")
    before = model.to_bytes()
    for ids, y, problem in (
        (["row 3"], ["up"], "no row waits under the id 'row 3'"),
        ([IDS[ORDER[0]]], ["up"], "has already been learned"),
        ([IDS[ORDER[20]], IDS[ORDER[21]]], ["up"], "inconsistent"),
        ([IDS[ORDER[20]]], [3], "a string and one a number"),
    ):
        with pytest.raises(ValueError, match=problem):
            model.learn_labels(ids, y)
    assert model.to_bytes() == before
    for i in ORDER[15:]:
        model.learn_labels([IDS[i]], [LABELS[i]])
    assert (model.n_seen_, model.n_waiting_) == (N, 0)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-12)


def test_tables_count_as_they_come(tmp_path):
    frame = pd.DataFrame({"a": X[:, 0], "kind": RANDOM.choice(list("pqrs"), N)})
    frame.loc[30:40, "a"] = np.nan
    model = classifier(missing="mean").partial_fit(frame[:20], LABELS[:20])
    model.predict(frame[20:], ids=range(20, N))
    model.save(tmp_path / "model.ks")
    model = ks.load(tmp_path / "model.ks").learn_labels(range(20, N), LABELS[20:])
    expected = classifier(missing="mean").partial_fit(frame, LABELS)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-12)
    np.testing.assert_allclose(model.decision_function(frame), expected.decision_function(frame))


def test_there_is_room_for_so_many():
    model = classifier(waiting_rows=5).partial_fit(X[:20], LABELS[:20])
    model.predict(X[20:30], ids=IDS[20:30])
    assert (model.n_waiting_, model.n_expired_) == (5, 5)
    with pytest.raises(ValueError, match="more than 5 rows came after it"):
        model.learn_labels(IDS[20:21], LABELS[20:21])
    with pytest.raises(ValueError, match="ids has 2 entries"):
        model.predict(X[:1], ids=["a", "b"])
    with pytest.raises(ValueError, match="learn these first"):
        model.widen(5)
    assert model.fit(X, LABELS).n_waiting_ == 0


def test_rows_that_cannot_be_learned():
    model = classifier(on_bad_row="skip").partial_fit(X[:20], LABELS[:20])
    model.predict(X[20:23], ids=[1, 2, 3])
    model.learn_labels([3, 1], np.array(["up", None], dtype=object))
    assert (model.n_seen_, model.n_skipped_, model.n_waiting_) == (21, 1, 1)


def test_committees_and_numbers():
    y = X @ [1.0, 2.0, 3.0]
    model = ks.Committee(["linear-pa", "svmd"], "regressor").partial_fit(X[:20], y[:20])
    model.predict(X[20:], ids=IDS[20:])
    model.learn_labels(IDS[20:], y[20:])
    expected = ks.Committee(["linear-pa", "svmd"], "regressor").partial_fit(X, y)
    np.testing.assert_allclose(model.predict(X), expected.predict(X), atol=1e-9)

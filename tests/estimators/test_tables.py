"""Data frames as they are: categories, dates and gaps, however the stream is cut."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kernelstream as ks
from kernelstream.tables.columns import Columns
from kernelstream.tables.frames import as_table

RANDOM = np.random.default_rng(8)
N = 120
CITIES = [f"city {k}" for k in range(15)]
FRAME = pd.DataFrame({
    "age": RANDOM.integers(20, 60, size=N),
    "city": np.array(CITIES)[np.minimum(RANDOM.geometric(0.2, size=N) - 1, 14)],
    "member": RANDOM.random(N) < 0.5,
    "since": pd.Timestamp("2024-01-01") + pd.to_timedelta(RANDOM.uniform(0, 5e7, N), unit="s"),
    "size": pd.Categorical(RANDOM.choice(["S", "M", "L"], N), categories=["S", "M", "L"]),
    "income": np.where(RANDOM.random(N) < 0.2, np.nan, RANDOM.normal(size=N)),
})  # fmt: skip
LABELS = np.where((FRAME["age"] > 40) ^ (FRAME["size"] == "S"), "yes", "no")


def model(**params):
    return ks.make("linear-pa", "classifier", **{"missing": "mean", "scaling": "running", **params})


def records(frame):
    return frame.to_dict("records")


def test_what_columns_become():
    columns, X = Columns.of(as_table(FRAME)).including(as_table(FRAME), np.ones(N))
    assert [c.kind for c in columns.columns] == [
        "number", "category", "number", "date", "category", "number",
    ]  # fmt: skip
    assert [c.width for c in columns.columns] == [1, 16, 1, 7, 4, 1]
    np.testing.assert_array_equal(X[:, 0], FRAME["age"])
    first = list(dict.fromkeys(FRAME["city"]))[:10]
    np.testing.assert_array_equal(X[:, 1:11], FRAME["city"].to_numpy()[:, None] == first)
    shared = X[:, 11:17].sum(axis=1)
    np.testing.assert_array_equal(shared, 2.0 * ~FRAME["city"].isin(first))
    years = (FRAME["since"] - pd.Timestamp("2000-01-01")) / pd.Timedelta(days=365.2425)
    np.testing.assert_allclose(X[:, 18], years)
    hours = FRAME["since"].dt.hour + FRAME["since"].dt.minute / 60 + FRAME["since"].dt.second / 3600
    np.testing.assert_allclose(X[:, 19], np.sin(hours / 24 * 2 * np.pi), atol=1e-3)
    days = (FRAME["since"].dt.day_of_week + 2) % 7 + hours / 24  # 2000 began on a Saturday
    np.testing.assert_allclose(X[:, 22], np.cos(days / 7 * 2 * np.pi), atol=1e-3)
    np.testing.assert_array_equal(X[:, 25:28], FRAME["size"].to_numpy()[:, None] == ["S", "M", "L"])
    np.testing.assert_array_equal(np.isnan(X[:, 29]), FRAME["income"].isna())
    assert columns.n_unlisted() == {"city": int((~FRAME["city"].isin(first)).sum()), "size": 0}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_any_blocks(seed):
    random = np.random.default_rng(seed)
    weight = random.integers(0, 2, size=N).astype(float)
    whole, expected = Columns.of(as_table(FRAME)).including(as_table(FRAME), weight)
    columns, found, start = Columns.of(as_table(FRAME[:1])), [], 0
    while start < N:
        piece = slice(start, start + random.integers(1, 30))
        table = as_table(FRAME[piece])
        asked = columns.encoded(as_table(FRAME[piece][:1]))
        columns, X = columns.including(table, weight[piece])
        np.testing.assert_array_equal(asked, X[:1])  # predicted as it is learned
        found.append(X)
        start = piece.stop
    assert columns == whole == Columns.from_json(whole.to_json())
    np.testing.assert_array_equal(np.vstack(found), expected)


def test_models_in_blocks_rows_files_and_undone(tmp_path):
    whole = model().partial_fit(FRAME, LABELS)
    pieces = model().partial_fit(FRAME[:1], LABELS[:1])
    for i, row in enumerate(records(FRAME[1:30]), start=1):
        pieces.learn_one(row, LABELS[i])
    for i in range(30, 40):
        pieces.learn_one(FRAME.iloc[i], LABELS[i])
    pieces.save(tmp_path / "model.ks")
    pieces = ks.load(tmp_path / "model.ks")
    before = pieces.to_bytes()
    bad = FRAME[40:60].astype({"age": object})
    bad.loc[55, "age"] = "old"
    with pytest.raises(ValueError, match="row 15 was refused: age is 'old', which is not a number"):
        pieces.partial_fit(bad, LABELS[40:60])
    assert pieces.to_bytes() == before
    ks.prequential(pieces, FRAME[40:], LABELS[40:])
    np.testing.assert_allclose(pieces.coef_, whole.coef_, atol=1e-9)
    assert pieces.unlisted_ == whole.unlisted_
    assert pieces.feature_names_in_.tolist() == list(FRAME.columns)
    said = whole.decision_function(FRAME)
    np.testing.assert_allclose(pieces.decision_function(FRAME[FRAME.columns[::-1]]), said)
    assert [whole.predict_one(row) for row in records(FRAME)] == whole.predict(FRAME).tolist()
    assert whole.predict_one({"city": "elsewhere"}) in ("yes", "no")  # all else is missing


def test_polars_is_pandas():
    frame = pl.from_pandas(FRAME).with_columns(pl.col("size").cast(pl.Enum(["S", "M", "L"])))
    ours, theirs = as_table(frame), as_table(FRAME)
    encoded = [Columns.of(table).encoded(table) for table in (ours, theirs)]
    np.testing.assert_allclose(*encoded)
    fitted = model().fit(frame, LABELS)
    np.testing.assert_allclose(fitted.coef_, model().fit(FRAME, LABELS).coef_)


def test_bad_rows_are_left_out():
    bad = FRAME.astype({"age": object})
    bad.loc[[3, 50], "age"] = "old"
    kept = np.delete(np.arange(N), [3, 50])
    model_ = model(on_bad_row="skip").partial_fit(bad, LABELS)
    expected = model().partial_fit(FRAME.iloc[kept], LABELS[kept])
    np.testing.assert_allclose(model_.coef_, expected.coef_)
    assert model_.n_skipped_ == 2
    rows = [{"a": 1.0}, {"b": 2.0}, {"a": None}, {"a": "c"}, {"a": 3.0}]
    strict = model(on_bad_row="skip", missing="error").partial_fit(rows, LABELS[[0, 0, 0, 0, 1]])
    assert strict.skipped_ == {
        "the column 'b' is not one of a": 1,
        "a is missing (NaN): leave this row out, or fill it in by missing='mean'": 1,
        "a is 'c', which is not a number: leave this row out, or learn the column as categories "
        "(docs/tables.md)": 1,
    }


def test_odd_entries():
    dates = [datetime.date(2024, 5, 1), "2024-05-02T12:00:00", None, np.datetime64("2024-05-03")]
    numbers = [1, "2.5", "?", True]
    table = as_table([{"day": a, "x": b} for a, b in zip(dates, numbers, strict=True)])
    X = Columns.of(table).encoded(table)
    np.testing.assert_allclose(np.diff(X[[0, 1, 3], 0]) * 365.2425, [1.5, 0.5])
    assert np.isnan(X[2]).all()
    np.testing.assert_array_equal(X[:, 7][[0, 1, 3]], [1.0, 2.5, 1.0])
    zoned = pd.DataFrame({"t": pd.to_datetime(["2024-05-01T12:00"]).tz_localize("Asia/Tokyo")})
    local = pd.DataFrame({"t": pd.to_datetime(["2024-05-01T12:00"])})
    encoded = [Columns.of(as_table(f)).encoded(as_table(f)) for f in (zoned, local)]
    np.testing.assert_array_equal(*encoded)


def test_errors_name_the_remedy():
    learned = model().partial_fit(FRAME, LABELS)
    with pytest.raises(ValueError, match="no column 'income'"):
        learned.predict(FRAME.drop(columns="income"))
    with pytest.raises(ValueError, match="'extra' is new"):
        learned.predict(FRAME.assign(extra=1))
    with pytest.raises(ValueError, match="give a data frame"):
        learned.predict(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"income is missing \(NaN\): .* missing='mean'"):
        model(missing="error").partial_fit(FRAME, LABELS)
    with pytest.raises(TypeError, match="begin with a dictionary or a data frame"):
        model().partial_fit(np.eye(3), ["a", "b", "c"]).learn_one({"a": 1.0}, "a")


def test_numbers_keep_their_names():
    frame = FRAME[["age", "income"]]
    named = model().partial_fit(frame, LABELS)
    plain = model().partial_fit(frame.to_numpy(), LABELS)
    np.testing.assert_array_equal(named.coef_, plain.coef_)
    assert named.predict_one({"income": 0.5, "age": 30}) == plain.predict_one([30, 0.5])
    dicts = model()
    for row, y in zip(records(frame), LABELS, strict=True):
        dicts.learn_one(row, y)
    np.testing.assert_allclose(dicts.coef_, plain.coef_, atol=1e-9)

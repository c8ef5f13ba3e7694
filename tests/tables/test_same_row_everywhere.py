"""The same row is the same features: in every type, every container and at every way in.

A model has learned a table whose columns hold a number, a truth value, a date, a duration and two
sorts of categories. Each entry of a row is then given in every type that could stand for it. Every
way in must give the features, or the prediction, of the plain row.
"""

import csv
import datetime
import io
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import kernelstream as ks
from kernelstream.cli.app import app

from ..conftest import interpret

N = 40
RANDOM = np.random.default_rng(0)
ZIPS = ["A1", "17", "18", "B2", "18.5", "2024-05-01"]
TRAIN = pd.DataFrame({
    "size": RANDOM.normal(17.0, 5.0, N),
    "flag": RANDOM.random(N) < 0.5,
    "day": pd.Timestamp("2024-04-01") + pd.to_timedelta(RANDOM.integers(0, 80, N), unit="D"),
    "wait": pd.to_timedelta(RANDOM.integers(0, 200, N), unit="s"),
    "zip": [ZIPS[k % 6] for k in range(N)],
    "told": pd.Categorical(["17" if k % 2 else "x" for k in range(N)]),
})  # fmt: skip
Y = TRAIN["size"] + 5.0 * TRAIN["flag"] + 3.0 * (TRAIN["zip"] == "17")
ROW = {"size": 17.0, "flag": True, "day": datetime.datetime(2024, 5, 1),
       "wait": datetime.timedelta(seconds=90), "zip": "17", "told": "17"}  # fmt: skip
NAMES = list(ROW)

SEVENTEEN = [17, 17.0, "17", " 17 ", "17.0", "+17", "1.7e1", np.int8(17), np.int64(17),
             np.uint64(17), np.float32(17), np.float64(17), Decimal("17.0")]  # fmt: skip
TRUE = [True, "True", "true", " TRUE ", np.True_, 1, 1.0, "1"]
MAY_DAY = [
    datetime.date(2024, 5, 1), datetime.datetime(2024, 5, 1), pd.Timestamp("2024-05-01"),
    pd.Timestamp("2024-05-01").as_unit("s"), pd.Timestamp("2024-05-01", tz="Asia/Tokyo"),
    *(np.datetime64("2024-05-01", unit) for unit in ("D", "s", "ms", "us", "ns")),
    "2024-05-01", "2024-05-01 00:00:00", "2024-05-01T00:00:00.000", " 2024-05-01 ",
    "2024-05-01T00:00:00+09:00",
]  # fmt: skip
NINETY = [
    datetime.timedelta(seconds=90),
    pd.Timedelta(seconds=90),
    90,
    90.0,
    "90",
    *(np.timedelta64(90 * 1000**k, unit) for k, unit in enumerate(["s", "ms", "us", "ns"])),
]
NOTHING = [None, float("nan"), np.nan, pd.NA, pd.NaT, "", " NA ", "?", "null", np.float32("nan")]
VALUES = {
    "size": SEVENTEEN, "flag": TRUE, "day": MAY_DAY, "wait": NINETY, "zip": SEVENTEEN,
    "told": SEVENTEEN,
}  # fmt: skip
# the name of the entry that is given in another type, that entry, and the plain row
CASES = [(name, value, ROW) for name in NAMES for value in VALUES[name]]
GAPS = [(name, value, {**ROW, name: None}) for name in NAMES for value in NOTHING]
# other rows: entries that are no category of their own, and such that the column cannot hold
DATES = [("zip", value, {**ROW, "zip": "2024-05-01"}) for value in MAY_DAY]
WRONG = [
    ("size", "big"), ("size", datetime.date(2024, 5, 1)), ("size", np.datetime64("2024-05-01")),
    ("size", b"17"), ("size", "1_7"), ("size", 1j), ("wait", np.timedelta64(3, "M")),
    ("day", 17), ("day", "soon"), ("day", True), ("day", datetime.timedelta(1)),
    ("day", np.datetime64(10**16, "s")), ("flag", "yes"),
]  # fmt: skip


def row_with(name, value):
    return {**ROW, name: value}


# --- containers: a row as all that has columns ----------------------------------------------------


def as_dictionary(row):
    return [row]


def as_pandas(row):
    return pd.DataFrame([row], columns=NAMES)


def as_pandas_objects(row):
    return pd.DataFrame({name: pd.Series([row[name]], dtype=object) for name in NAMES})


def as_nullable_pandas(row):
    return as_pandas(row).convert_dtypes()


def as_pandas_categories(row):
    return as_pandas(row).astype({"told": "category", "zip": "category"})


def as_reversed_pandas(row):
    return as_pandas(row)[NAMES[::-1]]


def as_pandas_with_more_rows(row):
    frame = pd.DataFrame([ROW, ROW, row], columns=NAMES)
    return frame[2:]


def as_polars(row):
    return pl.DataFrame({name: [row[name]] for name in NAMES})


def as_pyarrow(row):
    return pa.table({name: [row[name]] for name in NAMES})


def as_arrow_dictionaries(row):
    table = pa.table({name: [row[name]] for name in NAMES})
    at = NAMES.index("zip")
    return table.set_column(at, "zip", table["zip"].combine_chunks().dictionary_encode())


def as_objects(row):
    rows = np.empty((1, len(NAMES)), dtype=object)
    rows[0] = [row[name] for name in NAMES]
    return rows


def as_list(row):
    return [[row[name] for name in NAMES]]


CONTAINERS = [
    as_dictionary, as_pandas, as_pandas_objects, as_nullable_pandas, as_pandas_categories,
    as_reversed_pandas, as_pandas_with_more_rows, as_polars, as_pyarrow, as_arrow_dictionaries,
    as_objects, as_list,
]  # fmt: skip


def held(container, row):
    """The row in a container, or None if the container cannot hold such an entry."""
    try:
        return container(row)
    except (TypeError, ValueError, OverflowError, NotImplementedError, pa.ArrowException,
            pl.exceptions.PolarsError):  # fmt: skip
        return None


# --- models ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module", autouse=True)
def _interpreted():
    with pytest.MonkeyPatch.context() as patch:
        interpret(patch)
        yield


def learned(**params):
    model = ks.make("linear-pa", "regressor", scaling="running", missing="mean", **params)
    return model.partial_fit(TRAIN, Y)


@pytest.fixture(scope="module")
def model():
    return learned()


@pytest.fixture(scope="module")
def committee():
    members = ["linear-pa", "svmd"]
    return ks.Committee(members, "regressor", missing="mean").partial_fit(TRAIN, Y)


def shown(case):
    name, value = case[:2]
    return f"{name}-{type(value).__name__}-{value!r}"


def check(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("cases", [CASES, GAPS, DATES], ids=["same", "gap", "date"])
def test_the_same_features_in_every_container(model, container, cases):
    n_held = 0
    for name, value, plain in cases:
        X = held(container, row_with(name, value))
        if X is None:
            continue
        n_held += 1
        try:
            check(model.encoded(X), model.encoded([plain]))
        except AssertionError as error:
            raise AssertionError(f"{shown((name, value))}: {error}") from None
    assert n_held >= len(cases) // 2


@pytest.mark.parametrize("case", WRONG, ids=shown)
@pytest.mark.parametrize("container", CONTAINERS)
def test_what_a_column_cannot_hold_is_a_bad_row(model, container, case):
    X = held(container, row_with(*case))
    if X is None:
        return
    before = model.to_bytes()
    for call in (model.encoded, model.predict, lambda X: model.partial_fit(X, [1.0])):
        with pytest.raises((ValueError, TypeError), match=case[0]):
            call(X)
    assert model.to_bytes() == before


@pytest.mark.parametrize("case", CASES + GAPS, ids=shown)
def test_one_row_at_a_time(model, committee, case):
    name, value, plain = case
    row = row_with(name, value)
    for one in (model, committee):
        expected = one.predict([plain])[0]
        check(one.predict_one(row), expected)
        check(one.predict_one(pd.Series(row, dtype=object)), expected)
        check(one.predict_one(pd.Series(row, dtype=object)[NAMES[::-1]]), expected)
        check(one.predict(as_dictionary(row)), [expected])
        check(one.predict(as_pandas_objects(row)), [expected])


@pytest.mark.parametrize("container", CONTAINERS)
def test_learning_is_the_same_too(container):
    plain_model, other = learned(), learned()
    for name, value, plain in CASES[::7] + GAPS[::9]:
        X = held(container, row_with(name, value))
        if X is not None:
            plain_model.partial_fit([plain], [1.0])
            other.partial_fit(X, [1.0])
    np.testing.assert_allclose(plain_model.coef_, other.coef_, rtol=1e-12)
    assert plain_model.unlisted_ == other.unlisted_


# --- the first rows -------------------------------------------------------------------------------


def test_any_split_of_the_first_rows_gives_the_same_columns():
    """Entries of Python's own types, missing ones first, cut anywhere."""
    rows = [
        {"a": None, "b": 1, "c": None, "d": "2024-05-01", "e": None},
        {"a": None, "b": "2", "c": "x", "d": None, "e": None},
        {"a": "3.5", "b": None, "c": 17, "d": datetime.date(2024, 5, 3), "e": None},
        {"a": 4, "b": 3.0, "c": "17", "d": "2024-05-04", "e": datetime.date(2024, 5, 3)},
        {"a": True, "b": 4, "c": "y", "d": "2024-05-05", "e": "2024-05-04"},
    ] * 3
    y = np.arange(15.0)
    with pytest.warns(UserWarning, match="columns of text are taken for .* d for dates"):
        whole = ks.make("linear-pa", "regressor", missing="mean").partial_fit(rows, y)
    assert whole.columns_ == {
        "a": "number", "b": "number", "c": "category", "d": "date", "e": "date",
    }  # fmt: skip
    for cut in range(1, 15):
        model = ks.make("linear-pa", "regressor", missing="mean")
        with pytest.warns(UserWarning, match="columns of text"):
            model.partial_fit(rows[:cut], y[:cut])
        check(model.predict(rows[cut : cut + 1]), model.predict_one(rows[cut]))
        for row, target in zip(rows[cut : cut + 2], y[cut : cut + 2], strict=False):
            model.learn_one(row, target)
        model.partial_fit(rows[cut + 2 :], y[cut + 2 :]) if cut < 13 else None
        assert model.columns_ == whole.columns_
        np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-12)


def test_chunks_of_read_csv():
    text = "zip,when,n\n" + "".join(
        f"{z},2024-05-{i + 1:02},{i}\n" for i, z in enumerate(["A1", "x", "17", "18", "17", "17.5"])
    )
    chunks = list(pd.read_csv(io.StringIO(text), chunksize=2))
    assert chunks[1]["zip"].dtype.kind == "i"
    assert chunks[2]["zip"].dtype.kind == "f"
    model = ks.make("linear-pa", "regressor", missing="mean")
    with pytest.warns(UserWarning, match="taken for what their first row holds: when for dates"):
        model.partial_fit(chunks[0], np.zeros(2))
    for chunk in chunks[1:]:  # a second warning would be an error
        model.partial_fit(chunk, np.zeros(2))
    assert model.machine_.n_features == 16 + 7 + 1
    assert model.known().columns.columns[0].categories == ("A1", "x", "17", "18", "17.5")
    # digits first: a column of numbers, and letters are refused, with the remedy
    model = ks.make("linear-pa", "regressor").partial_fit(chunks[1].drop(columns="when"), [0, 0])
    before = model.to_bytes()
    with pytest.raises(ks.BadRow, match=r"zip is 'A1', which is not a number: .*categories"):
        model.partial_fit(chunks[0].drop(columns="when"), [0, 0])
    assert model.to_bytes() == before


def test_a_series_as_the_first_row_keeps_its_names():
    row = pd.Series({"u": 1.0, "v": 2.0})
    model = ks.make("linear-pa", "regressor").learn_one(row, 1.0)
    assert model.feature_names_in_.tolist() == ["u", "v"]
    model.learn_one(row[["v", "u"]] * 3, -2.0)
    twin = ks.make("linear-pa", "regressor").learn_one([1.0, 2.0], 1.0).learn_one([3.0, 6.0], -2.0)
    np.testing.assert_array_equal(model.coef_, twin.coef_)
    assert model.predict_one(row[["v", "u"]]) == twin.predict_one([1.0, 2.0])
    mixed = pd.Series({"u": "red", "v": 2.0})
    model = ks.make("linear-pa", "regressor").learn_one(mixed, 1.0)
    assert model.columns_ == {"u": "category", "v": "number"}


def test_durations_do_not_depend_on_their_unit():
    frame = pd.DataFrame({"wait": pd.to_timedelta([1, 90, 3600], unit="s"), "n": [1.0, 2.0, 3.0]})
    plain = ks.make("linear-pa", "regressor").partial_fit([[1, 1], [90, 2], [3600, 3]], [1, 2, 3])
    for unit in ("s", "ms", "us", "ns"):
        of_unit = frame.assign(wait=frame["wait"].dt.as_unit(unit))
        tables = [of_unit, of_unit[["wait"]].assign(n=frame["n"]), pa.Table.from_pandas(of_unit)]
        tables += [pl.from_pandas(of_unit)] if unit != "s" else []
        for table in tables:
            model = ks.make("linear-pa", "regressor").partial_fit(table, [1, 2, 3])
            np.testing.assert_array_equal(model.coef_, plain.coef_)
    array = np.array([[1], [90], [3600]], dtype="timedelta64[s]")
    for rows in (array, array.astype("timedelta64[ns]"), array.astype(object), array.tolist(),
                 [[np.timedelta64(1000 * k, "ms")] for k in (1, 90, 3600)]):  # fmt: skip
        other = ks.make("linear-pa", "regressor").partial_fit(rows, [1, 2, 3])
        ones = ks.make("linear-pa", "regressor")
        for row, y in zip(rows, [1, 2, 3], strict=True):
            ones.learn_one(row, y)
        for model in (other, ones):
            assert model.predict_one([90.0]) == model.predict_one(rows[1])
            assert model.predict([[90.0]]) == model.predict(rows[1:2])
    with pytest.raises((ValueError, TypeError), match="date"):
        other.predict(np.array([["2024-05-01"]], dtype="datetime64[D]"))
    alone = ks.make("linear-pa", "regressor").partial_fit(frame[["wait"]], [1, 2, 3])
    seconds = ks.make("linear-pa", "regressor").partial_fit([[1.0], [90.0], [3600.0]], [1, 2, 3])
    np.testing.assert_array_equal(alone.coef_, seconds.coef_)


# --- other ways in --------------------------------------------------------------------------------


def written_cases():
    """Cases that text, JSON and Arrow can hold."""
    kinds = (str, int, float, bool)
    return [case for case in CASES + GAPS if type(case[1]) in kinds or case[1] is None]


def predicted_by_command(path, source):
    done = CliRunner().invoke(app, ["predict", str(path), str(source)])
    assert done.exit_code == 0, done.output
    lines = list(csv.DictReader(io.StringIO(done.stdout)))
    return [float(line["prediction"] or "nan") for line in lines]


def test_the_command_line(model, tmp_path):
    model.save(tmp_path / "model.ks")
    cases = written_cases()
    rows = [{**ROW, "day": "2024-05-01", "wait": "90", name: value} for name, value, _ in cases]
    texts = [[("" if v is None else str(v)) for v in row.values()] for row in rows]
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([NAMES, *texts])
    expected = [model.predict([plain])[0] for _, _, plain in cases]
    check(predicted_by_command(tmp_path / "model.ks", tmp_path / "t.csv"), expected)
    typed = pa.table(
        {
            "size": [17],
            "flag": [1.0],
            "day": pa.array([datetime.date(2024, 5, 1)]),
            "wait": pa.array([90_000], pa.duration("ms")),
            "zip": [17.0],
            "told": [17],
        }
    )
    for table in (typed, typed.select(NAMES[::-1])):
        pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
        pyarrow.feather.write_feather(table, str(tmp_path / "t.feather"), "uncompressed")
        for name in ("t.parquet", "t.feather"):
            found = predicted_by_command(tmp_path / "model.ks", tmp_path / name)
            check(found, model.predict([ROW]))


def test_the_service_and_its_client(model, tmp_path):
    from kernelstream.client import Client, ServiceError
    from kernelstream.serve import ServedModel
    from kernelstream.serve.service import Service

    from ..serve.conftest import running

    twin = ks.load(model.save(tmp_path / "m.ks") or tmp_path / "m.ks")
    cases = written_cases()
    rows = [{**ROW, "day": "2024-05-01", "wait": 90, name: value} for name, value, _ in cases]
    expected = [model.predict([plain])[0] for _, _, plain in cases]
    with (
        running(Service([ServedModel("m", twin, tmp_path / "kept")])) as url,
        Client(url, "m") as client,
    ):
        check(client.predict(rows).predictions, expected)
        check(client.predict([list(row.values()) for row in rows]).predictions, expected)
        other = [dict(reversed(row.items())) for row in rows]
        check(client.predict(other).predictions, expected)
        for name, value, _ in CASES:
            try:
                found = client.predict([{**rows[0], name: value}]).predictions
            except (ServiceError, TypeError, NotImplementedError):
                assert type(value) not in (str, int, float, bool)
                continue
            check(found, model.predict([ROW]))
        table = pa.table({"size": [17], "flag": [True], "wait": [90], "zip": [17.0], "told": [17],
                          "day": pa.array([datetime.date(2024, 5, 1)])})  # fmt: skip
        body = io.BytesIO()
        with pa.ipc.new_stream(body, table.schema) as stream:
            stream.write_table(table)
        import httpx

        answer = httpx.post(
            f"{url}/v1/models/m/predict",
            content=body.getvalue(),
            headers={"Content-Type": "application/vnd.apache.arrow.stream"},
        )
        check(answer.json()["predictions"], model.predict([ROW]))
        with pytest.raises(ServiceError, match="size is 'big', which is not a number"):
            client.predict([{**rows[0], "size": "big"}])


def test_river():
    river = pytest.importorskip("kernelstream.river")
    adapter = river.AutoRegressor(budget=8)
    plain = {**ROW, "day": "2024-05-01"}
    with pytest.warns(UserWarning, match="columns of text"):
        adapter.learn_one({**plain, "zip": "A1", "told": "x"}, 1.0)
    for _ in range(3):
        adapter.learn_one({**plain}, 2.0)
    expected = adapter.predict_one(plain)
    for name, value, _ in CASES:
        check(adapter.predict_one({**plain, name: value}), expected)


# --- models of numbers: plain estimators, averages and fleets -------------------------------------

PLAIN = {"u": 17.0, "v": 90.0}
AS_NUMBERS = [("u", value) for value in SEVENTEEN] + [("v", value) for value in NINETY]


def plain_containers(row):
    yield [row]
    yield [dict(reversed(row.items()))]
    for make in (
        lambda: pd.DataFrame([row]),
        lambda: pd.DataFrame(
            {name: pd.Series([value], dtype=object) for name, value in row.items()}
        ),
        lambda: pl.DataFrame({name: [value] for name, value in row.items()}),
        lambda: pa.table({name: [value] for name, value in row.items()}),
    ):
        found = held(lambda _, make=make: make(), row)
        if found is not None:
            yield found


def models_of_numbers():
    X = pd.DataFrame({"u": RANDOM.normal(17, 3, 30), "v": RANDOM.normal(90, 30, 30)})
    y = X["u"] - X["v"] / 10
    one = ks.make("linear-pa", "regressor").partial_fit(X, y)
    other = ks.make("linear-pa", "regressor").partial_fit(X[:10], y[:10])
    committee = ks.Committee(["linear-pa"], "regressor").partial_fit(X, y)
    fleet = ks.KeyedFleet("linear-pa", "regressor")
    fleet.learn(["k"] * 30, X, y)
    yield "estimator", one.predict
    yield "committee", committee.predict
    yield "average", ks.average([one, other]).predict
    yield "fleet", lambda X: fleet.predict(["k"], X)


@pytest.mark.parametrize("case", AS_NUMBERS, ids=shown)
def test_models_of_numbers(case):
    for name, predict in models_of_numbers():
        expected = predict(pd.DataFrame([PLAIN]))
        for X in plain_containers({**PLAIN, case[0]: case[1]}):
            try:
                check(predict(X), expected)
            except AssertionError as error:
                raise AssertionError(f"{name}, {type(X)}: {error}") from None


@pytest.mark.parametrize("value", ["big", datetime.date(2024, 5, 1), np.datetime64("2024-05-01")])
def test_models_of_numbers_refuse_everything_else(value):
    for _, predict in models_of_numbers():
        for X in plain_containers({**PLAIN, "u": value}):
            with pytest.raises((ValueError, TypeError)):
                predict(X)


def test_columns_in_another_order_are_put_in_order_or_refused():
    frame = pd.DataFrame([PLAIN])
    for name, predict in models_of_numbers():
        expected = predict(frame)
        if name == "fleet":
            check(predict(frame[["v", "u"]]), expected)
        else:
            with pytest.raises(ValueError, match="order"):
                predict(frame[["v", "u"]])
        check(predict([{"v": 90.0, "u": 17.0}]), expected)
        for wrong in (frame.rename(columns={"u": "w"}), frame.assign(w=1.0), frame[["u"]]):
            with pytest.raises(ValueError, match=r"u|w|name"):
                predict(wrong)


def test_models_of_other_orders_are_not_averaged():
    frame = pd.DataFrame({"u": [1.0, 2.0], "v": [3.0, 5.0]})
    one = ks.make("linear-pa", "regressor").partial_fit(frame, [1.0, 2.0])
    other = ks.make("linear-pa", "regressor").partial_fit(frame[["v", "u"]], [1.0, 2.0])
    with pytest.raises(ValueError, match="columns: u, v and v, u"):
        ks.average([one, other])
    twin = ks.make("linear-pa", "regressor").partial_fit(frame, [1.0, 2.0])
    assert ks.average([one, twin]).feature_names_in_.tolist() == ["u", "v"]

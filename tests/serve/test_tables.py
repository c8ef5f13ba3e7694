"""Models that learned from data frames: rows by column name, with text and gaps."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import kernelstream as ks
from kernelstream.cli.app import app
from kernelstream.client import Client
from kernelstream.serve import Accepted, ServedModel
from kernelstream.serve.blocks import as_rows
from kernelstream.serve.problems import Problem
from kernelstream.serve.service import Service
from tests.serve.folders import copy_as_after_a_crash

from .conftest import running
from .streams import X, Y, learn_targets
from .test_http import arrow

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
FRAME = pd.DataFrame(
    {
        "age": [31.0, 45.5, 12.0, 27.0] * 15,
        "city": ["Oslo", "Rome", "Bonn", None] * 15,
        "size": pd.Categorical([1, 2, 3, 1] * 15),
        "since": pd.to_datetime(["2024-01-03", "2023-11-20", "2024-02-01", "2022-07-15"] * 15),
    }
)
TARGETS = ["yes", "no", "no", "yes"] * 15
RECORDS = json.loads(FRAME.to_json(orient="records", date_format="iso", date_unit="s"))

pytestmark = pytest.mark.usefixtures("interpreted")


def new_model(n_rows=20):
    model = ks.make("linear-pa", "classifier", missing="mean")
    return model.partial_fit(FRAME[:n_rows], TARGETS[:n_rows])


def body(rows, **more):
    return json.dumps({"rows": rows, **more}).encode()


@pytest.fixture
def service(tmp_path):
    service = Service([ServedModel("shop", new_model(), tmp_path / "shop")])
    yield service
    service.close()


def test_rows_by_name_are_what_the_frame_is(service):
    model = new_model()
    expected = model.predict(FRAME).tolist()
    scores = model.decision_function(FRAME).tolist()
    for rows in (RECORDS, [list(row.values()) for row in RECORDS]):
        answer = service.predict("shop", body(rows), JSON, scores=True)
        assert answer["predictions"] == expected
        assert answer["scores"] == pytest.approx(scores, abs=1e-9)
    table = pa.table({**FRAME[["age", "city", "since"]], "size": [1, 2, 3, 1] * 15})
    assert service.predict("shop", arrow(table), ARROW)["predictions"] == expected
    gap = service.predict("shop", body([{"city": "Rome"}]), JSON)["predictions"]
    assert gap == model.predict([{"city": "Rome"}]).tolist()


def test_they_are_learned_logged_and_learned_again(service, tmp_path):
    first = service.models["shop"]
    pending, _ = service.submit("shop", body(RECORDS[20:40], targets=TARGETS[20:40]), JSON)
    assert pending.learned.result(30).accepted == Accepted(20, 0)
    waits = service.predict("shop", body(RECORDS[40:42]), JSON, wait=True)["ids"]
    copy_as_after_a_crash(tmp_path / "shop", tmp_path / "copy")
    again = ServedModel("shop", new_model(), tmp_path / "copy")
    pending = learn_targets(again, waits, TARGETS[40:42])
    assert pending.learned.result(30).accepted == Accepted(2, 0)
    learn_targets(first, waits, TARGETS[40:42]).learned.result(30)
    assert (first.served.model.coef_ == again.served.model.coef_).all()
    again.close()
    expected = new_model()
    expected.partial_fit(FRAME[20:42], TARGETS[20:42])
    assert first.served.model.coef_ == pytest.approx(expected.coef_, abs=1e-9)
    found = ServedModel("shop", new_model(), tmp_path / "copy")  # from the checkpoint
    assert found.predict(as_rows(RECORDS)) == expected.predict(FRAME).tolist()
    found.close()


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({**RECORDS[0], "age": "old"}, "age is 'old', which is not a number"),
        ({**RECORDS[0], "since": "someday"}, "since is 'someday', which is not a date"),
        ({**RECORDS[0], "colour": "red"}, "the column 'colour' is unknown"),
        ([1.0, "Rome"], "it has 2 columns, and this model has 4"),
    ],
)
def test_bad_rows_are_refused_with_their_number(service, row, said):
    model = service.models["shop"].served.model
    before = model.to_bytes()
    sent = body([RECORDS[0], row], targets=["yes", "no"])
    with pytest.raises(Problem, match="Row 1: ") as problem:
        service.submit("shop", sent, JSON)
    assert said in str(problem.value)
    with pytest.raises(Problem, match="Row 1: "):
        service.predict("shop", body([RECORDS[0], row]), JSON)
    assert model.to_bytes() == before
    pending, skipped = service.submit("shop", sent, JSON, skip=True)
    assert pending.learned.result(30).accepted == Accepted(1, 0)
    assert [bad["row"] for bad in skipped] == [1]


def gapped(n_rows=60):
    """Numbers, one of which is missing in every third row."""
    found = X[:n_rows].copy()
    found[::3, 1] = np.nan
    return found


def as_sent(array):
    """Rows as JSON has them."""
    return [[None if entry != entry else entry for entry in row] for row in array.tolist()]


@pytest.mark.parametrize("missing", ["mean", "indicator"])
def test_numbers_that_are_missing_are_filled_in_by_a_model_that_does(missing, tmp_path):
    def fresh():
        model = ks.make("linear-pa", "classifier", missing=missing)
        return model.partial_fit(gapped()[:20], Y[:20])

    model, rows = fresh(), gapped()
    service = Service([ServedModel("gaps", fresh(), tmp_path / "gaps")])
    first = service.models["gaps"]
    lines = b"\n".join(json.dumps({"row": row}).encode() for row in as_sent(rows))
    table = pa.table({name: as_sent(rows.T)[i] for i, name in enumerate("abc")})
    for content, kind in (
        (body(as_sent(rows)), JSON), (lines, "application/x-ndjson"), (arrow(table), ARROW),
    ):  # fmt: skip
        assert service.predict("gaps", content, kind)["predictions"] == model.predict(rows).tolist()
    pending, _ = service.submit("gaps", body(as_sent(rows[20:40]), targets=Y[20:40]), JSON)
    assert pending.learned.result(30).accepted == Accepted(20, 0)
    waits = service.predict("gaps", body(as_sent(rows[40:50])), JSON, wait=True)["ids"]
    copy_as_after_a_crash(tmp_path / "gaps", tmp_path / "copy")
    again = ServedModel("gaps", fresh(), tmp_path / "copy")  # from the log, and rows that wait
    for served in (first, again):
        learn_targets(served, waits, Y[40:50]).learned.result(30)
        served.close()
    assert (first.served.model.coef_ == again.served.model.coef_).all()
    model.partial_fit(rows[20:50], Y[20:50])
    assert first.served.model.coef_ == pytest.approx(model.coef_, abs=1e-9)


def test_infinity_is_no_number_that_is_missing(tmp_path):
    models = {
        "fills": ks.make("linear-pa", "classifier", missing="mean").partial_fit(X[:20], Y[:20]),
        "strict": ks.make("linear-pa", "classifier").partial_fit(X[:20], Y[:20]),
        "shop": new_model(),
    }
    service = Service([ServedModel(name, m, tmp_path / name) for name, m in models.items()])
    rows = [X[0].tolist(), [1.0, float("-inf"), 2.0], [1.0, float("nan"), 2.0]]
    with running(service) as url:
        for name, n_bad in (("fills", 1), ("strict", 2)):
            with Client(url, name) as client:
                told = client.learn(rows, Y[:3], on_bad_row="skip")
                assert [bad["row"] for bad in told.skipped] == [1, 2][:n_bad]
                assert told.skipped[0]["reason"] == "it contains '-inf', which is not a number"
                reasons = [bad["reason"] for bad in client.state()["bad_rows"]]
                assert reasons == [bad["reason"] for bad in told.skipped]  # in their order
        with Client(url, "shop") as client:
            told = client.learn([{"age": float("inf")}, {"age": 3}], ["no"] * 2, on_bad_row="skip")
            assert [bad["row"] for bad in told.skipped] == [0]
        table = pa.table({"a": [float("inf")], "b": [float("nan")], "c": [1.0]})
        with pytest.raises(Problem, match="Row 0: it contains NaN or infinity"):
            service.predict("fills", arrow(table), ARROW)
        with pytest.raises(Problem, match="Row 0: it contains NaN or infinity"):
            service.predict("strict", arrow(table), ARROW)


def test_gaps_in_a_table_of_the_command_line_are_filled_in_as_it_does(tmp_path):
    """`run` learned the first part of a table; `run --to` sends the rest, with the same result."""
    table = pd.DataFrame(gapped(), columns=["a", "b", "c"]).assign(city=["Oslo", "Rome", None] * 20)
    table["y"] = Y[:60]
    parts = {"all": table, "first": table[:30], "rest": table[30:]}
    for name, part in parts.items():
        part.to_csv(tmp_path / f"{name}.csv", index=False)
    options = ["--target", "y", "--algorithm", "linear-pa", "--block", "30"]
    for name in ("all", "first"):
        command = ["run", str(tmp_path / f"{name}.csv"), "--model", str(tmp_path / f"{name}.ks")]
        assert CliRunner().invoke(app, [*command, *options]).exit_code == 0
    service = Service.from_files(tmp_path / "first.ks", tmp_path / "kept")
    with running(service) as url:
        to = ["--target", "y", "--to", f"{url}/v1/models/first"]
        done = CliRunner().invoke(app, ["run", str(tmp_path / "rest.csv"), *to])
        assert "30 rows, 30 accepted, 0 known before, 0 bad" in done.stdout
    learned, expected = service.models["first"].served.model, ks.load(tmp_path / "all.ks")
    assert learned.n_seen_ == expected.n_seen_ == 60
    assert learned.coef_ == pytest.approx(expected.coef_, abs=1e-9)

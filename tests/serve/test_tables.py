"""Models that learned from data frames: rows by column name, with text and gaps."""

import json

import pandas as pd
import pyarrow as pa
import pytest

import kernelstream as ks
from kernelstream.serve import Accepted, ServedModel
from kernelstream.serve.log import as_rows
from kernelstream.serve.problems import Problem
from kernelstream.serve.service import Service
from tests.serve.folders import copy_as_after_a_crash

from .streams import learn_targets
from .test_http import arrow

JSON = "application/json"
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
    kind = "application/vnd.apache.arrow.stream"
    assert service.predict("shop", arrow(table), kind)["predictions"] == expected
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

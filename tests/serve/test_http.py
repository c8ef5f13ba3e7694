"""The contract of every endpoint, with good and with bad input."""

import json
import re
import socket
import threading
import time

import httpx
import msgspec
import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import kernelstream as ks
from kernelstream import client as client_module
from kernelstream.cli.app import app
from kernelstream.client import Client, ServiceError
from kernelstream.serve import Block, Limits, ServedModel, reader_priority
from kernelstream.serve.bodies import read_rows
from kernelstream.serve.server import Server, read_token
from kernelstream.serve.service import Service
from kernelstream.tables import Block as TableBlock
from kernelstream.tables import declared, sound_rows

from .conftest import running
from .streams import X, Y, new_model

JSON = {"content-type": "application/json"}


def post(http, path, body, headers=JSON):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return http.post(f"/v1/models/{path}", content=content, headers=headers)


# --- what works ----------------------------------------------------------------------------------


def test_predict_is_what_the_model_says(http, service):
    answer = post(http, "classes/predict?scores=true", {"rows": X[:7].tolist()})
    model = service.models["classes"].served.model
    assert answer.status_code == 200
    assert answer.json() == {
        "predictions": model.predict(X[:7]).tolist(),
        "scores": model.decision_function(X[:7]).tolist(),
    }
    answer = post(http, "novelty/predict", {"rows": [[0, 0, 0], [99, 99, 99]]})
    assert answer.json() == {"predictions": [1, -1]}


def test_rows_may_be_lists_or_objects(http):
    lists = post(http, "numbers/predict", {"rows": [[1, 2, 3.5]]}).json()
    objects = post(http, "numbers/predict", {"rows": [{"c": 3.5, "a": 1, "b": 2}]}).json()
    assert lists == objects


def test_learn_and_step_learn_every_row_once(http, service):
    model = service.models["classes"]
    before = model.served.model.n_seen_
    body = {"rows": X[50:60].tolist(), "targets": Y[50:60], "ids": list(range(50, 60))}
    expected = ks.prequential(
        new_model().partial_fit(X[:50], Y[:50]), X[50:60], Y[50:60], declare_classes=False
    )
    first = post(http, "classes/step", body)
    assert first.status_code == 200
    assert first.json() == {
        "predictions": expected.predictions.tolist(), "accepted": 10, "repeated": 0, "skipped": [],
    }  # fmt: skip
    again = post(http, "classes/learn", body)
    assert again.status_code == 202
    assert again.json() == {"accepted": 0, "repeated": 10, "skipped": []}
    assert model.served.model.n_seen_ == before + 10


def test_lines_and_arrow_are_the_same_as_json(http):
    expected = post(http, "numbers/predict", {"rows": X[:5].tolist()}).json()
    lines = b"\n".join(json.dumps({"row": row.tolist()}).encode() for row in X[:5])
    answer = post(http, "numbers/predict", lines, {"content-type": "application/x-ndjson"})
    assert answer.json() == expected
    table = pa.table({"b": X[:5, 1], "a": X[:5, 0], "c": X[:5, 2]})
    kind = {"content-type": "application/vnd.apache.arrow.stream"}
    assert post(http, "numbers/predict", arrow(table), kind).json() == expected
    table = table.append_column("targets", [X[:5, 0]]).append_column("ids", [list("abcde")])
    answer = post(http, "numbers/learn", arrow(table), kind).json()
    assert answer == {"accepted": 5, "repeated": 0, "skipped": []}


def arrow(table, compression=None):
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def test_bad_rows_can_be_left_out(http, service):
    rows = [[0.1, 0.2, 0.3], [1, 2], [0.3, None, 1.0], [0.5, 0.1, 0.2]]
    body = {"rows": rows, "targets": [0, 1, 1, 1]}
    answer = post(http, "classes/learn?on_bad_row=skip", body).json()
    assert answer["accepted"] == 2
    assert [bad["row"] for bad in answer["skipped"]] == [1, 2]
    assert "2 features" in answer["skipped"][0]["reason"]
    assert service.models["classes"].state()["bad_rows"][-1]["reason"].startswith("a number is")
    model = service.models["numbers"]
    body = {"rows": [ROW] * 3, "targets": [1, "abc", "def"]}
    answer = post(http, "numbers/learn?on_bad_row=skip", body).json()
    assert answer["accepted"] == 1
    assert [bad["row"] for bad in answer["skipped"]] == [1, 2]
    assert model.state()["skipped"]["its target … is not a number"] >= 2
    before = model.state()["n_skipped"]  # a row that cannot be read is counted, too
    answer = post(http, "numbers/learn?on_bad_row=skip", {"rows": [ROW, 3], "targets": [1, 1]})
    assert "on_bad_row" not in check_problem(answer, 422, "Row 1")["detail"]
    assert model.state()["n_skipped"] == before + 1


def test_targets_may_come_later(http, service):
    seen = service.models["novelty"].served.model.n_seen_
    ids = post(http, "classes/predict?wait=true", {"rows": X[:3].tolist()}).json()["ids"]
    mine = post(http, "classes/predict", {"rows": [[1, 2, 3]], "ids": ["mine"]}).json()["ids"]
    assert mine == ["mine"]
    body = {"ids": [*ids, "mine", "nobody's"], "targets": [0, 1, 1, 0, 1]}
    answer = post(http, "classes/labels", body | {"targets": [0, 1, None, 0, 1]})
    assert "on_bad_row" not in check_problem(answer, 422, "Row 2")["detail"]
    assert post(http, "classes/labels", body).json() == {
        "accepted": 4, "repeated": 0, "unknown": ["nobody's"],
    }  # fmt: skip
    assert post(http, "classes/labels", body).json()["repeated"] == 4
    assert service.models["novelty"].served.model.n_seen_ == seen


def test_what_can_be_looked_at(http, url):
    names = [model["name"] for model in http.get("/v1/models").json()["models"]]
    assert names == ["classes", "numbers", "novelty", "new"]
    state = http.get("/v1/models/numbers?history=true").json()
    assert state["columns"] == ["a", "b", "c"]
    assert {"error", "step_size", "n_support", "drift_score", "history", "bad_rows"} <= set(state)
    assert http.get("/healthz").json() == {"status": "alive"}
    assert http.get("/readyz").json() == {"status": "ready", "models": 4}
    with http.stream("GET", "/v1/models/classes/events") as stream:
        lines = stream.iter_lines()
        assert next(lines) == "event: state"
        assert json.loads(next(lines).removeprefix("data: "))["name"] == "classes"


def test_metrics_are_what_prometheus_reads(http):
    post(http, "numbers/step", {"rows": [[1, 2, 3]], "targets": [2.0]})
    text = http.get("/metrics").text
    values = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            assert name not in values
            values[name] = float(value)
    families = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, family, kind = line.split(" ")
            assert f"# HELP {family} " in text
            assert family.endswith("_total") == (kind == "counter")
            families[family] = kind
    for name in values:
        name = name.partition("{")[0]
        bare = re.sub("_(bucket|sum|count)$", "", name)
        assert name in families or families[bare] == "histogram"
    for name in ("rows_learned_total", "errors_total", "prequential_error", "step_size",
                 "drift_score", "drift_events_total", "support_vectors"):  # fmt: skip
        assert f'kernelstream_{name}{{model="numbers"}}' in values
    assert values['kernelstream_rows_learned_total{model="numbers"}'] >= 1
    assert 'kernelstream_prequential_error{model="numbers"}' in values
    assert 'kernelstream_baseline_error{model="numbers",baseline="mean so far"}' in values
    buckets = [v for k, v in values.items() if 'seconds_bucket{endpoint="step"' in k]
    assert buckets == sorted(buckets)
    assert buckets[-1] == values['kernelstream_request_seconds_count{endpoint="step"}'] > 0


def test_the_document_describes_every_endpoint(http):
    document = http.get("/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            answer = http.request(method, path.replace("{name}", "none"))
            assert answer.status_code != 405
            for status, said in operation["responses"].items():
                assert said["description"]
                if status.startswith("2"):
                    assert all("example" in kind for kind in said["content"].values())
    sent = document["paths"]["/v1/models/{name}/learn"]["post"]["requestBody"]["content"]
    json_body = msgspec.json.encode(sent["application/json"]["example"])
    lines = sent["application/x-ndjson"]["example"].encode()
    one, other = (
        read_rows(body, kind, Limits())
        for body, kind in ((json_body, "application/json"), (lines, "application/x-ndjson"))
    )
    for name in ("rows", "targets", "ids"):
        assert getattr(one, name) == getattr(other, name)
    assert http.get("/openapi.json").json()["components"]["schemas"]["Rows"]


def test_the_examples_of_the_document_are_true(tmp_path, interpreted):
    model = ks.make("linear-pa", "classifier").partial_fit(X[:9], ["yes", "no", "yes"] * 3)
    fleet = ks.KeyedFleet("pa", "regressor", budget=4)
    fleet.learn(["hall"] * 3, X[:3], X[:3, 0])
    made = [("model", model), ("fleet", fleet)]
    service = Service([ServedModel(name, found, tmp_path / name) for name, found in made])
    with running(service) as url, httpx.Client(base_url=url, timeout=30) as http:
        waits = {"rows": [X[0].tolist()], "ids": ["order-17"]}
        assert post(http, "model/predict", waits).status_code == 200
        paths = http.get("/openapi.json").json()["paths"]
        for path in sorted(paths):  # labels come before learn
            name = "fleet" if path.endswith("/keys") else "model"
            ((method, operation),) = paths[path].items()
            ((kind, answer),) = operation["responses"][
                min(operation["responses"])]["content"].items()  # fmt: skip
            sent = operation.get("requestBody", {"content": {"": {}}})["content"]
            for content_type in (each for each in sent if "arrow" not in each):
                body = sent[content_type].get("example")
                body = body if isinstance(body, str | None) else json.dumps(body)
                with http.stream(
                    method, path.replace("{name}", name), content=body,
                    headers={"content-type": content_type},
                ) as said:  # fmt: skip
                    assert str(said.status_code) in operation["responses"]
                    assert said.is_success
                    assert said.headers["content-type"].startswith(kind)
                    if kind == "application/json":
                        said.read()
                        check_same_form(said.json(), answer["example"])


def check_same_form(said, example):
    """An example has nothing that an answer does not have."""
    if isinstance(example, dict):
        for name in example:
            if name not in ("skipped", "baselines"):  # whose names are those of reasons, say
                check_same_form(said[name], example[name])
    elif isinstance(example, list) and example and said:
        check_same_form(said[0], example[0])
    else:
        plain = {int: float}
        kinds = {plain.get(type(value), type(value)) for value in (said, example)}
        assert len(kinds - {type(None)}) <= 1


def test_the_document_describes_every_field_of_the_state(http, service):
    paths = http.get("/openapi.json").json()["paths"]
    answer = paths["/v1/models/{name}"]["get"]["responses"]["200"]
    described = set(answer["content"]["application/json"]["schema"]["properties"])
    for name in service.models:
        assert set(http.get(f"/v1/models/{name}?history=true").json()) <= described


def test_answers_have_security_headers_and_no_cors(http):
    for path in ("/", "/page.js", "/v1/models", "/nothing"):
        answer = http.get(path, headers={"origin": "https://elsewhere.example"})
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "access-control-allow-origin" not in answer.headers


# --- what is refused -----------------------------------------------------------------------------

ROW = [0.1, 0.2, 0.3]
GOOD = {"rows": [ROW], "targets": [1]}
BAD = [
    # path, body, status, and what the detail says
    ("classes/predict", b"", 400, "not JSON"),
    ("classes/predict", b"{", 400, "not JSON"),
    ("classes/predict", b"nonsense", 400, "not JSON"),
    ("classes/predict", b"[]", 400, "expected `object`"),
    ("classes/predict", b"null", 400, "expected `object`"),
    ("classes/predict", b'"rows"', 400, "expected `object`"),
    ("classes/predict", b"\xff\xfe{}", 400, "not JSON"),
    ("classes/predict", b'{"rows": [[\xff]]}', 400, "not JSON"),
    ("classes/predict", b'{"rows": ' + b"[" * 100_000, 422, "Row 0"),
    ("classes/predict", b'{"rows": [[NaN, 1, 2]]}', 400, "not JSON"),
    ("classes/predict", b'{"rows": [[Infinity, 1, 2]]}', 400, "not JSON"),
    ("classes/predict", b'{"rows": [[1e999, 1, 2]]}', 422, "out of range"),
    ("classes/predict", {}, 400, "missing required field `rows`"),
    ("classes/predict", {"rows": []}, 400, "at least one row"),
    ("classes/predict", {"rows": None}, 400, "expected `array`"),
    ("classes/predict", {"rows": "abc"}, 400, "expected `array`"),
    ("classes/predict", {"rows": 3}, 400, "expected `array`"),
    ("classes/predict", {"rows": {"0": ROW}}, 400, "expected `array`"),
    ("classes/predict", {"rows": [ROW], "row": 1}, 400, "unknown field `row`"),
    ("classes/predict", {"rows": [3]}, 422, "Row 0"),
    ("classes/predict", {"rows": [ROW, "abc"]}, 422, "Row 1"),
    ("classes/predict", {"rows": [ROW, None]}, 422, "Row 1"),
    ("classes/predict", {"rows": [ROW, [ROW, 1, 2]]}, 422, "Row 1"),
    ("classes/predict", {"rows": [ROW, []]}, 422, "Row 1: it has 0 features"),
    ("classes/predict", {"rows": [[]]}, 422, "Row 0: it has 0 features"),
    ("classes/predict", {"rows": [ROW, ROW[:2]]}, 422, "Row 1: it has 2 features"),
    ("classes/predict", {"rows": [[*ROW, 1]]}, 422, "Row 0: it has 4 features"),
    ("classes/predict", {"rows": [ROW, ["a", 1, 2]]}, 422, "Row 1: it contains 'a'"),
    ("classes/predict", {"rows": [ROW, ["1.5", 1, 2]]}, 422, "Row 1: it contains '1.5'"),
    ("classes/predict", {"rows": [[True, 1, 2]]}, 422, "Row 0: it contains True"),
    ("classes/predict", {"rows": [[None, 1, 2]]}, 422, "Row 0: a number is missing"),
    ("classes/predict", {"rows": [ROW, [1e300] * 3]}, 422, "Row 1: it is so large"),
    ("classes/predict", {"rows": [{"a": 1}]}, 422, "without column names"),
    ("numbers/predict", {"rows": [{"a": 1, "b": 2}]}, 422, "column 'c' is missing"),
    ("numbers/predict", {"rows": [dict(zip("abcd", [*ROW, 1], strict=True))]}, 422, "'d' is unkn"),
    ("numbers/predict", {"rows": [{"a": 1, "b": "x", "c": 2}]}, 422, "Row 0: it contains 'x'"),
    ("classes/predict", b'{"rows": [[1, 2, 3]], "ids": ["\\ud800"]}', 400, "not JSON"),
    ("classes/predict", b'{"rows": [[1, 2, 3]], "ids": [' + b"9" * 5000 + b"]}", 422, "Row 0"),
    ("classes/predict", {"rows": [ROW], "keys": ["a"]}, 422, "leave keys out"),
    ("classes/predict", b'{"rows": [[1, 2, 3]], "keys": ' + b"[" * 2000, 400, "not JSON"),
    ("classes/predict", GOOD, 422, "no targets"),
    ("classes/predict", {"rows": [ROW] * 10_001}, 413, "10,001 rows"),
    ("classes/predict", {"rows": [ROW], "ids": []}, 400, "ids has 0 entries"),
    ("classes/predict", {"rows": [ROW], "ids": [None]}, 422, "Row 0"),
    ("classes/predict", {"rows": [ROW], "ids": [[1]]}, 422, "Row 0"),
    ("classes/predict", {"rows": [ROW], "ids": [""]}, 422, "its id has 0 characters"),
    ("classes/predict", {"rows": [ROW], "ids": ["x" * 201]}, 422, "201 characters"),
    ("classes/predict", {"rows": [ROW, ROW], "ids": ["a", "a"]}, 422, "that of row 0"),
    ("classes/predict", {"rows": [ROW, ROW], "ids": ["1", 1]}, 422, "that of row 0"),
    ("classes/predict?wait=maybe", {"rows": [ROW]}, 400, "wait=maybe"),
    ("classes/predict?what=true", {"rows": [ROW]}, 400, "what=true"),
    ("new/predict", {"rows": [ROW]}, 409, "first row"),
    ("none/predict", {"rows": [ROW]}, 404, "no model"),
    ("..%2F..%2Fetc%2Fpasswd/predict", {"rows": [ROW]}, 404, ""),
    ("classes/forget", {"rows": [ROW]}, 404, "nothing at this path"),
    ("classes/learn", {"rows": [ROW]}, 422, "needs a target"),
    ("classes/learn", {"rows": [ROW], "targets": None}, 422, "needs a target"),
    ("classes/learn", {"rows": [ROW], "targets": []}, 400, "targets has 0 entries"),
    ("classes/learn", {"rows": [ROW], "targets": [1, 0]}, 400, "targets has 2 entries"),
    ("classes/learn", {"rows": [ROW], "targets": 1}, 400, "expected `array | null`"),
    ("classes/learn", {"rows": [ROW], "targets": [None]}, 422, "Row 0: its label is None"),
    ("classes/learn", {"rows": [ROW], "targets": [0.5]}, 422, "Row 0: its label is 0.5"),
    ("classes/learn", {"rows": [ROW], "targets": ["x"]}, 422, "Row 0: its label is a string"),
    ("classes/learn", {"rows": [ROW], "targets": [[1]]}, 422, "Row 0"),
    ("classes/learn", {"rows": [ROW], "targets": [{"a": 1}]}, 422, "Row 0"),
    ("classes/learn", {"rows": [ROW, ROW[:1]], "targets": [1, 0]}, 422, "Row 1"),
    ("classes/learn?on_bad_row=drop", GOOD, 400, "on_bad_row=drop"),
    ("new/learn", {"rows": [ROW], "targets": ["x" * 1001]}, 422, "1,001 characters"),
    ("new/learn", {"rows": [ROW, ROW], "targets": ["x", 1]}, 422, "Row 1: its label"),
    ("new/learn", {"rows": [ROW], "targets": ["x\0"]}, 422, "Row 0: its label ends with"),
    ("new/learn", {"rows": [[]], "targets": ["x"]}, 422, "0 features"),
    ("new/learn", {"rows": [[0.0] * 10_001], "targets": ["x"]}, 422, "10,001 features"),
    ("numbers/learn", {"rows": [ROW], "targets": ["3"]}, 422, "'3' is not a number"),
    ("numbers/learn", {"rows": [ROW], "targets": [True]}, 422, "True is not a number"),
    ("numbers/learn", {"rows": [ROW], "targets": [None]}, 422, "None"),
    ("numbers/learn", {"rows": [ROW], "targets": ["x" * 9999]}, 422, "Row 0: its target 'xxx"),
    ("numbers/learn", {"rows": [ROW], "targets": [10**400]}, 422, "Row 0: its target inf is"),
    ("numbers/learn", {"rows": [ROW], "targets": [1e40]}, 422, "Row 0"),
    ("numbers/step", {"rows": [ROW]}, 422, "needs a target"),
    ("novelty/learn", GOOD, 422, "leave targets out"),
    ("novelty/step", GOOD, 422, "leave targets out"),
    ("classes/step", {"rows": [ROW] * 2, "targets": [1, "1"]}, 422, "Row 1"),
    ("classes/step?on_bad_row=skip", GOOD, 400, "on_bad_row=skip"),
    ("classes/labels", {"ids": ["nobody's"], "targets": [1]}, 404, "No row waits"),
    ("classes/labels", {"ids": ["a"]}, 400, "missing required field `targets`"),
    ("classes/labels", {"ids": ["a"], "targets": []}, 400, "targets has 0 entries"),
    ("classes/labels", {"ids": [], "targets": []}, 400, "at least one id"),
    ("classes/labels", {"ids": ["a", "a"], "targets": [1, 1]}, 422, "that of row 0"),
    ("classes/labels", {"ids": [None], "targets": [1]}, 422, "Row 0"),
    ("novelty/labels", {"ids": ["a"], "targets": [1]}, 422, "leave targets out"),
]  # fmt: skip


def everything(service):
    """What must not change when a request is refused."""
    return {
        name: (model.position, model.served.is_ready and model.served.model.to_bytes())
        for name, model in service.models.items()
    }


def check_problem(answer, status, said):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].startswith("application/problem+json")
    problem = answer.json()
    assert set(problem) >= {"type", "title", "status", "detail"}
    assert problem["status"] == status
    assert said in problem["detail"]
    return problem


@pytest.mark.parametrize(("path", "body", "status", "said"), BAD, ids=range(len(BAD)))
def test_bad_input_is_refused_and_changes_nothing(http, service, path, body, status, said):
    before = everything(service)
    problem = check_problem(post(http, path, body), status, said)
    if "Row " in said:
        assert problem["row"] == int(said.split()[1].rstrip(":"))
        assert problem["rows"][0]["row"] == problem["row"]
    assert everything(service) == before


KINDS = [
    ("", b"{}"), ("text/plain", b"{}"), ("application/x-www-form-urlencoded", b"a=1"),
    ("multipart/form-data; boundary=x", b"--x--"), ("application/json; charset=latin-1", b"{}"),
    ("application/octet-stream", b"\x80\x04."), ("application/x-pickle", b"\x80\x04."),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "body"), KINDS)
@pytest.mark.parametrize("endpoint", ["predict", "learn", "step", "labels"])
def test_content_types_are_strict(http, service, kind, body, endpoint):
    before = everything(service)
    answer = post(http, f"classes/{endpoint}", body, {"content-type": kind} if kind else {})
    check_problem(answer, 415, "application/json")
    assert everything(service) == before


def three(**others):
    return pa.table({"a": [1.0], "b": [2.0], "c": [3.0]} | others)


# Small bodies that stand for much: rows of nothing, of many columns, and of one long text.
NULLS = pa.nulls(10_001)
WIDE = pa.table({f"column {i}": pa.nulls(10_000) for i in range(1000)})
WORDS = pa.table({"a": pa.DictionaryArray.from_arrays(np.zeros(9000, np.int8), ["x" * 2000])})
FAR = pa.array([2**62], pa.timestamp("s"))  # a year that Python does not have
TWICE = pa.table([pa.array([1.0])] * 2, names=["a", "a"])
OTHER_FORMATS = [
    ("application/x-ndjson", b"", 400, "at least one row"),
    ("application/x-ndjson", b'{"row": [1, 2, 3]}\n{"row": 3}', 422, "Row 1"),
    ("application/x-ndjson", b'{"row": [1, 2, 3]}\nnonsense', 422, "Row 1"),
    ("application/x-ndjson", b'{"row": [1, 2, 3], "more": 1}', 422, "Row 0"),
    ("application/x-ndjson", b'{"row": [1,2,3], "id": "a"}\n{"row": [1,2,3]}', 422, "Row 1"),
    ("application/vnd.apache.arrow.stream", b"nonsense", 400, "not a stream of Arrow"),
    ("application/vnd.apache.arrow.stream", b"", 400, "not a stream of Arrow"),
    ("application/vnd.apache.arrow.stream", arrow(pa.table({"a": [[1.0]]})), 422, "of type list"),
    ("application/vnd.apache.arrow.stream", arrow(pa.table({"a": [1.0]})), 422, "column 'b'"),
    ("application/vnd.apache.arrow.stream", arrow(pa.table({"a": [b"x"]})), 422, "of type binary"),
    ("application/vnd.apache.arrow.stream", arrow(three(a=["x"])), 422, "Row 0: it contains 'x'"),
    ("application/vnd.apache.arrow.stream", arrow(three(a=[None])), 422, "Row 0: a number"),
    ("application/vnd.apache.arrow.stream", arrow(three(a=[float("nan")])), 422, "Row 0: a number"),
    ("application/vnd.apache.arrow.stream", arrow(three(ids=[1.5])), 422, "Row 0: expected"),
    ("application/vnd.apache.arrow.stream", arrow(three(a=FAR)), 400, "The column 'a'"),
    ("application/vnd.apache.arrow.stream", arrow(TWICE), 400, "the same name"),
    ("application/vnd.apache.arrow.stream", arrow(three(), "zstd"), 400, "compressed"),
    ("application/vnd.apache.arrow.stream", arrow(WORDS, "lz4"), 400, "compressed"),
    ("application/vnd.apache.arrow.stream", arrow(pa.table({"a": NULLS})), 413, "10,001 rows"),
    ("application/vnd.apache.arrow.stream", arrow(WIDE), 413, "bytes of JSON"),
    ("application/vnd.apache.arrow.stream", arrow(WORDS), 413, "bytes of JSON"),
    ("application/vnd.apache.arrow.stream", arrow(three())[:300], 400, "not a stream of Arrow"),
    ("application/x-ndjson", b'{"row": []}\n' * 10_001, 413, "10,001 rows"),
    ("application/x-ndjson", b'{"row": [1, 2, 3], "id": "\xff"}', 422, "Row 0"),
]


@pytest.mark.parametrize(
    ("kind", "body", "status", "said"), OTHER_FORMATS, ids=range(len(OTHER_FORMATS))
)
def test_bulk_formats_are_checked_as_json_is(http, service, kind, body, status, said):
    before = everything(service)
    check_problem(post(http, "numbers/predict", body, {"content-type": kind}), status, said)
    assert everything(service) == before


def test_methods_paths_and_bodies_that_are_too_large(http, url):
    check_problem(http.get("/v1/models/classes/predict"), 405, "Allow")
    check_problem(http.delete("/v1/models/classes"), 405, "Allow")
    check_problem(http.get("/v1/models/none"), 404, "no model")
    check_problem(http.get("/v1/models/none/events"), 404, "no model")
    check_problem(http.get("/page.py"), 404, "nothing")
    check_problem(post(http, "classes/predict", b" " * (16 * 2**20 + 1)), 413, "larger")
    gzip = {**JSON, "content-encoding": "gzip"}
    check_problem(post(http, "classes/predict", {"rows": [ROW]}, gzip), 415, "not compressed")
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=5) as line:
        line.sendall(b"POST /v1/models/classes/predict HTTP/1.1\r\nHost: x\r\nnonsense\r\n\r\n")
        assert b" 40" in line.recv(100)


def test_other_host_names_are_not_served_without_a_token(http):
    check_problem(http.get("/v1/models", headers={"host": "evil.example"}), 403, "--token-file")
    assert http.get("/v1/models", headers={"host": "localhost:80"}).status_code == 200


def test_a_token_is_needed_where_there_is_one(tmp_path, interpreted):
    token = "a-token-of-22-characters"
    service = Service([ServedModel("m", new_model(), tmp_path)], token=token)
    with running(service) as url:
        for headers in ({}, {"authorization": "Bearer x"}, {"authorization": token}):
            for path in ("/v1/models", "/metrics", "/v1/models/m", "/v1/models/m/events"):
                check_problem(httpx.get(url + path, headers=headers), 401, "Bearer")
        known = {"authorization": f"bearer {token}"}  # a scheme's case does not matter
        assert httpx.get(url + "/v1/models", headers=known).status_code == 200
        assert httpx.get(url + "/healthz").status_code == 200
        assert httpx.get(url, headers={"host": "a.example"}).status_code == 200
        with Client(url, "m", token=token) as client:
            assert client.step([ROW, ROW], ["x", "y"]).accepted == 2
        with Client(url, "m", token="wrong") as client, pytest.raises(ServiceError, match="401"):
            client.state()


def test_other_machines_need_a_token(tmp_path, interpreted):
    service = Service([ServedModel("m", new_model(), tmp_path / "m")])
    with pytest.raises(ValueError, match=r"host='0.0.0.0'.*--token-file"):
        Server(service, "0.0.0.0", 1)
    service.close()
    (tmp_path / "token").write_text("short\n")
    with pytest.raises(ValueError, match="16 characters"):
        read_token(tmp_path / "token")


def test_a_full_queue_is_429_and_the_client_comes_back(tmp_path, interpreted):
    limits = Limits(rows=10, queued_rows=10, classes=2)
    model = ServedModel("m", new_model(), tmp_path, limits=limits)
    learn, slow = model.served.learn, threading.Event()
    with running(Service([model], limits)) as url, httpx.Client(base_url=url) as http:
        model.served.learn = lambda block: slow.wait(30) and learn(block)
        body = {"rows": X[:10].tolist(), "targets": Y[:10]}
        assert post(http, "m/learn", body).status_code == 202  # the writer has it
        model.submit(Block(X[:10], Y[:10]))
        answer = post(http, "m/learn", body)
        check_problem(answer, 429, "wait to be learned")
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        threading.Timer(0.3, slow.set).start()
        with Client(url, "m") as client:
            assert client.learn(X[:10], Y[:10]).accepted == 10
            with pytest.raises(ServiceError, match="2 classes, which is the limit"):
                client.learn(X[:1], [7])


def test_there_is_a_limit_to_open_pages(tmp_path, interpreted):
    limits = Limits(viewers=1)
    service = Service([ServedModel("m", new_model(), tmp_path, limits=limits)], limits)
    with running(service) as url, httpx.Client(base_url=url) as http:
        with http.stream("GET", "/v1/models/m/events") as page:
            lines = page.iter_lines()  # which would be closed if it were dropped
            assert next(lines) == "event: state"
            answer = http.get("/v1/models/m/events")
            check_problem(answer, 503, "close one")
            assert answer.headers["retry-after"] == "30"
        end = time.monotonic() + 30
        while service.n_viewers and time.monotonic() < end:
            time.sleep(0.01)
        with http.stream("GET", "/v1/models/m/events") as page:
            assert page.status_code == 200


def test_a_model_that_has_failed_is_not_ready(tmp_path, interpreted):
    model = ServedModel("m", new_model(), tmp_path)
    model.served.learn = lambda block: 1 / 0
    with running(Service([model])) as url, httpx.Client(base_url=url) as http:
        check_problem(post(http, "m/step", GOOD), 503, "ZeroDivisionError")
        check_problem(http.get("/readyz"), 503, "restart")
        assert http.get("/healthz").status_code == 200


def test_a_model_that_learned_a_table_is_served_with_its_columns(tmp_path, interpreted):
    rows = [[f"{x:.3f}", "red" if x > 0 else "blue"] for x in X[:60, 0]]
    block = TableBlock(["size", "colour"], rows, None, [""] * 60, {})
    table = sound_rows(block, range(60), declared(block))
    model = ks.make("linear-pa", "classifier").partial_fit(table, Y[:60])
    model.save(tmp_path / "shop.ks")
    service = Service.from_files(tmp_path / "shop.ks", tmp_path / "folder")
    with running(service) as url, Client(url, "shop") as client:
        expected = model.predict(table).tolist()
        assert client.predict(rows).predictions == expected
        assert client.state()["columns"] == ["size", "colour"]
        named = [{"colour": colour, "size": float(size)} for size, colour in rows]
        assert client.predict(named).predictions == expected
        assert client.learn(named[:5], Y[:5]).accepted == 5
        with pytest.raises(ServiceError, match="size is 'big', which is not a number"):
            client.predict([["big", "red"]])
    again = Service.from_files(tmp_path / "shop.ks", tmp_path / "folder")
    assert again.models["shop"].position == 5
    assert again.predict("shop", b'{"rows": [["1.0", "red"]]}', "application/json")
    again.close()


def test_a_folder_of_models_is_served_by_their_stems(tmp_path, interpreted):
    for name in ("one", "two"):
        new_model().partial_fit(X[:9], Y[:9]).save(tmp_path / f"{name}.ks")
    service = Service.from_files(tmp_path, tmp_path / "folder")
    assert list(service.models) == ["one", "two"]
    service.close()
    with pytest.raises(ValueError, match="the limit is 1"):
        Service.from_files(tmp_path, tmp_path / "folder", Limits(models=1))
    ks.Fleet("silk", "novelty", n_models=2, n_features=1, budget=2).save(tmp_path / "two.ks")
    with pytest.raises(TypeError, match="a Fleet cannot be served"):
        Service.from_files(tmp_path, tmp_path / "other folder")
    (tmp_path / "one.ks").rename(tmp_path / "no name.ks")
    with pytest.raises(ValueError, match="rename the file"):
        Service.from_files(tmp_path, tmp_path / "folder")


# --- the client ----------------------------------------------------------------------------------


def test_the_client_takes_arrays_frames_and_long_blocks(url, service):
    import pandas as pd
    import polars as pl

    with Client(url, "numbers", rows_per_request=7) as client:
        frame = pd.DataFrame(X[:20], columns=["a", "b", "c"])
        expected = service.models["numbers"].predict(X[:20])
        for rows in (X[:20], X[:20].tolist(), frame, pl.DataFrame(frame.to_dict("list"))):
            assert client.predict(rows).predictions == pytest.approx(expected)
        assert client.predict(X[:20]).scores is None
        assert client.predict(X[:20], scores=True).scores == pytest.approx(expected)
        told = client.step(frame, frame["a"])
        assert (told.accepted, len(told.predictions)) == (20, 20)
        ids = client.predict(X[:9], wait=True).ids
        assert client.labels([*ids, "nobody's"], np.ones(10)) == (9, 0, [], [], ["nobody's"])
        with pytest.raises(ValueError, match="ids has 9 entries, and y has 3"):
            client.labels(ids, [1, 2, 3])
        assert client.predict([np.float32(X[0]), list(map(np.float64, X[1]))]).predictions
        with pytest.raises(ServiceError, match="Row 1: a number is missing"):
            client.predict(frame[:2].replace(X[1, 2], np.nan))
        bad = X[:20].tolist()
        bad[15] = [1.0]
        told = client.learn(bad, np.ones(20), on_bad_row="skip")
        assert [row["row"] for row in told.skipped] == [15]
        with pytest.raises(ValueError, match="X has 20 rows, and y has 3"):
            client.learn(X[:20], [1, 2, 3])
        assert client.state()["name"] == "numbers"


def test_a_lost_answer_is_no_reason_to_learn_twice(url, service):
    """The answer to the first of every two requests is thrown away on its way."""
    model = service.models["classes"]
    with Client(url, "classes") as client:
        send, lost = client._http.request, []

        def unreliable(*arguments, **options):
            answer = send(*arguments, **options)
            if answer.is_success and answer.request.content not in lost:
                lost.append(answer.request.content)
                raise httpx.ReadError("the line is dead")
            return answer

        client._http.request = unreliable
        before, waiting = model.position, model.state()["n_without_target"]
        told = client.step(X[100:110], Y[100:110])
        assert (told.accepted, told.repeated) == (0, 10)
        told = client.learn(X[100:105], Y[100:105])
        assert (told.accepted, told.repeated) == (0, 5)
        ids = client.predict(X[110:113], wait=True).ids
        assert model.state()["n_without_target"] == waiting + 3
        told = client.labels(ids, Y[110:113])
        assert (told.accepted, told.repeated) == (0, 3)
        assert len(lost) == 4
        assert model.position == before + 18


def test_a_large_body_is_read_in_steps_between_which_predictions_go_first(service, monkeypatch):
    reader, slept = threading.current_thread(), []
    monkeypatch.setattr(reader_priority, "monotonic", lambda: 100.0)
    monkeypatch.setattr(
        reader_priority, "sleep", lambda _: slept.append(threading.current_thread())
    )
    reader_priority.note_prediction()
    content = json.dumps({"rows": X[:9].tolist(), "targets": Y[:9]}).encode()
    pending, _ = service.submit("classes", content, "application/json")
    assert pending.learned.result(30).accepted == (9, 0)
    assert slept.count(reader) == 2


def test_a_table_is_fed_to_a_service(url, service, tmp_path, monkeypatch):
    model = service.models["numbers"]
    before, table = model.position, tmp_path / "table.csv"
    lines = [f"{a},{b},{c},{a}" for a, b, c in X[:30].tolist()] + ["1,2,x,4", "5,6,7,"]
    table.write_text("a,b,c,y\n" + "\n".join(lines) + "\n")
    command = ["run", str(table), "--target", "y", "--to", f"{url}/v1/models/numbers"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "32 rows, 30 accepted, 0 known before, 2 bad" in done.stdout
    assert "line 32: it contains 'x', which is not a number" in done.stdout
    done = CliRunner().invoke(app, command)
    assert "0 accepted, 30 known before, 2 bad" in done.stdout
    assert model.position == before + 30
    table.write_text(table.read_text().replace("5,6,7,", "5,6,7,8"))  # which is a new row
    done = CliRunner().invoke(app, command)
    assert "1 accepted, 30 known before, 1 bad" in done.stdout
    monkeypatch.setattr(client_module, "_LONGEST_WAIT", 0.01)
    nobody = "http://127.0.0.1:1/v1/models/numbers"
    for to, said in (
        (url, "give the address"), (f"{url}/v1/models/none", "no such model"),
        (nobody, "cannot be reached"),
    ):  # fmt: skip
        done = CliRunner().invoke(app, [*command[:4], "--to", to])
        assert done.exit_code == 1
        assert said in done.stderr

"""A fleet that is served: a model for every key."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import kernelstream as ks
from kernelstream.cli.app import app
from kernelstream.client import Client, ServiceError
from kernelstream.persistence import write
from kernelstream.serve import Accepted, Block, Limits, ServedModel
from kernelstream.serve.fleet import ServedFleet
from kernelstream.serve.service import Service
from kernelstream.tables import Block as TableBlock
from kernelstream.tables import TableEncoder
from kernelstream.threads import pausing
from tests.serve.folders import copy_as_after_a_crash

from .conftest import running
from .streams import IDS, X, Y
from .test_http import arrow, check_problem, post

KEYS = [["hall", 7, ("attic", 2)][i % 3] for i in range(len(X))]
TASKS = {"regressor": X[:, 0].tolist(), "classifier": Y, "novelty": None}

pytestmark = pytest.mark.usefixtures("interpreted")


def new_fleet(task="regressor"):
    options = {"classes": [0, 1]} if task == "classifier" else {}
    return ks.KeyedFleet("silk" if task == "novelty" else "pa", task, budget=8, **options)


def rows(start, stop, targets=TASKS["regressor"], ids=True):
    part = slice(start, stop)
    return Block(
        X[part], None if targets is None else targets[part], IDS[part] if ids else None,
        keys=KEYS[part],
    )  # fmt: skip


def body(start, stop, **more):
    return {"rows": X[start:stop].tolist(), "keys": KEYS[start:stop], **more}


def contents(fleet):
    return {k: m for keys, models in fleet.chunks() for k, m in zip(keys, models, strict=True)}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """A fleet that has learned thirty rows, on a port of its own."""
    folder = tmp_path_factory.mktemp("fleet")
    learned = new_fleet()
    learned.learn(KEYS[:30], X[:30], TASKS["regressor"][:30])
    learned.save(folder / "fleet.ks")
    single = ks.make("linear-pa", "classifier").partial_fit(X[:30], Y[:30])
    single.save(folder / "single.ks")
    service = Service.from_files(folder, folder / "kept")
    with running(service) as url, httpx.Client(base_url=url, timeout=30) as http:
        http.service = service
        yield http


@pytest.mark.parametrize("task", TASKS)
def test_step_is_what_every_key_alone_predicts_and_learns(tmp_path, task):
    targets = TASKS[task]
    served = ServedModel("test", new_fleet(task), tmp_path, checkpoint_rows=20)
    said = []
    for start, stop in ((0, 1), (1, 25), (25, 60)):
        said += served.learn(rows(start, stop, targets)).result(30).predictions
    expected = [None] * 60
    for key in ["hall", 7, ("attic", 2)]:
        model = new_fleet(task)
        for i in range(60):
            if KEYS[i] == key:
                before = [-1] if task == "novelty" else [None]
                if len(model):
                    before = model.predict([key], X[[i]]).tolist()
                model.learn([key], X[[i]], None if targets is None else [targets[i]])
                expected[i] = before[0]
        assert contents(model)[key] == contents(served.served.model)[key]
    if task == "regressor":
        assert said[3:] == pytest.approx(expected[3:], abs=1e-9)
        assert said[:3] == [0.0, 0.0, 0.0]
    else:
        assert said[3:] == expected[3:]
    errors = {
        "regressor": np.subtract(said, X[:60, 0]) ** 2, "novelty": np.array(said) == -1,
        "classifier": np.array(said) != Y[:60],
    }[task]  # fmt: skip
    state = served.state(history=True)
    assert state["error"] == pytest.approx(np.mean(errors))
    assert (state["n_keys"], state["n_learned"], state["history"][-1]["n_keys"]) == (3, 60, 3)
    served.close()
    again = ServedModel("test", new_fleet(task), tmp_path)
    assert contents(again.served.model) == contents(served.served.model)
    again.close()


@pytest.mark.parametrize("task", TASKS)
def test_a_long_block_is_learned_in_waves_between_which_others_have_their_turn(task):
    """The fleet is that of the same rows in short blocks, bit for bit, and so is what it says."""
    targets, told, said = TASKS[task], [], []
    whole, parts = ServedFleet(new_fleet(task)), ServedFleet(new_fleet(task))
    for served in (whole, parts):
        served.learn(rows(0, 30, targets))
    for start in range(30, 600, 30):
        said += parts.learn(rows(start, start + 30, targets)).predictions
    with pausing(lambda: told.append(len(whole.model))):
        outcome = whole.learn(rows(30, 600, targets))
    assert outcome.predictions == said
    assert outcome.rows.tolist() == list(range(570))
    assert contents(whole.model) == contents(parts.model)
    assert len(told) >= 3 * 570 / 200  # three steps for each wave


def test_the_labels_of_a_long_first_block_are_all_known(tmp_path):
    fleet = ks.KeyedFleet("pa", "classifier", budget=8)
    served = ServedModel("test", fleet, tmp_path)
    labels = ["early"] * 299 + ["late"] * 301
    answer = served.learn(Block(X, labels, keys=KEYS)).result(30)
    assert answer.accepted == Accepted(600, 0)
    assert not answer.skipped
    assert served.state()["classes"] == ["early", "late"]
    served.close()


def test_after_a_crash_the_fleet_is_the_same_bit_for_bit(tmp_path):
    served = ServedModel("test", new_fleet(), tmp_path / "folder", checkpoint_rows=40)
    for start in range(0, 90, 15):
        assert served.submit(rows(start, start + 15)).logged.result(30) == Accepted(15, 0)
    copy_as_after_a_crash(tmp_path / "folder", tmp_path / "copy")
    found = ServedModel("test", new_fleet(), tmp_path / "copy")
    served.close()
    assert contents(found.served.model) == contents(served.served.model)
    assert found.learn(rows(60, 100)).result(30).accepted == Accepted(10, 30)
    found.close()


def test_rows_that_cannot_be_learned_are_told_and_the_others_learned(tmp_path):
    served = ServedModel("test", new_fleet(), tmp_path)
    large = X[:12].copy()
    large[4] = 1e200
    answer = served.learn(rows(0, 12)._replace(X=large)).result(30)
    assert [bad["row"] for bad in answer.skipped] == [4]
    assert answer.predictions[4] is None
    kept = [i for i in range(12) if i != 4]
    expected = new_fleet()
    expected.learn([KEYS[i] for i in kept], X[kept], X[kept, 0])
    assert contents(served.served.model) == contents(expected)
    served.close()


def test_a_fleet_over_http(fleet):
    model = fleet.service.models["fleet"].served.model
    expected = model.predict(KEYS[:6], X[:6]).tolist()
    answer = post(fleet, "fleet/predict?scores=true", body(0, 6))
    assert answer.json() == {"predictions": expected, "scores": expected}
    lines = [{"row": x.tolist(), "key": key} for x, key in zip(X[:6], KEYS[:6], strict=True)]
    ndjson = "\n".join(map(json.dumps, lines)).encode()
    answer = post(fleet, "fleet/predict", ndjson, {"content-type": "application/x-ndjson"})
    assert answer.json()["predictions"] == expected
    n_seen = model.n_rows_
    told = post(fleet, "fleet/learn", body(30, 40, targets=X[30:40, 0].tolist(), ids=IDS[30:40]))
    assert told.json() == {"accepted": 10, "repeated": 0, "skipped": []}
    told = post(fleet, "fleet/step", body(39, 41, targets=X[39:41, 0].tolist(), ids=IDS[39:41]))
    assert (told.json()["accepted"], told.json()["repeated"]) == (1, 1)
    assert model.n_rows_ == n_seen + 11
    with Client(str(fleet.base_url), "fleet", rows_per_request=4) as client:
        assert client.step(X[41:50], X[41:50, 0], keys=KEYS[41:50]).accepted == 9
        said = client.predict(X[:6], keys=KEYS[:6]).predictions
        assert said == model.predict(KEYS[:6], X[:6]).tolist()
        with pytest.raises(ServiceError, match="for every key"):
            client.predict(X[:6])


def test_arrow_has_a_column_of_keys(tmp_path):
    columns = dict(zip("abc", X[:6].T, strict=True))
    frame = {**columns, "key": ["x", "y"] * 3, "targets": X[:6, 0]}
    kind = "application/vnd.apache.arrow.stream"
    service = Service([ServedModel("m", new_fleet(), tmp_path, extra={})])
    pending, _ = service.submit("m", arrow(pa.table(frame)), kind)
    assert pending.learned.result(30).accepted == Accepted(6, 0)
    fleet = service.models["m"].served.model
    assert list(fleet) == ["x", "y"]
    del frame["targets"]
    said = service.predict("m", arrow(pa.table(frame)), kind)["predictions"]
    assert said == fleet.predict(frame["key"], X[:6]).tolist()  # the columns in their order
    service.close()


def test_a_key_that_is_looked_at_has_errors_of_its_own(tmp_path):
    served = ServedModel("m", new_fleet(), tmp_path)
    served.learn(rows(0, 30)).result(30)
    assert served.key_state("cellar") is None
    first = served.key_state("hall")
    assert (first["n_learned"], first["error"], first["history"]) == (0, None, [])
    said = served.learn(rows(30, 90)).result(30).predictions
    own = [i for i in range(30, 90) if KEYS[i] == "hall"]
    errors = (np.array([said[i - 30] for i in own]) - X[own, 0]) ** 2
    state = served.key_state("hall")
    assert state["n_learned"] == len(own)
    assert state["n_seen"] == first["n_seen"] + len(own)
    assert state["error"] == pytest.approx(errors.mean())
    assert state["history"][-1]["n_support"] == state["n_support"]
    before = [0.0, *X[own[:-1], 0]]
    assert state["baselines"]["target of the row before"] == pytest.approx(
        np.mean((before - X[own, 0]) ** 2)
    )
    keys = [f"key {i}" for i in range(8)]
    served.learn(Block(X[:8], [0.0] * 8, keys=keys)).result(30)
    for key in keys:
        served.key_state(key)
    assert served.key_state("hall")["n_learned"] == 0  # forgotten: eight others were looked at
    served.close()


def test_a_store_that_is_slow_stops_nobody_else(stored):
    service = Service.from_files(stored / "fleet.ks", stored / "kept")
    asked, go, served = threading.Event(), threading.Event(), service.models["fleet"].served
    predict = served.predict
    served.predict = lambda block: asked.set() or (go.wait(30) and predict(block))
    sent = {"rows": X[:3].tolist(), "keys": KEYS[:3]}
    with (
        running(service) as url,
        httpx.Client(base_url=url, timeout=30) as http,
        ThreadPoolExecutor(1) as other,
    ):
        answer = other.submit(post, http, "fleet/predict", sent)
        assert asked.wait(30)
        assert http.get("/healthz").status_code == 200
        assert not answer.done()
        go.set()
        assert answer.result(30).status_code == 200


def test_targets_may_come_later_and_keys_with_them(fleet):
    model = fleet.service.models["fleet"].served.model
    told = post(fleet, "fleet/predict", {"rows": X[:2].tolist(), "keys": ["hall", "new"],
                                         "ids": ["late-1", "late-2"]}).json()  # fmt: skip
    assert told["ids"] == ["late-1", "late-2"]
    assert told["predictions"][1] is None
    assert "new" not in model
    answer = post(fleet, "fleet/labels", {"ids": ["late-2", "late-1"], "targets": [1.0, 2.0]})
    assert answer.json() == {"accepted": 2, "repeated": 0, "unknown": []}
    fleet.service.models["fleet"].learn(rows(100, 101)).result(30)
    assert "new" in model


def test_keys_can_be_looked_at(fleet):
    state = fleet.get("/v1/models/fleet").json()
    model = fleet.service.models["fleet"].served.model
    assert (state["class"], state["n_keys"]) == ("KeyedFleet", len(model))
    fleet.service.models["fleet"].learn(Block(X[:1], [0.0], keys=[("attic", 2)])).result(30)
    lines = fleet.get("/v1/models/fleet/keys?limit=2").json()["keys"]
    assert len(lines) == 2
    assert (lines[0]["key"], lines[0]["idle_rows"]) == (["attic", 2], 0)
    table = model.to_pandas()
    drift = fleet.get("/v1/models/fleet/keys?sort=drift").json()["keys"]
    assert [line["drift_score"] for line in drift] == pytest.approx(
        sorted(table["drift_score"], reverse=True)
    )
    assert lines[0]["text"] == '["attic", 2]'
    for key in ("hall", 7, ["attic", 2]):
        one = fleet.get("/v1/models/fleet/keys", params={"key": json.dumps(key)}).json()
        known = tuple(key) if isinstance(key, list) else key
        assert one["key"] == key
        assert one["n_seen"] == model.model(known).n_seen_ == table["n_seen"][known]
    metrics = fleet.get("/metrics").text
    assert f'kernelstream_keys{{model="fleet"}} {len(model)}' in metrics


BAD = [
    ("fleet/predict", {"rows": [[1, 2, 3]]}, 422, "give the key of every row"),
    ("fleet/learn", {"rows": [[1, 2, 3]], "targets": [1]}, 422, "give the key of every row"),
    ("fleet/step", {"rows": [[1, 2, 3]], "targets": [1], "keys": None}, 422, "give the key"),
    ("fleet/predict", {"rows": [[1, 2, 3]], "keys": []}, 400, "keys has 0 entries"),
    ("fleet/predict", {"rows": [[1, 2, 3]] * 2, "keys": ["hall", "cellar"]}, 422, "Row 1: its key"),
    ("fleet/predict", {"rows": [[1, 2, 3]] * 2, "keys": ["hall", "7"]}, 422, "Row 1: its key '7'"),
    ("fleet/predict", {"rows": [[1, 2, 3]] * 2, "keys": ["hall", None]}, 422, "Row 1: its key is"),
    ("fleet/learn", {"rows": [[1, 2, 3]], "keys": [None], "targets": [1]}, 422, "Row 0: its key"),
    ("fleet/learn", {"rows": [[1, 2, 3]], "keys": [1.5], "targets": [1]}, 422, "Row 0"),
    ("fleet/learn", {"rows": [[1, 2, 3]], "keys": [True], "targets": [1]}, 422, "Row 0"),
    ("fleet/learn", {"rows": [[1, 2, 3]], "keys": [[]], "targets": [1]}, 422, "Row 0: its key"),
    ("fleet/learn", {"rows": [[1, 2, 3]], "keys": [["a", None]], "targets": [1]}, 422, "Row 0"),
    ("fleet/learn", {"rows": [[1, 2, 3]], "keys": [{"a": 1}], "targets": [1]}, 422, "Row 0"),
    ("fleet/learn", {"rows": [[1, 2, 3]], "keys": [""], "targets": [1]}, 422, "Row 0: its key has"),
    ("fleet/learn", {"rows": [[1, 2, 3]], "keys": ["x" * 201], "targets": [1]}, 422, "201 char"),
    ("fleet/learn", {"rows": [[1, 2]], "keys": ["hall"], "targets": [1]}, 422, "Row 0: it has 2"),
    ("fleet/learn", {"rows": [[1, 2, 3]], "keys": ["hall"], "targets": ["x"]}, 422, "Row 0"),
    ("fleet/learn", {"rows": [[1, 2, 3]], "keys": ["hall"]}, 422, "needs a target"),
    ("fleet/predict", {"rows": [[1e300] * 3], "keys": ["hall"]}, 422, ""),
    ("fleet/predict", {"rows": [[1, 2, 3]], "keys": [None], "ids": ["a"]}, 422, "Row 0"),
    ("single/predict", {"rows": [[1, 2, 3]], "keys": ["hall"]}, 422, "leave keys out"),
    ("single/learn", {"rows": [[1, 2, 3]], "keys": ["hall"], "targets": [1]}, 422, "leave keys"),
]  # fmt: skip


def everything(service):
    return {name: (m.position, m.served.model.to_bytes()) for name, m in service.models.items()}


@pytest.mark.parametrize(("path", "sent", "status", "said"), BAD, ids=range(len(BAD)))
def test_bad_keys_are_refused_and_change_nothing(fleet, path, sent, status, said):
    before = everything(fleet.service)
    problem = check_problem(post(fleet, path, sent), status, said)
    if "Row " in said:
        assert problem["row"] == int(said.split()[1].rstrip(":"))
    assert everything(fleet.service) == before


def test_bad_questions_about_keys(fleet):
    for query, status, said in [
        ("fleet/keys?limit=0", 400, "limit=0"), ("fleet/keys?limit=1001", 400, "1 to 1,000"),
        ("fleet/keys?limit=x", 400, "limit=x"), ("fleet/keys?sort=name", 400, "sort=name"),
        ("fleet/keys?what=1", 400, "what=1"), ("fleet/keys?key=hall", 400, "as JSON"),
        ("fleet/keys?key=null", 400, "as JSON"), ("fleet/keys?key=8", 404, "no row of it"),
        ("single/keys", 404, "single model"), ("none/keys", 404, "no model"),
    ]:  # fmt: skip
        check_problem(fleet.get(f"/v1/models/{query}"), status, said)
    lines = b'{"row": [1, 2, 3], "key": "hall"}\n{"row": [1, 2, 3], "key": null}'
    answer = post(fleet, "fleet/predict", lines, {"content-type": "application/x-ndjson"})
    check_problem(answer, 422, "Row 1: its key is null")


def test_a_fleet_of_the_command_line_is_served_and_fed(tmp_path):
    """Its file says how columns are encoded, beside that of keys."""
    lines = [[f"{x:.3f}", "red" if x > 0 else "blue"] for x in X[:20, 0]]
    table = TableBlock(["size", "colour"], lines, None, [""] * 20, {})
    encoder = TableEncoder.from_block(table)
    learned = ks.KeyedFleet("pa", "regressor", budget=8)
    learned.learn(["a", "b"] * 10, encoder.encode(table)[0], X[:20, 0])
    write(tmp_path / "shop.ks", learned.to_bytes({"extra": {"encoder": encoder.to_json()}}))
    source = tmp_path / "table.csv"
    source.write_text("size,sensor,colour,y\n1.0,a,red,1\n-1.0,c,blue,2\n2.0,,red,3\n0,b,red,4\n")
    service = Service.from_files(tmp_path / "shop.ks", tmp_path / "kept")
    with running(service) as url:
        command = ["run", str(source), "--target", "y", "--to", f"{url}/v1/models/shop"]
        done = CliRunner().invoke(app, [*command, "--key", "sensor"])
        assert "4 rows, 3 accepted, 0 known before, 1 bad" in done.stdout, done.output
        assert "its key is null" in done.stdout
        assert "give the key" in CliRunner().invoke(app, command).stderr
        with Client(url, "shop") as client:
            rows = [{"colour": "blue", "size": -1.0}]
            said = client.predict(rows, keys=["c"]).predictions
    model = service.models["shop"].served.model
    assert list(model) == ["a", "b", "c"]
    assert (
        said
        == model.predict(
            ["c"],
            encoder.encode(TableBlock(["size", "colour"], [["-1.0", "blue"]], None, [""], {}))[0],
        ).tolist()
    )


def test_there_is_a_limit_to_keys(tmp_path):
    limits = Limits(keys=2)
    service = Service([ServedModel("m", new_fleet(), tmp_path, limits=limits)], limits)
    sent = {"rows": [[1, 2, 3]] * 4, "targets": [1, 2, 3, 4], "keys": ["a", "b", "c", None]}
    content = json.dumps(sent).encode()
    pending, skipped = service.submit("m", content, "application/json", skip=True)
    assert pending.learned.result(30).accepted == Accepted(2, 0)
    assert skipped[1] == {"row": 3, "reason": "its key is null"}
    reason = "its key is new, and there are 2 keys, which is the limit"
    assert skipped[:1] == [{"row": 2, "reason": reason}]
    service.close()


@pytest.fixture
def stored(tmp_path):
    """A fleet of which one model stays in memory: its file, with its store beside it."""
    store = ks.ModelStore(tmp_path / "fleet.db")
    fleet = ks.KeyedFleet("pa", "regressor", budget=8, max_models=1, store=store)
    fleet.learn(KEYS[:30], X[:30], TASKS["regressor"][:30])
    fleet.save(tmp_path / "fleet.ks")
    store.close()
    return tmp_path


def test_a_fleet_with_a_store_is_served_and_survives_a_crash(stored):
    before = (stored / "fleet.db").read_bytes()
    service = Service.from_files(stored / "fleet.ks", stored / "kept", checkpoint_rows=25)
    served, plain = service.models["fleet"], new_fleet()
    plain.learn(KEYS[:30], X[:30], TASKS["regressor"][:30])
    assert served.predict(X[:9], KEYS[:9]) == plain.predict(KEYS[:9], X[:9]).tolist()
    for start in range(30, 75, 15):  # a checkpoint comes after the second
        said = served.learn(rows(start, start + 15)).result(30).predictions
        expected = plain.learn(*(part[start : start + 15] for part in (KEYS, X, X[:, 0])))
        np.testing.assert_array_equal(said, expected)
    assert len(served.served.model.store) == 2
    assert served.state()["n_keys"] == 3
    assert service.key("fleet", '"hall"')["n_seen"] == 25
    copy_as_after_a_crash(stored / "kept", stored / "copy")
    again = Service.from_files(stored / "fleet.ks", stored / "copy")
    for kept in (served, again.models["fleet"]):
        assert contents(kept.served.model) == contents(plain)
    again.close()
    service.close()
    assert (stored / "fleet.db").read_bytes() == before  # from which one may begin again


def test_stores_that_are_missing_held_or_damaged_are_named(stored):
    live = ks.load(stored / "fleet.ks").attach(ks.ModelStore(stored / "fleet.db"))
    with pytest.raises(ValueError, match="holds its ModelStore itself"):
        ServedModel("m", live, stored / "one")
    live.store.close()
    with pytest.raises(ValueError, match=r"put its file beside.*\.db"):
        ServedModel("m", ks.load(stored / "fleet.ks"), stored / "two", store=stored / "no.db")
    service = Service.from_files(stored / "fleet.ks", stored / "kept")
    with running(service) as url, httpx.Client(base_url=url, timeout=30) as http:
        store = service.models["fleet"].served.model.store
        store._connection.execute("UPDATE records SET content = zeroblob(10)")
        answer = post(http, "fleet/predict", {"rows": X[:3].tolist(), "keys": KEYS[:3]})
        check_problem(answer, 503, "idle models")
        sent = {"rows": X[:3].tolist(), "keys": KEYS[:3], "targets": [1, 2, 3]}
        check_problem(post(http, "fleet/step", sent), 503, "was changed or damaged")
        check_problem(http.get("/readyz"), 503, "restart")

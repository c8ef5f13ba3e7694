"""Bad cells, bad names and bad lines: every command says where they are and goes on."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import kernelstream as ks
from kernelstream.cli.app import app
from kernelstream.tables import SourceError, open_source
from kernelstream.tables import text as text_module

pytestmark = pytest.mark.usefixtures("without_compiler")
RANDOM = np.random.default_rng(0)
N = 60
FRAME = pd.DataFrame({
    "sensor": np.arange(N) % 3, "a": RANDOM.normal(size=N).round(3),
    "b": RANDOM.normal(size=N).round(3), "city": RANDOM.choice(["x", "y"], N),
})  # fmt: skip
FRAME["y"] = (FRAME["a"] * 2).round(3)
BAD = ["oops", "inf", "1e400", "-inf", "1e200"]  # 1e200: its square cannot be represented


def call(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result


def with_a_bad_cell(path, cell, row=30):
    frame = FRAME.astype({"a": object})
    frame.loc[row, "a"] = cell
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("cell", BAD)
@pytest.mark.parametrize("key", [[], ["--key", "sensor"]])
def test_one_bad_cell_in_the_middle(tmp_path, cell, key):
    """`run` counts the row; `predict` leaves its prediction empty, counts it and goes on."""
    FRAME.to_csv(tmp_path / "good.csv", index=False)
    learn = ["--target", "y", "--task", "regress", "--algorithm", "svmd", *key]
    call("run", tmp_path / "good.csv", *learn, "--model", tmp_path / "m.ks")
    bad = with_a_bad_cell(tmp_path / "bad.csv", cell)
    done = call("run", bad, *learn, "--no-scale")
    assert "60 rows, 59 learned, 1 bad" in done.stdout
    assert "bad: line 32: " in done.stdout
    good = call("predict", tmp_path / "m.ks", tmp_path / "good.csv").stdout.splitlines()
    done = call("predict", tmp_path / "m.ks", bad)
    lines = done.stdout.splitlines()
    if lines[31] == "30,,":
        assert "bad: line 32: " in done.stderr
        assert "60 rows, 1 bad" in done.stderr
    else:  # a scaling makes a finite number of it
        assert cell == "1e200"
        assert np.isfinite(float(lines[31].split(",")[1]))
    found, expected = (
        np.array([text.split(",")[1:] for text in [*of[1:31], *of[32:]]], dtype=float)
        for of in (lines, good)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("cell", ["oops", "inf"])
def test_one_bad_cell_for_a_model_of_numbers_of_python(tmp_path, cell):
    model = ks.KernelRegressor(missing="mean").partial_fit(FRAME[["a", "b"]], FRAME["y"])
    model.save(tmp_path / "m.ks")
    frame = FRAME[["b", "a"]].astype({"a": object})
    frame.loc[7, "a"], frame.loc[8, "a"] = cell, ""
    frame.to_csv(tmp_path / "t.csv", index=False)
    done = call("predict", tmp_path / "m.ks", tmp_path / "t.csv")
    lines = [line.split(",") for line in done.stdout.splitlines()[1:]]
    assert [i for i, line in enumerate(lines) if not line[1]] == [7]
    expected = model.predict(FRAME[["a", "b"]])
    found = np.array([float(line[1] or "nan") for line in lines])
    rest = np.delete(np.arange(N), [7, 8])
    np.testing.assert_allclose(found[rest], expected[rest])


@pytest.mark.parametrize("cell", ["oops", "inf", "1e400"])
@pytest.mark.parametrize("names", [["a", "b"], ["a", "b", "city"]])
def test_one_bad_cell_on_its_way_to_a_service(tmp_path, cell, names):
    from kernelstream.client import Client, ServiceError
    from kernelstream.serve import ServedModel
    from kernelstream.serve.service import Service

    from ..serve.conftest import running

    model = ks.make("linear-pa", "regressor").partial_fit(FRAME[names], FRAME["y"])
    bad = with_a_bad_cell(tmp_path / "bad.csv", cell)
    pd.read_csv(bad, dtype=str)[[*names, "y"]].to_csv(bad, index=False)
    with running(Service([ServedModel("m", model, tmp_path / "kept")])) as url:
        done = call("run", bad, "--target", "y", "--to", f"{url}/v1/models/m")
        assert "60 rows, 59 accepted, 0 known before, 1 bad" in done.stdout
        assert "bad: line 32: " in done.stdout
        rows = FRAME[names].astype(object).to_dict("records")
        rows[30]["a"] = float(cell) if cell != "oops" else cell
        with Client(url, "m") as client:
            with pytest.raises(ServiceError) as refused:
                client.predict(rows)
            assert [row["row"] for row in refused.value.problem["rows"]] == [30]
            assert len(client.predict(rows[:30] + rows[31:]).predictions) == 59


def test_every_model_file_predicts(tmp_path):
    """Also models without names, of sparse rows, with categories, and fleets: all of Python."""
    numbers, y = FRAME[["a", "b"]], FRAME["y"]
    numbers.to_csv(tmp_path / "n.csv", index=False)
    FRAME.to_csv(tmp_path / "all.csv", index=False)

    def predicted(model, source, *options):
        model.save(tmp_path / "m.ks")
        lines = call("predict", tmp_path / "m.ks", tmp_path / source, *options).stdout.splitlines()
        return [float(line.split(",")[1]) for line in lines[1:]]

    plain = ks.KernelRegressor().partial_fit(numbers.to_numpy(), y)
    np.testing.assert_allclose(predicted(plain, "n.csv"), plain.predict(numbers.to_numpy()))
    table = ks.KernelRegressor().partial_fit(FRAME.drop(columns="y"), y)
    expected = table.predict(FRAME.drop(columns="y"))
    np.testing.assert_allclose(predicted(table, "all.csv", "--target", "y"), expected)
    fleet = ks.KeyedFleet("pa", "regressor")
    fleet.learn(FRAME["sensor"].tolist(), numbers.to_numpy(), y.to_numpy())
    FRAME[["sensor", "a", "b"]].to_csv(tmp_path / "keys.csv", index=False)
    answer = call("predict", tmp_path / "m.ks", tmp_path / "all.csv", code=1).stderr
    assert "column" in answer
    text_keys = ks.KeyedFleet("pa", "regressor")
    text_keys.learn(FRAME["sensor"].astype(str).tolist(), numbers.to_numpy(), y.to_numpy())
    expected = text_keys.predict(FRAME["sensor"].astype(str).tolist(), numbers.to_numpy())
    found = predicted(text_keys, "keys.csv", "--key", "sensor")
    np.testing.assert_allclose(found, expected)
    plain.save(tmp_path / "m.ks")
    wrong = call("predict", tmp_path / "m.ks", tmp_path / "keys.csv", code=1)
    assert "the model learned from 2" in wrong.stderr


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("a,a,y", "columns 0 and 1 (counted from 0) are both called 'a'"),
        (",b,y", "column 0 of 3 (counted from 0) has no name"),
        ("a,b,b", "columns 1 and 2 (counted from 0) are both called 'b'"),
    ],
)
def test_columns_need_a_name_of_their_own(tmp_path, header, message):
    (tmp_path / "t.csv").write_text(f"{header}\n" + "1,2,p\n3,4,q\n" * 20)
    arguments = ("run", tmp_path / "t.csv", "--target", "2", "--algorithm", "pa")
    assert message in call(*arguments, code=1).stderr


def test_a_number_as_target_stops_with_the_question(tmp_path):
    prices = 500 * RANDOM.integers(1, 2000, size=1200)
    pd.DataFrame({"a": prices * 2.0, "price": prices}).to_csv(tmp_path / "t.csv", index=False)
    asked = call("run", tmp_path / "t.csv", "--target", "price", "--block", 50, code=1).stderr
    assert "target 'price' has " in asked
    assert "distinct numbers in 1,000 rows; pass --task regress to predict a number" in asked
    pd.DataFrame({"a": prices % 7, "kind": prices % 7}).to_csv(tmp_path / "few.csv", index=False)
    done = call("run", tmp_path / "few.csv", "--target", "kind", "--algorithm", "pa")
    assert "1,200 learned" in done.stdout
    assert "classes: 0, 1, 2, 3, 4, 5, 6" in done.stdout  # sorted


def test_a_feature_far_away_is_a_bad_row_and_no_memory(tmp_path):
    rows = ["1 1:0.5 2:1", "0 1:-0.5", "1 100000000:1", "0 2:1"] * 5
    (tmp_path / "t.svm").write_text("\n".join(rows) + "\n")
    done = call("run", tmp_path / "t.svm", "--algorithm", "linear-pa", "--model", tmp_path / "m.ks",
                "--bad-rows", tmp_path / "bad.jsonl")  # fmt: skip
    assert "20 rows, 15 learned, 5 bad" in done.stdout
    reason = json.loads((tmp_path / "bad.jsonl").read_text().splitlines()[0])["reason"]
    assert "feature 100,000,000, beyond the 1,048,576" in reason
    assert "--features 100000000" in reason
    assert (tmp_path / "m.ks").stat().st_size < 100_000
    lines = call("predict", tmp_path / "m.ks", tmp_path / "t.svm").stdout.splitlines()
    assert [line for line in lines if line.endswith(",,")] == [f"{i},," for i in range(2, 20, 4)]
    (tmp_path / "one.svm").write_text("1 100000000:1\n")
    answer = call("run", tmp_path / "one.svm", code=1).stderr
    assert "none of its 1 rows can be learned" in answer


@pytest.mark.parametrize("form", ["csv", "svm", "arff"])
def test_a_line_without_end_is_an_error_before_it_fills_the_memory(tmp_path, monkeypatch, form):
    monkeypatch.setattr(text_module, "_LONGEST_LINE", 1000)
    path = tmp_path / f"t.{form}.gz"
    path.write_bytes(gzip.compress(b"1 1:0.5\n" if form == "svm" else b"a,b\n"))
    with gzip.open(path, "ab") as file:
        file.write(b"1," * 5000)
    with pytest.raises(SourceError, match="has more than 1,000 characters"):
        list(open_source(str(path), None, 100))


def test_long_rows_make_small_blocks(tmp_path, monkeypatch):
    from kernelstream.tables import libsvm, sources

    monkeypatch.setattr(sources, "BLOCK_CHARACTERS", 100)
    monkeypatch.setattr(libsvm, "BLOCK_CHARACTERS", 100)
    (tmp_path / "t.csv").write_text("a,b\n" + f"{'1' * 30},{'2' * 30}\n" * 7)
    (tmp_path / "t.svm").write_text(f"1 1:{'1' * 60}\n" * 7)
    for name in ("t.csv", "t.svm"):
        blocks = list(open_source(str(tmp_path / name), None, 1000))
        assert [len(block.places) for block in blocks] == [2, 2, 2, 1]

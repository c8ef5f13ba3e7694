"""`kernelstream run`, `predict` and `info`: every source, bad rows, pipes, crashes."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file
from typer.testing import CliRunner

import kernelstream as ks
from kernelstream.cli.app import app
from kernelstream.tables import Encoder, SourceError, open_source

N = 2500


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(0)
    frame = pd.DataFrame({
        "a": random.normal(loc=100, scale=20, size=N),
        "colour": random.choice(["red", "green", "blue"], N),
        "b": random.normal(size=N),
    })  # fmt: skip
    side = (frame["a"] > 100) ^ (frame["colour"] == "red")
    frame["label"] = np.where(side, "yes", "no")
    frame["number"] = np.where(side, 2.0, -1.0) + 0.1 * random.normal(size=N)
    return frame


def call(*arguments, code=0, **options):
    result = CliRunner().invoke(app, [str(a) for a in arguments], **options)
    assert result.exit_code == code, result.output
    return result


def written(folder, frame, form):
    """The table as a file of some kind."""
    path = folder / f"table.{form}"
    if form == "csv":
        frame.to_csv(path, index=False)
    elif form == "tsv":
        frame.to_csv(path, index=False, sep="\t")
    elif form == "csv.gz":
        path.write_bytes(gzip.compress(frame.to_csv(index=False).encode()))
    elif form == "parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_feather(path)
    return path


@pytest.mark.parametrize("form", ["csv", "tsv", "csv.gz", "parquet", "arrow"])
def test_every_source_gives_the_same_model(tmp_path, table, form):
    frame = table.drop(columns="number").round(6)
    path = written(tmp_path, frame, form)
    call("run", path, "--target", "label", "--model", tmp_path / "m.ks")
    call(
        "run", written(tmp_path, frame, "csv"), "--target", "label", "--model", tmp_path / "same.ks"
    )
    found, same = ks.load(tmp_path / "m.ks"), ks.load(tmp_path / "same.ks")
    np.testing.assert_allclose(found.dual_coef_, same.dual_coef_, rtol=1e-6)
    assert found.n_seen_ == N
    assert found.n_features_in_ == 6  # two numbers, three colours and one for others


def test_the_whole_of_it(tmp_path, table):
    path = written(tmp_path, table, "csv")
    names = {name: tmp_path / f"out.{name}" for name in ("ks", "png", "jsonl")}
    result = call(
        "run", path, "--target", "label", "--model", names["ks"], "--plot", names["png"],
        "--metrics", names["jsonl"],
    )  # fmt: skip
    assert "2,500 rows, 2,500 learned, 0 bad" in result.stdout
    assert "classes: no, yes" in result.stdout or "classes: yes, no" in result.stdout
    assert names["png"].read_bytes()[:4] == b"\x89PNG"
    lines = [json.loads(line) for line in names["jsonl"].read_text().splitlines()]
    assert [line["rows"] for line in lines] == [1000, 2000, 2500]
    assert lines[-1]["recent_error"] < 0.12
    predicted = call("predict", names["ks"], path).stdout.splitlines()
    assert predicted[0] == "row,prediction,score"
    labels = np.array([line.split(",")[1] for line in predicted[1:]])
    assert (labels == table["label"]).mean() > 0.85
    without = written(tmp_path, table.drop(columns="label"), "parquet")  # nothing to predict in it
    again = call("predict", names["ks"], without, "--out", tmp_path / "p.csv")
    assert "2,500 rows, 0 bad" in again.stderr
    assert (tmp_path / "p.csv").read_text().splitlines() == predicted
    described = call("info", names["ks"]).stdout
    for expected in ("KernelClassifier", "2,500", "RBF", "yes", "format version 1", "table.csv"):
        assert expected in described


def test_regression_and_novelty(tmp_path, table):
    path = written(tmp_path, table.drop(columns="label"), "csv")
    result = call(
        "run", path, "--target", "number", "--task", "regress", "--metrics", tmp_path / "m"
    )
    last = json.loads((tmp_path / "m").read_text().splitlines()[-1])
    assert last["recent_error"] < 0.5 * table["number"].var()
    assert "mean squared error" in result.stdout
    numbers = written(tmp_path, table[["a", "b"]], "csv")
    result = call("run", numbers, "--task", "novelty", "--nu", 0.1, "--model", tmp_path / "n.ks")
    assert "alarms" in result.stdout
    assert ks.load(tmp_path / "n.ks").n_seen_ == N
    lines = call("predict", tmp_path / "n.ks", numbers).stdout.splitlines()
    assert {line.split(",")[1] for line in lines[1:]} == {"1", "-1"}


def test_libsvm_and_numpy(tmp_path, table):
    X = np.column_stack([table["b"], (table["colour"] == "red"), np.zeros(N), table["a"] / 100])
    y = (table["label"] == "yes").to_numpy().astype(int)
    dump_svmlight_file(X, y, str(tmp_path / "t.svm"), zero_based=False)
    call("run", tmp_path / "t.svm", "--target", "y", "--model", tmp_path / "s.ks")
    sparse = ks.load(tmp_path / "s.ks")
    assert sparse.n_features_in_ == 4
    np.save(tmp_path / "t.npy", np.column_stack([X, y]))
    np.savez(tmp_path / "t.npz", X=X, y=y)
    for arguments in (("t.npy", "--target", -1), ("t.npz", "--target", "y")):
        call(
            "run", tmp_path / arguments[0], *arguments[1:], "--no-scale", "--model", tmp_path / "d"
        )
        dense = ks.load(tmp_path / "d")
        np.testing.assert_allclose(dense.dual_coef_, sparse.dual_coef_, rtol=1e-6)
        assert set(dense.classes_) == {"0", "1"}
    assert "4 features" not in call("predict", tmp_path / "s.ks", tmp_path / "t.svm").stderr


def broken_csv(path, table):
    """One row in a hundred is broken; where those are."""
    kinds = ["oops,red,1,yes", "1,red", ",red,1,yes", "1,red,nan,yes", "1,red,1,", "1,2,3,4,5"]
    lines = table[["a", "colour", "b", "label"]].to_csv(index=False).splitlines()
    bad = list(range(50, N, 100))
    for k, row in enumerate(bad):
        lines[row] = kinds[k % len(kinds)]
    path.write_text("\n".join(lines) + "\n")
    return bad, lines


def test_broken_rows_are_left_out_and_named(tmp_path, table):
    bad, lines = broken_csv(tmp_path / "broken.csv", table)
    result = call(
        "run", tmp_path / "broken.csv", "--target", "label", "--model", tmp_path / "m.ks",
        "--bad-rows", tmp_path / "bad.jsonl", "--block", 500,
    )  # fmt: skip
    assert f"{N - len(bad):,} learned, {len(bad)} bad" in result.stdout
    assert "bad: line 51: a is 'oops', which is not a number" in result.stdout
    assert "it has 2 fields, the header has 4" in result.stdout
    named = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert [entry["place"] for entry in named] == [f"line {row + 1}" for row in bad]
    assert ks.load(tmp_path / "m.ks").n_seen_ == N - len(bad)
    predicted = call("predict", tmp_path / "m.ks", tmp_path / "broken.csv")
    # a row without a label can be predicted; others cannot
    empty = [line for line in predicted.stdout.splitlines() if line.endswith(",,")]
    assert len(empty) == sum(not lines[row].endswith("1,") for row in bad)
    assert "bad: line 51" in predicted.stderr


def test_missing_numbers_can_be_filled_and_categories_hashed(tmp_path, table):
    frame = table[["a", "colour", "label"]].copy()
    frame.loc[10:20, "a"] = np.nan
    path = written(tmp_path, frame, "csv")
    assert "11 bad" in call("run", path, "--target", "label").stdout
    result = call("run", path, "--target", "label", "--missing", "mean", "--categories", "hash")
    assert "0 bad" in result.stdout


def test_a_header_is_found_or_not(tmp_path):
    (tmp_path / "bare.csv").write_text("1.0;2.0;x\n3.0;1.0;y\n" * 50)
    result = call("run", tmp_path / "bare.csv", "--target", "2")
    assert "100 rows, 100 learned" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing.csv", "--target", "y"), "no such file"),
        (("t.csv", "--target", "z"), "there is no column 'z'. The columns are a, y"),
        (("t.csv", "--target", "y", "--task", "sing"), "--task='sing' is unknown"),
        (("t.csv", "--target", "y", "--algorithm", "magic"), "magic"),
        (("t.csv",), "--target is missing"),
        (("t.xyz", "--target", "y"), "what is this?"),
        (("empty.csv", "--target", "y"), "is empty"),
        (("t.csv", "--target", "y", "--task", "regress"), "none of its 2 rows can be learned"),
        (("t.csv", "--target", "y", "--format", "parquet"), "t.csv"),
        (("t.csv", "--target", "y", "--budget", "0"), "budget=0"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line_on_standard_error(tmp_path, arguments, message):
    (tmp_path / "t.csv").write_text("a,y\n1,p\n2,q\n")
    (tmp_path / "t.xyz").write_text("?")
    (tmp_path / "empty.csv").write_text("")
    result = call("run", tmp_path / arguments[0], *arguments[1:], code=1)
    assert message in result.stderr
    assert result.stderr.startswith("kernelstream: ")
    assert result.stdout == ""


def test_a_model_that_is_none(tmp_path):
    (tmp_path / "m.ks").write_text("no model")
    (tmp_path / "t.csv").write_text("a\n1\n")
    assert "not a kernelstream model" in call("info", tmp_path / "m.ks", code=1).stderr
    ks.KernelRegressor().partial_fit([[1.0]], [1.0]).save(tmp_path / "m.ks")
    found = call("predict", tmp_path / "m.ks", tmp_path / "t.csv", code=1)
    assert "was not made by `kernelstream run`" in found.stderr
    assert "KernelRegressor" in call("info", tmp_path / "m.ks").stdout


def program(*arguments):
    return [sys.executable, "-c", "from kernelstream.cli import main; main()", *map(str, arguments)]


def test_a_pipe_in_and_a_pipe_out(tmp_path, table):
    text = table.to_csv(index=False)
    run = subprocess.run(
        program("run", "-", "--target", "label", "--model", tmp_path / "m.ks"),
        input=text, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stderr == ""  # quiet: there is no terminal
    assert "2,500 learned" in run.stdout
    found = subprocess.run(
        program("predict", tmp_path / "m.ks", "-"), input=text, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert len(found.stdout.splitlines()) == N + 1
    without = table.drop(columns="label").to_csv(index=False)  # nothing to predict in it
    same = subprocess.run(
        program("predict", tmp_path / "m.ks", "-"), input=without, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert same.stdout == found.stdout


def test_stopped_and_killed_runs_are_resumed(tmp_path, table):
    long = pd.concat([table] * 20, ignore_index=True)
    path = written(tmp_path, long, "csv")

    def command(folder):
        return program(
            "run", path, "--target", "label", "--checkpoint", tmp_path / folder,
            "--checkpoint-rows", 1000, "--model", tmp_path / f"{folder}.ks",
            "--metrics", tmp_path / f"{folder}.jsonl", "--block", 500,
        )  # fmt: skip

    def begun(folder):
        """Start, and wait until there is something to lose."""
        run = subprocess.Popen(
            command(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        while run.poll() is None and not list((tmp_path / folder).glob("*.ks")):
            time.sleep(0.01)
        return run

    subprocess.run(command("unbroken"), check=True, capture_output=True)
    for number in (signal.SIGKILL, signal.SIGINT, signal.SIGKILL):
        run = begun("broken")
        time.sleep(0.05)
        os.kill(run.pid, number) if run.poll() is None else None
        _, error = run.communicate()
        if number == signal.SIGINT and run.returncode == 130:
            assert "the same command goes on from here" in error
    last = subprocess.run(command("broken"), check=True, capture_output=True, text=True)
    assert f"{len(long):,} rows, {len(long):,} learned" in last.stdout
    for name in ("unbroken.ks", "broken.ks"):
        assert ks.load(tmp_path / name).n_seen_ == len(long)
    unbroken, broken = (ks.load(tmp_path / f"{name}.ks") for name in ("unbroken", "broken"))
    assert unbroken._to_bytes() == broken._to_bytes()
    assert (tmp_path / "unbroken.jsonl").read_text() == (tmp_path / "broken.jsonl").read_text()
    other = subprocess.run(
        [*command("broken"), "--budget", "100"], capture_output=True, text=True, check=False
    )
    assert other.returncode == 1
    assert "a checkpoint of another run" in other.stderr


def test_a_checkpoint_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n1,p\n2,q\n")
    model = ks.KernelRegressor().partial_fit([[1.0]], [1.0])
    ks.Checkpointer(tmp_path / "folder").save(model, 7)
    found = call(
        "run", tmp_path / "t.csv", "--target", "y", "--checkpoint", tmp_path / "folder", code=1
    )
    assert "a checkpoint of another run (one of another program)" in found.stderr
    assert ks.Checkpointer(tmp_path / "folder").positions() == [7]


def test_an_encoder_means_the_same_ever_after(tmp_path, table):
    path = written(tmp_path, table, "csv")
    block = next(open_source(str(path), "label", 100))
    encoder = Encoder.from_block(block)
    again = Encoder.from_json(json.loads(json.dumps(encoder.to_json())))
    np.testing.assert_array_equal(encoder.encode(block)[0], again.encode(block)[0])
    X, problems = encoder.encode(block)
    assert not problems
    np.testing.assert_allclose(X[:, 0].mean(), 0, atol=1e-9)
    assert X[:, 1:5].sum(axis=1).tolist() == [1.0] * 100
    block.rows[0][1] = "violet"  # a colour that the first block did not have
    assert encoder.encode(block)[0][0, 4] == 1
    block.columns = ["x"]
    with pytest.raises(SourceError, match="the model was made with a, colour"):
        encoder.encode(block)

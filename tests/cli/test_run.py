"""`kernelstream run`, `predict` and `info`: every source, bad rows, pipes, crashes."""

import gzip
import io
import json
import logging
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from sklearn.datasets import dump_svmlight_file
from typer.testing import CliRunner

import kernelstream as ks
from kernelstream.cli import run as run_module
from kernelstream.cli import run_options, run_pace, run_report
from kernelstream.cli.app import app
from kernelstream.tables import SourceError, TableEncoder, open_source

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
    arguments = with_preset(*arguments)
    result = CliRunner().invoke(app, [str(a) for a in arguments], **options)
    assert result.exit_code == code, result.output
    return result


def with_preset(*arguments):
    """A run by one machine rather than by the committee, which takes longer to compile."""
    is_run = arguments[0] == "run" and "--algorithm" not in arguments
    return [*arguments, "--algorithm", "svmd"] if is_run else list(arguments)


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
    assert found.machine_.n_features == 6  # two numbers, three colours and one for others


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
    for expected in ("KernelClassifier", "2,500", "RBF", "yes", "format version 3", "table.csv"):
        assert expected in described


def test_regression_and_novelty(tmp_path, table):
    path = written(tmp_path, table.drop(columns="label"), "csv")
    result = call(
        "run", path, "--target", "number", "--task", "regress", "--metrics", tmp_path / "m",
        "--model", tmp_path / "r.ks",
    )  # fmt: skip
    last = json.loads((tmp_path / "m").read_text().splitlines()[-1])
    assert last["recent_error"] < 0.5 * table["number"].var()
    assert "mean squared error" in result.stdout
    answer = call("predict", tmp_path / "r.ks", path, "--std", code=1)
    assert answer.stdout == ""
    assert "use a committee, such as AutoRegressor" in answer.stderr
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
    call("run", tmp_path / "t.svm", "--no-scale", "--model", tmp_path / "s.ks")
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
        "--bad-rows", tmp_path / "bad.jsonl", "--block", 500, "--missing", "skip",
    )  # fmt: skip
    assert f"{N - len(bad):,} learned, {len(bad)} bad" in result.stdout
    assert "bad: line 51: a is 'oops', which is not a number" in result.stdout
    assert "it has 2 fields, the header has 4" in result.stdout
    assert "bad: line 251: a is missing" in result.stdout
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
    assert "11 bad" in call("run", path, "--target", "label", "--missing", "skip").stdout
    result = call(
        "run", path, "--target", "label", "--categories", "hash", "--model", tmp_path / "m"
    )
    assert "0 bad" in result.stdout
    assert ks.load(tmp_path / "m").machine_.n_features == 33
    call("run", path, "--target", "label", "--missing", "indicator", "--model", tmp_path / "m")
    assert ks.load(tmp_path / "m").machine_.n_features == 6  # the number has a second one


def test_a_header_is_found_or_not(tmp_path):
    (tmp_path / "bare.csv").write_text("1.0;2.0;x\n3.0;1.0;y\n" * 50)
    result = call("run", tmp_path / "bare.csv", "--target", "2")
    assert "100 rows, 100 learned" in result.stdout


def test_numbers_are_no_labels(tmp_path):
    values = np.random.default_rng(0).normal(size=100)
    rows = "\n".join(f"{value},{2 * value},{int(1e6 * value)}" for value in values)
    (tmp_path / "t.csv").write_text("a,y,id\n" + rows)
    result = call("run", tmp_path / "t.csv", "--target", "y", code=1)
    assert "target 'y' has 100 distinct numbers in 100 rows" in result.stderr
    assert "--task regress" in result.stderr
    result = call("run", tmp_path / "t.csv", "--target", "y", "--task", "classify", code=1)
    assert "a different number in every row" in result.stderr
    call("run", tmp_path / "t.csv", "--target", "y", "--task", "regress")
    # integers may be the names of something, if somebody says so
    call("run", tmp_path / "t.csv", "--target", "id", code=1)


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
    assert len(call("predict", tmp_path / "m.ks", tmp_path / "t.csv").stdout.splitlines()) == 2
    assert "KernelRegressor" in call("info", tmp_path / "m.ks").stdout


def program(*arguments):
    arguments = map(str, with_preset(*arguments))
    return [sys.executable, "-c", "from kernelstream.cli import main; main()", *arguments]


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


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
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
        """Start, and wait until there is something new to lose."""
        before = set((tmp_path / folder).glob("*.ks"))
        run = subprocess.Popen(
            command(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        while run.poll() is None and set((tmp_path / folder).glob("*.ks")) == before:
            time.sleep(0.01)
        return run

    subprocess.run(command("unbroken"), check=True, capture_output=True)
    for number in (signal.SIGKILL, signal.SIGINT, signal.SIGKILL):
        run = begun("broken")
        time.sleep(0.05)
        os.kill(run.pid, number) if run.poll() is None else None
        _, error = run.communicate()
        if number == signal.SIGINT:
            assert run.returncode == 130, error
            assert "the same command goes on from here" in error
    last = subprocess.run(command("broken"), check=True, capture_output=True, text=True)
    assert f"{len(long):,} rows, {len(long):,} learned" in last.stdout
    for name in ("unbroken.ks", "broken.ks"):
        assert ks.load(tmp_path / name).n_seen_ == len(long)
    unbroken, broken = (ks.load(tmp_path / f"{name}.ks") for name in ("unbroken", "broken"))
    assert unbroken.to_bytes() == broken.to_bytes()
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
    encoder = TableEncoder.from_block(block)
    again = TableEncoder.from_json(json.loads(json.dumps(encoder.to_json())))
    np.testing.assert_array_equal(encoder.encode(block)[0], again.encode(block)[0])
    X, problems = encoder.encode(block)
    assert not problems
    np.testing.assert_allclose(X[:, 0], table["a"][:100])
    assert X[:, 1:5].sum(axis=1).tolist() == [1.0] * 100
    block.rows[0][1] = "violet"  # a colour that the first block did not have
    assert encoder.encode(block)[0][0, 4] == 1
    block.columns = ["x"]
    with pytest.raises(SourceError, match="the model was made with a, colour"):
        encoder.encode(block)


# --- columns that begin to vary later -------------------------------------------------------------


def late_table(path, n, onset):
    """A column that says everything, and is constant before `onset`."""
    random = np.random.default_rng(0)
    other, late = random.normal(size=n), np.full(n, 0.1)
    late[onset:] = random.normal(size=n - onset)
    frame = pd.DataFrame({"other": other, "late": late, "label": np.where(late > 0, "yes", "no")})
    frame.to_csv(path, index=False)


@pytest.mark.parametrize("onset", [1000, 1500, 1990])
def test_a_column_that_varies_late_is_learned(tmp_path, onset):
    late_table(tmp_path / "t.csv", 4000, onset)
    call("run", tmp_path / "t.csv", "--target", "label", "--metrics", tmp_path / "m.jsonl")
    last = json.loads((tmp_path / "m.jsonl").read_text().splitlines()[-1])
    assert last["recent_error"] < 0.03


def test_a_resumed_run_scales_such_a_column_as_an_unbroken_one(tmp_path):
    path, part = tmp_path / "t.csv", tmp_path / "part.csv"
    late_table(path, 4000, 1990)  # at row 2,000 ten values have come, and more are waited for
    lines = path.read_text().splitlines(keepends=True)
    call("run", path, "--target", "label", "--model", tmp_path / "unbroken.ks")
    arguments = ("run", part, "--target", "label", "--checkpoint", tmp_path / "folder")
    part.write_text("".join(lines[:2001]))
    call(*arguments)
    part.write_text("".join(lines))
    call(*arguments, "--model", tmp_path / "resumed.ks")
    unbroken, resumed = (ks.load(tmp_path / f"{name}.ks") for name in ("unbroken", "resumed"))
    assert unbroken.to_bytes() == resumed.to_bytes()


def test_rows_that_were_added_to_a_table_are_learned(tmp_path, table, without_compiler):
    lines = table[["a", "b", "label"]].to_csv(index=False).splitlines(keepends=True)
    path = tmp_path / "t.csv"
    arguments = ("run", path, "--target", "label", "--checkpoint", tmp_path / "f", "--block", 50)
    for end in (75, 190):  # neither is a whole number of blocks
        path.write_text("".join(lines[: end + 1]))
        call(*arguments, "--model", tmp_path / "m.ks")
        assert ks.load(tmp_path / "m.ks").n_seen_ == end
    path.write_text("".join(lines[:11]))
    found = call(*arguments, code=1)
    assert "has 10 rows, and the checkpoint stands at row 190" in found.stderr
    assert found.stdout == ""


# --- sparse rows ----------------------------------------------------------------------------------


def test_libsvm_rows_may_widen_and_need_no_target(tmp_path, without_compiler):
    random = np.random.default_rng(0)
    lines = []
    for i in range(120):
        sign, feature = random.choice([-1, 1]), random.integers(1, 3 + i // 20)
        lines.append(f"{sign} 1:{sign * 0.5 + random.normal():.3f} {feature + 1}:1\n")
    (tmp_path / "t.svm").write_text("".join(lines))
    arguments = ("run", tmp_path / "t.svm", "--gamma", 0.3, "--block", 20, "--no-scale", "--model")
    result = call(*arguments, tmp_path / "growing.ks")
    assert "120 learned, 0 bad" in result.stdout
    call(*arguments, tmp_path / "declared.ks", "--features", 8)
    growing, declared = (ks.load(tmp_path / f"{name}.ks") for name in ("growing", "declared"))
    assert growing.n_features_in_ == declared.n_features_in_ == 8
    np.testing.assert_array_equal(growing.dual_coef_, declared.dual_coef_)
    (tmp_path / "wide.svm").write_text("1:0.5 2:1\n1:0.5 2:1 40:3\n")  # no labels
    out = call("predict", tmp_path / "growing.ks", tmp_path / "wide.svm")
    near, far = (float(line.split(",")[2]) for line in out.stdout.splitlines()[1:])
    assert "2 rows, 0 bad" in out.stderr
    assert abs(far) < 0.1 * abs(near)  # a feature that nothing learned has lies far away


def test_sparse_models_and_tables_do_not_mix(tmp_path, without_compiler):
    (tmp_path / "t.svm").write_text("1 1:1\n0 1:2\n" * 5)
    (tmp_path / "t.csv").write_text("a,y\n1,p\n2,q\n")
    call("run", tmp_path / "t.svm", "--model", tmp_path / "s.ks")
    call("run", tmp_path / "t.csv", "--target", "y", "--model", tmp_path / "d.ks")
    found = call("predict", tmp_path / "s.ks", tmp_path / "t.csv", code=1)
    assert "the source is a table of columns; the model was made with LIBSVM text" in found.stderr
    found = call("predict", tmp_path / "d.ks", tmp_path / "t.svm", code=1)
    assert "the source is LIBSVM text; the model was made with a table" in found.stderr


# --- what a new user meets ------------------------------------------------------------------------


def small(path, n=60):
    random = np.random.default_rng(0)
    X = random.normal(size=(n, 2))
    rows = [f"{a:.3f},{b:.3f},{'yes' if a * b > 0 else 'no'}\n" for a, b in X]
    path.write_text("a,b,label\n" + "".join(rows))
    return path


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--model", "missing/m.ks", "there is no folder"),
        ("--model", ".", "is a folder: give the name of a file"),
        ("--model", "t.csv", "is the table itself"),
        ("--metrics", "missing/m.jsonl", "there is no folder"),
        ("--metrics", "t.csv", "is the table itself"),
        ("--bad-rows", "missing/b.jsonl", "there is no folder"),
        ("--plot", "missing/p.png", "there is no folder"),
        ("--plot", "p.xyz", "such as .png, .svg or .pdf"),
        ("--plot", "p", "such as .png, .svg or .pdf"),
        ("--checkpoint", "t.csv", "is a file, not a folder"),
        ("--checkpoint", "t.csv/deep/down", "is a file, not a folder"),
    ],
)
def test_outputs_are_checked_before_learning(tmp_path, monkeypatch, option, value, message):
    path = small(tmp_path / "t.csv")
    content = path.read_bytes()
    monkeypatch.setattr(run_module, "_learn", lambda *arguments: pytest.fail("it learned"))
    result = call("run", path, "--target", "label", option, tmp_path / value, code=1)
    assert result.stderr.startswith(f"kernelstream: {option} {tmp_path}")
    assert message in result.stderr
    assert path.read_bytes() == content


def test_predictions_are_not_written_over_their_table(tmp_path, without_compiler):
    path = small(tmp_path / "t.csv")
    content = path.read_bytes()
    call("run", path, "--target", "label", "--model", tmp_path / "m.ks")
    found = call("predict", tmp_path / "m.ks", path, "--out", path, code=1)
    assert "is the table itself" in found.stderr
    assert path.read_bytes() == content
    missing = tmp_path / "missing" / "p.csv"
    assert "no folder" in call("predict", tmp_path / "m.ks", path, "--out", missing, code=1).stderr


def test_a_folder_of_checkpoints_is_as_good_as_its_newest(tmp_path, without_compiler):
    path, folder = small(tmp_path / "t.csv"), tmp_path / "folder"
    call(
        "run", path, "--target", "label", "--checkpoint", folder, "--checkpoint-rows", 20,
        "--block", 20, "--model", tmp_path / "m.ks",
    )  # fmt: skip
    described = call("info", folder).stdout
    assert "checkpoint at row  60" in described
    assert "KernelClassifier" in described
    same = call("predict", tmp_path / "m.ks", path).stdout
    assert call("predict", folder, path).stdout == same
    newest = max(folder.glob("*.ks"))
    newest.write_bytes(newest.read_bytes()[:100])
    assert "checkpoint at row  40" in call("info", folder).stdout
    assert "a folder without a checkpoint" in call("info", tmp_path, code=1).stderr
    assert "no such file" in call("info", tmp_path / "missing.ks", code=1).stderr


def test_a_lost_quote_is_reported_and_the_stream_goes_on(tmp_path, without_compiler):
    lines = small(tmp_path / "t.csv").read_text().splitlines()
    lines[30] = '0.5,"0.5,yes'
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    result = call("run", tmp_path / "t.csv", "--target", "label")
    assert "60 rows, 59 learned, 1 bad" in result.stdout
    assert "bad: line 31: it has a quote that is not closed" in result.stdout


def test_a_source_that_breaks_half_way(tmp_path, without_compiler):
    packed = gzip.compress(small(tmp_path / "t.csv", 3000).read_bytes(), compresslevel=0)
    (tmp_path / "t.csv.gz").write_bytes(packed[: len(packed) // 2])
    result = call(
        "run", tmp_path / "t.csv.gz", "--target", "label", "--block", 100,
        "--model", tmp_path / "m.ks", code=1,
    )  # fmt: skip
    n_seen = ks.load(tmp_path / "m.ks").n_seen_
    assert 1000 < n_seen < 1500
    assert f"{n_seen:,} learned, 0 bad" in result.stdout
    assert "cut short or damaged" in result.stderr
    assert f"Learning stopped at row {n_seen:,}." in result.stderr


def test_packed_text_on_standard_input(tmp_path, without_compiler):
    content = small(tmp_path / "t.csv").read_bytes()
    result = call("run", "-", "--target", "label", input=gzip.compress(content))
    assert "60 rows, 60 learned, 0 bad" in result.stdout
    assert "- is empty" in call("run", "-", "--target", "label", input=b"", code=1).stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,label\n", "no rows: there is nothing to learn"),
        ("label\nyes\nno\n", "no column besides the target"),
        ("a,label\n1,yes,3\n", "none of the first 1 records can be read; line 2: it has 3 fields"),
        ("a,label\n1,\n2,\n", "none of its 2 rows can be learned; line 2: it has no label"),
    ],
)
def test_tables_of_which_nothing_can_be_learned(tmp_path, content, message):
    (tmp_path / "t.csv").write_text(content)
    result = call("run", tmp_path / "t.csv", "--target", "label", code=1)
    assert message in result.stderr
    assert result.stdout == ""


def test_labels_that_are_no_labels(tmp_path, without_compiler):
    small(tmp_path / "t.csv")
    with (tmp_path / "t.csv").open("a") as file:
        file.write(f"1,1,{'x' * 200_000}\n")
    result = call("run", tmp_path / "t.csv", "--target", "label")
    assert "61 rows, 60 learned, 1 bad" in result.stdout
    assert "bad: line 62: its label has 200,000 characters, of 1,000 at most" in result.stdout
    np.savez(tmp_path / "t.npz", X=np.ones((4, 1)), y=[1.0, 0.0, np.nan, 1.0])
    result = call("run", tmp_path / "t.npz", "--target", "y", "--no-scale")
    assert "bad: row 2: it has no label" in result.stdout
    (tmp_path / "t.csv").write_text("a,label\n" + "1,yes\n2,yes\n" * 5)
    result = call("run", tmp_path / "t.csv", "--target", "label")
    assert "all labels are the same" in result.stdout


def test_ctrl_c_while_the_source_is_waited_for_keeps_what_was_learned(
    tmp_path, monkeypatch, without_compiler
):
    path, real = small(tmp_path / "t.csv"), run_module.open_source

    def idle(*arguments):
        yield next(real(*arguments))
        signal.raise_signal(signal.SIGINT)
        pytest.fail("it went on waiting")

    monkeypatch.setattr(run_module, "open_source", idle)
    before = signal.getsignal(signal.SIGINT)
    result = call(
        "run", path, "--target", "label", "--block", 20, "--model", tmp_path / "m.ks", code=130
    )
    assert "20 rows, 20 learned" in result.stdout
    assert "stopped" in result.stderr
    assert ks.load(tmp_path / "m.ks").n_seen_ == 20
    assert signal.getsignal(signal.SIGINT) is before


def test_compiling_is_shown_and_left_out_of_the_rows_per_second(monkeypatch):
    options = run_options.Options("t.csv", "label", "classify")
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=True, width=200)
    logger = logging.getLogger("kernelstream.compile")
    with run_report.Display(options, console) as display:
        logger.warning("compiles [this], about %s seconds", 15)
        assert display.status.status == r"compiles \[this], about 15 seconds"
        assert not logger.propagate  # the line shows it, and nothing else
    assert logger.propagate
    assert display not in logger.handlers
    clock, compiling = [100.0], [7.0]
    monkeypatch.setattr(run_pace.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(run_pace, "seconds_compiling", lambda: compiling[0])
    pace = run_pace.Pace(resumed=500)
    clock[0] += 50  # rows that were learned before are read
    pace.begin()
    clock[0], compiling[0] = clock[0] + 30, compiling[0] + 20
    assert (pace.seconds, pace.compiling, pace.rate(1500)) == (30, 20, 100)


def test_the_first_block_says_that_it_may_compile(tmp_path, monkeypatch, without_compiler):
    said = []
    monkeypatch.setattr(run_report.Display, "say", lambda self, text: said.append(text))
    call("run", small(tmp_path / "t.csv"), "--target", "label", "--block", 20)
    assert "compiling" in said[0]
    assert [text.split(" rows")[0] for text in said[1:]] == ["20", "40", "60"]

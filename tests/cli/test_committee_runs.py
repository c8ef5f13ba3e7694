"""`kernelstream run` as a new user meets it: the committee, baselines, dates, gaps, ARFF."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import kernelstream as ks
from kernelstream import losses
from kernelstream.cli import arguments
from kernelstream.cli.app import app
from kernelstream.cli.baselines import Baselines
from kernelstream.tables import SourceError, TableEncoder, open_source

N = 80
RANDOM = np.random.default_rng(0)
FRAME = pd.DataFrame({
    "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(N) * 7, unit="h"),
    "a": RANDOM.normal(loc=100, scale=20, size=N),
    "city": RANDOM.choice(["x", "y", "z"], N),
})  # fmt: skip
FRAME["label"] = np.where(FRAME["a"] > 100, "yes", "no")


def call(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def path(tmp_path):
    frame = FRAME.copy()
    frame.loc[5:9, "a"] = np.nan
    frame.loc[70:, "city"] = "new"
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


@pytest.mark.usefixtures("without_compiler")
def test_a_series_that_changes_slowly(tmp_path):
    """The user is told that the last value is better, and how to make use of it."""
    walk = np.cumsum(RANDOM.normal(size=150))
    pd.DataFrame({"x": RANDOM.normal(size=150), "y": walk}).to_csv(tmp_path / "w.csv", index=False)
    given = "run", tmp_path / "w.csv", "--target", "y", "--task", "regress", "--budget", 16
    assert "add --prompt-targets" in call(*given).stdout
    again = call(*given, "--prompt-targets", "--model", tmp_path / "m.ks").stdout
    assert "add --prompt-targets" not in again
    model = ks.load(tmp_path / "m.ks")
    assert model.weights_["last"] > 0.5
    assert model.budget == 16
    for wrong in (["--algorithm", "svmd"], ["--key", "x"], ["--task", "novelty"]):
        assert "leave it out" in call(*given, "--prompt-targets", *wrong, code=1).stderr


@pytest.mark.usefixtures("without_compiler")
def test_the_committee_is_what_learns(path, tmp_path):
    result = call(
        "run", path, "--target", "label", "--block", 40, "--model", tmp_path / "m.ks",
        "--plot", tmp_path / "p.png", "--metrics", tmp_path / "m.jsonl",
        "--checkpoint", tmp_path / "folder",
    )  # fmt: skip
    assert "80 rows, 80 learned, 0 bad" in result.stdout
    assert "to compare: the most frequent label so far" in result.stdout
    assert "weights: " in result.stdout
    assert "columns by kind; date: when; category: city; all others are numbers" in result.stdout
    assert "no feature of its own" not in result.stdout
    assert (tmp_path / "p.png").read_bytes()[:4] == b"\x89PNG"
    model = ks.load(tmp_path / "m.ks")
    assert type(model).__name__ == "AutoClassifier"
    assert model.n_features_in_ == 3
    # a date, a number, and four cities and one feature for others
    assert model.machine_.n_features == 7 + 1 + 5
    lines = call("predict", tmp_path / "m.ks", path, "--proba").stdout.splitlines()
    names = sorted(model.classes_.tolist())
    assert lines[0] == "row,prediction,score," + ",".join(f"p({name})" for name in names)
    said = [line.split(",") for line in lines[1:]]
    assert len(said) == N
    for line in said:
        chances = np.array(line[3:], dtype=float)
        assert chances.sum() == pytest.approx(1.0)
        assert names[chances.argmax()] == line[1]
    assert "AutoClassifier" in call("info", tmp_path / "folder").stdout
    wrong = call("run", path, "--target", "label", "--gamma", 1.0, code=1)
    assert "--gamma is for a single algorithm" in wrong.stderr


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("has_target", [True, False])
def test_columns_are_found_by_their_names(path, tmp_path, form, has_target):
    call("run", path, "--target", "label", "--algorithm", "svmd", "--model", tmp_path / "m.ks")
    frame = pd.read_csv(path)
    frame = frame[frame.columns[::-1]].drop(columns=[] if has_target else "label")
    other = tmp_path / f"other.{form}"
    frame.to_csv(other, index=False) if form == "csv" else frame.to_parquet(other)
    expected = call("predict", tmp_path / "m.ks", path).stdout
    assert call("predict", tmp_path / "m.ks", other).stdout == expected
    frame.drop(columns="city").to_csv(tmp_path / "less.csv", index=False)
    result = call("predict", tmp_path / "m.ks", tmp_path / "less.csv", code=1)
    assert "the model was made with when, a, city" in result.stderr


@pytest.mark.usefixtures("without_compiler")
def test_numbers_with_deviations(path, tmp_path):
    call("run", path, "--target", "a", "--task", "regress", "--model", tmp_path / "m.ks")
    lines = call("predict", tmp_path / "m.ks", path, "--std").stdout.splitlines()
    assert lines[0] == "row,prediction,score,std"
    assert all(0.0 < float(line.split(",")[3]) < 100.0 for line in lines[1:])


def test_novelty_without_anything_to_tune(path, tmp_path):
    result = call("run", path, "--task", "novelty", "--nu", 0.1, "--model", tmp_path / "m.ks")
    assert "threshold" in result.stdout
    assert ks.load(tmp_path / "m.ks").nu == 0.1
    assert "threshold" in call("info", tmp_path / "m.ks").stdout
    assert "has no classes" in call("predict", tmp_path / "m.ks", path, "--proba", code=1).stderr
    assert "predicts none" in call("predict", tmp_path / "m.ks", path, "--std", code=1).stderr


def test_baselines_are_what_they_say():
    y = RANDOM.choice(["p", "q", "r"], 50, p=[0.5, 0.3, 0.2])
    found = Baselines()
    for start in range(0, 50, 7):
        found.look(y[start : start + 7], are_labels=True)
        found = Baselines(**json.loads(json.dumps(found.__dict__)))
    constant = [max(dict.fromkeys(y[:i]), key=list(y[:i]).count) for i in range(1, 50)]
    wrong = 1 + sum(a != b for a, b in zip(constant, y[1:], strict=True))
    assert found.means() == pytest.approx((wrong / 50, (1 + (y[1:] != y[:-1]).sum()) / 50))
    numbers = RANDOM.normal(size=50)
    found = Baselines()
    found.look(numbers, are_labels=False)
    means = np.array([0.0, *(numbers[:i].mean() for i in range(1, 50))])
    assert found.means() == pytest.approx(
        (((numbers - means) ** 2).mean(), ((numbers - [0.0, *numbers[:-1]]) ** 2).mean())
    )


def test_what_the_encoder_makes_of_columns(path):
    block = next(open_source(str(path), "label", 40))
    encoder = TableEncoder.from_block(block, skips_missing=False)
    assert [c.kind for c in encoder.columns.columns] == ["date", "number", "category"]
    X, problems = encoder.encode(block)
    assert not problems
    assert np.isnan(X[5:10, 7]).all()
    np.testing.assert_allclose(X[:5, 7], FRAME["a"][:5])
    again = TableEncoder.from_json(json.loads(json.dumps(encoder.to_json())))
    np.testing.assert_array_equal(again.encode(block)[0], X)
    block.rows[3][0], block.rows[4][1], block.rows[6][2] = "soon", "few", "elsewhere"
    X, problems = encoder.encode(block)
    remedy = "leave this row out, or learn the column as categories (docs/tables.md)"
    assert problems == {
        3: f"when is 'soon', which is not a date: {remedy}",
        4: f"a is 'few', which is not a number: {remedy}",
    }
    assert X[6, -1] == 1.0
    assert encoder.unlisted_ == {"city": 1}
    strict = TableEncoder.from_block(block)
    assert strict.encode(block)[1][5].startswith("a is missing")
    many = next(open_source(str(path), "label", 80))
    for i, row in enumerate(many.rows):
        row[2] = f"city {i}"
    assert TableEncoder.from_block(many).columns.columns[2].width == 16
    assert TableEncoder.from_block(block, hashed=True).columns.columns[2].width == 32
    block.columns = ["x"]
    with pytest.raises(SourceError, match="the model was made with when, a, city"):
        encoder.encode(block)


ARFF = """% a comment
@relation weather
@attribute 'my age' numeric
@ATTRIBUTE city {x, 'y y', z}
@attribute class {yes, no}

@data
1.5,x,yes
?,'y y',no
% another comment
2, z, yes
{0 3, 2 no}
3,'it\\'s',no
"""


def test_arff(tmp_path):
    (tmp_path / "t.arff").write_text(ARFF)
    block = next(open_source(str(tmp_path / "t.arff"), "class", 10))
    assert block.columns == ["my age", "city"]
    assert block.rows == [["1.5", "x"], ["?", "y y"], ["2", "z"], ["", ""], ["3", "it's"]]
    assert block.target == ["yes", "no", "yes", "", "no"]
    assert block.places[2] == "line 11"
    assert "LIBSVM" in block.broken[3]
    X, problems = TableEncoder.from_block(block, skips_missing=False).encode(block)
    assert list(problems) == [3]
    assert np.isnan(X[1, 0])
    for text, problem in (("1,2\n", "no @data"), ("@attribute x\n@data\n", "has no type")):
        (tmp_path / "t.arff").write_text(text)
        with pytest.raises(SourceError, match=problem):
            next(open_source(str(tmp_path / "t.arff"), None, 10))


def test_help_lists_presets_and_losses():
    assert arguments.PRESETS.split(", ") == ks.presets.names()
    by_task = [
        ", ".join(losses.names(task)) for task in ("classification", "regression", "novelty")
    ]
    assert "; ".join(by_task) == arguments.LOSSES
    shown = " ".join(call("run", "--help").stdout.split())
    assert "averaged-perceptron" in shown
    assert "epsilon_insensitive" in shown

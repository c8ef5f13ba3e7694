"""`kernelstream run --key`: a model for every value of a column."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import kernelstream as ks
from kernelstream.cli.app import app


@pytest.fixture(autouse=True)
def _without(without_compiler):
    """Nothing is compiled."""


def call(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def frame():
    random = np.random.default_rng(0)
    found = pd.DataFrame({
        "a": random.normal(size=300), "sensor": random.choice(["north", "south", "west"], 300),
        "b": random.normal(size=300),
    })  # fmt: skip
    found["y"] = np.where(found["sensor"] == "north", found["a"], -found["a"])
    found["label"] = np.where(found["y"] > 0, "up", "down")
    return found


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_model_for_every_sensor(tmp_path, frame, form):
    path, model = tmp_path / f"table.{form}", tmp_path / "fleet.ks"
    data = frame.drop(columns="label")
    data.to_csv(path, index=False) if form == "csv" else data.to_parquet(path)
    result = call(
        "run", path, "--target", "y", "--task", "regress", "--key", "sensor", "--budget", "20",
        "--model", model, "--block", "70",
    )  # fmt: skip
    assert "models: 3, one for every sensor" in result.output
    assert "300 learned, 0 bad" in result.output
    fleet = ks.load(model)
    assert sorted(fleet) == ["north", "south", "west"]
    assert fleet.model("north").n_seen_ == (frame["sensor"] == "north").sum()
    assert fleet.n_features == 2
    said = call("info", model).output
    for part in ("KeyedFleet, a model for every key", "3 (", "rows learned", "300", "target y"):
        assert part in said
    # rows of keys that have a model, with the target or without it
    expected = fleet.predict(frame["sensor"].tolist(), frame[["a", "b"]].to_numpy())
    frame[["a", "sensor", "b"]].to_csv(tmp_path / "new.csv", index=False)
    for source in (path, tmp_path / "new.csv"):
        call("predict", model, source, "--out", tmp_path / "said.csv")
        found = pd.read_csv(tmp_path / "said.csv")
        np.testing.assert_allclose(found["prediction"], expected, rtol=1e-12)
        assert found["score"].equals(found["prediction"])
    (tmp_path / "odd.csv").write_text("a,sensor,b\n1,north,2\n1,east,2\n1,,2\n1,west,x\n")
    result = call("predict", model, tmp_path / "odd.csv")
    assert "line 3: its key 'east' is unknown" in result.output
    assert "line 4: its key is null" in result.output
    assert "4 rows, 3 bad" in result.output
    assert "for a single model" in call("predict", model, path, "--std", code=1).output
    assert "for classifiers" in call("predict", model, path, "--proba", code=1).output


def test_bad_keys_and_labels_are_counted_and_a_run_resumes(tmp_path, frame):
    frame.loc[7, "sensor"] = None
    frame.loc[200, "label"] = "sideways"
    frame.drop(columns="y").to_csv(tmp_path / "table.csv", index=False)
    options = ["--target", "label", "--key", "sensor", "--budget", "20", "--block", "50",
               "--checkpoint", tmp_path / "kept", "--checkpoint-rows", "50"]  # fmt: skip
    first = call("run", tmp_path / "table.csv", *options)
    assert "298 learned, 2 bad" in first.output
    assert "null" in first.output
    assert "'sideways' is unknown" in first.output
    fleet, position = ks.Checkpointer(tmp_path / "kept").resume()
    assert (position, len(fleet), fleet.n_rows_) == (300, 3, 298)
    again = call("run", tmp_path / "table.csv", *options)
    assert "models: 3" in again.output
    call("run", tmp_path / "table.csv", *options[:3], "other", *options[4:], code=1)


def test_models_that_are_estimators_and_alarms(tmp_path, frame):
    data = frame[:60].drop(columns="label")
    data.to_csv(tmp_path / "table.csv", index=False)
    for options, learned in (
        (["--target", "y", "--task", "regress", "--algorithm", "sog-svr"], "mean squared error"),
        (["--task", "novelty", "--algorithm", "silk"], "alarms"),
    ):
        result = call(
            "run", tmp_path / "table.csv", *options, "--key", "sensor", "--budget", "10"
        )  # fmt: skip
        assert "models: 3" in result.output
        assert learned in result.output


def test_errors_name_the_remedy(tmp_path, frame):
    frame.to_csv(tmp_path / "table.csv", index=False)
    result = call("run", tmp_path / "table.csv", "--target", "y", "--key", "place", code=1)
    assert "no column 'place'" in result.output


def test_missing_numbers_are_filled_in_as_without_keys(tmp_path, frame):
    frame.loc[::4, "b"] = None
    frame.drop(columns="label").to_csv(tmp_path / "table.csv", index=False)
    options = ["--target", "y", "--task", "regress", "--key", "sensor", "--budget", "20"]
    for missing, bad in ((None, 0), ("mean", 0), ("indicator", 0), ("skip", 75)):
        more = [] if missing is None else ["--missing", missing]
        model = tmp_path / f"{missing}.ks"
        result = call("run", tmp_path / "table.csv", *options, *more, "--model", model)
        assert f"{300 - bad} learned, {bad} bad" in result.output
        said = call("predict", model, tmp_path / "table.csv", "--out", tmp_path / "said.csv")
        assert f"300 rows, {bad} bad" in said.output
        assert pd.read_csv(tmp_path / "said.csv")["prediction"].isna().sum() == bad


def test_probabilities_of_every_class(tmp_path, frame):
    frame.drop(columns="y").to_csv(tmp_path / "table.csv", index=False)
    options = ["--target", "label", "--key", "sensor", "--budget", "20"]
    model = tmp_path / "fleet.ks"
    call("run", tmp_path / "table.csv", *options, "--model", model)
    call("predict", model, tmp_path / "table.csv", "--proba", "--out", tmp_path / "said.csv")
    found = pd.read_csv(tmp_path / "said.csv")
    np.testing.assert_allclose(found["p(down)"] + found["p(up)"], 1.0)
    named = np.where(found["p(up)"] > 0.5, "up", "down")
    assert (named == found["prediction"]).all()
    call("run", tmp_path / "table.csv", *options, "--loss", "hinge", "--model", model)
    said = call("predict", model, tmp_path / "table.csv", "--proba", code=1)
    assert "loss='log_loss'" in said.output

import json

import numpy as np
import pytest
from scipy.stats import rankdata
from typer.testing import CliRunner

from kernelstream.cli.app import app
from kernelstream_lab.benchmark import CONTESTANTS, STREAMS, Stream, passes, report, run
from kernelstream_lab.benchmark.run import Result


def call(*arguments):
    return CliRunner().invoke(app, ["benchmark", *map(str, arguments)])


class Diary:
    """A learner of River's kind that writes down what it is asked."""

    def __init__(self):
        self.lines = []

    def predict_one(self, x):
        self.lines.append(("predict", x[0]))

    def learn_one(self, x, y):
        self.lines.append(("learn", x[0], y))


def test_labels_arrive_in_bunches():
    X, y = np.arange(5.0)[:, None], np.arange(5)
    model = Diary()
    said, _ = passes.by_river(model, "classify", X, y, wait=3)
    assert model.lines == [
        ("predict", 0), ("predict", 1), ("predict", 2),
        ("learn", 0, 0), ("learn", 1, 1), ("learn", 2, 2),
        ("predict", 3), ("predict", 4), ("learn", 3, 3), ("learn", 4, 4),
    ]  # fmt: skip
    assert (said == passes.UNKNOWN).all()


@pytest.mark.parametrize("wait", [1, 3])
def test_baselines_know_the_labels_that_have_arrived(wait):
    y = np.random.default_rng(0).integers(3, size=20)
    X = np.zeros((20, 1))
    found = {
        kind: passes.by_baseline(kind, "classify", X, y, wait)[0]
        for kind in ("majority", "mean", "last")
    }
    for row in range(20):
        known = y[: row // wait * wait]
        if not len(known):
            assert all(said[row] == passes.UNKNOWN for said in found.values())
            continue
        assert np.isclose(found["mean"][row], known.mean())
        assert found["last"][row] == known[-1]
        counts = np.bincount(known)
        assert counts[int(found["majority"][row])] == counts.max()


def test_z_scores_use_earlier_rows_only():
    random = np.random.default_rng(0)
    X = np.concatenate([random.normal([1e6, 0], size=(50, 2)), np.full((50, 1), 0.1)], axis=1)
    said, _ = passes.by_baseline("z-score", "novelty", X, np.zeros(50), 1)
    for t in (2, 10, 49):
        z = (X[t, :2] - X[:t, :2].mean(axis=0)) / X[:t, :2].std(axis=0)
        assert np.isclose(said[t], np.linalg.norm(z), rtol=1e-6)  # the constant counts for nothing


def test_scikit_learn_is_told_nothing_of_the_rows_it_predicts():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(300, 3)), random.integers(2, size=300)
    changed = y.copy()
    changed[250:] = 1 - changed[250:]
    for name in ("SGD", "Nystroem + SGD"):
        contestant = CONTESTANTS["classify"][name]
        one, other = (
            contestant.follow(contestant.make(2), "classify", X, labels, 1)[0]
            for labels in (y, changed)
        )
        assert (one[:260] == other[:260]).all()
        assert (one[260:] != other[260:]).any()


def test_errors():
    y = np.array([0, 1, 1, 0])
    stream = Stream("x", "classify", "choosing", None, 4, "", wait=2)
    assert run._error(stream, np.array([1, 0, 1, 1]), y) == 0.5  # the first two do not count
    stream = Stream("x", "novelty", "choosing", None, 4, "")
    assert run._error(stream, np.array([0.1, 0.9, 0.5, 0.3]), y) == 0.0
    assert run._error(stream, np.array([0.1, np.nan, 0.5, 0.3]), y) == 1.0
    stream = Stream("x", "regress", "choosing", None, 4, "")
    target = np.array([1.0, 3.0, 2.0, 5.0])
    mean = np.array([-1, 1.0, 2.0, 2.0])  # of the earlier ones
    assert np.isclose(run._error(stream, mean, target), 1.0)
    half = target + (mean - target) / 2
    assert np.isclose(run._error(stream, half, target), 0.5)
    assert run._error(stream, np.array([0, 1e9, 0, 0]), target) == 10.0


def result(contestant, stream, error, n_rows=1600):
    return Result(stream, contestant, "classify", "1", f"0, {n_rows}", error, error, 10.0)


def test_means_and_ranks():
    table = {"pa": [0.3, 0.1], "rls": [0.2, 0.1], "SGD": [0.1, 0.4], "majority class": [0.5, 0.5]}
    streams = ["digits-counting", "bananas"]  # one of each half
    found = [
        result(name, stream, error)
        for name, errors in table.items()
        for stream, error in zip(streams, errors, strict=True)
    ]
    lines = report.summary([*found, result("ARF", "bananas", 0.0)], "classify")
    assert [line.name for line in lines] == ["rls", "pa", "SGD", "majority class", report.BEST_PEER]
    ranks = rankdata(np.array(list(table.values())), axis=0).mean(axis=1)
    for line in lines[:-1]:
        assert [line.start.choosing, line.start.reporting] == table[line.name]
        assert line.start.rank == ranks[list(table).index(line.name)]
        assert line.whole == line.start
    assert lines[-1].start.choosing == 0.1  # ARF is left out: it has not run on all streams


def test_slow_learners_have_no_error_on_all_rows():
    found = [result("ARF", "bananas", 0.2, 2000), result("pa", "bananas", 0.3, 5300)]
    arf, pa, _ = report.summary(found, "classify")
    assert (arf.name, arf.start.reporting, arf.start.rank) == ("ARF", 0.2, 1.0)
    assert np.isnan(arf.whole.reporting)
    assert np.isnan(arf.whole.rank)
    assert (pa.name, pa.whole.reporting, pa.whole.rank) == ("pa", 0.3, 1.0)


def test_names_in_the_picture_do_not_overlap():
    moved = report._apart([0.1, 0.1, 0.11, 0.5, 0.99, 1.0], gap=0.05)
    assert (np.diff(moved) > 0.05 - 1e-12).all()
    assert moved[-1] <= 1.0
    assert moved[3] == 0.5


def test_tables_and_picture_and_a_rerun_that_measures_nothing(tmp_path, monkeypatch):
    arguments = [
        "--quick", "--out", tmp_path, "--streams", "bananas, water-flow, shuttle", "--contestants",
        "KernelClassifier, KernelRegressor, NoveltyDetector, logistic regression, "
        "linear regression, majority class, running mean, z-score",
    ]  # fmt: skip
    first = call(*arguments)
    assert first.exit_code == 0, first.output
    tables = (tmp_path / "benchmark.md").read_text()
    for name in ("KernelRegressor", "logistic regression", "z-score", "shuttle"):
        assert name in tables
    assert "failed" not in tables
    assert (tmp_path / "benchmark.png").read_bytes()[1:4] == b"PNG"
    kept = json.loads((tmp_path / "quick/regress/water-flow/running-mean.json").read_text())
    assert np.isclose(kept["error"], 1.0)
    ours = json.loads((tmp_path / "quick/classify/bananas/KernelClassifier.json").read_text())
    assert ours["error"] < 0.25
    assert ours["microseconds"] > 0

    def never(*_):
        raise AssertionError("measured again")

    monkeypatch.setattr(run, "measure", never)
    again = call(*arguments)
    assert again.exit_code == 0, again.output
    assert (tmp_path / "benchmark.md").read_text() == tables
    monkeypatch.setattr(run, "_version", lambda library: "another")
    assert isinstance(call(*arguments).exception, AssertionError)


def test_a_contestant_that_fails_has_the_worst_error_and_says_why(monkeypatch):
    def fails(*_):
        raise OverflowError("too large")

    broken = CONTESTANTS["classify"]["SGD"]._replace(follow=fails)
    monkeypatch.setitem(CONTESTANTS["classify"], "SGD", broken)
    found = run.measure(STREAMS["bananas"], "SGD", most_rows=100)
    assert found.error == 1.0
    assert "SGD failed on bananas: OverflowError: too large" in report.as_markdown([found])


def test_what_is_not_there_is_said(tmp_path):
    for arguments, message in [
        (["--task", "cluster"], "--task"),
        (["--streams", "banana"], "--streams"),
        (["--contestants", "xgboost"], "--contestants"),
        (["--streams", "bananas", "--task", "regress"], "no stream"),
    ]:
        found = call(*arguments, "--out", tmp_path / "none")
        assert found.exit_code == 1
        assert message in found.output
        assert not (tmp_path / "none").exists()
    listed = call("--list")
    assert listed.exit_code == 0
    assert "rbf-drift" in listed.output

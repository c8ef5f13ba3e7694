"""A model is saved and loaded after every block, and then learns on as if it never had been.

The default run interprets the code and takes few combinations; the nightly run takes all presets,
tasks, budgets and streams, and compiles some of them.
"""

import contextlib
import json
import shutil
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from typer.testing import CliRunner

import kernelstream as ks
from kernelstream import budgets
from kernelstream.cli.app import app
from kernelstream.estimators.files import from_bytes
from kernelstream.serve.service import Service

BUDGETS = {
    "own": None,
    "oldest": budgets.OldestOut(6),
    "oldest-exact": budgets.OldestOut(6, exact=True),
    "oldest-by-age": budgets.OldestOut(6, exact=True, max_age=9),
    "oldest-by-error": budgets.OldestOut(6, exact=False, max_error=0.3),
    "smallest": budgets.SmallestOut(6),
    "smallest-fading": budgets.SmallestOut(6, half_life=5),
    "least-loss": budgets.LeastLoss(6),
    "merge": budgets.Merge(6),
    "merge-growing": budgets.Merge(4, most=8),
    "independent": budgets.Independent(0.05),
    "independent-6": budgets.Independent(0.05, size=6),
    "unbounded": budgets.Unbounded(),
}
STREAMS = ("smooth", "gaussian", "constant")
PAIRS = [(name, task) for name in ks.presets.names() for task in ks.presets.tasks(name)]
COMMITTEES = {
    "classifier": lambda: ks.AutoClassifier(budget=32),
    "regressor": lambda: ks.AutoRegressor(budget=32),
    "novelty": lambda: ks.AutoDetector(budget=32),
}


def stream(kind, task, n):
    """Rows and targets: of a smooth curve, Gaussian, or all the same for a while."""
    random = np.random.default_rng(5)
    if kind == "smooth":
        X = np.column_stack([np.sin(np.arange(n) / 9.0), np.cos(np.arange(n) / 5.0)])
    else:
        X = random.normal(size=(n, 2))
        if kind == "constant":
            X[n // 4 : 3 * n // 4] = 0.5
    signal = np.sin(3 * X[:, 0]) + 0.5 * X[:, 1]
    y = {"classifier": signal > 0, "regressor": signal, "novelty": None}[task]
    return X, None if y is None else y.astype(int) if task == "classifier" else y


def new_model(name, task, budget):
    chosen = {} if BUDGETS[budget] is None else {"budget": BUDGETS[budget]}
    return ks.make(name, task, **chosen)


def learn(model, X, y, rows):
    """Learn some rows; a detector has no targets."""
    model.partial_fit(X[rows], *([] if y is None else [y[rows]]))


def check(model, X, y, block):
    """Save and load after every block, and go on with what was loaded."""
    twin = None
    for start in range(0, len(X), block):
        rows = slice(start, start + block)
        learn(model, X, y, rows)
        if twin is not None:
            learn(twin, X, y, rows)
        content = model.to_bytes()
        assert twin is None or twin.to_bytes() == content
        twin = from_bytes(content)
        assert twin.to_bytes() == content
    assert_array_equal(twin.predict(X), model.predict(X))


def is_allowed(model, X, y):
    """Whether the parts go together: an error says so before the first row is learned."""
    try:
        learn(model, X, y, slice(1))
    except ValueError:
        return False
    return True


def checked(pairs, chosen, n_rows, block):
    """Check the combinations that are allowed; how many there were."""
    n_checked = 0
    for name, task in pairs:
        for budget in chosen:
            for kind in STREAMS:
                X, y = stream(kind, task, n_rows)
                if not is_allowed(_or_none(name, task, budget), X, y):
                    continue
                try:
                    check(new_model(name, task, budget), X, y, block)
                except Exception as error:
                    raise AssertionError(f"{name}, {task}, {budget}, {kind}") from error
                n_checked += 1
    return n_checked


def _or_none(name, task, budget):
    with contextlib.suppress(ValueError, TypeError):
        return new_model(name, task, budget)
    return _Refused()


class _Refused:
    def partial_fit(self, *_):
        raise ValueError("the preset does not take this budget")


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.usefixtures("without_compiler")
def test_every_preset_with_its_own_budget():
    assert checked(PAIRS, ["own"], 30, 6) > 100


@pytest.mark.usefixtures("without_compiler")
def test_every_budget():
    pairs = [("pa", "regressor"), ("svmd", "classifier"), ("silk", "novelty")]
    assert checked(pairs, BUDGETS, 24, 6) > 90


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("task", COMMITTEES)
@pytest.mark.parametrize("kind", STREAMS)
def test_the_committees(task, kind):
    X, y = stream(kind, task, 24)
    check(COMMITTEES[task](), X, y, 8)


@pytest.mark.usefixtures("without_compiler")
def test_the_case_that_was_found():
    """LeastLoss left an infinity in its scratch memory, which was saved and then refused."""
    X = np.random.default_rng(0).normal(size=(160, 1))
    check(ks.make("pa", "regressor"), X, np.sin(3 * X[:, 0]), 16)


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("budget", [name for name, budget in BUDGETS.items() if budget])
def test_keyed_fleets(budget, tmp_path):
    X, y = stream("smooth", "regressor", 40)
    keys = [f"key {i % 4}" for i in range(40)]
    chosen = BUDGETS[budget]
    if chosen.limit() is None:
        chosen = 6
    store = ks.ModelStore(tmp_path / "models.db")
    fleet = ks.KeyedFleet("pa", "regressor", budget=chosen, max_models=2, store=store)
    plain = ks.KeyedFleet("pa", "regressor", budget=chosen)
    for start in range(0, 40, 5):
        rows = slice(start, start + 5)
        fleet.learn(keys[rows], X[rows], y[rows])
        plain.learn(keys[rows], X[rows], y[rows])
        again = ks.KeyedFleet.from_bytes(plain.to_bytes())
        assert again.to_bytes() == plain.to_bytes()
        known = sorted(set(keys[: start + 5]))
        rows = X[: len(known)]
        assert_array_equal(fleet.predict(known, rows), again.predict(known, rows))
    store.close()


# --- all of it -----------------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_every_preset_task_budget_and_stream(pair):
    checked([pair], BUDGETS, 60, 5)


@pytest.mark.nightly
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_compiled(pair):
    assert checked([pair], ["own"], 300, 25)


@pytest.mark.nightly
@pytest.mark.parametrize("budget", BUDGETS)
def test_compiled_budgets(budget):
    checked([("pa", "regressor"), ("svmd", "classifier")], [budget], 300, 25)


@pytest.mark.nightly
@pytest.mark.parametrize("task", COMMITTEES)
@pytest.mark.parametrize("kind", STREAMS)
def test_compiled_committees(task, kind):
    X, y = stream(kind, task, 400)
    check(COMMITTEES[task](), X, y, 16)


# --- through run, predict, serve and resume -------------------------------------------------------


def run_to_the_end(table, folder, task, algorithm):
    """``kernelstream run`` with a checkpoint after every block; the bytes that it saves."""
    how = ["--target", "y", "--task", task, "--algorithm", algorithm, "--block", "10"]
    where = ["--checkpoint", folder / "checkpoints", "--checkpoint-rows", "10"]
    arguments = ["run", table, *how, *where, "--model", folder / "m.ks"]
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == 0, done.output
    return ks.load(folder / "m.ks").to_bytes()


def check_commands(algorithm, task, tmp_path):
    """Every checkpoint of a run can be predicted from, served and resumed."""
    X, y = stream("smooth", {"classify": "classifier", "regress": "regressor"}[task], 60)
    table, folder, copies = tmp_path / "t.csv", tmp_path / "run", []
    lines = [f"{a},{b},{c}" for (a, b), c in zip(X, y, strict=True)]
    table.write_text("\n".join(["a,b,y", *lines]) + "\n")
    folder.mkdir()
    save = ks.Checkpointer.save

    def save_and_copy(self, *arguments):
        path = save(self, *arguments)
        copies.append(tmp_path / f"copy {len(copies)}")
        shutil.copytree(folder, copies[-1], ignore=shutil.ignore_patterns("*.lock"))
        return path

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ks.Checkpointer, "save", save_and_copy)
        expected = run_to_the_end(table, folder, task, algorithm)
    assert len(copies) == 7  # six blocks, and the end
    for copy in copies:
        newest = max((copy / "checkpoints").glob("*.ks"))
        out = copy / "out.csv"
        asked = ["predict", copy / "checkpoints", table, "--out", out]
        assert CliRunner().invoke(app, list(map(str, asked))).exit_code == 0
        predicted = [line.split(",")[1] for line in out.read_text().splitlines()[1:]]
        service = Service.from_files(newest, copy / "served")
        with contextlib.closing(service):
            (name,) = service.models
            rows = json.dumps({"rows": X.tolist()}).encode()
            answer = service.predict(name, rows, "application/json")
        assert list(map(str, answer["predictions"])) == predicted
        assert run_to_the_end(table, copy, task, algorithm) == expected


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize(("algorithm", "task"), [("pa", "regress"), ("svmd", "classify")])
def test_every_checkpoint_of_a_run(algorithm, task, tmp_path):
    check_commands(algorithm, task, tmp_path)


@pytest.mark.nightly
@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize(
    ("algorithm", "task"),
    [("auto", "classify"), ("auto", "regress")]
    + [(name, {"classifier": "classify", "regressor": "regress"}[task]) for name, task in PAIRS
       if task != "novelty" and name not in ("svrseq", "adatron")],
)  # fmt: skip
def test_every_checkpoint_of_every_algorithm(algorithm, task, tmp_path):
    check_commands(algorithm, task, tmp_path)

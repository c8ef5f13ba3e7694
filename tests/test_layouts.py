"""Arrays of every layout, dtype and origin give the numbers of a plain copy, in compiled code."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import kernelstream as ks
from kernelstream.compile import as_argument, compiled, entry_point

random = np.random.default_rng(0)
X = random.normal(size=(60, 4))
TARGETS = {
    "classifier": (X[:, 0] * X[:, 1] > 0).astype(np.int64),
    "regressor": np.sin(X[:, 0]),
    "novelty": None,
}
TASKS = list(TARGETS)


def read_only(values):
    values = values.copy()
    values.flags.writeable = False
    return values


def memory_map(values, folder):
    path = folder / f"values{values.ndim}.npy"
    np.save(path, values)
    return np.load(path, mmap_mode="r")


def strided(values):
    """Every second entry of something longer, along every axis."""
    longer = np.full(tuple(2 * n for n in values.shape), 7, values.dtype)
    place = tuple(slice(None, None, 2) for _ in values.shape)
    longer[place] = values
    return longer[place]


LAYOUTS = {
    "Fortran order": np.asfortranarray,
    "negative strides": lambda values: values[::-1].copy()[::-1],
    "every second entry": strided,
    "read only": read_only,
    "broadcast": lambda values: np.broadcast_to(values, values.shape),
    "big endian": lambda values: values.astype(values.dtype.newbyteorder(">")),
    "a subclass": lambda values: np.ma.masked_array(values),
    "unaligned": lambda values: np.frombuffer(
        b"\0" + values.tobytes(), values.dtype, values.size, offset=1
    ).reshape(values.shape),
}


def learned(task, X, y, weight=None):
    """A model that has learned in every way that there is."""
    model = ks.make("svmd", task, gamma=0.5, budget=16)
    model.partial_fit(X[:30], None if y is None else y[:30], sample_weight=weight)
    model.partial_fit(X[30:50], None if y is None else y[30:50])
    for i in range(50, len(X)):
        model.learn_one(X[i], None if y is None else y[i])
    return model


def answers(model, X):
    """What a model says of rows, by every method it has."""
    found = [model.predict(X), np.array([model.predict_one(X[i]) for i in range(len(X))])]
    for name in ("decision_function", "score_samples"):
        if hasattr(model, name):
            found.append(getattr(model, name)(X))
    return found


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("task", TASKS)
def test_an_estimator_learns_the_same_from_every_layout(task, layout):
    change, y = LAYOUTS[layout], TARGETS[task]
    weight = random.uniform(0.5, 2.0, 30)
    plain = learned(task, X, y, weight)
    other = learned(task, change(X), None if y is None else change(y), change(weight))
    assert_same(answers(other, change(X)), answers(plain, X))
    np.testing.assert_array_equal(other.dual_coef_, plain.dual_coef_)
    np.testing.assert_array_equal(other.support_vectors_, plain.support_vectors_)


def test_memory_maps_are_learned(tmp_path):
    y = TARGETS["regressor"]
    mapped = learned("regressor", memory_map(X, tmp_path), memory_map(y, tmp_path))
    np.testing.assert_array_equal(mapped.dual_coef_, learned("regressor", X, y).dual_coef_)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.float16, bool, object])
def test_other_dtypes_are_learned_as_numbers(dtype):
    whole = random.integers(0, 2, size=X.shape)
    y = TARGETS["regressor"]
    expected = learned("regressor", whole.astype(float), y)
    np.testing.assert_array_equal(
        learned("regressor", whole.astype(dtype), y).dual_coef_, expected.dual_coef_
    )


@pytest.mark.parametrize("dtype", ["Float64", "Float32", "Int64", "boolean"])
def test_extension_types_of_pandas_are_learned(dtype):
    table = pd.DataFrame(random.integers(0, 2, size=X.shape).astype(float))
    y = pd.Series(TARGETS["classifier"])
    given = table.astype("bool").astype(dtype) if dtype == "boolean" else table.astype(dtype)
    expected = ks.KernelClassifier(gamma=0.5).partial_fit(table, y)
    found = ks.KernelClassifier(gamma=0.5).partial_fit(given, y.astype("Int64"))
    np.testing.assert_allclose(found.dual_coef_, expected.dual_coef_, rtol=1e-5)
    assert found.predict(given).tolist() == expected.predict(table).tolist()


@pytest.mark.parametrize("task", TASKS)
def test_missing_values_are_refused_wherever_they_hide(task):
    y = TARGETS[task]
    model = learned(task, X, y)
    before = model.to_bytes()
    masked = np.ma.masked_array(X[:5], mask=np.eye(5, 4, dtype=bool))
    missing = pd.DataFrame(X[:5]).astype("Float64")
    missing.iloc[2, 1] = pd.NA
    for rows in (masked, missing):
        with pytest.raises(ValueError, match="NaN"):
            model.partial_fit(rows, None if y is None else y[:5])
        with pytest.raises(ValueError, match="NaN"):
            model.predict(rows)
    if y is not None:
        mask = [True, False, False, False, False]
        for targets in (np.ma.masked_array(y[:5], mask), pd.Series(y[:5]).convert_dtypes()):
            targets = targets if isinstance(targets, np.ma.MaskedArray) else targets.mask(mask)
            with pytest.raises((TypeError, ValueError)):
                model.partial_fit(X[:5], targets)
    assert model.to_bytes() == before


# --- fleets --------------------------------------------------------------------------------------


def fleet_after(change, y, task="regressor"):
    """Scores of a fleet that has learned rows of that layout, with models named and not."""
    fleet = ks.Fleet("svmd", task, 10, 4, gamma=0.5, budget=8)
    members = np.arange(60) % 7
    fleet.learn(change(X[:10]), change(y[:10]))
    scores = fleet.learn(change(X), change(y), models=change(members), sample_weight=change(y**2))
    return scores, fleet.score_samples(change(X), models=change(members)), fleet.n_seen_


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_fleet_learns_the_same_from_every_layout(layout):
    y = TARGETS["regressor"]
    assert_same(fleet_after(LAYOUTS[layout], y), fleet_after(np.array, y))


def test_a_column_of_a_table_is_a_target():
    table = np.column_stack([TARGETS["regressor"], random.normal(size=(60, 3))])
    fleet, other = (ks.Fleet("svmd", "regressor", 60, 4, gamma=0.5, budget=8) for _ in range(2))
    for _ in range(3):
        fleet.learn(X, table[:, 0])
        other.learn(X, table[:, 0].copy())
    np.testing.assert_array_equal(fleet.score_samples(X), other.score_samples(X))


@pytest.mark.parametrize("shape", [(60, 5), (60, 1, 1), (59,), (1, 60)])
@pytest.mark.parametrize("task", ["classifier", "regressor"])
def test_a_fleet_refuses_targets_of_another_shape(task, shape):
    params = {"classes": [0, 1]} if task == "classifier" else {}
    fleet = ks.Fleet("svmd", task, 60, 4, gamma=0.5, budget=8, **params)
    with pytest.raises(ValueError, match="y "):
        fleet.learn(X, np.zeros(shape, np.int64))
    assert not fleet.n_seen_.any()


def test_a_subset_by_a_slice_is_a_copy():
    fleet = ks.Fleet("svmd", "regressor", 60, 4, gamma=0.5, budget=8)
    fleet.learn(X, TARGETS["regressor"])
    part = fleet.subset(slice(0, 10))
    before = fleet.score_samples(X)
    part.learn(X[:10], 100.0 * TARGETS["regressor"][:10])
    np.testing.assert_array_equal(fleet.score_samples(X), before)
    assert fleet.subset(slice(None, None, -1)).n_seen_.tolist() == fleet.n_seen_[::-1].tolist()


# --- the way into compiled code ------------------------------------------------------------------


def _total(record, values):
    return record[0] + values.sum()


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros(8)[::2],
        np.zeros((2, 2)),
        np.zeros(4, np.float32),
        np.zeros(4, np.int64),
        read_only(np.zeros(4)),
        np.ma.masked_array(np.zeros(4)),
        [0.0] * 4,
        None,
    ],
    ids=["strided", "rank", "float32", "integers", "read only", "masked", "a list", "None"],
)
def test_an_entry_point_refuses_what_it_was_not_compiled_for(wrong):
    call = entry_point(compiled(_total), (1.0, 2), np.ones(4))
    assert call((2.0, 3), np.ones(7)) == 9.0
    with pytest.raises(TypeError, match="compiled for"):
        call((2.0, 3), wrong)
    with pytest.raises(TypeError, match="compiled for"):
        call((2, 3), np.ones(4))
    assert call((2.0, 3), np.ones(7)) == 9.0


def test_arguments_are_copied_only_where_they_must_be():
    plain = np.arange(4.0)
    assert np.shares_memory(as_argument(plain), plain)
    for wrong in (read_only(plain), plain[::-1], plain.astype(np.float32)):
        argument = as_argument(wrong)
        assert argument.flags.carray
        assert argument.dtype == np.float64
        np.testing.assert_array_equal(argument, wrong)


def test_the_package_works_without_the_compiler():
    """With Numba's own switch, which people set to debug, every function is plain Python."""
    code = (
        "import numpy as np, kernelstream as ks\n"
        "X = np.random.default_rng(0).normal(size=(40, 3)); y = X[:, 0] > 0\n"
        "model = ks.KernelClassifier().partial_fit(X, y); model.learn_one(X[0], True)\n"
        "fleet = ks.Fleet('silk', 'novelty', 40, 3, budget=4); fleet.learn(X); fleet.learn(X)\n"
        "ks.make('sog-svr', 'regressor').fit(X, X[:, 0])\n"
        "print(model.predict(X).sum(), np.isfinite(fleet.score_samples(X)).all())\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.endswith("True\n")

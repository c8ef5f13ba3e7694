"""Models that are moved to a file and come back, bit for bit, also after a crash."""

import gc
import os
import shutil
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kernelstream as ks
from tests.fleet.test_keyed import contents, cut, rows

SETTING = {"budget": 3, "gamma": 0.5}


@pytest.fixture(autouse=True)
def _nearly_all_without_compiler(request):
    if "nightly" not in {mark.name for mark in request.node.iter_markers()}:
        request.getfixturevalue("without_compiler")


def stream(n=120, n_keys=12, seed=0):
    random = np.random.default_rng(seed)
    X, y = rows("regressor", n, seed)
    return [f"key {i}" for i in random.integers(0, n_keys, n)], X, y


def fleet_of(**more):
    return ks.KeyedFleet("svmd", "regressor", **SETTING, **more)


def learn(fleet, data, blocks):
    keys, X, y = data
    for block in blocks:
        fleet.learn(keys[block], X[block], y[block])


@settings(max_examples=25)
@given(
    max_models=st.none() | st.integers(1, 8),
    idle_rows=st.none() | st.integers(1, 40),
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=4),
    seed=st.integers(0, 99),
)
def test_models_come_back_as_they_went(tmp_path_factory, max_models, idle_rows, sizes, seed):
    path = tmp_path_factory.mktemp("store") / "models.db"
    store = ks.ModelStore(path)
    data = stream(seed=seed)
    fleet = fleet_of(max_models=max_models, idle_rows=idle_rows, store=store)
    plain = fleet_of()
    learn(fleet, data, cut(120, sizes))
    learn(plain, data, [slice(None)])
    assert contents(fleet) == contents(plain)
    assert len(fleet) == len(plain) == len(list(fleet))
    assert set(fleet) == set(plain)
    keys, X, _ = data
    np.testing.assert_array_equal(fleet.predict(keys, X), plain.predict(keys, X))
    if max_models is not None:
        assert len(fleet) - len(store) <= max_models
    for key in plain:
        assert key in fleet
        assert fleet.model(key).n_seen_ == keys.count(key)
    store.close()


def test_the_table_and_parts_have_models_that_moved_too(tmp_path):
    pytest.importorskip("pandas")
    fleet = fleet_of(max_models=3, store=ks.ModelStore(tmp_path / "models.db"))
    plain, data = fleet_of(), stream()
    for one in (fleet, plain):
        learn(one, data, cut(120, [10]))
    table, expected = fleet.to_pandas(), plain.to_pandas()
    assert table.moved_out.sum() == len(fleet.store) == len(fleet) - 3
    for column in ("n_seen", "drift_score", "n_support"):
        assert table[column].sort_index().tolist() == expected[column].sort_index().tolist()
    parts = fleet.split(2)
    assert {**contents(parts[0]), **contents(parts[1])} == contents(plain)
    again = fleet_of(max_models=3, store=ks.ModelStore(tmp_path / "others.db")).join(*parts)
    assert len(again.store) == len(again) - 3
    assert contents(again) == contents(plain)


def test_a_saved_fleet_finds_its_store_as_it_was(tmp_path):
    data, blocks = stream(200), list(cut(200, [10]))
    store = ks.ModelStore(tmp_path / "models.db")
    fleet = fleet_of(max_models=3, store=store)
    learn(fleet, data, blocks[:10])
    saved, expected = fleet.to_bytes(), contents(fleet)
    learn(fleet, data, blocks[10:])  # and then the process is killed
    at_the_end = contents(fleet)
    store.close()
    back = ks.KeyedFleet.from_bytes(saved)
    with pytest.raises(ValueError, match="attach"):
        back.learn(*(part[blocks[10]] for part in data))
    with pytest.raises(ValueError, match="attach"):
        len(back)
    back.attach(ks.ModelStore(tmp_path / "models.db"))
    assert contents(back) == expected
    assert back.max_models == 3
    learn(back, data, blocks[10:])
    assert contents(back) == at_the_end
    back.attach(back.store)  # again: nothing happens
    assert contents(back) == at_the_end


def test_a_store_goes_back_to_the_last_times_only_that_it_was_saved(tmp_path):
    data, blocks = stream(200), list(cut(200, [10]))
    store = ks.ModelStore(tmp_path / "models.db", keep=2)
    fleet, saved, known = fleet_of(max_models=2, store=store), [], []
    for block in blocks:
        learn(fleet, data, [block])
        saved.append(fleet.to_bytes())
        known.append(contents(fleet))
    n_versions = store._connection.execute("SELECT count(*) FROM models").fetchone()[0]
    n_records = store._connection.execute("SELECT count(*) FROM records").fetchone()[0]
    assert n_versions == n_records < 40  # what nobody can go back to is gone
    store.close()
    with pytest.raises(ks.FileError, match="larger keep"):
        ks.KeyedFleet.from_bytes(saved[-4]).attach(ks.ModelStore(store.path))
    gc.collect()
    back = ks.KeyedFleet.from_bytes(saved[-2]).attach(ks.ModelStore(store.path))
    assert contents(back) == known[-2]
    learn(back, data, blocks[-1:])
    assert contents(back) == known[-1]


def test_stores_of_others_are_refused(tmp_path):
    data = stream()
    store = ks.ModelStore(tmp_path / "models.db")
    fleet = fleet_of(max_models=2, store=store)
    learn(fleet, data, cut(120, [20]))
    saved = fleet.to_bytes()
    with pytest.raises(BlockingIOError, match="held by another"):
        ks.ModelStore(tmp_path / "models.db")
    with pytest.raises(ValueError, match="earlier run"):
        fleet_of(max_models=2, store=store)
    with pytest.raises(ks.FileError, match="not the store"):
        ks.KeyedFleet.from_bytes(saved).attach(ks.ModelStore(tmp_path / "other.db"))
    with pytest.raises(ValueError, match="already"):
        fleet.attach(ks.ModelStore(tmp_path / "third.db"))
    old = tmp_path / "old.db"
    shutil.copy(tmp_path / "models.db", old)  # without the log: as it was in the beginning
    with pytest.raises(TypeError, match="one process"):
        __import__("pickle").dumps(fleet)
    assert fleet_of(max_models=2, store=store.clear()).store is store
    assert len(store) == 0
    other = ks.KeyedFleet("norma", "regressor", **SETTING, max_models=1, store=store)
    learn(other, data, [slice(0, 20)])
    with pytest.raises(ks.FileError, match="not the store"):
        ks.KeyedFleet.from_bytes(saved).attach(store)


def test_newer_and_strange_stores_are_refused(tmp_path):
    path = tmp_path / "models.db"
    ks.ModelStore(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    with pytest.raises(ks.FileError, match="install a newer"):
        ks.ModelStore(path)
    (tmp_path / "text.db").write_text("this is no database, but a text of some length" * 100)
    with pytest.raises(ks.FileError, match="not a sound store"):
        ks.ModelStore(tmp_path / "text.db")
    connection = sqlite3.connect(tmp_path / "accounts.db")
    connection.execute("CREATE TABLE accounts (id INTEGER)")
    connection.close()
    with pytest.raises(ks.FileError, match="not a store"):
        ks.ModelStore(tmp_path / "accounts.db")


def with_a_changed_bit(path, place, data, expected):
    """Whether a store with a changed bit was refused; if not, every model is right."""
    try:
        store = ks.ModelStore(path)
    except ks.FileError:
        return True
    try:
        keys = sorted(set(data[0]))
        found = store.read(keys)
        assert len(store) == len(expected)
        assert found == expected, f"a wrong model after a change at {place}"
        assert contents(store) == expected
        return False
    except ks.FileError:
        return True
    finally:
        store.close()


@pytest.mark.parametrize("n_places", [150, pytest.param(6000, marks=pytest.mark.nightly)])
def test_a_changed_bit_never_makes_a_wrong_model(tmp_path, n_places):
    data = stream(300, n_keys=40)
    store = ks.ModelStore(tmp_path / "models.db")
    fleet = fleet_of(max_models=1, store=store)
    learn(fleet, data, cut(300, [30]))
    store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    expected = dict(store.read(sorted(set(data[0]))))
    store.close()
    content = (tmp_path / "models.db").read_bytes()
    random, refused = np.random.default_rng(1), 0
    for i in range(n_places):
        place = int(random.integers(0, len(content)))
        changed = bytearray(content)
        changed[place] ^= 1 << int(random.integers(0, 8))
        path = tmp_path / f"{i}.db"
        path.write_bytes(bytes(changed))
        refused += with_a_changed_bit(path, place, data, expected)
        for left in tmp_path.glob(f"{i}.db*"):
            left.unlink()
    assert refused > n_places / 5  # the rest is empty space


def test_a_block_that_fails_changes_nothing_in_the_store(tmp_path):
    data = stream()
    store = ks.ModelStore(tmp_path / "models.db")
    fleet = fleet_of(max_models=2, store=store)
    learn(fleet, data, cut(120, [20]))
    before, serial = contents(fleet), store._about.serial
    keys, X, y = data
    with pytest.raises(ValueError, match=r"NaN|finite"):
        fleet.learn(keys, np.full_like(X, np.nan), y)
    assert contents(fleet) == before
    assert store._about.serial == serial
    n_open = store._about.n_models
    store._connection.execute("PRAGMA max_page_count = 1")  # the disk is full
    many = [f"other {i}" for i in range(500)]
    fleet.learn(many, np.tile(X[:1], (500, 1)), np.zeros(500))  # it has learned: no error
    assert store._about.n_models == n_open
    n_rows = fleet.n_rows_
    with pytest.raises(ks.FileError, match="full"):
        fleet.learn(keys[:1], X[:1], y[:1])
    with pytest.raises(ks.FileError, match="full"):
        fleet.to_bytes()
    assert fleet.n_rows_ == n_rows  # what raises counts nothing
    store._connection.execute("PRAGMA max_page_count = 1000000")
    plain = fleet_of()
    learn(plain, data, [slice(None)])
    plain.learn(many, np.tile(X[:1], (500, 1)), np.zeros(500))
    assert contents(fleet) == contents(plain)  # they were learned, and are still in memory
    fleet.learn(keys[:1], X[:1], y[:1])
    assert len(fleet) - len(store) == 2


RUN = """
import sys, numpy as np, kernelstream as ks
folder, n_rows, block, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
random = np.random.default_rng(seed)
keys, X = random.integers(0, 2000, n_rows), random.normal(size=(n_rows, 3))
checkpoints = ks.Checkpointer(folder + "/checkpoints", every_rows=10 * block)
store = ks.ModelStore(folder + "/models.db")
new = lambda: ks.KeyedFleet(
    "svmd", "regressor", budget=8, max_models=300, idle_rows=5000, store=store.clear())
fleet, position = checkpoints.resume(new)
fleet.attach(store)
print("at", position, flush=True)
for start in range(position, n_rows, block):
    stop = start + block
    fleet.learn(keys[start:stop], X[start:stop], X[start:stop, 0])
    checkpoints.step(fleet, stop)
whole = ks.KeyedFleet("svmd", "regressor", budget=8)
whole.learn(keys, X, X[:, 0])
models = lambda f: {k: m for ks_, ms in f.chunks() for k, m in zip(ks_, ms)}
assert models(fleet) == models(whole)
print("the same", len(fleet), len(store))
"""


@pytest.mark.nightly
def test_killed_again_and_again_it_goes_on_bit_for_bit(tmp_path):
    random, n_kills = np.random.default_rng(0), 0
    command = [sys.executable, "-c", RUN, str(tmp_path), "400000", "500", "0"]
    while True:
        run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)
        assert run.stdout is not None
        assert run.stdout.readline().startswith("at")
        if n_kills < 25:
            time.sleep(float(random.uniform(0.05, 1.5)))
            run.kill()
            run.communicate()
            n_kills += 1
            continue
        assert "the same 2000" in run.communicate()[0]
        assert run.returncode == 0
        break


@pytest.mark.nightly
def test_a_million_keys_in_bounded_memory(tmp_path):
    import resource

    store = ks.ModelStore(tmp_path / "models.db")
    fleet = ks.KeyedFleet("svmd", "regressor", budget=8, max_models=20_000, store=store)
    random, peaks = np.random.default_rng(0), []
    for start in range(0, 1_000_000, 20_000):
        keys = np.arange(start, start + 20_000)
        X = random.normal(size=(20_000, 4))
        fleet.learn(np.concatenate([keys, keys[:100], [0, 1]]),
                    np.concatenate([X, X[:100], X[:2]]),
                    np.concatenate([X[:, 0], X[:100, 0], X[:2, 0]]))  # fmt: skip
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    assert len(fleet) == 1_000_000
    assert len(store) >= 980_000
    assert fleet.model(0).n_seen_ == 2 + 50
    assert fleet.model(999_950).n_seen_ == 1
    print(f"MiB at the most: {peaks[4]:.0f} after 100,000 keys, {peaks[-1]:.0f} after 1,000,000")
    assert peaks[-1] < peaks[4] + 64

"""Cells: what becomes of bytes that were changed, and of blocks under random faults."""

import json
import struct
import zlib

import numpy as np
import pytest

pytest.importorskip("kernelstream.spark", exc_type=ImportError)

import pyarrow as pa

import kernelstream as ks
from kernelstream.files.bytes import FileError
from kernelstream.fleet import part_of
from kernelstream.spark import models, needs, rows
from kernelstream.spark.job import BLOCK, NO_KEY, ORDER, TIE, Columns, X, Y, new_job

from .conftest import contents, in_one_process, table

pytestmark = pytest.mark.usefixtures("as_in_workers")
SENSORS = Columns(("sensor",), ("string",), ("a", "b"), False, "y", "time")


def job_of(blocks=3, **params):
    return new_job(SENSORS, blocks, "svmd", None, **{"budget": 4, "gamma": 0.5, **params})


def as_sent(frame):
    """Rows as Spark sends them."""
    return frame.assign(**{
        "ks_key_0": frame["sensor"], NO_KEY: frame["sensor"].isna(), Y: frame["y"],
        X: list(frame[["a", "b"]].to_numpy()), ORDER: frame["time"], TIE: 0,
    })  # fmt: skip


def learned(job):
    fleet = job.new_fleet()
    rows.learn_frame(job, fleet, as_sent(table(20)))
    return job.cell(fleet)


def test_a_cell_with_one_bit_changed_is_refused():
    job = job_of()
    cell = learned(job)
    assert contents(job.fleet(cell, 0))
    random = np.random.default_rng(0)
    for bit in random.integers(0, 8 * len(cell), 40):
        changed = bytearray(cell)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FileError, match="cell of block 2"):
            job.fleet(bytes(changed), 2)


@pytest.mark.parametrize("newer", ["format", "keyed", "spark"])
def test_a_cell_of_a_newer_version_is_refused(newer):
    job = job_of()
    cell = bytearray(learned(job))
    if newer == "format":
        struct.pack_into("<I", cell, 8, 99)
    else:
        (length,) = struct.unpack_from("<Q", cell, 16)
        header = json.loads(cell[24 : 24 + length])
        if newer == "keyed":
            header["keyed_version"] = 99
        else:
            header["spark"]["version"] = 99
        text = json.dumps(header).encode()
        body = struct.pack("<Q", len(text)) + text + bytes(cell[24 + length :])
        cell = cell[:12] + struct.pack("<I", zlib.crc32(body)) + body
    with pytest.raises(FileError, match=r"has version 99 .*install a newer kernelstream"):
        job.fleet(bytes(cell), 0)


def test_a_cell_of_other_settings_is_refused():
    cell = learned(job_of())
    with pytest.raises(ValueError, match="are in 3 blocks, and this query has 4"):
        job_of(4).fleet(cell, 0)
    with pytest.raises(ValueError, match="with the model"):
        job_of(budget=5).fleet(cell, 0)
    other = job_of()._replace(columns=SENSORS._replace(features=("b", "a")))
    with pytest.raises(ValueError, match="with the columns"):
        other.fleet(cell, 0)
    by_another_order = job_of()._replace(columns=SENSORS._replace(order="day"))
    assert contents(by_another_order.fleet(cell, 0))


@pytest.mark.parametrize(("column", "value", "reason"), [
    (NO_KEY, True, "its key is null"),
    (X, np.zeros(3), "it has 3 features, and this model learns from 2"),
    (X, None, "it has 0 features"),
    (X, np.array([1.0, np.nan]), "it contains NaN"),
    (Y, np.nan, "its target is null"),
])  # fmt: skip
def test_a_bad_row_is_an_error_or_counted(column, value, reason):
    frame = as_sent(table(20))
    frame[column] = frame[column].astype(object)
    frame.at[7, column] = value
    job = job_of()
    with pytest.raises(ValueError, match=f"time 7: {reason}.*on_bad_row='skip'"):
        rows.learn_frame(job, job.new_fleet(), frame)
    job = job_of(on_bad_row="skip")
    fleet = job.new_fleet()
    said, scores = rows.learn_frame(job, fleet, frame)
    assert fleet.n_skipped_ == 1
    assert rows.answers(job, said, scores)[0].null_count == 1
    wanted, _ = in_one_process(table(20).drop(index=7))
    assert contents(job.fleet(job.cell(fleet), 0)) == contents(wanted)


def test_novelty_detectors_predict_by_the_margin_of_the_moment():
    columns = SENSORS._replace(target=None)
    params = {"nu": 0.2, "budget": 4}
    job = new_job(columns, 1, "norma", None, **params)
    frame = table(40)
    said, _ = rows.learn_frame(job, job.new_fleet(), as_sent(frame))
    fleet = ks.KeyedFleet("norma", "novelty", **params)
    one_by_one = []
    for sensor, *x in frame[["sensor", "a", "b"]].itertuples(index=False):
        known = sensor in fleet
        one_by_one += fleet.predict([sensor], [x]).tolist() if known else [None]
        fleet.learn([sensor], [x])
    assert [a for a, b in zip(said, one_by_one, strict=True) if b is not None] == [
        b for b in one_by_one if b is not None
    ]
    assert {-1, 1} <= set(said)


class Cluster:
    """What Spark does with cells: a batch counts wholly or not at all."""

    def __init__(self, job):
        self.job = job
        self.cells = dict.fromkeys(range(job.blocks), job.template)
        self.said = {}  # by batch

    def run(self, number, frame, random):
        """A batch; perhaps a worker is lost, or the batch is run twice before it counts."""
        before = dict(self.cells)
        while True:
            cells, said, lost = dict(before), [], False
            where = frame["sensor"].map(lambda key: part_of(key, self.job.blocks))
            for block in random.permutation(self.job.blocks).tolist():
                mine = frame[where == block]
                if not len(mine) or lost:
                    continue
                mine = mine.sample(frac=1, random_state=int(random.integers(2**31)))
                mine = mine.sort_values(ORDER)
                fleet = self.job.fleet(cells[block], block)
                predictions, _ = rows.learn_frame(self.job, fleet, mine)
                said += zip(mine["time"], predictions, strict=True)
                cells[block] = self.job.cell(fleet)
                lost = random.random() < 0.1
            if not lost and random.random() < 0.8:
                self.cells, self.said[number] = cells, said
                return

    def rebalance(self, blocks):
        """Put all models into another number of blocks."""
        old, self.job = self.job, models._job_like(self.job.template, blocks)
        batch = pa.RecordBatch.from_pylist(
            [{"block": block, "cell": cell} for block, cell in self.cells.items()]
        )
        single = pa.Table.from_batches(models._taken_apart(old)(iter([batch])))
        frame = single.to_pandas()
        frame[BLOCK] = [
            int(old_block) % blocks if model is None else part_of(key, blocks)
            for key, old_block, model in frame[["ks_key_0", "block", "model"]].to_numpy()
        ]
        again = pa.Table.from_pandas(frame.sort_values(BLOCK), preserve_index=False)
        self.cells = dict.fromkeys(range(blocks), self.job.template)
        for cell in models._put_together(self.job)(iter(again.to_batches(7))):
            self.cells[cell["block"][0].as_py()] = cell["cell"][0].as_py()


@pytest.mark.parametrize("seed", range(5))
def test_models_and_predictions_are_exact_under_random_faults(seed):
    random = np.random.default_rng(seed)
    frame, cluster = table(150, seed), Cluster(job_of(3))
    cuts = np.sort(random.choice(np.arange(1, 150), 9, replace=False)).tolist()
    for number, (start, stop) in enumerate(zip([0, *cuts], [*cuts, 150], strict=True)):
        cluster.run(number, as_sent(frame[start:stop]), random)
        if random.random() < 0.3:
            cluster.rebalance(int(random.integers(1, 9)))
    fleet, predictions = in_one_process(frame)
    found = {}
    for block, cell in cluster.cells.items():
        found |= contents(cluster.job.fleet(cell, block))
    assert found == contents(fleet)
    said = sorted(pair for batch in cluster.said.values() for pair in batch)
    assert [time for time, _ in said] == list(range(150))
    assert np.array_equal([prediction for _, prediction in said], predictions)


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(needs, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"needs PySpark: pip install 'kernelstream\[sp"):
        needs.require_modules()
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(RuntimeError, match="needs Java 17, and there is no java on the PATH"):
        needs.session()
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(RuntimeError, match="JAVA_HOME=/nowhere has no bin/java"):
        needs.session()

"""A disk that is full: rows are refused, everybody is told, and nothing acknowledged is lost."""

import contextlib
import os
import resource
import signal
import subprocess
import time
from collections import Counter

import httpx
import numpy as np
import pytest

from kernelstream.client import Client, ServiceError
from kernelstream.files.bytes import FileError
from kernelstream.files.checkpoints import Checkpointer
from kernelstream.serve import Block, Closed, ServedModel
from kernelstream.serve.disk import DiskState
from kernelstream.serve.log import Log, RecentIds
from tests.serve.folders import copy_as_after_a_crash

from .processes import FEATURES
from .streams import X, learned_at_once, new_model, rows, same_model, where

FULL = OSError(28, "No space left on device")


class SmallDisk:
    """A real file system of 2 MB, which a file can fill."""

    def __init__(self, folder):
        self.folder = folder

    def fill(self, pid):
        with (
            (self.folder / "filler").open("wb", buffering=0) as file,
            contextlib.suppress(OSError),
        ):
            while True:
                file.write(bytes(4096))

    def free(self, pid):
        (self.folder / "filler").unlink()


class FileLimit:
    """A limit of the system below which no file of the process may grow."""

    def __init__(self, folder):
        self.folder = folder

    def fill(self, pid):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    def free(self, pid):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)


@pytest.fixture(params=[SmallDisk, FileLimit])
def disk(request, tmp_path):
    if not hasattr(resource, "prlimit"):
        pytest.skip("this system cannot limit the files of another process")
    if request.param is FileLimit:
        yield FileLimit(tmp_path)
        return
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a file system")
    yield SmallDisk(folder)
    subprocess.run(["umount", "-l", str(folder)], check=True)


def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def send(client, first, refusals=None):
    """Send ten rows with ids; whether they were accepted."""
    ids = [str(i) for i in range(first, first + 10)]
    data = np.random.default_rng(first).normal(size=(10, FEATURES))
    try:
        client.learn(data, (data[:, 0] > 0).astype(int), ids)
    except ServiceError as error:
        refusals[error.status] += 1
        return False
    return True


def metric(served, name):
    (line,) = [
        line
        for line in httpx.get(f"{served.url}/metrics").text.splitlines()
        if line.startswith(f"kernelstream_{name}")
    ]
    return float(line.split()[-1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_full_disk_is_told_to_everybody_and_loses_nothing(start, disk):
    served = start("--checkpoint-rows", "50", folder=disk.folder)
    refusals, accepted = Counter(), []
    with Client(served.url, "model", retries=0) as client:
        for first in range(0, 200, 10):
            assert send(client, first, refusals)
            accepted.append(first)
        disk.fill(served.pid)
        first = 200
        while sum(refusals.values()) < 30:
            if send(client, first, refusals):  # what is left of a block of the disk
                accepted.append(first)
            first += 10
        assert set(refusals) == {503}
        ready = httpx.get(f"{served.url}/readyz")
        assert ready.status_code == 503
        assert "disk cannot be written" in ready.json()["detail"]
        assert httpx.get(f"{served.url}/healthz").status_code == 200
        assert client.predict([[0.0] * FEATURES]).predictions
        assert "cannot be written" in client.state()["disk_problem"]
        assert metric(served, 'failed_writes_total{model="model",kind="log"}') >= 30
        assert metric(served, 'ready{model="model"}') == 0
        until(lambda: "ERROR kernelstream.serve: model model: the log cannot" in served.said)
        assert served.said.count("the log cannot be written") <= 3  # and not once per request

        assert served.stop(signal.SIGKILL) == -signal.SIGKILL  # while the disk is full
        served.start()
        assert client.state()["position"] == 10 * len(accepted)
        disk.fill(served.pid)  # which a new process does not inherit, where it is a limit
        send(client, 100_000, refusals) and accepted.append(100_000)
        disk.free(served.pid)
        until(lambda: httpx.get(f"{served.url}/readyz").status_code == 200)  # by itself
        assert send(client, first, refusals)
        accepted.append(first)
        ids = [str(i) for first in accepted for i in range(first, first + 10)]
        told = client.learn(np.zeros((len(ids), FEATURES)), [0] * len(ids), ids)
        assert (told.accepted, told.repeated) == (0, len(ids))
        assert client.state()["position"] == len(ids)
    assert served.stop() == 0


def full(*_):
    raise FULL


@pytest.fixture
def serve(tmp_path):
    made = []

    def make(**options):
        made.append(ServedModel("test", new_model(), tmp_path / "folder", **options))
        return made[-1]

    yield make
    for served in made:
        served.close()


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("what", ["checkpoint", "segment"])
def test_readiness_fails_until_a_checkpoint_is_saved_again(serve, monkeypatch, caplog, what):
    served = serve(checkpoint_rows=30)
    with monkeypatch.context() as patch:
        if what == "checkpoint":
            patch.setattr(Checkpointer, "save", full)
        else:
            patch.setattr(Log, "_ids_record", full)
        served.learn(rows(0, 40)).result(30)
        until(lambda: served.not_ready is not None)
        served.learn(rows(40, 60)).result(30)  # the log still works, and rows are accepted
        assert served.state()["failed_writes"]["checkpoint"] >= 1
        assert "the checkpoint cannot be written: [Errno 28]" in caplog.text
    until(lambda: served.not_ready is None)
    assert served.state()["checkpoint_position"] == 60
    assert "can be written again" in caplog.text


@pytest.mark.usefixtures("without_compiler")
def test_rows_that_cannot_wait_for_their_targets_are_refused_and_counted(serve, monkeypatch):
    served = serve()
    served.learn(rows(0, 40)).result(30)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(Closed, match="No space left"):
            served.wait_for_targets(Block(X[40:42], ids=["a", "b"]))
        assert served.state()["failed_writes"] == {"delayed rows": 1}
        assert served.not_ready is not None
    until(lambda: served.not_ready is None)
    served.wait_for_targets(Block(X[40:42], ids=["a", "b"]))
    assert where(served, ["a", "b"]) == ([0, 1], [])


@pytest.mark.usefixtures("without_compiler")
def test_after_failed_checkpoints_and_a_kill_the_service_starts_again(serve, monkeypatch, tmp_path):
    """Whatever part of a checkpoint fails, at every one of ten times."""
    served = serve(checkpoint_rows=20)
    served.learn(rows(0, 30)).result(30)
    until(lambda: served.state()["checkpoint_position"] == 30)
    parts = [(Checkpointer, "save"), (Log, "_ids_record"), (os, "replace")]
    for k in range(10):
        with monkeypatch.context() as patch:
            patch.setattr(*parts[k % 3], full)
            served.learn(rows(30 + 20 * k, 50 + 20 * k)).result(30)
            served._save()
        copy = tmp_path / f"copy-{k}"
        copy_as_after_a_crash(tmp_path / "folder", copy)
        again = ServedModel("test", new_model(), copy)
        assert again.position == 50 + 20 * k
        assert same_model(again.served.model, learned_at_once(50 + 20 * k))
        again.close()


@pytest.mark.usefixtures("without_compiler")
def test_a_checkpoint_that_cannot_be_read_back_deletes_nothing(serve, monkeypatch, tmp_path):
    """An older checkpoint and the log stay until a newer checkpoint was read back."""
    served = serve(checkpoint_rows=20)
    served.learn(rows(0, 30)).result(30)
    until(lambda: served.state()["checkpoint_position"] == 30)
    write = served.served.write_to

    def write_damaged(path, header, check):
        def damage_and_check():
            path.write_bytes(path.read_bytes()[:-9])
            check()

        write(path, header, damage_and_check)

    for k in range(5):
        with monkeypatch.context() as patch:
            patch.setattr(served.served, "write_to", write_damaged)
            served.learn(rows(30 + 20 * k, 50 + 20 * k)).result(30)
            served._save()
        assert served.state()["checkpoint_position"] == 30
        assert "checkpoint" in served.not_ready
        copy = tmp_path / f"copy-{k}"
        copy_as_after_a_crash(tmp_path / "folder", copy)
        again = ServedModel("test", new_model(), copy)
        assert again.position == 50 + 20 * k
        again.close()
    until(lambda: served.not_ready is None)
    assert served.state()["checkpoint_position"] == 130


@pytest.mark.usefixtures("without_compiler")
def test_a_segment_that_could_not_be_made_durable_is_not_taken_for_the_last_one(
    serve, monkeypatch, tmp_path
):
    """Blocks go on in the segment before, whose end a crash may cut."""
    from kernelstream.serve import log

    served = serve(checkpoint_rows=20)
    with monkeypatch.context() as patch:
        patch.setattr(log, "sync_folder", full)
        served.learn(rows(0, 30)).result(30)
        until(lambda: served.not_ready is not None)
        served.learn(rows(30, 35)).result(30)
        copy = tmp_path / "copy"
        copy_as_after_a_crash(tmp_path / "folder", copy)
    (segment,) = copy.glob("log-*")
    segment.write_bytes(segment.read_bytes()[:-3])
    again = ServedModel("test", new_model(), copy)
    assert again.position == 30
    answer = again.learn(rows(0, 35)).result(30)  # the ids are known
    assert answer.accepted == (5, 30)
    again.close()


def test_a_segment_that_can_neither_be_written_nor_deleted_stops_the_writer(tmp_path, monkeypatch):
    log = Log(tmp_path, RecentIds(10))
    log.open(0)
    monkeypatch.setattr(log, "_ids_record", full)
    monkeypatch.setattr("pathlib.Path.unlink", lambda *_, **__: full())
    with pytest.raises(RuntimeError, match="cannot be deleted either"):
        log.begin_segment(10)
    log.close()


def test_a_failing_disk_is_logged_at_once_and_then_once_a_minute(monkeypatch, caplog):
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    disk = DiskState("test")
    for _ in range(500):
        disk.note_failure("log", FULL)
        now[0] += 0.25  # in all two minutes
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 3
    assert "(failed writes since the last message: 240)" in lines[1]
    assert disk.failed_writes == {"log": 500}
    disk.note_failure("checkpoint", FileError("it is damaged"))
    disk.note_success("log")
    assert disk.problem == "the checkpoint cannot be written: it is damaged"
    disk.note_success("checkpoint")
    assert disk.problem is None


def test_failed_writes_are_tried_again_at_growing_intervals(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    disk, tries = DiskState("test"), []
    disk.note_failure("log", FULL)
    for _ in range(3000):
        now[0] += 0.1
        if disk.is_retry_due():
            tries.append(round(now[0] - 1000))
    assert tries[:5] == [1, 2, 4, 8, 16]
    assert np.diff(tries).max() == 60

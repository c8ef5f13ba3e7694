"""Files: bit for bit, nothing executable, and a clear error for anything else."""

import json
import os
import struct
import zlib

import numpy as np
import pytest

import kernelstream as ks
from kernelstream import persistence
from kernelstream.loading import load

from .streams import IN_STREAMS, with_points

pytestmark = pytest.mark.usefixtures("without_compiler")

X = np.random.default_rng(0).normal(size=(300, 4))
TARGETS = {
    "classifier": np.digitize(X[:, 0], [-0.5, 0.5]),
    "regressor": X[:, 0],
    "novelty": None,
}


def part(y, rows):
    return None if y is None else y[rows]


@pytest.mark.parametrize(
    ("preset", "task", "dtype"),
    [(*choice, np.float64) for choice in IN_STREAMS]
    + [("svmd", task, np.float32) for task in TARGETS],
)
def test_a_loaded_model_goes_on_bit_for_bit(tmp_path, task, preset, dtype):
    y, rows = TARGETS[task], X.astype(dtype)
    model = ks.make(preset, task, **with_points(preset, 40))
    model.partial_fit(rows[:200], part(y, slice(200)))
    model.save(tmp_path / "model.ks")
    twin = ks.load(tmp_path / "model.ks")
    assert twin.get_params() == model.get_params()
    np.testing.assert_array_equal(twin.predict(rows), model.predict(rows))
    for start in range(200, 300, 30):
        block = slice(start, start + 30)
        model.partial_fit(rows[block], part(y, block))
        twin.partial_fit(rows[block], part(y, block))
    assert twin.to_bytes() == model.to_bytes()


@pytest.mark.parametrize(
    "params",
    [{"margin": ks.margins.Nu(0.1, rule="paper"), "fit_intercept": True},
     {"budget": None, "loss": "log_loss"},
     {"kernel": ks.kernels.Polynomial(2, 0.5, 1.0), "budget": ks.budgets.OldestOut(20, exact=True)},
     {"kernel": "laplacian", "step_size": 0.1}],
    ids=str,
)  # fmt: skip
def test_every_part_comes_back(tmp_path, params):
    y = np.array(["no", "yes", "maybe"])[TARGETS["classifier"]]
    model = ks.KernelClassifier(**params).partial_fit(X[:200], y[:200])
    model.save(tmp_path / "model.ks")
    twin = ks.load(tmp_path / "model.ks").partial_fit(X[200:], y[200:])
    model.partial_fit(X[200:], y[200:])
    assert twin.to_bytes() == model.to_bytes()
    assert twin.classes_.tolist() == model.classes_.tolist()


def test_feature_names_and_labels_come_back(tmp_path):
    import pandas as pd

    frame = pd.DataFrame(X, columns=list("abcd"))
    model = ks.KernelClassifier().fit(frame, X[:, 0] > 0)
    model.save(tmp_path / "model.ks")
    twin = ks.load(tmp_path / "model.ks")
    assert twin.feature_names_in_.tolist() == list("abcd")
    assert twin.predict(frame).dtype == bool
    with pytest.raises(ValueError, match="feature names"):
        twin.predict(frame.rename(columns={"a": "z"}))


def test_a_kernel_function_is_handed_to_load(tmp_path):
    def kernel(A, B):
        return A @ B.T

    model = ks.KernelRegressor(kernel).partial_fit(X, TARGETS["regressor"])
    model.save(tmp_path / "model.ks")
    with pytest.raises(ks.FileError, match="kernel="):
        ks.load(tmp_path / "model.ks")
    twin = ks.load(tmp_path / "model.ks", kernel=kernel)
    np.testing.assert_array_equal(twin.predict(X), model.predict(X))


def test_an_unfitted_model_has_nothing_to_save(tmp_path):
    with pytest.raises(Exception, match="has not learned anything yet"):
        ks.KernelClassifier().save(tmp_path / "model.ks")
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def content():
    return ks.KernelClassifier(budget=8).partial_fit(X, TARGETS["classifier"]).to_bytes()


def loaded(tmp_path, content):
    path = tmp_path / "bad.ks"
    path.write_bytes(content)
    return load(path)


def test_a_file_cut_short_is_refused(tmp_path, content):
    for length in [0, 5, 20, 100, len(content) // 2, len(content) - 1]:
        with pytest.raises(ks.FileError):
            loaded(tmp_path, content[:length])


def test_every_flipped_bit_is_noticed(tmp_path, content):
    random = np.random.default_rng(0)
    for position in random.integers(0, len(content), 1000):
        bad = bytearray(content)
        bad[position] ^= 1 << int(random.integers(0, 8))
        with pytest.raises(ks.FileError):
            loaded(tmp_path, bytes(bad))


def test_a_file_from_the_future_says_so(tmp_path, content):
    with pytest.raises(ks.FileError, match=r"version 99.*newer"):
        loaded(tmp_path, content[:8] + struct.pack("<I", 99) + content[12:])


def forged(content, change):
    """The same file with another header and a checksum that is right."""
    body = content[16:]
    length = struct.unpack_from("<Q", body)[0]
    header = json.loads(body[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    body = struct.pack("<Q", len(text)) + text + body[8 + length :]
    return content[:12] + struct.pack("<I", zlib.crc32(body)) + body


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h.update({"class": "os.system"}),
        lambda h: h["params"].update(kernel={"part": "subprocess.Popen", "params": {}}),
        lambda h: h["params"].update(colour="red"),
        lambda h: h["params"].update(C=-1),
        lambda h: h["params"].update(budget=10**12),
        lambda h: h.update(n_slots=10**12),
        lambda h: h["arrays"][0].update(dtype="|O"),
        lambda h: h["arrays"][0].update(shape=[10**15, 10**15]),
        lambda h: h["arrays"][0].update(shape=[-1]),
        lambda h: h["arrays"][0].update(offset=10**12),
        lambda h: h["arrays"].pop(),
        lambda h: h.pop("arrays"),
        lambda h: h.pop("labels"),
        lambda h: h.update(dtype="<U9"),
        lambda h: h.update(n_outputs=7),
        lambda h: h.update(n_features="many"),
    ],
)
def test_a_forged_header_is_refused(tmp_path, content, change):
    loaded(tmp_path, forged(content, lambda header: None))  # the forgery itself works
    with pytest.raises(ks.FileError):
        loaded(tmp_path, forged(content, change))


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch, content):
    path = tmp_path / "model.ks"
    persistence.write(path, content)

    def broken(*arguments):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="disk full"):
        persistence.write(path, b"new")
    assert path.read_bytes() == content
    assert [p.name for p in tmp_path.iterdir()] == ["model.ks"]


def test_joblib_and_copies_work_too(tmp_path):
    import copy

    import joblib

    model = ks.KernelClassifier(budget=8).partial_fit(X, TARGETS["classifier"])
    joblib.dump(model, tmp_path / "model.joblib")
    for twin in (joblib.load(tmp_path / "model.joblib"), copy.deepcopy(model), copy.copy(model)):
        assert twin.to_bytes() == model.to_bytes()


@pytest.mark.parametrize(("preset", "task"), IN_STREAMS)
def test_a_model_goes_on_from_a_memory_map(tmp_path, task, preset):
    """What joblib maps into memory is read-only, and so is what it hands to other processes."""
    import joblib

    model, y = ks.make(preset, task, **with_points(preset, 40)), TARGETS[task]
    model.partial_fit(X[:200], part(y, slice(200)))
    joblib.dump(model, tmp_path / "model.joblib")
    twin = joblib.load(tmp_path / "model.joblib", mmap_mode="r")
    for one in (model, twin):
        one.partial_fit(X[200:290], part(y, slice(200, 290)))
        for i in range(290, 300):
            one.learn_one(X[i], *([] if one.task == "novelty" else [y[i]]))
    assert twin.to_bytes() == model.to_bytes()


def test_a_fleet_goes_on_from_a_memory_map(tmp_path):
    import joblib

    fleet = ks.Fleet("silk", "regressor", n_models=100, n_features=4)
    fleet.learn(X[:100], X[:100, 0])
    joblib.dump(fleet, tmp_path / "fleet.joblib")
    twin = joblib.load(tmp_path / "fleet.joblib", mmap_mode="r")
    for one in (fleet, twin):
        one.learn(X[100:200], X[100:200, 0])
    np.testing.assert_array_equal(twin.predict(X[200:]), fleet.predict(X[200:]))

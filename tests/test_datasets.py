"""Data sets by name: what is in them, where they are looked for, and what can go wrong."""

import copy
import gzip
import hashlib
import json
import pickle
import re
import socket
import threading
import warnings
from dataclasses import FrozenInstanceError
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlparse
from urllib.request import urlopen

import numpy as np
import pytest
from sklearn.datasets import _openml as sklearn_openml

import kernelstream as ks
from kernelstream.datasets import DatasetError, files, table
from kernelstream.datasets.openml import OpenML

from .conftest import shared_file

STORED = [name for name in ks.datasets.names() if name != "digits"]


# --- what is in them ------------------------------------------------------------------------------


def stored(name):
    """A data set of the papers, or a skip where its file is not there."""
    return ks.datasets.load(name, data=shared_file(table._TABLE[name].source.file).parent)


def test_digits_are_always_there():
    X, y = ks.datasets.load("digits")
    assert (X.shape, X.min(), X.max()) == ((1797, 64), 0, 1)
    assert np.bincount(y).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    alone = ks.datasets.load("digits", return_X_y=True)
    assert isinstance(alone, tuple)
    np.testing.assert_array_equal(alone[0], X)


def test_usps_has_the_published_counts_and_range():
    data = stored("usps")
    assert (data.X.dtype, data.X.min(), data.X.max()) == (np.float64, -1, 1)
    counts = np.bincount(data.y_train), np.bincount(data.y_test)
    assert counts[0].tolist() == [1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644]
    assert counts[1].tolist() == [359, 264, 198, 166, 200, 160, 170, 147, 166, 177]
    np.testing.assert_array_equal(data.X[7291:], data.X_test)
    np.testing.assert_array_equal(data.y[:7291], data.y_train)


def test_mnist_has_the_published_counts_and_range():
    data = stored("mnist")
    assert (data.X.dtype, data.X.min(), data.X.max()) == (np.float32, 0, 1)
    assert (data.X_train.shape, data.X_test.shape) == ((60000, 784), (10000, 784))
    counts = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert np.bincount(data.y_test).tolist() == counts
    assert data.y[:5].tolist() == [5, 0, 4, 1, 9]


def test_boston_and_comp_activ_have_named_features():
    boston, comp = stored("boston"), stored("comp-activ")
    assert boston.feature_names[[0, -1]].tolist() == ["CRIM", "LSTAT"]
    assert boston.X[0, [0, -1]].tolist() == [0.00632, 4.98]
    assert (boston.X.shape, boston.y.min(), boston.y.max()) == ((506, 13), 5, 50)
    assert comp.feature_names[[0, -1]].tolist() == ["lread", "freeswap"]
    assert (comp.X.shape, comp.y.min(), comp.y.max()) == ((8192, 12), 0, 99)
    assert comp.X_train is None
    assert comp.y_test is None


def test_wipo_labels_are_paths_that_make_the_tree():
    data = stored("wipo-alpha")
    tree = ks.label_kernels.Taxonomy.from_paths(data.y)
    given = ks.label_kernels.Taxonomy.from_parents(data.parents, data.node_names)
    last = np.array([path.split("/")[-1] for path in data.leaf_names])
    np.testing.assert_array_equal(
        tree.distances(data.leaf_names[:-1], data.leaf_names[1:]),
        given.distances(last[:-1], last[1:]),
    )
    assert (len(tree.nodes), len(tree.label_names())) == (85, 57)
    assert (len(data.X_train), len(data.y_test)) == (1352, 358)


def test_clinc150_has_texts_and_paths():
    data = stored("clinc150")
    tree = ks.label_kernels.Taxonomy.from_paths(data.y)
    assert (len(tree.label_names()), len(tree.nodes)) == (150, 161)
    assert (len(data.X), len(data.X_train), len(data.X_test)) == (22500, 15000, 4500)
    assert np.unique(data.y[data.in_small_train], return_counts=True)[1].tolist() == [50] * 150
    assert data.X[0].startswith("what expression would i use")
    assert data.y[0] == "travel/translate"


@pytest.mark.parametrize(
    ("name", "shape", "first_and_last", "n_masks"),
    [("video-office", (876, 120, 180), [300, 2050], 741),
     ("video-lightswitch", (1700, 120, 160), [600, 2299], 1),
     ("video-wavingtrees", (287, 120, 160), [0, 286], 1),
     ("video-lobby", (1000, 128, 160), [1300, 2299], 0)],
)  # fmt: skip
def test_videos_have_frames_and_what_is_known_of_them(name, shape, first_and_last, n_masks):
    data = stored(name)
    assert (data.X.shape, data.X.dtype, data.y) == (shape, np.uint8, None)
    assert data.frame_numbers[[0, -1]].tolist() == first_and_last
    assert data.masks.shape == data.scored.shape == (n_masks, *shape[1:])
    assert len(data.mask_rows) == n_masks
    assert not (data.masks & ~data.scored).any()
    if n_masks == 1:
        assert data.frame_numbers[data.mask_rows][0] in (1865, 247)
    if n_masks:
        assert 0.01 < data.masks.mean() < 0.5


# --- the record -----------------------------------------------------------------------------------


def test_a_data_set_is_a_record():
    data = ks.datasets.load("digits")
    assert data.description == ks.datasets.describe("digits")
    assert "target_names" in dir(data)
    with pytest.raises(AttributeError, match=r"no 'parents'; its details are target_names"):
        _ = data.parents
    with pytest.raises(FrozenInstanceError):
        data.X = None
    for twin in (copy.deepcopy(data), pickle.loads(pickle.dumps(data))):
        np.testing.assert_array_equal(twin.target_names, data.target_names)


def test_names_and_descriptions():
    assert ks.datasets.names()[0] == "digits"
    assert len({ks.datasets.describe(name) for name in ks.datasets.names()}) == len(STORED) + 1
    with pytest.raises(
        ValueError, match=r"name='uspss' is unknown: choose one of 'digits', 'usps'"
    ):
        ks.datasets.load("uspss")


# --- a small set of our own, its files, and a stand-in for OpenML ---------------------------------

ROWS = {"a": np.arange(5.0), "b": np.array([10.0, 20, 20, 10, 20]), "y": np.arange(5.0) ** 2}
CSV = "a,b,y\n" + "".join(f"{a:g},{b:g},{y:g}\n" for a, b, y in zip(*ROWS.values(), strict=True))
FAKE_ID = 77


def to_columns(fetched):
    return {**dict(zip(fetched.names, fetched.X.T, strict=True)), "y": fetched.y}


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """A data set of five rows; the folders of the library and of the environment are empty."""
    monkeypatch.setenv("KERNELSTREAM_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("KERNELSTREAM_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    monkeypatch.setattr(sklearn_openml.time, "sleep", lambda seconds: None)
    arrays = table._columns("a b y", "float64", 5)
    source = files.Stored("fake.csv", arrays, files.checksum(ROWS), OpenML(FAKE_ID, to_columns))
    entry = table.Entry("five rows", source, table._boston_fields)
    monkeypatch.setitem(table._TABLE, "fake", entry)
    return tmp_path / "data"


def check_fake(data):
    np.testing.assert_array_equal(data.X, np.stack([ROWS["a"], ROWS["b"]], axis=1))
    np.testing.assert_array_equal(data.y, ROWS["y"])


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("the cable is out")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def arff_of(names, columns, kinds):
    head = [f"@ATTRIBUTE {name} {kind}" for name, kind in zip(names, kinds, strict=True)]
    rows = [",".join(row) for row in zip(*columns, strict=True)]
    return "\n".join(["@RELATION stand_in", *head, "@DATA", *rows, ""]).encode()


def paths_of_arff(data_id):
    """Where the rows are: by the address in the description; scikit-learn 1.6 asks by the id."""
    return [f"/data/v1/download/{data_id}/stand_in.arff", f"/data/v1/download/{data_id}"]


def answers_of(data_id, names, columns, kinds):
    """What OpenML answers about a table whose last column is the target, by path."""
    arff = arff_of(names, columns, kinds)
    features = [
        {
            "index": str(index), "name": name, "is_target": str(name == names[-1]).lower(),
            "data_type": "nominal" if kind.startswith("{") else "numeric",
            "is_ignore": "false", "is_row_identifier": "false", "number_of_missing_values": "0",
        }
        for index, (name, kind) in enumerate(zip(names, kinds, strict=True))
    ]  # fmt: skip
    description = {
        "id": str(data_id), "name": "stand_in", "version": "1", "description": "a stand-in",
        "format": "ARFF", "status": "active", "file_id": str(data_id),
        "url": f"https://www.openml.org{paths_of_arff(data_id)[0]}",
        "md5_checksum": hashlib.md5(arff).hexdigest(),
    }  # fmt: skip
    quality = [{"name": "NumberOfInstances", "value": f"{len(columns[0])}.0"}]
    about = {
        "": {"data_set_description": description},
        "features/": {"data_features": {"feature": features}},
        "qualities/": {"data_qualities": {"quality": quality}},
    }
    return {
        **dict.fromkeys(paths_of_arff(data_id), arff),
        **{
            f"/api/v1/json/data/{what}{data_id}": json.dumps(about[what]).encode() for what in about
        },
    }


@pytest.fixture
def openml(monkeypatch):
    """A server on this machine that stands in for OpenML; what it answers is put into the dict."""
    answers = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            content = answers.get(self.path)
            self.send_response(200 if content else 412)  # OpenML's word for "there is no such set"
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write((content or b"")[: answers.get("cut at")])

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()

    def redirected(request, *args, **kwargs):
        path = urlparse(request.full_url).path
        return urlopen(f"http://127.0.0.1:{server.server_port}{path}", *args, **kwargs)

    monkeypatch.setattr(sklearn_openml, "urlopen", redirected)
    yield answers
    server.shutdown()
    server.server_close()
    thread.join()


def fake_answers(y=ROWS["y"]):
    """The five rows as OpenML would have them, one column with names for its values."""
    columns = [[f"{value:g}" for value in column] for column in (ROWS["a"], ROWS["b"], y)]
    return answers_of(FAKE_ID, ["a", "b", "y"], columns, ["NUMERIC", "{20,10}", "NUMERIC"])


# --- where files are looked for -------------------------------------------------------------------


def test_folders_are_looked_in_in_order(fake, no_network, tmp_path, monkeypatch):
    given, own = tmp_path / "given", tmp_path / "own" / "kernelstream" / "datasets"
    damaged = b"a,b,y\n1,2\n"  # whose error says where it was found
    for folder in (own, fake, given):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "fake.csv").write_bytes(damaged)
        with pytest.raises(DatasetError, match=re.escape(str(folder / "fake.csv"))):
            ks.datasets.load("fake", data=given)
    (given / "fake.csv").write_text(CSV)
    check_fake(ks.datasets.load("fake", data=given))
    monkeypatch.delenv("KERNELSTREAM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    monkeypatch.delenv("KERNELSTREAM_DATA")
    with pytest.raises(DatasetError, match=re.escape(str(own / "fake.csv"))):
        ks.datasets.load("fake")


def test_a_file_may_be_of_either_format(fake):
    (fake / "fake.csv").write_text(CSV)
    check_fake(ks.datasets.load("fake"))
    (fake / "fake.csv").unlink()
    np.savez(fake / "fake.npz", **{name: column.astype(">f8") for name, column in ROWS.items()})
    check_fake(ks.datasets.load("fake"))


def test_the_checksum_does_not_depend_on_how_arrays_are_stored():
    array, text = np.arange(6.0).reshape(2, 3), np.array(["a", "bc"])
    same = {"text": text.astype("U9"), "array": np.asfortranarray(array.astype(">f8"))}
    assert files.checksum({"array": array, "text": text}) == files.checksum(same)
    others = [
        {"array": array.T, "text": text}, {"array": array + 1e-15, "text": text},
        {"array": array.astype("f4"), "text": text}, {"array": array, "text": text[::-1]},
        {"array": array, "text": np.array(["ab", "c"])}, {"array": array, "other": text},
    ]  # fmt: skip
    assert len({files.checksum(arrays) for arrays in [same, *others]}) == len(others) + 1


# --- what can be wrong with a file ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({**ROWS, "y": ROWS["y"][:4]}, r"'y' has the shape \(4,\), not \(5,\)"),
        ({"a": ROWS["a"], "b": ROWS["b"]}, "it has no 'y', only a, b"),
        ({**ROWS, "y": ROWS["y"] * 1j}, "'y' has the type complex128, not float64"),
        ({**ROWS, "y": np.array(list("vwxyz"))}, "could not convert string to float"),
        ({**ROWS, "y": ROWS["y"] + 1}, "right shapes, but other content"),
    ],
    ids=["shape", "missing", "type", "text", "content"],
)
def test_a_file_with_other_arrays(fake, arrays, words):
    path = fake / "fake.npz"
    np.savez(path, **arrays)
    with pytest.raises(DatasetError, match=f"is not the data set 'fake': .*{words}") as caught:
        ks.datasets.load("fake")
    assert str(path) in str(caught.value)


def npz_bytes(path, **arrays):
    np.savez_compressed(path, **arrays)
    return path.read_bytes()


def test_a_damaged_file(fake, tmp_path):
    whole = npz_bytes(tmp_path / "whole.npz", **ROWS)
    pickled = npz_bytes(tmp_path / "pickled.npz", **{**ROWS, "y": np.array([{}] * 5, object)})
    flipped = bytearray(whole)
    flipped[whole.index(b"PK", 2) - 4] ^= 0xFF  # at the end of the first array
    np.save(tmp_path / "one.npy", ROWS["y"])
    one = (tmp_path / "one.npy").read_bytes()
    for content in (b"", whole[:100], whole[:-30], bytes(flipped), b"not a zip", pickled, one):
        (fake / "fake.npz").write_bytes(content)
        with pytest.raises(DatasetError, match=r"fake\.npz cannot be read .* whole copy"):
            ks.datasets.load("fake")


def test_a_damaged_table(fake, monkeypatch):
    source = table._TABLE["fake"].source._replace(file="fake.csv.gz")
    monkeypatch.setitem(table._TABLE, "fake", table._TABLE["fake"]._replace(source=source))
    whole = gzip.compress(CSV.encode())
    (fake / "fake.csv.gz").write_bytes(whole)
    check_fake(ks.datasets.load("fake"))
    ragged = gzip.compress(CSV.encode() + b"1,2\n")
    latin = gzip.compress(CSV.encode() + b"\xe9,2,3\n")
    for content in (b"", whole[:20], whole[:-9], CSV.encode(), ragged, latin):
        (fake / "fake.csv.gz").write_bytes(content)
        with pytest.raises(DatasetError, match=r"fake\.csv\.gz cannot be read"):
            ks.datasets.load("fake")


# --- what can be missing --------------------------------------------------------------------------


@pytest.mark.parametrize("name", STORED)
def test_a_missing_file_is_described(fake, no_network, tmp_path, name):
    with pytest.raises(DatasetError) as caught:
        ks.datasets.load(name, data=tmp_path / "nowhere")
    message = str(caught.value)
    source = table._TABLE[name].source
    for word in (repr(name), source.file, *source.arrays, "$KERNELSTREAM_DATA", str(fake),
                 str(tmp_path / "nowhere"), str(tmp_path / "own")):  # fmt: skip
        assert word in message
    assert ("the cable is out" in message) == (source.openml is not None)
    error = caught.value
    assert error.__suppress_context__ or error.__context__ is None  # no traceback of urllib
    assert not (tmp_path / "own").exists()


# --- what is fetched ------------------------------------------------------------------------------


def test_what_is_fetched_is_kept(fake, openml, tmp_path):
    openml.update(fake_answers())
    check_fake(ks.datasets.load("fake"))
    openml.clear()
    check_fake(ks.datasets.load("fake"))
    kept = [path.name for path in (tmp_path / "own").rglob("*") if path.is_file()]
    assert kept == ["fake.npz"]


def test_a_download_that_breaks_leaves_nothing(fake, openml, tmp_path):
    openml.update({**fake_answers(), "cut at": -20})
    with pytest.raises(DatasetError, match="could not be fetched from OpenML"):
        ks.datasets.load("fake")
    openml.clear()
    with pytest.raises(
        DatasetError, match=f"OpenMLError: Dataset with data_id {FAKE_ID} not found"
    ):
        ks.datasets.load("fake")
    openml.update(fake_answers(), **dict.fromkeys(paths_of_arff(FAKE_ID), b"@RELATION"))
    with pytest.raises(DatasetError, match="could not be fetched from OpenML"):
        ks.datasets.load("fake")
    assert not (tmp_path / "own").exists()


def test_an_interrupted_write_leaves_nothing(fake, openml, tmp_path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    openml.update(fake_answers())
    monkeypatch.setattr("kernelstream.files.bytes.os.replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ks.datasets.load("fake")
    assert not [path for path in (tmp_path / "own").rglob("*") if path.is_file()]


def test_another_edition_is_used_with_a_warning(fake, openml, tmp_path):
    openml.update(fake_answers(y=ROWS["y"] + 0.5))
    with pytest.warns(UserWarning, match="not the content that the documented figures") as caught:
        fetched = ks.datasets.load("fake")
    assert caught[0].filename == __file__
    openml.clear()
    again = ks.datasets.load("fake")  # without one
    np.testing.assert_array_equal(again.y, fetched.y)
    np.testing.assert_array_equal(again.y, ROWS["y"] + 0.5)
    path = tmp_path / "own" / "kernelstream" / "datasets" / "fake.npz"
    arrays = dict(np.load(path))
    np.savez(path, **{**arrays, "a": arrays["a"][::-1]})
    with pytest.raises(DatasetError, match="other content"):
        ks.datasets.load("fake")


def test_a_folder_that_cannot_be_written_costs_a_warning(fake, openml, tmp_path):
    openml.update(fake_answers())
    (tmp_path / "own").write_text("a file, where a folder should be")
    with pytest.warns(UserWarning, match=r"cannot be written .* Set \$KERNELSTREAM_CACHE"):
        check_fake(ks.datasets.load("fake"))


def as_text(columns):
    return [[np.format_float_positional(v, trim="-") for v in column] for column in columns]


def nominal(values):
    return "{" + ",".join(sorted(set(values))) + "}"


def usps_like_openml(data):
    labels = [str(digit + 1) for digit in data.y]
    names = [f"pixel{i}" for i in range(256)] + ["label"]
    kinds = ["REAL"] * 256 + [nominal(labels)]
    return names, [*as_text(np.float32(data.X.T)), labels], kinds


def boston_like_openml(data):
    columns = as_text([*data.X.T, data.y])
    kinds = [nominal(columns[i]) if i in (3, 8) else "REAL" for i in range(14)]  # CHAS, RAD
    return [*data.feature_names, "MEDV"], columns, kinds


def comp_activ_like_openml(data):
    return [*data.feature_names, "usr"], as_text([*data.X.T, data.y]), ["REAL"] * 13


@pytest.mark.parametrize(
    ("name", "as_openml_has_it"),
    [("usps", usps_like_openml), ("boston", boston_like_openml),
     ("comp-activ", comp_activ_like_openml)],
)  # fmt: skip
def test_fetched_data_are_those_of_the_file(name, as_openml_has_it, openml, tmp_path, monkeypatch):
    local = stored(name)
    monkeypatch.delenv("KERNELSTREAM_DATA")
    monkeypatch.setenv("KERNELSTREAM_CACHE", str(tmp_path))
    openml.update(answers_of(table._TABLE[name].source.openml.data_id, *as_openml_has_it(local)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # another edition would be one
        fetched = ks.datasets.load(name)
    for twin in (fetched, ks.datasets.load(name)):
        assert (twin.X.dtype, twin.y.dtype) == (local.X.dtype, local.y.dtype)
        np.testing.assert_array_equal(twin.X, local.X)
        np.testing.assert_array_equal(twin.y, local.y)

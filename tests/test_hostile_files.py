"""Files that were changed at random, with a checksum that is right: refused, or a sound model."""

import json
import struct
import tracemalloc
import zlib
from contextlib import suppress

import numpy as np
import pytest
from scipy import sparse

import kernelstream as ks
from kernelstream.estimators.files import from_bytes
from kernelstream.persistence import FORMAT_VERSION

X = np.random.default_rng(0).normal(size=(60, 3))
Y = np.digitize(X[:, 0], [-0.5, 0.5])
TREE = ks.label_kernels.Taxonomy.from_nested({"low": [0, 1], 2: None})
MODELS = {
    "multiclass": lambda: ks.KernelClassifier(budget=8).partial_fit(X, Y),
    "binary": lambda: ks.KernelClassifier(budget=ks.budgets.LeastLoss(6)).fit(X, Y > 0),
    "structured": lambda: ks.KernelClassifier(
        budget=ks.budgets.Merge(6), label_structure=TREE
    ).partial_fit(X, Y),
    "many": lambda: ks.KernelClassifier(budget=8).partial_fit(X, Y, classes=np.arange(80)),
    "sparse": lambda: ks.KernelRegressor("linear", budget=None).partial_fit(
        sparse.csr_array(np.abs(X) * (X > 0)), Y
    ),
    "forest": lambda: ks.KernelClassifier(ks.kernels.Forest(2, 5, 3), loss="log_loss").partial_fit(
        X, Y
    ),
    "novelty": lambda: ks.NoveltyDetector("poly", budget=ks.budgets.SmallestOut(7)).partial_fit(X),
}
JUNK = [
    None, True, -1, 0, 1, 2**31, 2**63, 10**400, 1e308, -0.5, "", "x", "<f8", [], [1, 2], {},
    {"part": "RBF", "version": 1, "params": {"gamma": -1}}, {"tuple": [{"tuple": []}]},
    {"array": "numbers"},
]  # fmt: skip
NUMBERS = [np.nan, np.inf, -np.inf, -1.0, 0.0, 1e308, 5e-324]


def pieces(content):
    length = struct.unpack_from("<Q", content, 16)[0]
    return json.loads(content[24 : 24 + length]), bytearray(content[24 + length :])


def whole(header, data):
    text = json.dumps(header).encode()
    body = struct.pack("<Q", len(text)) + text + bytes(data)
    return b"KSTREAM\n" + struct.pack("<II", FORMAT_VERSION, zlib.crc32(body)) + body


def places(value, path=()):
    """Every place in a JSON value."""
    yield path
    below = {}
    if isinstance(value, dict):
        below = value
    elif isinstance(value, list):
        below = dict(enumerate(value))
    for key in list(below):
        yield from places(below[key], (*path, key))


def mutated(content, random):
    header, data = pieces(content)
    for _ in range(random.integers(1, 4)):
        kind = random.integers(5)
        if kind == 0 and data:  # bytes of the arrays
            data[random.integers(len(data))] = random.integers(256)
        elif kind == 1:  # a number of an array
            start = 8 * random.integers(max(1, len(data) // 8))
            if start + 8 <= len(data):
                number = random.integers(-(2**62), 2**62)
                if random.random() < 0.5:
                    struct.pack_into("<q", data, start, number)
                else:
                    struct.pack_into("<d", data, start, NUMBERS[random.integers(len(NUMBERS))])
        elif kind == 2 and len(data) > 10:  # cut short, or longer
            data = data[: random.integers(len(data))] if random.random() < 0.5 else data + b"xyz"
        else:  # the header
            path = list(places(header))[random.integers(1, sum(1 for _ in places(header)))]
            parent = header
            for key in path[:-1]:
                parent = parent[key]
            if random.random() < 0.2:
                del parent[path[-1]]
            else:
                parent[path[-1]] = JUNK[random.integers(len(JUNK))]
            if not isinstance(header.get("arrays"), list) or not header["arrays"]:
                break
    return whole(header, data)


def attack(n_files, seed):
    random = np.random.default_rng(seed)
    contents = [make().to_bytes() for make in MODELS.values()]
    n_loaded = 0
    for _ in range(n_files):
        content = mutated(contents[random.integers(len(contents))], random)
        try:
            model = from_bytes(content, max_bytes=2**26)
        except ks.FileError:
            continue
        n_loaded += 1
        rows = np.abs(random.normal(size=(3, model.n_features_in_)))
        if isinstance(model, ks.KernelClassifier):
            targets = random.choice(model.classes_, 3)
        else:
            targets = np.zeros(3)
        content = model.to_bytes()
        assert from_bytes(content).to_bytes() == content  # a whole model
        with suppress(ValueError):  # huge numbers that a file may hold can make it refuse a row
            model.predict(rows)
            model.partial_fit(rows, targets)
    assert 0 < n_loaded < n_files


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_changed_files():
    attack(300, seed=0)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_a_hundred_thousand_changed_files():
    attack(100_000, seed=1)


def test_random_bytes_are_no_model():
    random = np.random.default_rng(0)
    for length in (0, 1, 15, 16, 24, 100, 10_000):
        for prefix in (b"", b"KSTREAM\n", b"KSTREAM\n\x01\0\0\0"):
            with pytest.raises(ks.FileError):
                from_bytes(prefix + random.bytes(length))


def test_a_deep_header_is_refused():
    header = b'{"arrays": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    body = struct.pack("<Q", len(header)) + header
    with pytest.raises(ks.FileError):
        from_bytes(b"KSTREAM\n" + struct.pack("<II", FORMAT_VERSION, zlib.crc32(body)) + body)


def test_a_model_larger_than_allowed_is_refused(tmp_path):
    model = ks.KernelRegressor(budget=2000).partial_fit(X, Y)
    model.save(tmp_path / "m.ks")
    assert ks.load(tmp_path / "m.ks", max_bytes=None).n_seen_ == 60
    with pytest.raises(ks.FileError, match="max_bytes is 1,000"):
        ks.load(tmp_path / "m.ks", max_bytes=1000)


def small_fleet():
    fleet = ks.Fleet("norma", "regressor", 2, 3, budget=4)
    fleet.learn(X[:2], X[:2, 0])
    return fleet


def of_labels(n):
    """Changes of the header of a classifier: n classes."""
    return {"labels": {"names": list(range(n)), "dtype": "<i8", "single_output": False},
            "n_outputs": n}  # fmt: skip


LONG_NAMES = ["a" * 100_000, *map(str, range(20_000))]
LARGE = {
    "features": ("regressor", {"n_features": 40_000}, {"budget": 1}),
    "sparse features": ("sparse", {"n_features": 2**40}, {}),
    "slots": ("sparse", {"n_slots": 10**9}, {}),
    "features of many slots": ("unlimited", {"n_features": 10_000, "n_slots": 3000}, {}),
    "budget": ("regressor", {"n_slots": 10**7}, {"budget": 10**7}),
    "gram": (
        "projecting", {},
        {"budget": {"part": "LeastLoss", "version": 1, "params": {"size": 10**5}}},
    ),
    "outputs": ("softmax", of_labels(200_000), {}),
    "long names": (
        "softmax",
        {"labels": {"names": LONG_NAMES, "dtype": "<U9", "single_output": False},
         "n_outputs": len(LONG_NAMES)},
        {},
    ),
    "label matrix": (
        "softmax",
        of_labels(20_000),
        {"label_structure": {"part": "LabelMatrix", "version": 1, "params": {
            "labels": {"list": list(range(20_000))}, "kernel": None, "distance": None}}},
    ),
    "label graph": (
        "softmax",
        of_labels(20_000),
        {"label_structure": {"part": "LabelGraph", "version": 1, "params": {
            "labels": {"tuple": list(range(20_000))}, "kernel": "identity", "time": 1.0,
            "edges": {"tuple": [{"tuple": [i, i + 1, 1.0]} for i in range(20_000 - 1)]}}}},
    ),
    "fleet": ("fleet", {"n_models": 10**9}, {}),
    "fleet of many features": ("fleet", {"n_features": 10**7, "n_models": 2}, {}),
    "first build of a fleet": ("fleet", {"n_models": 0}, {"budget": 10**8}),
}  # fmt: skip
BUILT = {
    "regressor": lambda: ks.KernelRegressor(budget=1).partial_fit(X, Y),
    "projecting": lambda: ks.KernelRegressor(budget=ks.budgets.LeastLoss(1)).partial_fit(X, Y),
    "unlimited": lambda: ks.KernelRegressor(budget=None).partial_fit(X, Y),
    "softmax": lambda: ks.KernelClassifier(loss="log_loss", budget=8).partial_fit(X, Y),
    "sparse": MODELS["sparse"],
    "fleet": small_fleet,
}


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("case", LARGE)
def test_what_a_header_claims_is_refused_before_it_is_allocated(tmp_path, case):
    built, changes, params = LARGE[case]
    header, data = pieces(BUILT[built]().to_bytes())
    header.update(changes)
    header["params"].update(params)
    content = whole(header, data)
    (tmp_path / "m.ks").write_bytes(content)
    most = 2**24
    assert len(content) < most / 2
    tracemalloc.start()
    try:
        with pytest.raises(ks.FileError, match=r"max_bytes is 16,777,216|room for"):
            ks.load(tmp_path / "m.ks", max_bytes=most)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < most + 10 * len(content)  # a header becomes objects, which take more


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("built", BUILT)
def test_max_bytes_is_what_building_takes(tmp_path, built):
    """A model loads within the limit that it asks for, and takes no more than that and its file."""
    model = BUILT[built]()
    model.save(tmp_path / "m.ks")
    content = (tmp_path / "m.ks").stat().st_size
    ks.load(tmp_path / "m.ks")  # whatever is made once for all models
    needed, peak = 0, None
    while peak is None:
        tracemalloc.start()
        try:
            ks.load(tmp_path / "m.ks", max_bytes=needed)
            peak = tracemalloc.get_traced_memory()[1]
        except ks.FileError as error:  # of one thing after the other: labels, model, fleet
            asked = str(error).split("would take ")[1].split(" bytes")[0]
            assert needed < int(asked.replace(",", ""))
            needed = int(asked.replace(",", ""))
        finally:
            tracemalloc.stop()
    assert peak < needed + 4 * content + 100_000


def test_a_small_file_is_never_allowed_much_memory_unless_asked(tmp_path):
    from kernelstream.estimators.files import most_bytes

    assert most_bytes("auto", b"x" * 1000) == 2**30
    assert most_bytes(None, b"") is None
    model = ks.KernelRegressor(budget=2000).partial_fit(X, Y)
    model.save(tmp_path / "m.ks")
    for wrong in ("all", -1, 2.5):
        with pytest.raises((ValueError, TypeError), match="max_bytes="):
            ks.load(tmp_path / "m.ks", max_bytes=wrong)

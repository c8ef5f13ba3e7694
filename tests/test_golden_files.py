"""Files that were written before are read, and then predict and learn as they did.

`golden.py` writes them. Nothing is released yet, so a change of layout raises the version of the
record that changed, and ``make golden`` writes the files again. Afterwards released files stay.
"""

import contextlib
import gzip
import json
import shutil

import numpy as np
import pytest

import kernelstream as ks
from kernelstream.estimators.files import RECORDS
from kernelstream.files.bytes import FORMAT_VERSION, FileError, from_bytes, to_bytes
from kernelstream.parts import all_parts
from kernelstream.serve import ServedModel

from . import golden

pytestmark = [
    pytest.mark.usefixtures("without_compiler"), pytest.mark.filterwarnings("ignore"),
]  # fmt: skip
EXPECTED = json.loads(golden.EXPECTED.read_text())
AGAIN = "run `make golden` (as long as no version that wrote them is released)"
VERSIONS = ("version", "versions", "state_versions", "fleet_versions", "keyed_version")


def content_of(name):
    return gzip.decompress((golden.FOLDER / f"{name}.ks.gz").read_bytes())


def loaded(content, folder):
    path = folder / "model.ks"
    path.write_bytes(content)
    return ks.load(path)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6, err_msg=AGAIN)


@pytest.mark.parametrize("name", golden.MODELS)
def test_it_is_read_and_goes_on(name, tmp_path):
    content = content_of(name)
    assert int.from_bytes(content[8:12], "little") == FORMAT_VERSION, AGAIN
    model = loaded(content, tmp_path)
    before, after = EXPECTED[name]
    close(golden.scores(model), before)
    golden.learn_more(model)
    close(golden.scores(model), after)


def test_a_store_is_read_and_goes_on(tmp_path):
    for name in ("store.db", "stored.ks"):
        shutil.copy(golden.FOLDER / name, tmp_path)
    with contextlib.closing(ks.ModelStore(tmp_path / "store.db")) as store:
        models = ks.load(tmp_path / "stored.ks").attach(store)
        assert (len(models), len(store), models.n_rows_) == (4, 2, 40)
        fresh = ks.KeyedFleet("svmd", "regressor", budget=4)
        fresh.learn([f"key {i % 4}" for i in range(40)], golden.X[:40], golden.NUMBERS[:40])
        keys = ["key 0", "key 1", "key 2", "key 3"]
        close(models.predict(keys, golden.X[:4]), fresh.predict(keys, golden.X[:4]))


def test_a_service_goes_on_from_its_checkpoint_and_its_log(tmp_path):
    shutil.copytree(golden.FOLDER / "service", tmp_path / "m")
    assert ks.Checkpointer(tmp_path / "m").resume()[1] == 40, AGAIN
    served = ServedModel("m", ks.make("linear-pa", "regressor"), tmp_path / "m")
    expected = ks.make("linear-pa", "regressor").partial_fit(golden.X[:50], golden.NUMBERS[:50])
    assert served.position == 50
    assert len(served.waiting(["late 0", "late 1"])[0]) == 2
    close(served.predict(golden.X[:5]), expected.predict(golden.X[:5]))
    served.close()


# --- layouts and versions ------------------------------------------------------------------------


def layout(content):
    """The names and types of all that a file says, and the versions that it names."""
    header, arrays = from_bytes(content)
    found, versions = {}, {}

    def walk(value, path):
        if isinstance(value, dict):
            for key, inner in value.items():
                if key in VERSIONS:
                    versions[f"{path}.{key}"] = inner
                else:
                    walk(inner, f"{path}.{key}")
        elif isinstance(value, list):
            for inner in value:
                walk(inner, f"{path}[]")
        else:
            found.setdefault(path, set()).add(type(value).__name__)

    walk(header, "")
    for name, array in arrays.items():
        found[f"array {name}"] = {f"{array.dtype.str} of {array.ndim} axes"}
    return found, versions


@pytest.mark.parametrize("name", golden.MODELS)
def test_a_layout_changes_with_a_version(name):
    found, versions = layout(golden.MODELS[name]().to_bytes())
    expected, expected_versions = layout(content_of(name))
    if found == expected:
        assert versions == expected_versions, AGAIN
        return
    changed = sorted(k for k in found.keys() | expected.keys() if found.get(k) != expected.get(k))
    assert versions != expected_versions, (
        f"{name}: {changed} changed and no version did. Raise `version` of the part, RECORDS in "
        f"estimators/files.py, or the version of the file beside it, and then {AGAIN}."
    )
    pytest.fail(f"{name}: {changed} changed with a version: {AGAIN}.")


def test_the_golden_files_have_every_part_and_every_record():
    parts, records = set(), set()
    for name in golden.MODELS:
        text = json.dumps(from_bytes(content_of(name))[0])
        parts |= {e.cls.__name__ for e in all_parts() if f'"{e.cls.__name__}"' in text
                  or f' {e.cls.__name__}"' in text}  # fmt: skip
        records |= {name for name, version in RECORDS.items() if f'"{name}": {version}' in text}
    ours = {e.cls.__name__ for e in all_parts() if (e.cls.__module__.startswith("kernelstream.")
            and hasattr(e.cls, "state")) or e.kind == "mixing"}  # fmt: skip
    assert ours - parts == set()
    assert records == set(RECORDS)


def places_of_versions(value, place=()):
    """Where a header has the number of a version."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if key in VERSIONS and isinstance(inner, dict):
            yield from ((*place, key, name) for name in inner)
        elif key in VERSIONS:
            yield (*place, key)
        elif isinstance(inner, dict | list):
            yield from places_of_versions(inner, (*place, key))


@pytest.mark.parametrize(
    "name", ["preset-svmd", "renewed", "table", "waiting", "auto-classifier", "auto-detector",
             "fleet", "keyed", "committee-novelty"]
)  # fmt: skip
def test_another_version_of_any_record_is_refused_and_both_are_named(name, tmp_path):
    header, arrays = from_bytes(content_of(name))
    header.pop("format_version")
    places = list(places_of_versions(header))
    assert places
    for *way, last in places:
        changed = json.loads(json.dumps(header))
        inner = changed
        for key in way:
            inner = inner[key]
        inner[last] += 6
        pattern = rf"has version {inner[last]} in the file, .* .*: install"
        with pytest.raises(FileError, match=pattern):
            loaded(to_bytes(changed, arrays), tmp_path)
        del inner[last]
        with pytest.raises(FileError):
            loaded(to_bytes(changed, arrays), tmp_path)


def test_another_version_of_the_format_is_refused(tmp_path):
    content = content_of("preset-svmd")
    other = content[:8] + (2).to_bytes(4, "little") + content[12:]
    with pytest.raises(FileError, match=r"format has version 2 in the file.* 3: use the k"):
        loaded(other, tmp_path)


@pytest.mark.parametrize("name", ["preset-pa", "auto-classifier", "auto-detector", "fleet"])
def test_an_array_that_is_missing_or_unknown_is_named(name, tmp_path):
    header, arrays = from_bytes(content_of(name))
    header.pop("format_version")
    required = [key for key in sorted(arrays) if not key.endswith("row_cache")]
    some = required[len(required) // 2]
    with pytest.raises(FileError, match=r"is missing|lacks numbers of the members"):
        loaded(to_bytes(header, {k: a for k, a in arrays.items() if k != some}), tmp_path)
    if name != "fleet":
        with pytest.raises(FileError, match="strange', which is unknown"):
            loaded(to_bytes(header, {**arrays, "0.strange": np.zeros(2)}), tmp_path)


@pytest.mark.parametrize(("place", "change"), [("log", "log"), ("waiting", "file")])
def test_a_log_of_another_version_is_refused(place, change, tmp_path, monkeypatch):
    from kernelstream.serve import delayed_labels, log

    shutil.copytree(golden.FOLDER / "service", tmp_path / "m")
    monkeypatch.setattr({"log": log, "waiting": delayed_labels}[place], "_VERSION", 7)
    with pytest.raises(FileError, match=f"{change} .* has version 1 .* version 7"):
        ServedModel("m", ks.make("linear-pa", "regressor"), tmp_path / "m")


def test_a_store_of_another_version_is_refused(tmp_path, monkeypatch):
    from kernelstream.fleet import store

    shutil.copy(golden.FOLDER / "store.db", tmp_path)
    monkeypatch.setattr(store, "_VERSION", 7)
    with pytest.raises(FileError, match=r"has version 1 .* reads version 7"):
        ks.ModelStore(tmp_path / "store.db")

"""The data sets: a description, the source, and how arrays are converted to rows and labels."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits

from kernelstream.datasets.dataset import Dataset
from kernelstream.datasets.files import Arrays, Stored
from kernelstream.datasets.openml import OpenML, Table
from kernelstream.parts import one_of

__all__ = ["describe", "load", "names"]


class BuiltIn(NamedTuple):
    """A data set that scikit-learn ships."""

    make: Callable[[], Any]

    def read(self, name: str, data: Any) -> Arrays:
        """Return the arrays of the data set; there is no file to look for."""
        return dict(self.make())


class Entry(NamedTuple):
    """A row of the table: a description, the source, and how arrays are converted to fields."""

    description: str
    source: Stored | BuiltIn
    fields: Callable[[Arrays], dict[str, Any]]


# --- from arrays to the fields of a Dataset -------------------------------------------------------


def _digits_fields(arrays: Arrays) -> dict[str, Any]:
    details = {"target_names": arrays["target_names"]}
    return {"X": arrays["data"] / 16.0, "y": arrays["target"], "details": details}


def _split(X: np.ndarray, y: np.ndarray, train: Any, test: Any) -> dict[str, Any]:
    """Return all rows, and the rows that `train` and `test` select."""
    return {
        "X": X, "y": y,
        "X_train": X[train], "y_train": y[train], "X_test": X[test], "y_test": y[test],
    }  # fmt: skip


def _joined(arrays: Arrays, divisor: np.number) -> dict[str, Any]:
    """Split training rows from test rows; divide integers by `divisor`."""
    X = np.concatenate([arrays["X_train"], arrays["X_test"]]) / divisor
    y = np.concatenate([arrays["y_train"], arrays["y_test"]]).astype(np.int64)
    n_train = len(arrays["X_train"])
    return _split(X, y, slice(None, n_train), slice(n_train, None))


def _usps_fields(arrays: Arrays) -> dict[str, Any]:
    return _joined(arrays, np.float64(1000))


def _mnist_fields(arrays: Arrays) -> dict[str, Any]:
    return _joined(arrays, np.float32(255))


def _boston_fields(arrays: Arrays) -> dict[str, Any]:
    *features, target = arrays
    X = np.stack([arrays[feature] for feature in features], axis=1)
    return {"X": X, "y": arrays[target], "details": {"feature_names": np.array(features)}}


def _comp_activ_fields(arrays: Arrays) -> dict[str, Any]:
    details = {"feature_names": arrays["feature_names"]}
    return {"X": arrays["X"], "y": arrays["y"], "details": details}


def _wipo_fields(arrays: Arrays) -> dict[str, Any]:
    names, parent = arrays["node_names"], arrays["parent"]
    paths: list[str] = []
    for name, above in zip(names, parent, strict=True):  # parents come before their children
        paths.append(f"{paths[above]}/{name}" if above >= 0 else str(name))
    leaf_paths = np.array(paths)[arrays["leaf_node"]]
    details = {"leaf_names": leaf_paths, "node_names": names, "parents": parent}
    is_test = arrays["is_test"]
    return {**_split(arrays["X"], leaf_paths[arrays["y"]], ~is_test, is_test), "details": details}


def _clinc_fields(arrays: Arrays) -> dict[str, Any]:
    split = arrays["split"]
    y = np.char.add(np.char.add(arrays["domain"], "/"), arrays["intent"])
    details = {"split": split, "in_small_train": arrays["in_small_train"].astype(bool)}
    return {**_split(arrays["text"], y, split == "train", split == "test"), "details": details}


def _video(
    arrays: Arrays, masks: np.ndarray, scored: np.ndarray, rows: np.ndarray
) -> dict[str, Any]:
    """Check that `masks` marks motion and `scored` known truth, for some frames."""
    details = {
        "frame_numbers": arrays["frame_no"], "masks": masks, "scored": scored, "mask_rows": rows,
    }  # fmt: skip
    return {"X": arrays["frames"], "details": details}


def _lobby_fields(arrays: Arrays) -> dict[str, Any]:
    masks = np.zeros((0, *arrays["frames"].shape[1:]), bool)
    return _video(arrays, masks, masks, np.zeros(0, np.int64))


def _wallflower_fields(arrays: Arrays) -> dict[str, Any]:
    masks = arrays["gt_masks"] == 1
    rows = np.flatnonzero(np.isin(arrays["frame_no"], arrays["gt_frame_no"]))
    return _video(arrays, masks, np.ones_like(masks), rows)


def _office_fields(arrays: Arrays) -> dict[str, Any]:
    truth = arrays["gt"]  # 0 background, 255 foreground; the rest is unknown or not scored
    known = (truth == 0) | (truth == 255)
    rows = np.flatnonzero(known.any(axis=(1, 2)))
    return _video(arrays, truth[rows] == 255, known[rows], rows)


# --- from OpenML's tables to the arrays of our files ----------------------------------------------


def _digit_table(n_train: int, to_pixels: Callable[[np.ndarray], np.ndarray]) -> Any:
    """Check that training rows come before test rows; label 1 may mean the digit 0."""

    def to_arrays(table: Table) -> Arrays:
        X, y = to_pixels(table.X), table.y - table.y.min()
        return {
            "X_train": X[:n_train], "y_train": y[:n_train].astype(np.uint8),
            "X_test": X[n_train:], "y_test": y[n_train:].astype(np.uint8),
        }  # fmt: skip

    return to_arrays


def _thousandths(X: np.ndarray) -> np.ndarray:
    """Scale gray levels of any range to integers from -1000 to 1000; the scanner had 2001."""
    return np.rint(2000 * (X - X.min()) / np.ptp(X) - 1000).astype(np.int16)


def _boston_table(table: Table) -> Arrays:
    return {**dict(zip(table.names, table.X.T, strict=True)), "MEDV": table.y}


def _comp_activ_table(table: Table) -> Arrays:
    return {"X": table.X, "y": table.y, "feature_names": np.array(table.names)}


# --- the table ------------------------------------------------------------------------------------


def _digit_arrays(dtype: str, n_train: int, n_test: int, n_features: int) -> dict[str, Any]:
    return {
        "X_train": (dtype, (n_train, n_features)), "y_train": ("uint8", (n_train,)),
        "X_test": (dtype, (n_test, n_features)), "y_test": ("uint8", (n_test,)),
    }  # fmt: skip


def _columns(names: str, dtype: str, n_rows: int) -> dict[str, Any]:
    return dict.fromkeys(names.split(), (dtype, (n_rows,)))


def _video_arrays(n_frames: int, height: int, width: int) -> dict[str, Any]:
    return {"frames": ("uint8", (n_frames, height, width)), "frame_no": ("int16", (n_frames,))}


_ONE_MASK = {"gt_masks": ("uint8", (1, 120, 160)), "gt_frame_no": ("int16", (1,))}

_TABLE = {
    "digits": Entry(
        "1,797 handwritten digits, 8 x 8 pixels in [0, 1]; scikit-learn has them.",
        BuiltIn(load_digits),
        _digits_fields,
    ),
    "usps": Entry(
        "9,298 handwritten digits from envelopes, 16 x 16 pixels in [-1, 1]; 7,291 to train.",
        Stored(
            "usps.npz",
            _digit_arrays("int16", 7291, 2007, 256),
            "ea82d80531834f3999b18ad83b6567b4af82e41b4f6938e47960e85d73cb9ac3",
            OpenML(41082, _digit_table(7291, _thousandths)),
        ),
        _usps_fields,
    ),
    "mnist": Entry(
        "70,000 handwritten digits, 28 x 28 pixels in [0, 1], float32; 60,000 to train.",
        Stored(
            "mnist.npz",
            _digit_arrays("uint8", 60000, 10000, 784),
            "718642823a97c098dbc2cf285b454c723cbca86a36072958be487fc8ebf13c28",
            OpenML(554, _digit_table(60000, lambda X: X.astype(np.uint8))),
        ),
        _mnist_fields,
    ),
    "boston": Entry(
        "Boston housing: 506 districts, 13 features, median value in $1000. Column B encodes race: "
        "for reproducing the paper's table, and nothing else.",
        Stored(
            "boston.csv",
            _columns(
                "CRIM ZN INDUS CHAS NOX RM AGE DIS RAD TAX PTRATIO B LSTAT MEDV", "float64", 506
            ),
            "83a27342ecbb6a5ac95cc19034eb931942be91d299f44586902795921d9aa8a1",
            OpenML(531, _boston_table),
        ),
        _boston_fields,
    ),
    "comp-activ": Entry(
        "Comp-activ (Delve, cpuSmall): 8,192 rows, 12 features, share of time in user mode.",
        Stored(
            "cpusmall.npz",
            {
                "X": ("float64", (8192, 12)), "y": ("float64", (8192,)),
                "feature_names": ("str", (12,)),
            },
            "b46364581e8eee61c600d9d14f9d8094944dcd6462c2b611795824be1840c275",
            OpenML(227, _comp_activ_table),
        ),
        _comp_activ_fields,
    ),
    "wipo-alpha": Entry(
        "WIPO-alpha, section D: 1,710 patents, 100 LSA features; labels are paths in a tree of 57 "
        "leaves. Sorted by class: shuffle.",
        Stored(
            "wipo_alpha_d_lsa100.npz",
            {
                "X": ("float32", (1710, 100)), "y": ("int16", (1710,)),
                "is_test": ("bool", (1710,)), "leaf_node": ("int16", (57,)),
                "node_names": ("str", (85,)), "parent": ("int16", (85,)),
            },
            "6437d2c5a7421d8ceb4df9d9f458d42692470c6c0717252ff58a88f92e55eea0",
        ),
        _wipo_fields,
    ),
    "clinc150": Entry(
        "CLINC150: 22,500 English requests; labels are paths of 10 domains and 150 intents. Sorted "
        "by intent: shuffle.",
        Stored(
            "clinc150.csv.gz",
            _columns("text intent domain split", "str", 22500)
            | {"in_small_train": ("uint8", (22500,))},
            "252187b68ba2f35069a9071ebdcaf4480845c72fe6c2e346ba3eb529eb2cbbb6",
        ),
        _clinc_fields,
    ),
    "video-office": Entry(
        "CDnet 2012 office: 876 gray frames, a person comes in and reads; with true masks.",
        Stored(
            "video_cdnet_office.npz",
            _video_arrays(876, 120, 180) | {"gt": ("uint8", (876, 120, 180))},
            "1969136ea913a3ed722858ec49066e30a3dc0ca779e47c5b52a3d1caff3604e6",
        ),
        _office_fields,
    ),
    "video-lightswitch": Entry(
        "Wallflower LightSwitch: 1,700 gray frames, lights go off and on; one true mask.",
        Stored(
            "video_wallflower_lightswitch.npz",
            _video_arrays(1700, 120, 160) | _ONE_MASK,
            "70eb307500c0a0e55b7a2f3fb6444c0d7baac8e00a6886cba7445b0c7d10ce93",
        ),
        _wallflower_fields,
    ),
    "video-wavingtrees": Entry(
        "Wallflower WavingTrees: 287 gray frames of a moving background; one true mask.",
        Stored(
            "video_wallflower_wavingtrees.npz",
            _video_arrays(287, 120, 160) | _ONE_MASK,
            "ac246246c25bad9a976460112af62f16bb072df8583f5b81bc8c76ddfd4a2fd5",
        ),
        _wallflower_fields,
    ),
    "video-lobby": Entry(
        "I2R Lobby: 1,000 gray frames, lights go off and on, people walk by; no true masks.",
        Stored(
            "video_lobby_lightswitch.npz",
            _video_arrays(1000, 128, 160),
            "b39c0761d36cfb52bd4268c90c722b5d1fa27ee6302a3219a9050e6e5b596da8",
        ),
        _lobby_fields,
    ),
}  # fmt: skip


def names() -> list[str]:
    """Return the names of the data sets.

    Examples
    --------
    >>> import kernelstream as ks
    >>> ks.datasets.names()[:3]
    ['digits', 'usps', 'mnist']
    """
    return list(_TABLE)


def describe(name: str) -> str:
    """Return a description of a data set in one or two sentences; it need not be installed.

    Parameters
    ----------
    name : str
        One of `names`.

    Examples
    --------
    >>> import kernelstream as ks
    >>> print(ks.datasets.describe("digits"))
    1,797 handwritten digits, 8 x 8 pixels in [0, 1]; scikit-learn has them.
    """
    return _TABLE[one_of("name", name, names())].description


def load(name: str, data: Any = None, return_X_y: bool = False) -> Any:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        The name of the data set, one of `names`.
    data : path, default=None
        The folder to look in first. The folder given by ``$KERNELSTREAM_DATA`` and the cache folder
        of the library follow. A data set that is in none of them is downloaded from OpenML, if it
        is available there, and cached.
    return_X_y : bool, default=False
        Whether to return only the rows and the labels.

    Returns
    -------
    Dataset, or (X, y)

    Raises
    ------
    DatasetError
        If the data set is not found and cannot be downloaded, or its file is damaged.

    Examples
    --------
    >>> import kernelstream as ks
    >>> X, y = ks.datasets.load("digits")
    >>> X.shape
    (1797, 64)
    """
    entry = _TABLE[one_of("name", name, names())]
    fields = entry.fields(entry.source.read(name, data))
    dataset = Dataset(name, entry.description, **fields)
    return tuple(dataset) if return_X_y else dataset

"""Estimators as files: what of one goes into the header, and how it comes back."""

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from kernelstream.delayed_labels import PendingRows
from kernelstream.estimators.choices import parts_of
from kernelstream.estimators.class_weights import counts_from_json
from kernelstream.estimators.labels import Labels
from kernelstream.estimators.learned import Learned
from kernelstream.estimators.made_with import made_with
from kernelstream.estimators.missing import Means
from kernelstream.files.bytes import FileError, check_versions, strange_headers, to_bytes
from kernelstream.files.bytes import from_bytes as read_bytes
from kernelstream.files.parts import SAVEABLE, from_json, params_to_json, to_json
from kernelstream.kernels import Kernel
from kernelstream.label_kernels import LabelStructure
from kernelstream.learner.machine import Machine
from kernelstream.learner.plan import first_slots, refuse_beyond, slots_of, versions_of
from kernelstream.parts import integer_at_least, one_of
from kernelstream.stores import STAGED_ROWS, as_device
from kernelstream.tables.columns import Columns

__all__ = [
    "RECORDS",
    "check_names",
    "content_of",
    "described",
    "from_bytes",
    "labels_from_header",
    "machine_from_arrays",
    "most_bytes",
    "rebuild",
    "with_header",
]

_ALWAYS_ALLOWED = 2**30
# The versions of the records that files may have beside a machine's state: `to_json` of each.
RECORDS = {"labels": 1, "columns": 1, "means": 1, "waiting": 1, "watch": 2}


def _versions(header: dict[str, Any]) -> dict[str, int]:
    """Return the version of each record that a file's header has, as this kernelstream knows it."""
    found = {name: version for name, version in RECORDS.items() if header[name] is not None}
    return {header["class"]: SAVEABLE[header["class"]].version, **found}


def content_of(model: Any, learned: Learned, beside: dict[str, Any] | None) -> bytes:
    """Return the bytes of an estimator's file; `beside` joins the header."""
    machine, labels = learned.machine, learned.labels
    waiting, waiting_arrays = model.pending_rows().to_parts()
    with machine.gate:
        arrays = {**machine.to_arrays(), **waiting_arrays}
        header = {
            **(beside or {}),
            "class": type(model).__name__,
            "params": params_to_json(made_with(model), arrays),
            **model.describe_machine(machine, arrays),
            "n_features": machine.n_features,
            "n_outputs": machine.n_outputs,
            "sparse": machine.is_sparse,
            "dtype": machine.dtype.newbyteorder("<").str,  # members may have others
            "labels": None if labels is None else labels.to_json(),
            "class_counts": _listed(learned.class_counts),
            "columns": None if learned.columns is None else learned.columns.to_json(),
            "means": None if learned.means is None else learned.means.to_json(),
            "waiting": waiting if waiting["ids"] or waiting["n_expired"] else None,
            "skipped": model.__dict__.get("_skipped", {}),
            "watch": model.__dict__.get("_watch"),
            "feature_names": getattr(model, "feature_names_in_", np.empty(0)).tolist(),
        }
        return to_bytes({**header, "versions": _versions(header)}, arrays)


def check_names(names: Any, learned: Learned) -> None:
    """Refuse column names of a file that are not those of the rows."""
    if names and (
        len(names) != learned.row_width or not all(isinstance(name, str) for name in names)
    ):
        raise FileError(f"the file's feature names are {names!r}.")


def from_bytes(
    content: bytes, kernel: Any = None, max_bytes: Any = "auto", name: str = "the file",
    device: Any = None,
) -> Any:  # fmt: skip
    """Return a model from the bytes that `save` would write."""
    return with_header(content, kernel, max_bytes, name, device)[0]


def with_header(
    content: bytes, kernel: Any = None, max_bytes: Any = "auto", name: str = "the file",
    device: Any = None,
) -> tuple[Any, dict[str, Any]]:  # fmt: skip
    """Return a model, and the header it came with, which may hold more than the model."""
    header, arrays = read_bytes(content)
    chosen = as_device(device)
    with strange_headers(name):
        return rebuild(header, arrays, kernel, most_bytes(max_bytes, content), chosen), header


def most_bytes(max_bytes: Any, content: bytes) -> int | None:
    """Return the memory limit of a file's model; "auto": 1 GiB, or eight times its size."""
    if max_bytes is None:
        return None
    if isinstance(max_bytes, str):
        one_of("max_bytes", max_bytes, ["auto"])
        return max(_ALWAYS_ALLOWED, 8 * len(content))
    return integer_at_least("max_bytes", max_bytes, 0)


def rebuild(
    header: dict[str, Any], arrays: dict[str, np.ndarray], kernel: Any, max_bytes: int | None,
    device: Any = None,
) -> Any:  # fmt: skip
    """Return the model of a file's header and arrays, checked down to every number; on a device."""
    cls = SAVEABLE.get(header["class"])
    if cls is None:
        raise FileError(f"the file holds a {header['class']!r}, which is unknown here.")
    check_versions(header["versions"], _versions(header))
    model = cls(**{k: from_json(v, arrays, kernel) for k, v in header["params"].items()})
    if device is not None and "device" in model.get_params(deep=False):
        model.set_params(device=device)  # what else there is stays on the host
    labels = labels_from_header(header, model.structure(), max_bytes)
    single_output, wanted = True, 1
    if (header["labels"] is None) == issubclass(cls, ClassifierMixin):
        raise FileError(f"the file has the labels {header['labels']!r}.")
    if labels is not None:
        single_output, wanted = labels.single_output, labels.n_outputs()
    _precision(header)
    if integer_at_least("n_outputs", header["n_outputs"], 0) != wanted:
        raise FileError(f"the file has {header['n_outputs']} outputs where there must be {wanted}.")
    waiting = {name: arrays.pop(name) for name in list(arrays) if name.startswith("waiting.")}
    machine = model.machine_from_file(header, arrays, single_output, kernel, max_bytes)
    unknown = {name for name in arrays if not name.startswith("parameter ")} - {
        *machine.to_arrays()
    }
    if unknown:
        raise FileError(f"the file has the array {min(unknown)!r}, which is unknown here.")
    counts = counts_from_json(header.get("class_counts"), 0 if labels is None else len(labels))
    columns, means = _intake_from(header, machine)
    model.take_over(Learned(machine, labels, counts, columns, means), header)
    model.pending_rows()  # checks `waiting_rows`
    if header.get("waiting") is not None:
        room = PendingRows.from_parts(header["waiting"], waiting, machine.n_features)
        model.take_in(room)
    return model


def _precision(header: dict[str, Any]) -> np.dtype:
    """Return the precision of the rows of a file's machine."""
    if header["dtype"] not in ("<f8", "<f4"):
        raise FileError(f"the file claims rows of type {header['dtype']!r}.")
    return np.dtype(header["dtype"])


def _intake_from(header: dict[str, Any], machine: Any) -> tuple[Columns | None, Means | None]:
    """Return the columns of tables and the means for what is missing, as a file has them."""
    columns, means = None, None
    if header.get("columns") is not None:
        columns = Columns.from_json(header["columns"])
    if header.get("means") is not None:
        means = Means.from_json(header["means"], machine.n_features)
    width = machine.n_features - (0 if means is None else len(means.marked))
    if columns is not None and columns.width != width:
        raise FileError(f"the file's columns make {columns.width} features, not {width}.")
    if machine.is_sparse and columns is not None:
        raise FileError("the file has columns of tables, and sparse rows.")
    return columns, means


def _listed(numbers: np.ndarray | None) -> list[float] | None:
    return None if numbers is None else numbers.tolist()


def described(machine: Machine, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the header of one machine in a file."""
    return {
        "kernel": to_json(machine.kernel, arrays),
        "n_slots": machine.n_slots,
        "dtype": machine.dtype.newbyteorder("<").str,
        "state_versions": machine.versions(),
    }


def machine_from_arrays(
    model: Any, header: dict[str, Any], arrays: dict[str, np.ndarray], single_output: bool,
    kernel: Any, max_bytes: int | None,
) -> Machine:  # fmt: skip
    """Return one machine from a file; `model` has the parameters that choose its parts."""
    resolved = from_json(header["kernel"], arrays, kernel)
    if not isinstance(resolved, Kernel) or resolved.resolve(1) != resolved:
        raise FileError(f"the file's kernel is {resolved!r}.")
    dtype, sparse = _precision(header), bool(header["sparse"])
    parts = parts_of(model, resolved, single_output, sparse)
    check_versions(header["state_versions"], versions_of(parts))
    n_features = integer_at_least("n_features", header["n_features"], 1)
    n_slots, limit = slots_of(parts, n_features, header["n_slots"])
    n_points = int(arrays["expansion.n_points"][0])
    _check_slots(header["n_slots"], parts, limit, first_slots(parts, n_features, n_points))
    machine = Machine(
        parts, n_features, header["n_outputs"], dtype, sparse, max_bytes,
        n_slots=n_slots,
    )  # fmt: skip
    machine.fill(arrays)
    return machine


def _check_slots(n_slots: Any, parts: Any, limit: int | None, least: int) -> None:
    """Refuse a number of slots to which learning could not have led."""
    integer_at_least("n_slots", n_slots, 1)
    most = 4 * (least + STAGED_ROWS) if limit is None else limit
    if not least <= n_slots <= most:
        raise FileError(f"the file claims room for {n_slots} points.")


def labels_from_header(
    header: dict[str, Any], structure: LabelStructure | None, max_bytes: int | None
) -> Labels | None:
    """Return the labels of a file's model, if they do not take too much memory."""
    if structure is not None:
        refuse_beyond(max_bytes, structure.n_bytes(), "the label structure")
    if header["labels"] is None:
        return None
    refuse_beyond(max_bytes, Labels.n_bytes(header["labels"]), "the labels")
    return Labels.from_json(header["labels"], structure)

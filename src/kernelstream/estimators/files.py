"""Estimators as files: what of one goes into the header, and how it comes back."""

from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin

from kernelstream.drift import LossWatch
from kernelstream.estimators.base import KernelEstimator, Learned
from kernelstream.estimators.choices import parts_of
from kernelstream.estimators.labels import Labels
from kernelstream.files import format_1
from kernelstream.files.bytes import FileError, strange_headers, to_bytes, write
from kernelstream.files.bytes import from_bytes as read_bytes
from kernelstream.files.parts import from_json, params_to_json, to_json
from kernelstream.kernels import Kernel
from kernelstream.label_kernels import LabelStructure
from kernelstream.learner.machine import Machine, Parts, first_slots, refuse_beyond, slots_of
from kernelstream.parts import integer_at_least, one_of
from kernelstream.stores import STAGED_ROWS

__all__ = [
    "Saveable",
    "from_bytes",
    "labels_from_header",
    "most_bytes",
    "rebuild",
    "with_header",
]

_ALWAYS_ALLOWED = 2**30


class Saveable(KernelEstimator):
    """An estimator that can be written to a file and read back, bit for bit."""

    classes_by_name: ClassVar[dict[str, type["Saveable"]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        Saveable.classes_by_name.setdefault(cls.__name__, cls)

    def save(self, path: Any) -> None:
        """Write the model to a file: arrays and JSON, nothing executable.

        The file is written beside its place and renamed, so that a crash leaves the old one. A
        function given as ``on_bad_row`` is saved as "skip"; one given as kernel goes to `load`.

        Parameters
        ----------
        path : str or path-like
        """
        write(path, self.to_bytes())

    def to_bytes(self, beside: dict[str, Any] | None = None) -> bytes:
        """The content of the file that `save` writes.

        Parameters
        ----------
        beside : dict, default=None
            What joins the header, as JSON.

        Returns
        -------
        bytes
        """
        machine, labels = self._known()
        with machine.gate:
            arrays = machine.to_arrays()
            header = {
                **(beside or {}),
                "class": type(self).__name__,
                "params": params_to_json(self.get_params(deep=False), arrays),
                "kernel": to_json(machine.kernel, arrays),
                "n_features": machine.n_features,
                "n_outputs": machine.n_outputs,
                "n_slots": machine.n_slots,
                "sparse": machine.store.is_sparse,
                "dtype": machine.dtype.newbyteorder("<").str,
                "labels": None if labels is None else labels.to_json(),
                "skipped": self._skipped_so_far(),
                "watch": self.__dict__.get("_watch"),
                "feature_names": getattr(self, "feature_names_in_", np.empty(0)).tolist(),
            }
            return to_bytes(header, arrays)

    def take_over(self, learned: Learned, header: dict[str, Any] | None = None) -> None:
        """Become the model that a file, or a fleet, has."""
        machine, header = learned.machine, header or {}
        names = header.get("feature_names")
        if names and (
            len(names) != machine.n_features or not all(isinstance(name, str) for name in names)
        ):
            raise FileError(f"the file's feature names are {names!r}.")
        self._knowledge = learned
        if header.get("skipped"):
            self._skipped = {str(reason): int(n) for reason, n in header["skipped"].items()}
        if header.get("watch") is not None:
            self.loss_watch = LossWatch.from_json(header["watch"])
        self.n_features_in_ = machine.n_features
        if names:
            self.feature_names_in_ = np.array(names, dtype=object)


def from_bytes(
    content: bytes, kernel: Any = None, max_bytes: Any = "auto", name: str = "the file"
) -> Any:
    """A model from the bytes that `save` would write."""
    return with_header(content, kernel, max_bytes, name)[0]


def with_header(
    content: bytes, kernel: Any = None, max_bytes: Any = "auto", name: str = "the file"
) -> tuple[Any, dict[str, Any]]:
    """A model, and the header it came with, which may hold more than the model."""
    header, arrays = read_bytes(content)
    with strange_headers(name):
        return rebuild(header, arrays, kernel, most_bytes(max_bytes, content)), header


def most_bytes(max_bytes: Any, content: bytes) -> int | None:
    """How much memory a file's model may take; "auto": 1 GiB, or eight times the file's size."""
    if max_bytes is None:
        return None
    if isinstance(max_bytes, str):
        one_of("max_bytes", max_bytes, ["auto"])
        return max(_ALWAYS_ALLOWED, 8 * len(content))
    return integer_at_least("max_bytes", max_bytes, 0)


def rebuild(
    header: dict[str, Any], arrays: dict[str, np.ndarray], kernel: Any, max_bytes: int | None
) -> Any:
    """The model of a file's header and arrays, checked down to every number."""
    cls = Saveable.classes_by_name.get(header["class"])
    if cls is None:
        raise FileError(f"the file holds a {header['class']!r}, which is unknown here.")
    model = cls(**{k: from_json(v, arrays, kernel) for k, v in header["params"].items()})
    labels = labels_from_header(header, model.structure(), max_bytes)
    resolved = from_json(header["kernel"], arrays, kernel)
    if not isinstance(resolved, Kernel) or resolved.resolve(1) != resolved:
        raise FileError(f"the file's kernel is {resolved!r}.")
    single_output, wanted = True, 1
    if (header["labels"] is None) == issubclass(cls, ClassifierMixin):
        raise FileError(f"the file has the labels {header['labels']!r}.")
    if labels is not None:
        single_output, wanted = labels.single_output, labels.n_outputs()
    is_sparse = bool(header.get("sparse", "points.indptr" in arrays))
    parts = parts_of(model, resolved, single_output, is_sparse)
    machine = _machine(header, arrays, parts, wanted, is_sparse, max_bytes)
    model.take_over(Learned(machine, labels), header)
    return model


def _machine(
    header: dict[str, Any], arrays: dict[str, np.ndarray], parts: Parts, n_outputs: int,
    is_sparse: bool, max_bytes: int | None,
) -> Machine:  # fmt: skip
    """The machine of a file's arrays."""
    if header["dtype"] not in ("<f8", "<f4"):
        raise FileError(f"the file claims rows of type {header['dtype']!r}.")
    n_features = integer_at_least("n_features", header["n_features"], 1)
    if integer_at_least("n_outputs", header["n_outputs"], 0) != n_outputs:
        raise FileError(
            f"the file has {header['n_outputs']} outputs where there must be {n_outputs}."
        )
    n_points = int(arrays["expansion.n_points"][0])
    n_slots, limit = slots_of(parts, n_features, header["n_slots"])
    _check_slots(header["n_slots"], limit, n_points)
    machine = Machine(
        parts, n_features, n_outputs, np.dtype(header["dtype"]), is_sparse, max_bytes,
        n_slots=n_slots,
    )  # fmt: skip
    if header["format_version"] == 1:
        format_1.fill(machine, arrays)
    else:
        machine.fill(arrays)
    return machine


def _check_slots(n_slots: Any, limit: int | None, n_points: int) -> None:
    """Refuse a number of slots to which learning could not have led."""
    integer_at_least("n_slots", n_slots, 1)
    least = first_slots(limit, n_points)
    if not least <= n_slots <= (4 * (least + STAGED_ROWS) if limit is None else least):
        raise FileError(f"the file claims room for {n_slots} points.")


def labels_from_header(
    header: dict[str, Any], structure: LabelStructure | None, max_bytes: int | None
) -> Labels | None:
    """The labels of a file's model, if they do not take too much memory."""
    if structure is not None:
        refuse_beyond(max_bytes, structure.n_bytes(), "the label structure")
    if header["labels"] is None:
        return None
    refuse_beyond(max_bytes, Labels.n_bytes(header["labels"]), "the labels")
    return Labels.from_json(header["labels"], structure)

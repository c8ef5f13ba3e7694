"""Models as files: what of an estimator goes into the header, and how it comes back."""

from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import ClassifierMixin

from kernelstream import (
    budgets,
    kernels,
    label_kernels,
    margins,
    persistence,
    step_sizes,
    updates,
)
from kernelstream.backends import cpu
from kernelstream.drift import LossWatch
from kernelstream.estimators.base import KernelEstimator
from kernelstream.estimators.labels import Labels
from kernelstream.label_kernels import LabelStructure
from kernelstream.learner.model import Learner, build, first_slots, refuse_beyond
from kernelstream.learner.points import STAGED_ROWS
from kernelstream.learner.predict import sum_from_births
from kernelstream.learner.state import arrays as state_arrays
from kernelstream.learner.state import check_values, only_nonzeros
from kernelstream.parts import Part, integer_at_least, one_of

__all__ = [
    "Saveable",
    "from_bytes",
    "from_json",
    "labels_from_header",
    "may_lack",
    "most_bytes",
    "params_to_json",
    "rebuild",
    "to_json",
    "with_header",
]

# A file can name these classes and no others.
_PARTS: dict[str, type[Part]] = {
    name: part
    for module in (kernels, label_kernels, margins, step_sizes, updates, budgets)
    for name, part in vars(module).items()
    if isinstance(part, type) and issubclass(part, Part) and name in module.__all__
}
_FUNCTION = "a function"
# Arrays that the first files did not have: what their models have no use for, and what then was as
# it is in a new model.
_LATER = {
    "expansion.born", "expansion.lost", "budget.queue", "budget.spare", "budget.diagonal",
}  # fmt: skip
_LATER_FROM_NOTHING = {
    "budget.n_spare", "budget.since", "budget.touched", "expansion.past", "expansion.p_sum",
    "expansion.b_sum", "expansion.margin_sum", "step_size.felt",
    "step_size.n_capped", "intercept.felt",
    # LASVM's, without which an older model predicts but does not go on learning
    *(f"dual.{name}" for name in updates.ActiveState._fields),
}  # fmt: skip
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
        persistence.write(path, self._to_bytes())

    def _to_bytes(self, beside: dict[str, Any] | None = None) -> bytes:
        """The content of a file; `beside` joins the header."""
        reading = self._reading()
        with reading as learner:
            return self._describe(learner, reading.labels, beside)

    def _describe(self, learner: Learner, labels: Labels | None, beside: Any) -> bytes:
        n = learner.n_points
        arrays = _rows_to_arrays(learner.points.stored(n))
        arrays["numbers"] = learner.points.numbers[:n]
        for (name, array), axes in zip(state_arrays(learner.state), _axes(learner), strict=True):
            arrays[name] = array[tuple(slice(n if a == "points" else None) for a in axes)]
        header = {
            **(beside or {}),
            "class": type(self).__name__,
            "params": params_to_json(self.get_params(deep=False), arrays),
            "kernel": to_json(learner.points.kernel, arrays),
            "n_features": learner.n_features,
            "n_outputs": learner.n_outputs,
            "n_slots": learner.n_slots,
            "dtype": learner.dtype.newbyteorder("<").str,
            "labels": None if labels is None else labels.to_json(),
            "skipped": self.__dict__.get("_skipped", {}),
            "watch": self.__dict__.get("_watch"),
            "feature_names": getattr(self, "feature_names_in_", np.empty(0)).tolist(),
        }
        return persistence.to_bytes(header, arrays)


def from_bytes(
    content: bytes, kernel: Any = None, max_bytes: Any = "auto", name: str = "the file"
) -> Any:
    """A model from the bytes that `save` would write."""
    return with_header(content, kernel, max_bytes, name)[0]


def with_header(
    content: bytes, kernel: Any = None, max_bytes: Any = "auto", name: str = "the file"
) -> tuple[Any, dict[str, Any]]:
    """A model, and the header it came with, which may hold more than the model."""
    header, arrays = persistence.from_bytes(content)
    with persistence.strange_headers(name):
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
        raise persistence.FileError(f"the file holds a {header['class']!r}, which is unknown here.")
    model = cls(**{k: from_json(v, arrays, kernel) for k, v in header["params"].items()})
    labels = labels_from_header(header, model._structure(), max_bytes)
    resolved = from_json(header["kernel"], arrays, kernel)
    if not isinstance(resolved, kernels.Kernel) or isinstance(resolved.gamma, str):
        raise persistence.FileError(f"the file's kernel is {resolved!r}.")
    single_output, wanted = True, 1
    if (header["labels"] is None) == issubclass(cls, ClassifierMixin):
        raise persistence.FileError(f"the file has the labels {header['labels']!r}.")
    if labels is not None:
        model._labels = labels
        single_output, wanted = labels.single_output, labels.n_outputs()
    parts = model._parts(resolved, single_output)
    if header["dtype"] not in ("<f8", "<f4"):
        raise persistence.FileError(f"the file claims rows of type {header['dtype']!r}.")
    n_features, n_outputs = header["n_features"], header["n_outputs"]
    integer_at_least("n_features", n_features, 1)
    integer_at_least("n_outputs", n_outputs, 0)
    if n_outputs != wanted:
        raise persistence.FileError(
            f"the file has {n_outputs} outputs where there must be {wanted}."
        )
    is_sparse = "points.indptr" in arrays
    dtype = np.dtype(header["dtype"])
    n_slots = _checked_slots(header["n_slots"], parts.budget.limit(), len(arrays["numbers"]))
    learner = build(
        parts, n_features, n_outputs, dtype, is_sparse, max_bytes, n_slots=n_slots
    )  # fmt: skip
    rows = _rows_from_arrays(arrays, n_features)
    _fill(learner, arrays)
    n, numbers = learner.n_points, arrays["numbers"].copy()
    if rows.shape != (n, n_features) or n > learner.n_slots or numbers.shape != (n,):
        raise persistence.FileError(f"the file has {rows.shape} points of {n}.")
    if rows.dtype != dtype or numbers.dtype != dtype:
        raise persistence.FileError(f"the points are of type {rows.dtype}, not {dtype}.")
    with np.errstate(over="ignore", invalid="ignore"):
        expected = resolved.numbers(rows)
        cpu.refuse_large(learner, rows, expected)
        if not np.allclose(numbers, expected, rtol=1e-3, atol=1e-30):
            raise persistence.FileError("the kernel's numbers are not those of the points.")
    learner.points.restore(rows, numbers)
    model._learner = learner
    if header.get("skipped"):
        model._skipped = {str(reason): int(n) for reason, n in header["skipped"].items()}
    if header.get("watch") is not None:
        model._watch = LossWatch.from_json(header["watch"])
    model.n_features_in_ = n_features
    if header["feature_names"]:
        names = header["feature_names"]
        if len(names) != n_features or not all(isinstance(name, str) for name in names):
            raise persistence.FileError(f"the file's feature names are {names!r}.")
        model.feature_names_in_ = np.array(header["feature_names"], dtype=object)
    return model


def may_lack(name: str, array: np.ndarray) -> bool:
    """Whether an older file may be without this array of the state."""
    return name in _LATER_FROM_NOTHING or (name in _LATER and array.size == 0)


def _checked_slots(n_slots: Any, limit: int | None, n_points: int) -> int:
    """The number of slots that a file claims, which learning could have led to."""
    integer_at_least("n_slots", n_slots, 1)
    least = first_slots(limit, n_points)
    if not least <= n_slots <= (4 * (least + STAGED_ROWS) if limit is None else least):
        raise persistence.FileError(f"the file claims room for {n_slots} points.")
    return n_slots


def _fill(learner: Learner, arrays: dict[str, np.ndarray]) -> None:
    """Put the saved numbers into the state, and check them."""
    arrays = dict(arrays)
    if learner.state.expansion.output.size and not arrays["expansion.output"].size:
        # an older model, whose many classes had come with the stream, has a line for every output
        past = arrays.get("expansion.past", np.empty((0, 0)))
        few = only_nonzeros(
            arrays["expansion.a"], arrays["expansion.b"], past, learner.n_touched
        )  # fmt: skip
        arrays.update({f"expansion.{name}": lines for name, lines in few.items() if lines.size})
    for (name, array), axes in zip(state_arrays(learner.state), _axes(learner), strict=True):
        if may_lack(name, array) and (name not in arrays or array.size == 0):
            continue
        saved = arrays[name]
        sizes = zip(axes, saved.shape, strict=True)
        array[tuple(slice(n if axis == "points" else None) for axis, n in sizes)] = saved
    if learner.state.expansion.past.size and "expansion.past" not in arrays:
        sum_from_births(learner.state, arrays["expansion.born"])  # of an averaged perceptron
    check_values(learner.state, learner.fields, learner.sizes())


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


def _rows_to_arrays(rows: Any) -> dict[str, np.ndarray]:
    if not sparse.issparse(rows):
        return {"points": rows}
    return {
        "points.data": rows.data,
        "points.indices": rows.indices.astype(np.int64),
        "points.indptr": rows.indptr.astype(np.int64),
    }


def _rows_from_arrays(arrays: dict[str, np.ndarray], n_features: int) -> Any:
    if "points.indptr" not in arrays:
        return arrays["points"]
    pieces = [arrays[f"points.{name}"].copy() for name in ("data", "indices", "indptr")]
    rows = sparse.csr_array(tuple(pieces), shape=(len(pieces[2]) - 1, n_features))
    rows.check_format(full_check=True)
    return rows


def _axes(learner: Any) -> list[tuple[str, ...]]:
    return [field.axes or ("one",) for record in learner.fields for field in record]


def params_to_json(params: dict[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """An estimator's parameters as JSON; arrays that they hold join `arrays`."""
    if callable(params.get("on_bad_row")):  # a file holds no code
        params = {**params, "on_bad_row": "skip"}
    return {name: to_json(value, arrays) for name, value in params.items()}


def to_json(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """`value` as JSON; arrays that it holds join `arrays`."""
    if isinstance(value, Part):
        params = value.get_params(deep=False)
        return {
            "part": type(value).__name__,
            "params": {k: to_json(v, arrays) for k, v in params.items()},
        }
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in "fi":
        name = f"parameter {len(arrays)}"
        arrays[name] = value.astype(float if value.dtype.kind == "f" else np.int64)
        return {"array": name}
    if isinstance(value, tuple | list | np.ndarray):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [to_json(v, arrays) for v in value]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if callable(value):
        return {"part": _FUNCTION}
    raise TypeError(f"{value!r} cannot be saved: use numbers, names and parts as parameters.")


def from_json(value: Any, arrays: dict[str, np.ndarray], kernel: Any) -> Any:
    """What `to_json` described; `kernel` is the function where there was one."""
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]].copy()
    for kind, make in (("tuple", tuple), ("list", list)):
        if kind in value:
            return make(from_json(v, arrays, kernel) for v in value[kind])
    if value["part"] == _FUNCTION:
        if kernel is None:
            raise persistence.FileError(
                "this model has a function as its kernel, which a file cannot hold: "
                "load(path, kernel=the_function)."
            )
        return kernel
    part = _PARTS.get(value["part"])
    if part is None:
        raise persistence.FileError(f"the file names the part {value['part']!r}, unknown here.")
    return part(**{k: from_json(v, arrays, kernel) for k, v in value["params"].items()})

"""The base class of label structures."""

from typing import Any

import numpy as np

from kernelstream.label_kernels.rules import measure_pairs, score_rows
from kernelstream.parts import Part

__all__ = ["LabelStructure", "check_names", "plain"]


class LabelStructure(Part):
    """Base class of the label structures. Labels are the names of the user: strings or integers."""

    def label_names(self) -> list[Any]:
        """Return the labels, in the order of the scores."""
        raise TypeError(f"{type(self).__name__} must implement label_names.")

    def to_rule(self) -> Any:
        """Return the compiled form of the structure, made once per object."""
        made = self.__dict__.get("_rule")
        if made is None:
            self.check()
            made = self._rule = self._make_rule()
        return made

    def _make_rule(self) -> Any:
        raise TypeError(f"{type(self).__name__} must implement _make_rule.")

    def n_outputs(self) -> int:
        """Return the number of outputs of a model with these labels."""
        return len(self.label_names())

    def n_bytes(self) -> int:
        """Return roughly how much memory `to_rule` takes."""
        return 64 * len(self.label_names())

    def set_params(self, **params: Any) -> "LabelStructure":
        """Change parameters by name."""
        super().set_params(**params)
        for made in ("_rule", "_index"):
            self.__dict__.pop(made, None)
        return self

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {k: v for k, v in state.items() if k not in ("_rule", "_index")}

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        mine, others = self.get_params(deep=False), other.get_params(deep=False)
        return all(_same(value, others[name]) for name, value in mine.items())

    def __hash__(self) -> int:
        return hash((type(self), tuple(self.label_names())))

    def codes(self, y: Any) -> np.ndarray:
        """Return the position of each label of y among `label_names`."""
        if "_index" not in self.__dict__:
            self._index = {name: i for i, name in enumerate(self.label_names())}
        names = np.asarray(y).reshape(-1).tolist()
        codes = np.empty(len(names), np.int64)
        for i, name in enumerate(names):
            code = self._index.get(name) if isinstance(name, int | float | str) else None
            if code is None:
                raise ValueError(
                    f"the label {name!r} is unknown to label_structure={self!r}: it has the labels "
                    f"{abbreviated(self.label_names())}{self._hint(name)}."
                )
            codes[i] = code
        return codes

    def _hint(self, name: Any) -> str:
        return ""

    def distances(self, y: Any, predicted: Any) -> np.ndarray:
        """Return the distance of each predicted label from the true one.

        Parameters
        ----------
        y, predicted : array-like of labels
            The true labels and the predicted ones.

        Returns
        -------
        ndarray of shape (n,)
        """
        first, second = self.codes(y), self.codes(predicted)
        if len(first) != len(second):
            raise ValueError(
                f"y has {len(first)} labels, predicted has {len(second)}: they must match."
            )
        distances = np.empty(len(first))
        measure_pairs(self.to_rule(), first, second, distances)
        return distances

    def distance_matrix(self) -> np.ndarray:
        """Return Delta, the distances between all labels."""
        names = self.label_names()
        n = len(names)
        first, second = np.divmod(np.arange(n * n), n)
        distances = np.empty(n * n)
        measure_pairs(self.to_rule(), first, second, distances)
        return distances.reshape(n, n)

    def kernel_matrix(self) -> np.ndarray:
        """Return kappa, the kernel values between all labels."""
        B = self.label_scores(np.eye(self.n_outputs()))  # one column per label
        return B.T @ B

    def label_scores(self, outputs: np.ndarray) -> np.ndarray:
        """Return the scores of the labels from the outputs of a model, row by row."""
        scores = np.empty((len(outputs), len(self.label_names())))
        score_rows(self.to_rule(), np.ascontiguousarray(outputs), scores)
        return scores


def _same(x: Any, y: Any) -> bool:
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        return isinstance(x, np.ndarray) and isinstance(y, np.ndarray) and np.array_equal(x, y)
    return bool(x == y)


def abbreviated(names: list[Any], most: int = 6) -> str:
    listed = ", ".join(repr(n) for n in names[:most])
    return f"{listed}, ... ({len(names)} in all)" if len(names) > most else listed


def check_names(what: str, names: Any) -> None:
    """Raise an error for values that are not names, and for names that appear twice."""
    seen = set()
    for name in names:
        if isinstance(name, bool) or not isinstance(name, int | str | float):
            raise TypeError(f"{what}: {name!r} is not a name; give strings or integers.")
        if name in seen:
            raise ValueError(
                f"{what}: the name {name!r} appears twice. Give every node a name of its own, or "
                "build a taxonomy with from_paths, where a node's name is its whole path."
            )
        seen.add(name)


def plain(name: Any) -> Any:
    """Convert a NumPy scalar to a Python one."""
    return name.item() if isinstance(name, np.generic) else name

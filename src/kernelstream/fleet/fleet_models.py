"""The models of a fleet: their parameters, how they are chosen, and what can be read of them."""

import threading
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone

from kernelstream import presets
from kernelstream.estimators.base import Learned
from kernelstream.estimators.choices import DEFAULT_SIZE, kernel_of, parts_of, refuse_unused
from kernelstream.estimators.labels import Labels
from kernelstream.files.written import Written
from kernelstream.fleet import records
from kernelstream.fleet.baseline import Comparison, baseline_of
from kernelstream.fleet.column_names import refuse_other_columns
from kernelstream.fleet.missing import as_means
from kernelstream.fleet.model_params import complete_params, why_no_records
from kernelstream.learner.machine import Machine
from kernelstream.learner.state import arrays as state_arrays
from kernelstream.parts import integer_at_least, one_of
from kernelstream.threads import n_cores

__all__ = ["FleetModels", "Members"]


class Members(NamedTuple):
    """The models of a fleet and the labels that they know, published together."""

    models: records.Models
    labels: Labels | None


class FleetModels(Written):
    """Many models of one kind: `Fleet` without learning, scoring and files."""

    _members: Members | None

    def __init__(
        self, preset: str, task: str, n_models: int, n_features: int, *, classes: Any = None,
        dtype: Any = "float64", n_jobs: int | None = None, **params: Any,
    ):  # fmt: skip
        params = complete_params(preset, task, params)
        self._describe(preset, task, n_models, n_features, dtype, n_jobs, params)
        structure = self._prototype.structure()
        if self.task != "classifier":
            if classes is not None:
                raise ValueError(f"classes={classes!r} is for task='classifier' only.")
            self._members = self._new_members(None)
        elif classes is not None or structure is not None:
            self._members = self._new_members(Labels(classes, structure))
        self._threads()

    def _describe(
        self, preset: str, task: str, n_models: int, n_features: int, dtype: Any,
        n_jobs: int | None, params: dict[str, Any],
    ) -> None:  # fmt: skip
        """Check the parameters and keep them; there are no models yet."""
        self.preset = preset
        self.task = task
        self.n_features = integer_at_least("n_features", n_features, 1)
        self.feature_names_: list[str] | None = None
        self.dtype = np.dtype(one_of("dtype", np.dtype(dtype).name, ["float64", "float32"]))
        self.n_jobs = n_jobs
        self.params = params
        self.n_skipped_ = 0
        self._prototype = presets.make(preset, task, **params)
        if self._prototype.budget == "auto":  # the models of a fleet keep points
            self._prototype.set_params(budget=DEFAULT_SIZE)
        problem = why_no_records(self._prototype)
        if problem is not None:
            raise ValueError(f"preset={preset!r}: {problem}")
        self._n_asked = integer_at_least("n_models", n_models, 0)
        if self._n_asked:  # the models of a file are what they are
            refuse_unused(self._prototype)
        self._members = None
        self._comparison = Comparison()
        self._turn = threading.RLock()  # for which learning calls of several threads wait

    def _new_members(self, labels: Labels | None, max_bytes: int | None = None) -> Members:
        """Return untrained models."""
        model = self._prototype
        width = self.n_features * (2 if model.missing == "indicator" else 1)
        kernel = kernel_of(model, width)
        kernel.to_rule()  # refuses kernels that do not compile
        single_output = labels is None or labels.single_output
        parts = parts_of(model, kernel, single_output)
        if parts.budget.limit() is None:
            raise ValueError(
                f"budget={parts.budget!r} has no limit, which a fleet needs: give budget=20, say."
            )
        models = records.Models(
            parts, self.n_features, 1 if labels is None else labels.n_outputs(), self.dtype,
            self._n_asked, max_bytes, model.missing,
            baseline_of(self.task, single_output, model.structure() is not None),
        )  # fmt: skip
        return Members(models, labels)

    # --- models ----------------------------------------------------------------------------------

    @property
    def n_models(self) -> int:
        """Return the number of models."""
        return self._n_asked if self._members is None else len(self._members.models)

    def __len__(self) -> int:
        return self.n_models

    def known(self) -> Members:
        """Return the models of this moment, and the labels that they know."""
        if self._members is None:
            raise ValueError(
                "this fleet does not know its classes yet: give classes= when it is made, or let "
                "it learn first."
            )
        return self._members

    def model(self, index: int) -> Any:
        """Return a copy of one model as an estimator of its own.

        Parameters
        ----------
        index : int

        Returns
        -------
        KernelClassifier, KernelRegressor or NoveltyDetector
        """
        fleet, _ = self.known()
        with fleet.gate:
            return self.estimator_of(fleet.select([range(len(fleet))[index]]))

    def estimator_of(self, fleet: records.Models) -> Any:
        """Return the first model of some records as an estimator."""
        labels, parts = self.known().labels, fleet.machine.parts
        machine = Machine(
            parts, fleet.machine.n_features, fleet.machine.n_outputs, self.dtype,
            n_slots=fleet.machine.n_slots,
        )  # fmt: skip
        own = {name for name, _ in state_arrays(fleet.machine.state)}
        arrays = {name: fleet.view(name)[0] for name in fleet.layout.remembered if name in own}
        n = int(arrays["expansion.n_points"][0])
        arrays["points"] = np.ascontiguousarray(fleet.points[0].T[:n])
        machine.fill(arrays, computes_gram=True)
        model = presets.make(self.preset, self.task, **self.params)
        n_seen = int(arrays["expansion.n_seen"][0])
        means = as_means(fleet.filling, fleet.first_state().means, n_seen)
        model.take_over(Learned(machine, labels, means=means))
        if self.feature_names_ is not None:
            model.feature_names_in_ = np.array(self.feature_names_, dtype=object)
        return model

    def packed(self, models: np.ndarray) -> list[bytes]:
        """Return the bytes of each of some models."""
        fleet, _ = self.known()
        with fleet.gate:
            return fleet.packed(models)

    def unpacked(self, contents: list[bytes]) -> records.Models:
        """Return records from the bytes that `packed` returned, checked."""
        return self.known().models.unpacked(contents)

    def bytes_per_model(self) -> int:
        """Return how much memory a model takes."""
        return self.known().models.n_bytes_of_a_model()

    def put(self, models: np.ndarray, contents: list[bytes] | None = None) -> None:
        """Replace models by those whose bytes `packed` returned; None: by untrained models."""
        with self._turn:
            fleet, labels = self.known()
            others = fleet.untrained(1) if contents is None else self.unpacked(contents)
            self._members = Members(fleet.replaced(models, others), labels)

    def subset(self, models: Any) -> Self:
        """Return a fleet of copies of some of the models.

        Parameters
        ----------
        models : array-like of int or bool, or slice

        Returns
        -------
        Fleet
        """
        chosen = models if isinstance(models, slice) else np.asarray(models)
        fleet, labels = self.known()
        with fleet.gate:
            return self._like(Members(fleet.select(chosen), labels))

    def add(self, models: "int | FleetModels") -> Self:
        """Add models behind the others.

        Parameters
        ----------
        models : int or Fleet
            The number of untrained models to add; or another fleet of the same kind.

        Returns
        -------
        self
        """
        with self._turn:
            fleet, labels = self.known()
            if isinstance(models, FleetModels):
                if models.kind() != self.kind():
                    raise ValueError(f"models={models!r} is not of the kind of {self!r}.")
                refuse_other_columns(self.feature_names_, models.feature_names_, "this fleet")
                others = models.as_records()
            else:
                others = fleet.untrained(integer_at_least("models", models, 0))
            with others.gate:
                self._members = Members(fleet.extend(others), labels)
        return self

    def drop(self, models: Any) -> Self:
        """Remove models; the models behind them move up.

        Parameters
        ----------
        models : array-like of int

        Returns
        -------
        self
        """
        with self._turn:
            fleet, labels = self.known()
            stays = np.ones(len(fleet), dtype=bool)
            stays[np.asarray(models)] = False
            self._members = Members(fleet.select(stays), labels)
        return self

    def _like(self, members: Members) -> Self:
        fleet = object.__new__(type(self))
        fleet.__dict__.update(
            self.__dict__, _members=members, _turn=threading.RLock(), _comparison=Comparison()
        )
        return fleet

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_turn"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _turn=threading.RLock())

    def kind(self) -> tuple[Any, ...]:
        """Return what fleets must have in common for their models to live in one."""
        labels = None if self._members is None else self._members.labels
        names = None if labels is None else labels.names
        models = clone(self._prototype).set_params(on_bad_row="raise")  # which may be a function
        versions = tuple(self.known().models.machine.versions().items())
        return repr(models), self.task, self.n_features, self.dtype, names, versions

    def as_records(self) -> records.Models:
        """Return the models as records, which learn in place."""
        return self.known().models

    def _threads(self) -> int:
        if self.n_jobs is None or self.n_jobs == -1:
            return n_cores()
        return integer_at_least("n_jobs", self.n_jobs, 1)

    # --- state to read ---------------------------------------------------------------------------

    @property
    def classes_(self) -> np.ndarray:
        """Return the labels, of classifiers."""
        labels = None if self._members is None else self._members.labels
        if labels is None:
            raise AttributeError("this fleet has no classes, or does not know them yet")
        return labels.as_array()

    def __getattr__(self, name: str) -> Any:
        members = self.__dict__.get("_members")
        if name not in records.READABLE or members is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        with members.models.gate:
            return self.readable(name, members.models)

    @staticmethod
    def readable(name: str, models: records.Models) -> np.ndarray:
        """Return a number of each of some models, such as ``n_seen_``."""
        return records.READABLE[name](models)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *records.READABLE]

    def __repr__(self) -> str:
        shown = {"n_models": self.n_models, "n_features": self.n_features, **self.params}
        pairs = ", ".join(f"{name}={value!r}" for name, value in shown.items())
        return f"Fleet({self.preset!r}, {self.task!r}, {pairs})"

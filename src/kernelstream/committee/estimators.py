"""Committees as scikit-learn estimators."""

from dataclasses import KW_ONLY
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from kernelstream.committee.machine import CommitteeMachine
from kernelstream.committee.members import Member, as_member, chosen_members, place
from kernelstream.committee.mixing import HighestMean, Mixing, NewtonStacking, RidgeStacking
from kernelstream.committee.warming import Piece, compile_once
from kernelstream.estimators import Classifying, Detecting, Regressing, StreamEstimator
from kernelstream.estimators.base import Rows
from kernelstream.files.bytes import FileError
from kernelstream.files.parts import from_json, to_json
from kernelstream.learner.learner import Learner
from kernelstream.parts import integer_at_least, number, one_of, parameters
from kernelstream.stores import as_device
from kernelstream.threads import n_cores

__all__ = [
    "Committee", "CommitteeClassifier", "CommitteeDetector", "CommitteeEstimator",
    "CommitteeRegressor",
]  # fmt: skip


@parameters
class CommitteeEstimator(StreamEstimator):
    """What committees share: members as parameters, and one machine for each of them."""

    members: Any = None
    _: KW_ONLY
    mixing: Any = None
    n_jobs: int | None = None
    device: Any = None
    missing: Any = "mean"
    on_bad_row: Any = "raise"
    random_state: Any = 0

    default_mixing: ClassVar[Any]
    readable = {  # noqa: RUF012 (never changed)
        **StreamEstimator.readable,
        "weights_": lambda model, learned: dict(
            zip(learned.machine.names, learned.machine.weights.tolist(), strict=True)
        ),
    }

    def chosen(self, n_features: int, is_sparse: bool) -> list[Member]:
        """Return the members for rows of a kind, as estimators that have learned nothing."""
        return chosen_members(self.members, self.task)

    def _placed(self, members: list[Member], is_sparse: bool) -> list[Member]:
        """Return the same members, those on the device that gain from it."""
        if not is_sparse:
            place(members, as_device(self.device))
        return members

    def no_file(self) -> str | None:
        """Return why the model cannot be written to a file, or None."""
        if self.members is None:
            return None
        reasons = [member.model.no_file() for member in chosen_members(self.members, self.task)]
        return next(filter(None, reasons), None)

    def chosen_mixing(self) -> Mixing:
        """Return the mixing part."""
        if self.mixing is None:
            return type(self).default_mixing
        if not isinstance(self.mixing, Mixing) or self.mixing.task != self.task:
            raise TypeError(
                f"mixing={self.mixing!r} is not a mixing for {self.task}: leave it out, or give "
                f"{type(self).default_mixing!r}, say."
            )
        self.mixing.check()
        return self.mixing

    def n_threads(self) -> int:
        """Return how many members learn at the same time."""
        if self.n_jobs == -1:
            return n_cores()
        return 1 if self.n_jobs is None else integer_at_least("n_jobs", self.n_jobs, 1)

    def new_machine(self, rows: Rows, whole_data: bool) -> CommitteeMachine:
        self.skips_bad_rows()  # checks `on_bad_row`
        is_sparse = sparse.issparse(rows.X)
        members = self._placed(self.chosen(rows.X.shape[1], is_sparse), is_sparse)
        if self.members is None:  # those of this library are compiled once, for all committees
            n_classes = 0 if rows.labels is None else 2 if rows.labels.single_output else 3
            compile_once(Piece(type(self).__name__, n_classes, is_sparse, rows.X.dtype.name))
        machines = [member.model.new_machine(rows, whole_data) for member in members]
        return self._committee(machines, members, self.chosen_mixing())

    def _committee(
        self, machines: list[Learner], members: list[Member], mixing: Mixing
    ) -> CommitteeMachine:
        names, models, factors = zip(*members, strict=True)
        return CommitteeMachine(machines, mixing, factors, self.n_threads(), names, models)

    def describe_machine(self, machine: Any, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
        """Return the entries of a file's header for the members and their mixing.

        It says everything, so that a later version with other members, presets or constants goes
        on with these.
        """
        whole = zip(machine.members, machine.names, machine.models, machine.factors, strict=True)
        return {
            "members": [
                {
                    "name": name,
                    "model": to_json(model, arrays),
                    "factor": float(factor),
                    **model.describe_machine(member, arrays),
                }
                for member, name, model, factor in whole
            ],
            "mixing": to_json(machine.mixing, arrays),
        }

    def machine_from_file(
        self, header: dict[str, Any], arrays: dict[str, np.ndarray], single_output: bool,
        kernel: Any, max_bytes: int | None,
    ) -> CommitteeMachine:  # fmt: skip
        """Return the machine of a file."""
        chosen = self._placed(
            [self._from_file(own, arrays, kernel) for own in header["members"]],
            bool(header["sparse"]),
        )
        mixing = from_json(header["mixing"], arrays, kernel)
        if not isinstance(mixing, Mixing) or mixing.task != self.task:
            raise FileError(f"the file has the mixing {mixing!r}, which is not for {self.task}.")
        shared = {name: array for name, array in arrays.items() if name.startswith("parameter")}
        of_all = {name: it for name, it in header.items() if name not in ("members", "mixing")}
        machines = []
        for i, (member, own) in enumerate(zip(chosen, header["members"], strict=True)):
            prefix = f"{i}."
            of_member = {
                name.removeprefix(prefix): array
                for name, array in arrays.items()
                if name.startswith(prefix)
            }
            machine = member.model.machine_from_file(
                {**of_all, **own}, {**shared, **of_member}, single_output, kernel, max_bytes
            )
            machines.append(machine)
        committee = self._committee(machines, chosen, mixing)
        committee.fill_mixing(arrays)
        return committee

    def _from_file(self, own: dict[str, Any], arrays: dict[str, np.ndarray], kernel: Any) -> Member:
        """Return a member as a file describes it."""
        name, factor = own["name"], number("factor", own["factor"])
        if not isinstance(name, str):
            raise FileError(f"the file has a member with the name {name!r}.")
        return Member(name, as_member(from_json(own["model"], arrays, kernel), self.task), factor)


@parameters
class CommitteeClassifier(CommitteeEstimator, Classifying):
    """Classifiers side by side, whose scores are mixed online.

    Parameters
    ----------
    members : list or dict
        Presets by name, estimators with parameters of your choice, or estimators of scikit-learn
        or River that learn row by row (docs/committees.md); a dict, or pairs of a name and a
        member, give them names.
    mixing : mixing part, default=None
        How the members' scores are mixed. None: `NewtonStacking`, whose scores are also those of
        probabilities.
    n_jobs : int, default=None
        How many members learn at the same time, on threads; -1: as many as there are cores. It
        changes the speed, not the result.
    device : str, `Device` or None, default=None
        Where the points of members live that may have a thousand or more, as in `KernelClassifier`;
        the others stay on the host.
    class_weight : dict, "balanced" or None, default=None
        How much the rows of each class count, for every member and for the mixing, as in
        `KernelClassifier`.
    missing : {"error", "mean", "indicator"}, default="mean"
        What to do with NaN, or None in a table, as in `KernelClassifier`. Filling in means costs
        nothing where nothing is missing; "indicator" makes rows twice as long.
    waiting_rows : int, default=10_000
        How many rows may wait for their labels, after ``predict(X, ids=...)``.
    on_bad_row : {"raise", "skip"} or callable, default="raise"
        What to do with a row that cannot be learned, as in `KernelClassifier`.
    random_state : int, RandomState instance or None, default=0
        Seed of the order in which `fit` takes the rows, since tables are often sorted. None: as
        they come. `partial_fit`, `learn_one` and `prequential` always keep the order.

    Attributes
    ----------
    weights_ : dict
        How much each member counts now.
    classes_, n_seen_, n_skipped_, skipped_
        As in `KernelClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> import kernelstream as ks
    >>> X, y = load_digits(return_X_y=True)
    >>> svmd = ks.KernelClassifier(scaling="running")
    >>> committee = ks.Committee({"svmd": svmd, "pa": "linear-pa"}, "classifier")
    >>> ks.prequential(committee, X[:600], y[:600]).error_rate < 0.25
    True
    >>> list(committee.weights_)
    ['svmd', 'pa']
    """

    _: KW_ONLY
    class_weight: Any = None
    waiting_rows: int = 10_000

    default_mixing = NewtonStacking()

    def no_probabilities(self) -> str | None:
        """Return why there is no `predict_proba`, or None."""
        if self.chosen_mixing().gives_probabilities:
            return None
        return f"predict_proba is not available with mixing={self.mixing!r}."


@parameters
class CommitteeRegressor(CommitteeEstimator, Regressing):
    """Regressors side by side, whose predictions are mixed online.

    Parameters
    ----------
    members, mixing, n_jobs, device, missing, waiting_rows, on_bad_row, random_state
        As in `CommitteeClassifier`. The default mixing is `RidgeStacking`.

    Attributes
    ----------
    weights_ : dict
        How much each member counts now.
    n_seen_, n_skipped_, skipped_
        As in `KernelRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelstream as ks
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> committee = ks.Committee(["linear-pa", "svmd"], "regressor")
    >>> ks.prequential(committee, X, X[:, 0] + np.sin(2 * X[:, 1])).error_rate < 0.5
    True
    """

    _: KW_ONLY
    waiting_rows: int = 10_000

    default_mixing = RidgeStacking()


class CommitteeDetector(CommitteeEstimator, Detecting):
    """Novelty detectors side by side, whose scores are mixed online.

    Parameters
    ----------
    members, mixing, n_jobs, device, missing, on_bad_row, random_state
        As in `CommitteeClassifier`. The default mixing is `HighestMean`.

    Attributes
    ----------
    offset_ : float
        The score below which a row is an alarm.
    n_seen_, n_skipped_, skipped_
        As in `NoveltyDetector`.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelstream as ks
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> detector = ks.Committee(["svmd", "norma"], "novelty").partial_fit(X)
    >>> detector.predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    """

    default_mixing = HighestMean()


_COMMITTEES = {
    "classifier": CommitteeClassifier,
    "regressor": CommitteeRegressor,
    "novelty": CommitteeDetector,
}


def Committee(members: Any, task: str, mixing: Any = None, **params: Any) -> Any:  # noqa: N802
    """Machines of your choice, mixed online.

    Parameters
    ----------
    members : list or dict
        Presets by name, estimators of this library with parameters of your choice, or those of
        scikit-learn or River that learn row by row.
    task : {"classifier", "regressor", "novelty"}
    mixing : mixing part, default=None
        How the members' scores are mixed; None: as it is best for the task.
    **params
        Further parameters, such as ``n_jobs``.

    Returns
    -------
    CommitteeClassifier, CommitteeRegressor or CommitteeDetector

    Examples
    --------
    >>> import kernelstream as ks
    >>> ks.Committee(["svmd", "pa"], "classifier")
    CommitteeClassifier(members=['svmd', 'pa'])
    """
    return _COMMITTEES[one_of("task", task, list(_COMMITTEES))](members, mixing=mixing, **params)

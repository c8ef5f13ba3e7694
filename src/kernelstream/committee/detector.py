"""Novelty detection with nothing to tune."""

from collections.abc import Iterator
from dataclasses import KW_ONLY
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from kernelstream.committee.members import different_names
from kernelstream.committee.novelty.history import sizes_of
from kernelstream.committee.novelty.machine import NoveltyMachine
from kernelstream.committee.novelty.members import DetectorMember, chosen_detectors
from kernelstream.committee.novelty.plan import Plan
from kernelstream.committee.wrapped import Wrapped
from kernelstream.estimators import Detecting, StreamEstimator
from kernelstream.estimators.base import Rows
from kernelstream.files.bytes import FileError, check_versions
from kernelstream.parts import integer_at_least, names, number, parameters

__all__ = ["AutoDetector"]

_MEMBERS = ["z-score", "local", "projections", "mahalanobis", "white-local"]


@parameters
class AutoDetector(Detecting):
    """Novelty detection with nothing to tune: is this row like what came before?

    It takes raw features of any scale. Five `members` look at each row before it is learned: the
    z-score, Mahalanobis' distance, the density around the row compared with that around its
    neighbours (twice: as the features are scaled, and after they have been made uncorrelated), and
    random projections. Each is standardized by its own past, and the two that find the row most
    unlike the others count (docs/untuned.md).

    Correlations are kept for up to 64 features. With more, features are taken to be uncorrelated.
    Sparse rows may have any number of features: long ones are scaled without being centred, and
    the members see 64 random sums of their entries, at the cost of the entries that are not zero.

    Parameters
    ----------
    nu : float in (0, 1), default=0.05
        The share of rows that are alarms.
    members : list, default=None
        What looks at the rows: names of detector members (``kernelstream parts`` lists them), such
        members themselves, and detectors of scikit-learn or River that learn row by row, beside at
        least one of this library. None: "z-score", "local", "projections", "mahalanobis" and
        "white-local". The last two need rows of at most 64 features.
    budget : int, default=None
        How many rows the sample has that new rows are compared with, 32 or more. Time and memory
        grow with it. None: 256, and up to 512 where rows are short.
    random_state : int, RandomState instance or None, default=None
        For the sample of rows that is kept, and for the random projections. None: 0, so that the
        same rows give the same model. Rows are learned in the order in which they are given.
    missing : {"error", "mean", "indicator"}, default="mean"
        What to do with NaN, or None in a table, as in `AutoClassifier`.
    on_bad_row : {"raise", "skip"} or callable, default="raise"
        What to do with a row that cannot be learned, as in `NoveltyDetector`.

    Attributes
    ----------
    offset_ : float
        The threshold: ``decision_function = score_samples - offset_``.
    n_seen_, n_skipped_, skipped_
        As in `NoveltyDetector`.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelstream as ks
    >>> a = np.random.default_rng(0).normal(size=2000)
    >>> X = np.column_stack([a, 1000.0 * a + np.random.default_rng(1).normal(size=2000)])
    >>> model = ks.AutoDetector().partial_fit(X)
    >>> model.predict([[1.5, 1500.0], [1.5, -1500.0]])
    array([ 1, -1])
    """

    precisions: ClassVar[tuple[Any, ...]] = (np.float64,)

    nu: float = 0.05
    _: KW_ONLY
    members: Any = None
    budget: int | None = None
    random_state: Any = None
    missing: Any = "mean"
    on_bad_row: Any = "raise"

    def new_machine(self, rows: Rows, whole_data: bool) -> NoveltyMachine:
        self.skips_bad_rows()  # checks `on_bad_row`
        nu = number("nu", self.nu, above=0, below=1)
        random = check_random_state(0 if self.random_state is None else self.random_state)
        seed = int(random.randint(2**31 - 1))
        plan = self._plan(rows.X.shape[1], sparse.issparse(rows.X))
        others = [other.new_machine(rows, whole_data) for other in self._members()[1]]
        return NoveltyMachine(plan, nu, seed, rows.X.dtype, others)

    def _members(self) -> tuple[list[Any] | None, list[Wrapped]]:
        """Return our members as they were given, and wrap those of other libraries."""
        if self.members is None:
            return None, []
        if not isinstance(self.members, list | tuple):
            raise TypeError(f"members={self.members!r} is not a list: give {_MEMBERS!r}, say.")
        own, others = [], []
        for member in self.members:
            if isinstance(member, StreamEstimator):
                raise TypeError(
                    f"members has {member!r}: mix estimators of this library by "
                    'Committee([...], "novelty"), which takes an AutoDetector, too.'
                )
            if isinstance(member, str | DetectorMember):
                own.append(member)
            else:
                wrapped = member if isinstance(member, Wrapped) else Wrapped(member)
                others.append(wrapped.for_task("novelty"))
        if not own:
            known = ", ".join(map(repr, names("detector_member")))
            raise ValueError(
                f"members={self.members!r} has no member of this library: give one of {known} as "
                'well, or mix detectors by Committee([...], "novelty").'
            )
        return own, others

    def _plan(self, n_features: int, is_sparse: bool) -> Plan:
        """Return the plan of the machine for rows of a length."""
        own, others = self._members()
        n_seen = sizes_of(n_features, is_sparse)["features"]  # by the members
        members = chosen_detectors(own, _MEMBERS, n_seen)
        called = different_names([(None, member.name()) for member in members])
        return Plan(members, called, len(others), n_features, is_sparse, self._n_points())

    def no_file(self) -> str | None:
        """Return why the model cannot be written to a file, or None."""
        return next((other.no_file() for other in self._members()[1]), None)

    def _n_points(self) -> int | None:
        """Return how many rows the reservoir may have; None: as is usual."""
        return None if self.budget is None else integer_at_least("budget", self.budget, 32)

    def passes(self, n_rows: int) -> Iterator[slice]:
        yield slice(None)

    def describe_machine(self, machine: Any, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
        """Return the versions of the members; the arrays say everything else."""
        return {"state_versions": machine.plan.versions()}

    def machine_from_file(
        self, header: dict[str, Any], arrays: dict[str, np.ndarray], single_output: bool,
        kernel: Any, max_bytes: int | None,
    ) -> NoveltyMachine:  # fmt: skip
        """Return the machine of a file."""
        n_features = integer_at_least("n_features", header["n_features"], 1)
        plan = self._plan(n_features, bool(header["sparse"]))
        check_versions(header["state_versions"], plan.versions())
        sizes = plan.sizes()
        for name, axis in (("mean", "features"), ("entry_square", "sketched")):
            if sizes[axis] and arrays[name].shape != (sizes[axis],):
                raise FileError(f"the file claims rows of {n_features!r} features.")
        if arrays["raw"].shape != (sizes["features"], sizes["points"]):
            raise FileError(f"the file claims a sample of {sizes['points']!r} rows.")
        if plan.n_bytes() > sum(array.nbytes for array in arrays.values()):
            raise FileError(f"the file lacks numbers of the members {plan.names!r}.")
        nu = number("nu", self.nu, above=0, below=1)
        machine = NoveltyMachine(plan, nu, 0, header["dtype"])
        machine.fill(arrays)
        return machine

"""Committees with nothing to tune: the members were chosen once, for all streams.

What each member is worth is measured in docs/untuned.md.
"""

import math
from dataclasses import KW_ONLY
from typing import Any

from kernelstream.budgets import Independent, Merge
from kernelstream.committee.estimators import CommitteeClassifier, CommitteeRegressor
from kernelstream.committee.members import Member
from kernelstream.kernels import RBF, Bias, Forest, Linear, Matern, Scaled, Sum
from kernelstream.parts import integer_at_least, parameters
from kernelstream.presets import make
from kernelstream.scalings import Renewed, Running
from kernelstream.step_sizes import AdaGrad, VectorSMD
from kernelstream.updates import RLS, Dual

__all__ = ["AutoClassifier", "AutoRegressor"]

_MOST_FOR_SQUARES = 200  # features, up to which recursive least squares takes little time
_WHOLE_STEP = 1e9  # C of a machine that repeats the last target
_NARROW = 0.5  # what a narrow kernel says counts less at first: it knows the nearest rows only
_MOST_MERGED = 2048  # points of a machine that merges them, in a long stream
_LEAST_POINTS = 8  # of a member, however small the budget
_SQUARES = 4.0  # scores of least squares on labels are small: what they are multiplied with

# Two views of a row: compressed z-scores, and the same brought to length one.
_COMPRESSED, _UNIT = Running(unit_length=False), Running()
_RENEWED, _RENEWED_TARGET = Renewed(metric=True), Renewed()
# Steps of weights of nodes. Rate 0.05 and start 0.1 would be for features of size one, which those
# of the nodes of 32 trees are not.
_OF_LABELS = AdaGrad(0.283, start=0.0031, least=0.003)
_OF_NUMBERS = AdaGrad(0.08, start=0.0031)  # of 48 trees
# Smaller steps than those of `smd-linear`, with a shorter memory of how weights depend on them.
_CAREFUL = VectorSMD(0.1, meta=0.05, decay=0.9)
_WHOLE_LOSS = 3.0  # C of passive-aggressive steps which it hardly ever limits


@parameters
class AutoClassifier(CommitteeClassifier):
    """A classifier for streams with nothing to tune.

    It takes raw features of any scale: each member scales them by the rows before. It takes tables
    of pandas and polars as they are, with categories, dates and missing values (docs/tables.md).
    The members are linear models of the first and the second order and kernel machines, and the
    weight of each is learned from the stream (`NewtonStacking`), fast and slowly at the same time.

    Parameters
    ----------
    members : list or dict, default=None
        None: the members that were chosen for all streams. Otherwise as in `Committee`.
    mixing : mixing part, default=None
    budget : int, default=512
        How many points the largest member keeps, and up to four times as many in a long stream
        with many labels that are hard to tell apart; those of the others grow and shrink with it.
        Time and memory do, too (docs/untuned.md has figures). It does not change `members` that
        are given.
    prompt_targets : bool, default=False
        Whether the label of each row is known before the next row is predicted. True adds a member
        that repeats the last label, which helps where labels come in runs. Where labels come late
        it does harm: the committee would trust in what it does not have when it predicts.
    n_jobs : int, default=None
        How many members learn at the same time, on threads. It changes the speed, not the result.
    device : str, `Device` or None, default=None
        As in `Committee`. The members that were chosen for all streams are small, and stay on the
        host.
    class_weight : dict, "balanced" or None, default=None
        How much the rows of each class count, as in `KernelClassifier`. Probabilities are then
        those of a stream in which classes come as often as they count.
    missing : {"error", "mean", "indicator"}, default="mean"
        What to do with NaN, or None in a table. "mean": the mean that this column had in the rows
        before, which costs nothing where nothing is missing. "indicator": the same, and rows have a
        second feature for every column, which is 1 where the first is missing. "error": such a row
        cannot be learned.
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
    >>> ks.prequential(ks.AutoClassifier(), X[:500], y[:500]).error_rate < 0.2
    True
    """

    _: KW_ONLY
    budget: int = 512
    prompt_targets: bool = False

    def chosen(self, n_features: int, is_sparse: bool) -> list[Member]:
        """Return the members for rows of a kind."""
        sized = _Sizes(self.budget, 512)
        if self.members is not None:
            return [*super().chosen(n_features, is_sparse), *_last_target(self)]
        members = [
            Member("adagrad", make("adagrad", "classifier", scaling=_COMPRESSED)),
            Member("smd-linear", make("smd-linear", "classifier", scaling=_UNIT)),
            *_last_target(self),
            Member("linear-pa", make("linear-pa", "classifier", C=_WHOLE_LOSS, scaling=_UNIT)),
        ]
        if is_sparse:
            return members
        careful = make("smd-linear", "classifier", step_size=_CAREFUL, scaling=_COMPRESSED)
        members.append(Member("smd-careful", careful))
        if n_features <= _MOST_FOR_SQUARES:
            squares = make(
                "rls", "classifier", update=RLS(0.999), regularization=1.0, scaling=_COMPRESSED
            )
            members.append(Member("rls", squares, _SQUARES))
        kernel = Bias() + Scaled(Linear(), 1.0 / n_features) + RBF(2.0 / n_features)
        second_order = make(
            "sog-svc", "classifier", kernel=kernel, regularization=0.1, fit_intercept=False,
            budget=Independent(0.003, sized(224), worth=3.0), scaling=_RENEWED,
        )  # fmt: skip
        most = sized(_MOST_MERGED)
        wide, narrow = (
            make("pa", "classifier", kernel=RBF(width / n_features),
                 budget=Merge(sized(size), most=most), scaling=_RENEWED)
            for width, size in ((2.0, 512), (8.0, 128))
        )  # fmt: skip
        forest = make("adagrad", "classifier", kernel=Forest(32, 511), step_size=_OF_LABELS)
        return [
            *members,
            Member("second-order", second_order, _SQUARES),
            Member("pa", wide),
            Member("forest", forest),
            Member("pa-narrow", narrow, _NARROW),
        ]


class _Sizes:
    """Numbers of points, in proportion to that of the largest member."""

    def __init__(self, budget: Any, usual: int):
        self.factor = integer_at_least("budget", budget, _LEAST_POINTS) / usual

    def __call__(self, size: int) -> int:
        return max(_LEAST_POINTS, round(self.factor * size))


def _last_target(committee: Any) -> list[Member]:
    """Return the member that repeats the last target, if that is known in time."""
    if not committee.prompt_targets:
        return []
    task = "classifier" if committee.task == "classification" else "regressor"
    return [Member("last", make("linear-pa", task, kernel=Bias(), C=_WHOLE_STEP))]


# Of the machines of `AutoRegressor`: the kernel for rows of d features, the size of the dictionary,
# and what is left of a row one row later.
_MACHINES = {
    "matern": (lambda d: Matern(math.sqrt(2.0 / d)), 96, 1.0),
    "narrow": (lambda d: RBF(1.0 / d), 224, 1.0),
    "forgets": (lambda d: RBF(1.0 / d), 64, 0.999),
}
# Its members for sparse rows: linear, and scaled without being centred.
_SPARSE = (("adagrad", _COMPRESSED), ("smd-linear", _UNIT), ("linear-pa", _UNIT))


@parameters
class AutoRegressor(CommitteeRegressor):
    """A regressor for streams with nothing to tune.

    It takes raw features and targets of any scale, and tables of pandas and polars as they are
    (docs/tables.md). Two machines of the second order, each fitted to all rows so far over a
    dictionary of points, differ in their kernel; a third one forgets, trees find steps, and three
    linear machines follow changes fast. The weight of each is learned from the
    stream, and how far all of them are to be believed (`RidgeStacking`). For sparse rows there are
    three linear machines of the first order; features are then scaled, but not centred.

    Parameters
    ----------
    members : list or dict, default=None
        None: the members that were chosen for all streams. Otherwise as in `Committee`.
    mixing : mixing part, default=None
    budget : int, default=224
        How many points the largest member keeps; those of the others grow and shrink with it. Time
        and memory do, too (docs/untuned.md has figures). It does not change `members` that are
        given.
    prompt_targets : bool, default=False
        Whether the target of each row is known before the next row is predicted. True adds a member
        that repeats the last target, which helps with series that change slowly. Where targets come
        late it does harm: the committee would trust in what it does not have when it predicts.
    n_jobs : int, default=None
        How many members learn at the same time, on threads. It changes the speed, not the result.
    device : str, `Device` or None, default=None
        As in `AutoClassifier`.
    missing : {"error", "mean", "indicator"}, default="mean"
        What to do with NaN, or None in a table. "mean": the mean that this column had in the rows
        before, which costs nothing where nothing is missing. "indicator": the same, and rows have a
        second feature for every column, which is 1 where the first is missing. "error": such a row
        cannot be learned.
    waiting_rows : int, default=10_000
        How many rows may wait for their labels, after ``predict(X, ids=...)``.
    on_bad_row : {"raise", "skip"} or callable, default="raise"
        What to do with a row that cannot be learned, as in `KernelRegressor`.
    random_state : int, RandomState instance or None, default=0
        Seed of the order in which `fit` takes the rows, since tables are often sorted. None: as
        they come. `partial_fit`, `learn_one` and `prequential` always keep the order.

    Attributes
    ----------
    weights_ : dict
        How much each member counts now.
    n_seen_, n_skipped_, skipped_
        As in `KernelRegressor`.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> import kernelstream as ks
    >>> X, y = make_friedman1(1000, random_state=0)
    >>> bool(ks.prequential(ks.AutoRegressor(), X, y).error_rate < 0.3 * y.var())
    True
    """

    _: KW_ONLY
    budget: int = 224
    prompt_targets: bool = False

    def chosen(self, n_features: int, is_sparse: bool) -> list[Member]:
        """Return the members for rows of a kind."""
        sized = _Sizes(self.budget, 224)
        if self.members is not None:
            return [*super().chosen(n_features, is_sparse), *_last_target(self)]
        if is_sparse:
            return [
                *(Member(name, make(name, "regressor", scaling=scaling, target_scaling="running"))
                  for name, scaling in _SPARSE),
                *_last_target(self),
            ]  # fmt: skip
        members = [
            Member(name, _second_order(n_features, kernel(n_features), sized(size), forgetting))
            for name, (kernel, size, forgetting) in _MACHINES.items()
        ]
        diagonal = make("adagrad", "regressor", scaling=_COMPRESSED, target_scaling="running")
        linear = make("smd-linear", "regressor", scaling=_UNIT, target_scaling="running")
        forest = make(
            "adagrad", "regressor", kernel=Forest(48, 511, n_candidates=12),
            step_size=_OF_NUMBERS, target_scaling="running",
        )  # fmt: skip
        members += [
            Member("forest", forest), Member("smd-linear", linear), Member("adagrad", diagonal),
            *_last_target(self),
        ]  # fmt: skip
        if n_features <= _MOST_FOR_SQUARES:
            squares = make(
                "rls", "regressor", update=RLS(0.99), regularization=1.0, scaling=_COMPRESSED,
                target_scaling="running",
            )  # fmt: skip
            members.append(Member("rls", squares))
        return members


def _second_order(n_features: int, kernel: Any, size: int, forgetting: float) -> Any:
    """Return a machine whose f is a constant, a linear function and one of a given kernel."""
    return make(
        "sog-svr", "regressor", regularization=0.1, fit_intercept=False,
        kernel=Sum(Bias(), Scaled(Linear(), 1.0 / n_features), kernel),
        budget=Independent(0.003, size, worth=10.0, relative=True),
        update=Dual(forgetting=forgetting),
        scaling=_RENEWED, target_scaling=_RENEWED_TARGET,
    )  # fmt: skip

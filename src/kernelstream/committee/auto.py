"""Committees with nothing to tune: the members were chosen once, for all streams.

What each member is worth is measured in docs/untuned.md.
"""

from typing import Any

from kernelstream.budgets import Independent, Merge
from kernelstream.committee.estimators import CommitteeClassifier, Member
from kernelstream.kernels import RBF, Bias, Forest, Linear, Scaled
from kernelstream.presets import make
from kernelstream.scalings import Running
from kernelstream.step_sizes import AdaGrad
from kernelstream.updates import RLS

__all__ = ["AutoClassifier"]

_MOST_FOR_SQUARES = 200  # features, up to which recursive least squares takes little time
_SQUARES = 4.0  # scores of least squares on labels are small: what they are multiplied with

# Two views of a row: compressed z-scores, and the same brought to length one.
_COMPRESSED, _UNIT = Running(unit_length=False), Running()


class AutoClassifier(CommitteeClassifier):
    """A classifier for streams with nothing to tune.

    Raw features in, of any scale: each member scales them by what came before. The members are
    linear models of the first and the second order and kernel machines, and the weight of each is
    learned from the stream (`NewtonStacking`), fast and slowly at the same time.

    Parameters
    ----------
    members : list or dict, default=None
        None: the members that were chosen for all streams. Otherwise as in `Committee`.
    mixing : mixing part, default=None
    n_jobs : int, default=None
        How many members learn at the same time, on threads. It changes the speed, not the result.
    on_bad_row : {"raise", "skip"} or callable, default="raise"
        What to do with a row that cannot be learned, as in `KernelClassifier`.

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

    def __init__(
        self, members: Any = None, *, mixing: Any = None, n_jobs: int | None = None,
        on_bad_row: Any = "raise",
    ):  # fmt: skip
        super().__init__(members, mixing=mixing, n_jobs=n_jobs, on_bad_row=on_bad_row)

    def chosen(self, n_features: int, is_sparse: bool) -> list[Member]:
        """The members for rows of a kind."""
        if self.members is not None:
            return super().chosen(n_features, is_sparse)
        members = [
            Member("adagrad", make("adagrad", "classifier", scaling=_COMPRESSED)),
            Member("linear-pa", make("linear-pa", "classifier", scaling=_UNIT)),
            Member("smd-linear", make("smd-linear", "classifier", scaling=_UNIT)),
        ]
        if is_sparse:
            return members
        if n_features <= _MOST_FOR_SQUARES:
            squares = make(
                "rls", "classifier", update=RLS(0.999), regularization=1.0, scaling=_COMPRESSED
            )
            members.append(Member("rls", squares, _SQUARES))
        kernel = Bias() + Scaled(Linear(), 1.0 / n_features) + RBF(2.0 / n_features)
        second_order = make(
            "sog-svc", "classifier", kernel=kernel, regularization=0.1, fit_intercept=False,
            budget=Independent(0.003, 256, worth=3.0), scaling=_COMPRESSED,
        )  # fmt: skip
        kernel_machine = make(
            "pa", "classifier", kernel=RBF(2.0), budget=Merge(512), scaling=_UNIT
        )  # fmt: skip
        # rate 0.05 and start 0.1 for features of size one, which those of 32 trees are not
        forest = make(
            "adagrad", "classifier", kernel=Forest(32), step_size=AdaGrad(0.283, start=0.0031)
        )
        return [
            *members,
            Member("second-order", second_order, _SQUARES),
            Member("pa", kernel_machine),
            Member("forest", forest),
        ]

"""Estimators of other libraries as members of committees, with the parameters that such have."""

from dataclasses import KW_ONLY
from typing import Any

from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from kernelstream.committee.libraries import Library, library_of
from kernelstream.committee.wrapped_machine import Kind, Scalings, WrappedMachine
from kernelstream.estimators import StreamEstimator
from kernelstream.estimators.base import Rows
from kernelstream.parts import parameters
from kernelstream.scalings import as_scaling

__all__ = ["Wrapped"]


@parameters
class Wrapped(BaseEstimator):
    """An estimator of scikit-learn or River as a member of a committee.

    Committees wrap estimators by themselves; this one can also scale their rows. It takes
    classifiers, regressors and outlier detectors of scikit-learn that have `partial_fit`, those of
    River, which have `learn_one`, and others with the same methods. They learn row by row. River's
    are given their features and classes by number, from 0 on.

    Estimators of scikit-learn have to know all classes from the first row on. If `classes` are not
    declared, such a member begins again whenever a class comes that is new.

    A committee with such members cannot be saved by `save` or a `Checkpointer`, which write numbers
    and no code; pickle and joblib can, if the members can. docs/committees.md says more.

    Parameters
    ----------
    estimator : estimator
        A copy of it that has learned nothing becomes the member.
    scaling : {"running"} or `Running`, default=None
        Features by the mean and the standard deviation of the rows before, as in
        `KernelClassifier`. None: as they are.
    target_scaling : {"running"} or `Running`, default=None
        The same for the targets of a regressor.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import SGDClassifier
    >>> import kernelstream as ks
    >>> X, y = load_digits(return_X_y=True)
    >>> sgd = ks.committee.Wrapped(SGDClassifier(random_state=0), scaling="running")
    >>> committee = ks.Committee({"pa": "linear-pa", "sgd": sgd}, "classifier")
    >>> committee = committee.partial_fit(X[:600], y[:600], classes=range(10))
    >>> committee.score(X[600:], y[600:]) > 0.85
    True
    >>> list(committee.weights_)
    ['pa', 'sgd']
    """

    estimator: Any
    _: KW_ONLY
    scaling: Any = None
    target_scaling: Any = None

    def for_task(self, task: str) -> "Wrapped":
        """Return the same as a member for a task; a `TypeError` says why there is none."""
        library = self._library(task)
        for parameter in ("scaling", "target_scaling"):
            if as_scaling(getattr(self, parameter), parameter).renews:
                raise ValueError(
                    f"{parameter}={getattr(self, parameter)!r} is for machines of this library, "
                    "whose points can be moved to another scale: give 'running'."
                )
        if task != "regression" and self.target_scaling is not None:
            raise ValueError(
                f"target_scaling={self.target_scaling!r} is for regressors: leave it out."
            )
        own = library.new()  # what happens to the one that was given does not matter
        member = Wrapped(own, scaling=self.scaling, target_scaling=self.target_scaling)
        member.task = task
        return member

    def _library(self, task: str) -> Library:
        library = library_of(self.estimator, task)
        if library is None:
            raise TypeError(
                f"{self.estimator!r} cannot be a member of a committee for {task}"
                f"{_remedy(self.estimator, task)}"
            )
        return library(self.estimator, task)

    def no_file(self) -> str | None:
        """Return why the estimator cannot be written to a file."""
        return self._library(self.task).no_file()

    def new_machine(self, rows: Rows, whole_data: bool) -> "WrappedMachine":
        """Return an untrained copy of the estimator."""
        has_one, n_outputs = True, 1
        if rows.labels is not None:
            has_one = rows.labels.single_output
            n_outputs = rows.labels.n_outputs() - len(rows.new_outputs)
        scalings = Scalings(
            as_scaling(self.scaling), as_scaling(self.target_scaling, "target_scaling")
        )
        kind = Kind(rows.X.shape[1], rows.X.dtype, sparse.issparse(rows.X), has_one)
        return WrappedMachine(self._library(self.task), self.task, scalings, kind, n_outputs)


def _remedy(estimator: Any, task: str) -> str:
    """Return a replacement for an estimator that cannot be a member."""
    if isinstance(estimator, type):
        return f", since it is a class: give an estimator, {estimator.__name__}(...)."
    if isinstance(estimator, Pipeline):
        return (
            ", since a Pipeline has no partial_fit: give its last step, "
            "ks.committee.Wrapped(estimator, scaling='running')."
        )
    if isinstance(estimator, StreamEstimator):
        if estimator.task == task:
            return ": give it without Wrapped, and scaling as a parameter of its own."
        return f", since it is for {estimator.task}."
    return (
        ": give the name of a preset, such as 'svmd', or an estimator for this task that learns "
        "row by row, with partial_fit as in scikit-learn or learn_one as in River."
    )

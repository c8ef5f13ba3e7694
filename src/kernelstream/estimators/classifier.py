"""Classification, binary and multiclass."""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import NotFittedError

from kernelstream.estimators.available import available_unless
from kernelstream.estimators.base import Learned, Rows
from kernelstream.estimators.class_weights import class_weighted
from kernelstream.estimators.files import Saveable
from kernelstream.estimators.labels import (
    Labels,
    as_block,
    as_labels,
    as_written,
    class_probabilities,
    kind_of,
    problem_of,
    shown,
)
from kernelstream.estimators.many_classes import refuse_many_classes, warn_of_ids
from kernelstream.estimators.single import KernelEstimator
from kernelstream.label_kernels import LabelStructure
from kernelstream.learner.learner import Learner
from kernelstream.learner.rows import BadRow
from kernelstream.parts import integer_at_least, parameters
from kernelstream.updates import as_update

__all__ = ["Classifying", "KernelClassifier"]

_NO_LABEL = (
    "no label has been learned yet, since no row had a sample_weight above zero: learn such a row "
    "first."
)


class Classifying(ClassifierMixin, Saveable):
    """What classifiers share: names of labels to outputs, and scores to labels."""

    task = "classification"
    class_weight: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Forget everything and learn all of X, in `n_epochs` passes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self
        """
        return self._fit_all(X, y, sample_weight)

    def target_check(self) -> Callable[[Any], str | None]:
        structure, known, kind = self.structure(), None, None
        labels = None if self._learned is None else self._learned.labels
        if structure is not None:
            known = set(structure.label_names())
        elif labels is not None and labels.names:
            known = set(labels.names) if labels.single_output else None
            kind = kind_of(labels.names[0])

        def problem(y: Any) -> str | None:
            nonlocal kind
            if y is None or (isinstance(y, float) and not math.isfinite(y)):
                return f"its label is {y!r}"
            wrong = problem_of(y)
            if wrong is not None:
                return f"its label is {shown(y)}, and {wrong}"
            if known is not None and y not in known:
                return f"its label {y!r} is unknown"
            kind = kind_of(y) if kind is None else kind  # that of the first label counts
            if kind_of(y) != kind:
                return "its label is a string and others are numbers, or the other way round"
            return None

        return problem

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn the rows of a block, in order.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like, default=None
            All classes, where they are known, in the first call. Exactly two make a model with a
            single output. Left out, classes come with the stream.
        sample_weight : array-like of shape (n_samples,), default=None
            A row of weight zero is as good as absent.

        Returns
        -------
        self
        """
        self.learn_block(X, y, classes, sample_weight, keep_scores=False)
        return self

    def _checked(
        self, X: Any, y: Any, classes: Any, sample_weight: Any, whole_data: bool = False
    ) -> Rows:
        rows = self._taken(X, as_written(y), sample_weight, whole_data)
        y, weight = as_labels(rows.y), rows.weight
        if whole_data:
            _require_two_classes(y[weight > 0])
            classes = np.unique(y)
        if self._learned is None:
            labels = Labels(classes, self.structure())
        else:
            labels = self._known_labels()
            if classes is not None:
                _check_declared(classes, labels)
        if sample_weight is None:
            labels, codes, new = labels.including(y)
        else:  # a label that only comes without weight does not exist
            labels, codes, new = _of_weight(labels, y, np.flatnonzero(weight > 0))
        counts = None if self._learned is None else self._learned.class_counts
        weight, counts = class_weighted(
            self.class_weight, labels, codes, weight, counts, whole_data
        )
        if whole_data:
            self._warn_of_ids(labels, len(labels), len(y))
        elif new:
            n_before = 0 if self._learned is None else self._learned.machine.n_seen
            self._warn_of_ids(labels, labels.n_late, n_before + len(y))
        # a new class exists from its own row on
        return rows._replace(
            y=codes, weight=weight, labels=labels, class_counts=counts,
            new_outputs=new,
        )  # fmt: skip

    def _warn_of_ids(self, labels: Labels, n_classes: int, n_rows: int) -> None:
        """Warn once, before they are learned, of labels that look like ids or numbers."""
        are_numbers = labels.dtype is not None and labels.dtype.kind in "iuf"
        if "_warned_of_ids" not in self.__dict__ and warn_of_ids(n_classes, n_rows, are_numbers):
            self._warned_of_ids = True

    def _check_machine(self, machine: Learner, rows: Rows) -> None:
        if rows.new_outputs and rows.labels is not None:
            refuse_many_classes(machine, len(rows.labels))

    def _known_labels(self) -> Labels:
        labels = self._known().labels
        assert labels is not None
        return labels

    def no_probabilities(self) -> str | None:
        """Why there is no `predict_proba`, if so."""
        return None

    def learn_one(self, x: np.ndarray, y: Any) -> Self:
        """Learn one row: `partial_fit` without its overhead.

        Parameters
        ----------
        x : ndarray of shape (n_features,)
        y : label

        Returns
        -------
        self
        """
        with self._turn:
            learned = self._learned
            labels = None if learned is None else learned.labels
            code = None if labels is None else labels.code(y)
            # the first row, a new class, or a row that is not learned as it is
            if learned is None or code is None or not self._learns_in_place(learned):
                return self.partial_fit(self._first_row(x), as_block(y))
            self._refuse_stream()
            try:
                self._learn_row(learned, x, code)
            except (TypeError, ValueError) as error:
                self._refused(error)
        return self

    def _learns_in_place(self, learned: Learned) -> bool:
        return self.class_weight is None and super()._learns_in_place(learned)

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: one a row for two classes (positive: the second), otherwise one a class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        scores, labels = self._scores(X)
        if labels.single_output:
            return scores[:, 0]
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: Any, *, ids: Any = None) -> np.ndarray:
        """The most likely label of each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        ids : sequence of str or int, default=None
            One for each row, under which it waits for its target: see `learn_labels`. At most
            `waiting_rows` rows wait; beyond, the first go, and are counted in `n_expired_`.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        scores, labels = self._scores(X, ids)
        return labels.as_array()[labels.predicted(scores)]

    def predict_one(self, x: np.ndarray) -> Any:
        """The most likely label of one row, without the overhead of `predict`.

        Parameters
        ----------
        x : ndarray of shape (n_features,)

        Returns
        -------
        label
        """
        scores, learned = self._read_one(x)
        labels = learned.labels
        assert labels is not None
        if not labels.names:
            raise NotFittedError(_NO_LABEL)
        if self.structure() is not None:
            scores = self.per_label(scores[None])[0]
        return labels.names[int(scores[0] > 0.0 if labels.single_output else scores.argmax())]

    @available_unless(lambda model: model.no_probabilities())
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes.

        With ``loss="log_loss"`` those of the model (22). A second-order learner fits the labels by
        least squares, and knows how certain its scores are: then a class is as probable as it is
        that its score is the highest.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        scores, labels = self._log_odds(X)
        return class_probabilities(scores, labels.single_output)

    @available_unless(lambda model: model.no_probabilities())
    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """Probabilities of the classes for one row, by class.

        Parameters
        ----------
        x : ndarray of shape (n_features,) or dict

        Returns
        -------
        dict
        """
        labels = self._known_labels()
        probabilities = self.predict_proba(self._first_row(x))[0]
        return dict(zip(labels.names, probabilities.tolist(), strict=True))

    def _log_odds(self, X: Any) -> tuple[np.ndarray, Labels]:
        """Numbers whose softmax are the probabilities, and the labels they belong to."""
        return self._scores(X)

    def label_scores(self, X: Any) -> np.ndarray:
        """The scores of rows, one for every label; of two declared labels, that of the second.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or (n_samples, 1)
        """
        return self._scores(X)[0]

    def _scores(self, X: Any, ids: Any = None) -> tuple[np.ndarray, Labels]:
        """The scores of every label, and the labels they belong to."""
        scores, learned = self._read(X, ids)
        assert learned.labels is not None
        if not learned.labels.names:
            raise NotFittedError(_NO_LABEL)
        return self.per_label(scores), learned.labels

    def decode(self, scores: np.ndarray, margins: np.ndarray) -> np.ndarray:
        """The label of each row with the highest score; NaN is that of a label not known yet."""
        labels = self._known_labels()
        return labels.as_array()[labels.predicted(np.where(np.isnan(scores), -np.inf, scores))]

    def top_k(self, X: Any, k: int) -> np.ndarray:
        """The k most likely labels of each row, the best first.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        k : int

        Returns
        -------
        ndarray of shape (n_samples, k)
        """
        scores, labels = self._scores(X)
        if labels.single_output:
            scores = np.column_stack([-scores, scores])
        if integer_at_least("k", k, 1) > scores.shape[1]:
            raise ValueError(f"k={k!r} is out of range: the model has {scores.shape[1]} classes.")
        return labels.as_array()[np.argsort(-scores, axis=1, kind="stable")[:, :k]]

    def top_k_score(self, X: Any, y: Any, k: int = 5) -> float:
        """The share of rows whose label is among the k most likely.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        k : int, default=5

        Returns
        -------
        float
        """
        found = self.top_k(X, k) == np.asarray(y)[:, None]
        return float(found.any(axis=1).mean())

    def mean_distance(self, X: Any, y: Any) -> float:
        """How far the predicted labels are from the true ones, on average.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        float
            The mean distance of the label structure; without one, the share of wrong labels.
        """
        structure, predicted = self.structure(), self.predict(X)
        if structure is None:
            return float((predicted != np.asarray(y)).mean())
        return float(structure.distances(y, predicted).mean())

    @property
    def classes_(self) -> np.ndarray:
        """The labels."""
        labels = None if self._learned is None else self._learned.labels
        if labels is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute 'classes_'")
        return labels.as_array()


def _of_weight(
    labels: Labels, y: np.ndarray, rows: np.ndarray
) -> tuple[Labels, np.ndarray, list[int]]:
    """`Labels.including`, for some rows: those that have a weight."""
    try:
        labels, found, new = labels.including(y[rows])
    except BadRow as bad:  # which counted these rows
        raise BadRow(int(rows[bad.row]), bad.reason) from None
    codes = np.zeros(len(y))
    codes[rows] = found
    return labels, codes, rows[new].tolist()


def _require_two_classes(y: np.ndarray) -> None:
    present = np.unique(y)
    if len(present) < 2:
        raise ValueError(
            f"y has only one class with a positive sample_weight, {present.tolist()!r}: "
            "a classifier needs at least two classes to fit. To begin a stream with a "
            "single class use partial_fit."
        )


def _check_declared(classes: Any, labels: Labels) -> None:
    declared = Labels(classes)
    unknown = [name for name in declared.names if labels.code(name) is None]
    if unknown:
        raise ValueError(
            f"classes={classes!r} is not what this model was first told: {unknown!r} is new. "
            "Declare classes in the first call; later ones come with the stream."
        )


@parameters
class KernelClassifier(Classifying, KernelEstimator):
    """An online kernel classifier that sets its own step size.

    By default this is SVMD: a support vector machine trained by stochastic gradient descent in the
    kernel's function space, whose step size adapts by stochastic meta-descent. Row by row::

        f <- (1 - eta c) f - eta xi k(x, .)        (28)
        eta <- eta max(1/2, 1 - mu <g, v>)         (33)

    It learns from blocks of any size, with the same result as row by row.

    Parameters
    ----------
    kernel : str, kernel object or callable, default="rbf"
        "rbf", "poly", "linear", "laplacian", a part of `kernelstream.kernels`, or any function
        ``k(X, Z) -> block``.
    gamma : float, "auto" or "scale", default="auto"
        The width of a kernel that is given by name. "auto" is 1 / n_features. If `scaling` gives
        rows unit length, "auto" is a fixed number for RBF: 4 in classification, 1 in regression and
        novelty detection. "scale" is 1 / (n_features * X.var()); it needs the data and works in
        `fit` only, without `scaling`.
    degree, coef0 : int and float, default=3 and 0.0
        The parameters of the polynomial kernel, if it is given by name.
    loss : {"hinge", "log_loss", "perceptron"}, default="hinge"
        With one output per class it is the multiclass form of each, with `label_structure` the
        structured one (25).
    label_structure : Taxonomy, LabelGraph or LabelMatrix, default=None
        How alike the labels are and how far apart (`kernelstream.label_kernels`). The labels of
        the structure are the classes.
    margin : float or margin part, default=1.0
        By how much the score of the true label should exceed the others. With a label structure it
        is multiplied by the distance. The perceptron has 0 unless another margin is given.
    nu : float in (0, 1), default=None
        Short for ``margin=Nu(nu)``: move the margin until a share nu of the rows violates it.
    step_size : {"smd", "sqrt_decay", "constant"}, float or step size part, default="smd"
        A float is a constant step.
    update : {"explicit", "implicit"} or update part, default="explicit"
        How a gradient becomes coefficients: by a gradient step, or by the exact minimum of the
        loss near the present model, which no step size can overshoot.
    budget : "auto", int, budget part or None, default="auto"
        How many support vectors are kept; the oldest goes first. None keeps all. "auto" keeps 512,
        but none for a kernel with explicit features, such as "linear" and `RandomFourier`, whose
        model is a weight for each feature (`kernelstream.budgets.Folded`).
    C : float, default=1.0
        Weight of the loss.
    regularization : float, default=None
        Weight c of half the squared norm of f. None: 1e-6, or 1 with nu, as in the papers. A
        regressor whose oldest point goes asks for more (0.009 with 512 points), and one with
        `VectorSMD` for 0.003: on smooth series f could grow without bound otherwise.
    fit_intercept : bool, default=False
        Learn an offset for every output, each with its own step size.
    n_epochs : int, default=1
        Passes over the data in `fit`.
    random_state : int, RandomState instance or None, default=None
        None: `fit` takes the rows in the order given, as a stream. Otherwise it shuffles them in
        every pass. `partial_fit` never shuffles.
    predictor : {"last", "averaged", "voted"}, default="last"
        What predicts. "last" is the model as it is now. "averaged" is the mean of all models so
        far, each as it was after a row (the end of section 3.2 of the ILK paper). "voted" is their
        vote, in which each model counts for as many rows as it lasted (Freund and Schapire, 1999).
        Learning is the same. The average works with every explicit or implicit update, needs one
        more number per coefficient and takes no longer. If the budget drops a point, its part of
        the average is lost; so keep all points (``budget=None``), or use a budget that hands them
        on (`LeastLoss`, `Merge`). A vote needs updates that change no old coefficient, such as
        those of the perceptron with ``regularization=0``.
    scaling : {"running", "renewed"}, scaling part or None, default=None
        What kernels see of a row. "running" is recommended unless rows are scaled already. It
        scales features by the mean and the standard deviation of the rows learned before
        (`scalings.Running`). "renewed" renews these numbers at rows 2, 4, 8, ... and scales the
        points again (`scalings.Renewed`). None leaves the row as it is.
    device : str, `Device` or None, default=None
        Where points live and kernel values are computed, such as "cuda" with PyTorch or CuPy
        (docs/gpu.md). Rows are then learned in float32; ``Device("cuda", dtype="float64")`` asks
        for float64. X may be an array on that device. It pays from about 1,000 points on. A file
        does not record the device of its model: `load` takes a device. None is the host.
    class_weight : dict, "balanced" or None, default=None
        How much the rows of each class count, times their own weight. A dict has the weights of
        labels; other labels have the weight 1. With "balanced" a row counts n / (k n_c), where n is
        the number (or weight) of the rows up to this one, n_c that of its class, and k the number
        of classes so far. So it does not matter how the stream is cut into blocks. `fit`, which
        knows all rows, takes n, n_c and k of all of them, as scikit-learn does.
    missing : {"error", "mean", "indicator"}, default="error"
        What to do with NaN in a row (or None, in a table). With "error" such a row cannot be
        learned. "mean" takes the mean that this column had in the rows before. "indicator" does the
        same, and rows have a second feature for every column, which is 1 if the first is missing.
    waiting_rows : int, default=10_000
        How many rows may wait for their labels, after ``predict(X, ids=...)``.
    on_bad_row : {"raise", "skip"} or callable, default="raise"
        What to do with a row that cannot be learned (NaN, infinity, a wrong width, numbers that
        would overflow, a missing target). "raise" raises an error, and nothing of the block is
        learned. "skip" leaves that row out and counts it, and the model is the one that the other
        rows alone would give. A function is called with each such row, as a `BadRow` with `row`
        (its position in the block) and `reason`, after the others were learned.

    Attributes
    ----------
    classes_ : ndarray
        The labels: first the declared ones, sorted, then the others in the order of their rows.
    n_seen_ : int
        How many rows were learned.
    step_size_, margin_ : float
        Where the step size eta and the margin are now.
    n_capped_ : int
        At how many rows a smaller step than eta was taken (see `updates.Explicit`).
    drift_score_ : float
        How far the step size has risen above its recent past: the logarithm of eta over its
        geometric mean of the last 50 rows or so. It does not depend on any units. Near zero nothing
        has changed. Above 0.3 the recent steps were too small. This follows a change of the stream,
        but may also be chance: `prequential` reports events (docs/drift.md).
    support_vectors_ : ndarray of shape (n_points, n_features)
        As kernels see them: with `scaling`, as they were scaled when they came.
    dual_coef_ : ndarray of shape (n_outputs, n_points)
        What each support vector brings to each score, kernels between labels included.
    intercept_ : ndarray of shape (n_outputs,)
    n_support_ : int
    truncation_error_ : float
        With ``OldestOut(..., max_age=...)`` or ``max_error=...``: a bound on the norm of what has
        been dropped.
    kernel_ : kernel object
        The kernel with all its numbers.
    n_skipped_ : int
        How many rows were left out by ``on_bad_row``.
    skipped_ : dict
        The same by reason.

    Notes
    -----
    With exactly two classes declared (by `fit` or by ``classes=``) there is a single output, and y
    is coded -1 and +1; otherwise there is one output per class, and a class that turns up late
    exists from its own row on.

    References
    ----------
    Vishwanathan, Schraudolph, Smola: Step Size Adaptation in Reproducing Kernel Hilbert Space.
    JMLR 7, 2006.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kernelstream import KernelClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = KernelClassifier(gamma=0.001)
    >>> for start in range(0, 1500, 100):
    ...     _ = model.partial_fit(X[start:start + 100], y[start:start + 100])
    >>> model.n_seen_
    1500
    >>> bool(model.score(X[1500:], y[1500:]) > 0.85)
    True
    """

    _: KW_ONLY
    label_structure: LabelStructure | None = None
    fit_intercept: bool = False
    class_weight: Any = None
    waiting_rows: int = 10_000

    predictors: ClassVar[tuple[str, ...]] = ("last", "averaged", "voted")

    def comparable_targets(self, rows: Rows) -> np.ndarray:
        assert rows.labels is not None
        return (rows.y > 0).astype(int) if rows.labels.single_output else rows.y.astype(int)

    def worse_than_baseline(
        self, scores: np.ndarray, y: np.ndarray, before: np.ndarray
    ) -> tuple[float, float]:
        own = self._known_labels().predicted(scores) == y
        constant = np.bincount(before).argmax() == y
        return float((constant & ~own).sum()), float((own & ~constant).sum())

    def structure(self) -> LabelStructure | None:
        """The label structure, checked."""
        structure = self.label_structure
        if structure is not None and not isinstance(structure, LabelStructure):
            raise TypeError(
                f"label_structure={structure!r} is not one: give a Taxonomy, LabelGraph or "
                "LabelMatrix of kernelstream.label_kernels."
            )
        return structure

    def no_probabilities(self) -> str | None:
        """Why there is no `predict_proba`, if so."""
        if self.loss == "log_loss" or as_update(self.update).is_second_order:
            return None
        return (
            f"predict_proba is not available with loss={self.loss!r}: use loss='log_loss', or "
            "ks.make('sog-svc', 'classifier')."
        )

    def _log_odds(self, X: Any) -> tuple[np.ndarray, Labels]:
        if not as_update(self.update).is_second_order:
            return super()._log_odds(X)
        scores, std, learned = self._read_deviations(X)
        assert learned.labels is not None
        # With the standard deviation s of every score, that one is higher than another by chance
        # is nearly logistic in 2 / sqrt(pi) times their difference over s; that a single one is
        # above zero, in sqrt(2) as much.
        scale = (math.sqrt(2.0) if learned.labels.single_output else 1.0) * 2.0 / math.sqrt(math.pi)
        return scale * scores / std[:, None], learned.labels

"""Online kernel classifiers, binary and multiclass."""

import math
from dataclasses import KW_ONLY
from typing import Any, ClassVar

import numpy as np

from kernelstream.estimators.base import Rows
from kernelstream.estimators.classifying import Classifying
from kernelstream.estimators.labels import (
    Labels,
)
from kernelstream.estimators.single import KernelEstimator
from kernelstream.label_kernels import LabelStructure
from kernelstream.parts import parameters
from kernelstream.updates import as_update

__all__ = ["KernelClassifier"]


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
        more number per coefficient. It needs a budget that keeps all points (None) or hands on the
        part of a point that goes (`LeastLoss`, `Merge`, `Independent`): "auto" is then
        ``LeastLoss(256)``, an integer the size of a `LeastLoss`, and budgets that drop points are
        refused. A vote needs updates that change no old coefficient, such as those of the
        perceptron with ``regularization=0``.
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
        """Return the label structure, checked."""
        structure = self.label_structure
        if structure is not None and not isinstance(structure, LabelStructure):
            raise TypeError(
                f"label_structure={structure!r} is not one: give a Taxonomy, LabelGraph or "
                "LabelMatrix of kernelstream.label_kernels."
            )
        return structure

    def no_probabilities(self) -> str | None:
        """Return why there is no `predict_proba`, or None."""
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

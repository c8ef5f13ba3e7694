"""What the three estimators share: parameters to parts, rows to the backend, state to read."""

import math
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, validate_data

from kernelstream import losses
from kernelstream.backends import cpu
from kernelstream.budgets import Independent, Merge, Unbounded, as_budget
from kernelstream.compiled import as_argument
from kernelstream.estimators.bad_rows import BadRowPolicy, unmasked
from kernelstream.kernels import RBF, Homogenized, Kernel, Laplacian, Normalized, as_kernel
from kernelstream.label_kernels import LabelStructure
from kernelstream.learner import predict
from kernelstream.learner.lasvm import RefusedRow, finish_active, fit_lasvm
from kernelstream.learner.learn import Trail
from kernelstream.learner.model import Learner, Parts, build
from kernelstream.learner.points import as_sparse_rows
from kernelstream.learner.predict import coefficients
from kernelstream.learner.sequential import fit_adatron, fit_sequential
from kernelstream.margins import Ball, Fixed, Nu, Shrinking, as_margin
from kernelstream.parts import integer_at_least, number, one_of
from kernelstream.step_sizes import Constant, as_step_size
from kernelstream.updates import (
    ALMA,
    LASVM,
    Adatron,
    Ballseptron,
    Dual,
    Implicit,
    Unused,
    as_update,
)

__all__ = ["KernelEstimator"]

Answer = TypeVar("Answer")

_DEFAULT_REGULARIZATION = 1e-6
_KERNEL_DEFAULTS = {"gamma": "auto", "degree": 3, "coef0": 0.0}
# what presets say where there is no step size to choose, and a default written as a part
_PLAIN = {"step_size": (1.0, Constant(1.0)), "margin": (Fixed(1.0),)}


class KernelEstimator(BadRowPolicy, BaseEstimator):
    """Base of the estimators. Subclasses say the task and how targets become numbers."""

    task: ClassVar[str]
    default_margin: ClassVar[float | Nu] = 1.0
    predictors: ClassVar[dict[str, Any]] = {"last": predict.scores, "averaged": predict.averaged}

    # Parameters, declared here for the methods below; every subclass has its own __init__.
    kernel: Any
    gamma: Any
    degree: Any
    coef0: Any
    loss: Any
    margin: Any
    nu: Any
    step_size: Any
    update: Any
    budget: Any
    C: Any
    regularization: Any
    fit_intercept: Any
    n_epochs: Any
    random_state: Any
    predictor: Any
    _learner: Learner

    def _structure(self) -> LabelStructure | None:
        """The structure of the labels, where there is one."""
        return None

    def _per_label(self, outputs: np.ndarray) -> np.ndarray:
        """Numbers for each label from numbers for each output, a row each."""
        structure = self._structure()
        return outputs if structure is None else structure.label_scores(outputs)

    # --- parameters to parts ---------------------------------------------------------------------

    def _parts(self, kernel: Kernel, single_output: bool) -> Parts:
        """Check every parameter and make the parts."""
        self._skips()
        name = one_of("loss", self.loss, losses.names(self.task))
        structure = self._structure()
        labels = None if structure is None else structure.to_rule()
        entry = losses.find(self.task, name, single_output, labels)
        update = as_update(self.update)
        margin = self._margin(name, update, single_output)
        adaptive = isinstance(margin, Nu)
        if adaptive and not entry.accepts_nu:
            raise ValueError(
                f"nu={margin.nu!r} does not go with loss={name!r}, which has no margin to adapt: "
                "leave nu out, or choose hinge, novelty, epsilon_insensitive or huber."
            )
        if isinstance(update, Implicit) and not entry.accepts_implicit:
            raise ValueError(
                f"update='implicit' does not go with loss={name!r}, which has no margin: from a "
                "model at zero an implicit step never moves. Use loss='hinge', or "
                "update='explicit'."
            )
        budget = as_budget(self.budget)
        if isinstance(update, Dual):
            self._check_dual(update, budget)
        if update.only_loss is not None:
            self._check_classic(update, name, budget)
        if isinstance(budget, Merge) and not isinstance(kernel, RBF):
            raise ValueError(
                f"budget={budget!r} does not go with kernel={kernel!r}: a point between two others "
                "is known for the RBF kernel only. Use LeastLoss, or kernel='rbf'."
            )
        if name == "huber":
            number("margin", margin.initial if adaptive else margin.value, above=0)
        c = self._regularization(update, adaptive)
        step_size = as_step_size(self.step_size, self.task, structure is not None)
        return Parts(
            kernel=kernel,
            loss=entry.rule,
            margin=margin,
            step_size=step_size.for_regularization(c),
            update=update,
            budget=budget,
            fit_intercept=bool(getattr(self, "fit_intercept", False))
            and not self._intercept_in_kernel(),
            regularization=c,
            loss_weight=number("C", self.C, above=0),
            dated=self._predictor(update, budget) == "voted",
            averaged=self.predictor == "averaged",
        )

    def _predictor(self, update: Any, budget: Any) -> str:
        """What predicts, if it goes with the other parts."""
        name = one_of("predictor", self.predictor, list(type(self).predictors))
        if name != "last" and not update.keeps_sum:
            raise ValueError(
                f"predictor={name!r} does not go with update={update!r}, where every row changes "
                "old coefficients: use predictor='last', or update='explicit' or 'implicit'."
            )
        return name

    def _readout(self) -> Any:
        """The function that makes scores of kernel values."""
        name = one_of("predictor", self.predictor, list(type(self).predictors))
        learner = self.__dict__.get("_learner")
        memory = {"averaged": "p_sum", "voted": "born"}.get(name)
        if learner and memory and not getattr(learner.state.expansion, memory).size:
            raise ValueError(
                f"predictor={name!r} was set after this model had begun to learn, and its earlier "
                "models are forgotten: set it before the first row, or use predictor='last'."
            )
        return type(self).predictors[name]

    def _margin(self, loss: str, update: Any, single_output: bool) -> Any:
        """The margin that was asked for, or the one that the update brings."""
        given = None if self.margin == type(self).default_margin else self.margin
        if not update.brings_margin:
            # the perceptron has none
            default = 0.0 if loss == "perceptron" else type(self).default_margin
            return as_margin(given, self.nu, default)
        if given is not None or self.nu is not None:
            raise ValueError(
                f"update={update!r} has a margin of its own: leave margin={self.margin!r} and "
                f"nu={self.nu!r} out."
            )
        if isinstance(update, Ballseptron):
            return Ball(update.radius)
        return Shrinking(update.first_margin() * (1.0 if single_output else math.sqrt(2.0)))

    def _regularization(self, update: Any, adaptive: bool) -> float:
        if update.brings_margin:
            if self.regularization:
                raise ValueError(
                    f"update={update!r} has no regularization: leave "
                    f"regularization={self.regularization!r} out."
                )
            return 0.0
        if self.regularization is not None:
            return number("regularization", self.regularization, at_least=0)
        # with nu the papers fix c at 1 (53), except in regression
        return 1.0 if adaptive and self.task != "regression" else _DEFAULT_REGULARIZATION

    def _check_classic(self, update: Any, loss: str, budget: Any) -> None:
        """What the perceptron's family and solvers of the batch problem go with."""
        name = type(update).__name__
        if self.task != "classification" or self._structure() is not None:
            raise ValueError(f"update={update!r} is for classification, with plain labels.")
        if loss != update.only_loss:
            raise ValueError(
                f"update={update!r} goes with loss={update.only_loss!r}, not with {loss!r}."
            )
        if update.revisits_rows and not update.in_streams and budget.limit() is not None:
            raise ValueError(f"{name} gives every row a coefficient: use budget=None.")
        ages = budget.projects() or budget.expires() or budget.fades()
        if update.finishes and (ages or budget.limit() == 1):
            raise ValueError(
                f"update={update!r} keeps the rows of pairs: use budget=None, or SmallestOut(size) "
                f"or OldestOut(size) with at least two points and no more, not {budget!r}."
            )
        if update.revisits_rows and not isinstance(self._margin(loss, update, True), Fixed):
            raise ValueError(f"{name} needs a fixed margin: leave nu={self.nu!r} out.")
        if isinstance(update, LASVM) and not self.fit_intercept:
            raise ValueError(f"update={update!r} solves for an intercept: use fit_intercept=True.")
        if update.brings_margin and not isinstance(
            as_step_size(self.step_size, self.task), Constant
        ):
            raise ValueError(
                f"update={update!r} does not go with step_size={self.step_size!r}: use "
                "step_size=1.0."
            )
        if update.brings_margin and getattr(self, "fit_intercept", False):
            raise ValueError(
                f"update={update!r} has no intercept: wrap the kernel in kernels.Homogenized, "
                "which adds one."
            )

    def _check_dual(self, update: Dual, budget: Any) -> None:
        """A dual update fits a dictionary to all rows, which not everything goes with."""
        if not isinstance(budget, Independent | Unbounded):
            raise ValueError(
                f"update={update!r} works on a dictionary, budget=Independent(...), or, in fit, on "
                f"all rows, budget=None; not with {budget!r}."
            )
        if isinstance(budget, Unbounded) and self.task != "regression":
            raise ValueError(f"update={update!r} with budget=None (SVRseq) is for regression.")
        if self.task == "novelty" or self._structure() is not None:
            raise ValueError(f"update={update!r} is for regression, and for plain labels.")

    def _refuse_unused(self) -> None:
        """Refuse what would change nothing. A model from a file may have it: it is what it is."""
        update = as_update(self.update)
        unused = update.unused(isinstance(as_budget(self.budget), Unbounded))
        if "loss" not in unused and not losses.has_margin(self.task, self.loss):
            remedy = f"loss={self.loss!r} has none, so leave it out or choose another loss"
            unused = {**unused, "margin": Unused(remedy)}
        given, default = self.get_params(), type(self)().get_params()
        for name, (remedy, but) in unused.items():
            value = given.get(name)
            if value not in (default.get(name), *_PLAIN.get(name, ()), *but):
                raise ValueError(
                    f"{name}={value!r} changes nothing with update={update!r}: {remedy}."
                )
        if "nu" in unused and isinstance(self.margin, Nu):
            raise ValueError(
                f"margin={self.margin!r} does not adapt with update={update!r}: give a number."
            )

    def _kernel(self, X: Any, whole_data: bool) -> Kernel:
        """The kernel with all its numbers. `whole_data`: X is all there will be."""
        gamma = self.gamma
        if gamma == "scale" and isinstance(self.kernel, str):
            if not whole_data:
                raise ValueError(
                    "gamma='scale' needs all the data and works in fit only: in partial_fit the "
                    "model would depend on how the stream is cut into blocks. Give a number, or "
                    "'auto' for 1 / n_features."
                )
            variance = X.power(2).mean() - X.mean() ** 2 if sparse.issparse(X) else X.var()
            gamma = 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
        chosen = {"gamma": gamma, "degree": self.degree, "coef0": self.coef0}
        changed = {k: v for k, v in chosen.items() if v != _KERNEL_DEFAULTS[k]}
        kernel = as_kernel(self.kernel, changed).resolve(X.shape[1])
        if self._intercept_in_kernel() and not isinstance(kernel, Homogenized):
            return Homogenized(kernel, 1.0)
        if isinstance(self.update, ALMA) and not isinstance(kernel, RBF | Laplacian | Normalized):
            return Normalized(kernel)
        return kernel

    def _intercept_in_kernel(self) -> bool:
        """A dual update has no intercept beside f: it is part of the kernel (2.7)."""
        fitted = bool(getattr(self, "fit_intercept", False))
        return isinstance(self.update, Dual | Adatron) and fitted

    def _start(self, X: Any, n_outputs: int, single_output: bool, whole_data: bool) -> None:
        """Make a learner that has seen nothing."""
        parts = self._parts(self._kernel(X, whole_data), single_output)
        self._refuse_unused()
        is_sparse = sparse.issparse(X)
        if is_sparse and isinstance(parts.budget, Merge):
            raise ValueError(
                f"budget={parts.budget!r} does not go with sparse rows: a point between two others "
                "would fill up. Use LeastLoss, or give dense rows."
            )
        drops = parts.budget.limit() is not None and not parts.budget.projects()
        if parts.averaged and drops and self.task != "classification":
            warnings.warn(
                f"predictor='averaged' with budget={parts.budget!r}: what a dropped point brought "
                "to the average leaves with it, and predictions shrink to zero once many are "
                "dropped. Use LeastLoss, Merge or None as budget.",
                stacklevel=9,  # whoever calls partial_fit
            )
        self._learner = build(parts, X.shape[1], n_outputs, X.dtype, is_sparse)

    # --- rows in ---------------------------------------------------------------------------------

    def _rows(self, X: Any, y: Any = "no_validation", reset: bool = False, **options: Any) -> Any:
        """X (and y) as checked arrays, X as the learner keeps rows once there is one."""
        X, y = unmasked(X), unmasked(y)
        checked = validate_data(
            self, X, y, reset=reset, dtype=[np.float64, np.float32], order="C",
            accept_sparse="csr", **options,
        )  # fmt: skip
        X = checked if isinstance(y, str) else checked[0]
        if not reset:
            X = self._as_kept(X)
        elif sparse.issparse(X):
            X = as_sparse_rows(X)
        return X if isinstance(y, str) else (X, checked[1])

    def _as_kept(self, X: Any) -> Any:
        """Rows in the learner's precision, sparse or dense as its points are."""
        learner = self._learner
        with np.errstate(over="ignore"):  # a number that float32 cannot hold is refused later
            if learner.points.is_sparse:
                return as_sparse_rows(X, learner.dtype)
            X = X.toarray() if sparse.issparse(X) else X
            return np.ascontiguousarray(X, dtype=learner.dtype)

    def _weights(self, sample_weight: Any, X: np.ndarray) -> np.ndarray:
        if sample_weight is None:
            return np.ones(X.shape[0])
        weight = check_array(
            unmasked(sample_weight), dtype=np.float64, ensure_2d=False, order="C", copy=True,
            input_name="sample_weight",
        )  # fmt: skip
        if weight.shape != (X.shape[0],):
            expected = (X.shape[0],)
            raise ValueError(
                f"sample_weight.shape == {weight.shape}, expected {expected}: one number per row."
            )
        if (weight < 0).any():
            raise ValueError(
                f"sample_weight contains {weight.min()}: negative values mean nothing here, give "
                "numbers of at least 0."
            )
        return weight

    @staticmethod
    def _require_weight(weight: np.ndarray) -> None:
        if not weight.any():
            raise ValueError("sample_weight is zero for every row: there is nothing to fit.")

    # --- changes: all or nothing, and never under a reader's eyes ---------------------------------

    @property
    def _turn(self) -> Any:
        """The lock for which learning calls of several threads wait."""
        lock = self.__dict__.get("_lock")
        return self.__dict__.setdefault("_lock", threading.RLock()) if lock is None else lock

    def _commit(self, change: Callable[[Self], Answer]) -> Answer:
        """Let `change` learn something, all of it or, after an error, nothing.

        Where no other thread exists, nobody can read meanwhile: the model changes in place, and is
        put back after an error. Otherwise a draft of the model learns, while others read the model
        as it was; then the model becomes its draft, in one step.
        """
        learner = self.__dict__.get("_learner")
        if threading.active_count() == 1 and learner is not None:
            with learner.gate.lock:
                if not learner.gate.readers:
                    return self._unchanged_on_error(change)
        draft = self._draft()
        if learner is not None:
            with learner.gate:
                draft._learner = learner.copy()
        answer = change(draft)
        self._become(draft)
        return answer

    def _draft(self) -> Self:
        draft = object.__new__(type(self))
        draft.__dict__.update(self.__dict__)
        return draft

    def _become(self, draft: Self) -> None:
        """Take over everything that the draft knows; readers see all of it or nothing."""
        self.__dict__.update(draft.__dict__)
        for name in set(self.__dict__) - set(draft.__dict__):
            del self.__dict__[name]

    def _unchanged_on_error(self, change: Callable[[Self], Answer]) -> Answer:
        """Call `change`; if it fails, the estimator is afterwards as it was before."""
        before = dict(self.__dict__)
        try:
            return cpu.all_or_nothing(before["_learner"], lambda: change(self))
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _learn_row(self, x: Any, y: float) -> None:
        """Learn one row, all or nothing."""
        learner, row = self._learner, self._row(x)
        if cpu.learns_in_one_call(learner):
            with learner.gate.lock:  # for which new readers wait, as long as one row takes
                if not learner.gate.readers:
                    cpu.learn_row(learner, row, y)
                    return
        self._commit(lambda model: cpu.learn_row(model._learner, row, y))

    def _reading(self) -> "Reading":
        """A context in which the learner and the labels belong together and do not change."""
        return Reading(self)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_lock", None)
        return state

    def _epochs(self, n_rows: int) -> Iterator[np.ndarray | slice]:
        """The order of the rows in each pass of `fit`: as given, or shuffled by random_state."""
        n_epochs = integer_at_least("n_epochs", self.n_epochs, 1)
        random = None if self.random_state is None else check_random_state(self.random_state)
        for _ in range(n_epochs):
            yield slice(None) if random is None else random.permutation(n_rows)

    def _learn(self, X: Any, y: np.ndarray, weight: np.ndarray, keep_scores: bool = False) -> Trail:
        return cpu.learn(self._learner, X, y, weight, keep_scores=keep_scores)

    def _revisits_rows(self) -> bool:
        """Whether every row has a coefficient of its own, for several passes."""
        update = as_update(self.update)
        in_dual = isinstance(update, Dual) and isinstance(as_budget(self.budget), Unbounded)
        return update.revisits_rows or in_dual

    def _learn_epochs(self, X: Any, y: np.ndarray, weight: np.ndarray) -> None:
        """All the passes of `fit`."""
        if self._revisits_rows():
            cpu.refuse_large(self._learner, X, self._learner.points.kernel.numbers(X))
            cpu.refuse_extreme(y, weight)
            self.n_passes_ = self._revisit(X, y, weight)
            return
        for order in self._epochs(X.shape[0]):
            try:
                self._learn(X[order], y[order], weight[order])
            except cpu.BadRow as bad:  # which counted in the order of the pass
                row = bad.row if isinstance(order, slice) else int(order[bad.row])
                raise cpu.BadRow(row, bad.reason) from None

    def _revisit(self, X: Any, y: np.ndarray, weight: np.ndarray) -> int:
        """Fit by a learner that revisits its rows; how many passes it took."""
        orders, learner = self._epochs(X.shape[0]), self._learner
        if isinstance(self.update, LASVM):
            try:
                n_passes, gap = fit_lasvm(learner, X, y, weight, orders)
            except RefusedRow as refused:
                raise cpu.BadRow(refused.row, cpu.TOO_LARGE_A_STEP) from None
            self._warn_unfinished(gap)
            return n_passes
        if isinstance(self.update, Adatron):
            return fit_adatron(learner, X, y, weight, orders)
        return fit_sequential(learner, X, y, weight, orders, float(self.update.step or 0.0))

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        """`fit`, where every row is sound."""
        raise TypeError(f"{type(self).__name__} must say how it fits.")

    def _fit_by_policy(self, X: Any, y: Any, sample_weight: Any) -> None:
        """`fit`, which leaves everything as it was if it fails."""
        with self._turn:
            draft = self._draft()
            for learned in ("_learner", "_labels", "_skipped", "_watch"):
                draft.__dict__.pop(learned, None)
            _, kept = draft._by_policy(X, y, sample_weight, draft._fit)
            if kept is not None and not kept.size:
                raise ValueError("no row of X can be learned: there is nothing to fit.")
            self._become(draft)

    def _learn_block(
        self, X: Any, y: Any, classes: Any, sample_weight: Any, keep_scores: bool
    ) -> list[Trail]:
        """`partial_fit`, where every row is sound. What happened at each row; in several trails
        where a new class changed the number of scores."""
        raise TypeError(f"{type(self).__name__} must say how it learns a block.")

    def _partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None,
        keep_scores: bool = False,
    ) -> tuple[list[Trail], np.ndarray | None]:  # fmt: skip
        """`partial_fit`, which answers what happened at each row that was learned, and which those
        were (None: all)."""
        self._refuse_stream()

        def learn(X: Any, y: Any, weight: Any) -> list[Trail]:
            return self._commit(
                lambda model: model._learn_block(X, y, classes, weight, keep_scores)
            )

        with self._turn:
            return self._by_policy(X, y, sample_weight, learn)

    def finish(self) -> Any:
        """Finish what a stream has left open, on the points that the model keeps.

        LASVM takes one REPROCESS step at every row of a stream; this takes as many as there are to
        take, until the SVM's problem on the rows of the active set is solved to the tolerance. A
        stream may go on after it. `fit` finishes by itself. For learners that leave nothing open,
        which are all the others, this does nothing.

        Returns
        -------
        self
        """
        self._fitted()
        if as_update(self.update).finishes:
            with self._turn:
                gap = self._commit(lambda model: finish_active(model._learner))
            self._warn_unfinished(gap)
        return self

    def _warn_unfinished(self, gap: float) -> None:
        if gap > self.update.tolerance:
            warnings.warn(
                f"LASVM stopped with a pair that violates the optimality conditions by {gap:.3g}: "
                f"scale the rows, or give a smaller C or a tolerance above "
                f"{self.update.tolerance!r}.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _refuse_stream(self) -> None:
        if self._revisits_rows() and not (self.update.revisits_rows and self.update.in_streams):
            raise ValueError(
                f"update={self.update!r} with budget=None revisits its rows and works in fit only: "
                "for a stream choose another preset, such as 'sog-svr' or 'svmd'."
            )

    # --- one row at a time -----------------------------------------------------------------------

    @staticmethod
    def _first_row(x: Any) -> Any:
        """One row as a block, before there is a learner."""
        return x if sparse.issparse(x) and x.ndim == 2 else np.asarray(x).reshape(1, -1)

    def _row(self, x: Any) -> Any:
        """One row as a block, as the learner keeps rows; the backend checks its values."""
        learner = self._learner
        if type(x) is not np.ndarray or x.dtype != learner.dtype or not x.flags.carray:
            if sparse.issparse(x):
                x = x.toarray()[0] if x.ndim == 2 and x.shape[0] == 1 else x.toarray()
            try:
                with np.errstate(over="ignore"):
                    x = as_argument(unmasked(x), learner.dtype)
            except (TypeError, ValueError) as error:
                raise type(error)(f"x={x!r} is not a row of numbers: {error}") from None
        if x.ndim != 1 or len(x) != learner.n_features:
            raise ValueError(
                f"x has the shape {x.shape}, but this model learned from rows of "
                f"{learner.n_features} features: give a one-dimensional array of that length."
            )
        X = x.reshape(1, -1)
        return sparse.csr_array(X) if learner.points.is_sparse else X

    def _outputs(self, learner: Learner, X: Any) -> np.ndarray:
        """The scores of rows, one for every output."""
        return cpu.scores(learner, self._rows(X), self._readout())

    def _outputs_of_one(self, learner: Learner, x: Any) -> np.ndarray:
        """The scores of one row, of shape (outputs,)."""
        if self.predictor == "last":
            return cpu.score_row(learner, self._row(x))
        return cpu.scores(learner, self._row(x), self._readout())[0]

    def _widen(self, n_features: int) -> None:
        """Give rows more features, which are zero in all that was learned; or take those away."""
        with self._turn:
            draft = self._draft()
            draft._learner = self._learner.copy()
            draft._learner.points.resize_rows(n_features)
            draft.n_features_in_ = n_features
            self._become(draft)

    # --- state to read ---------------------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return "_learner" in self.__dict__

    def _fitted(self) -> Learner:
        if "_learner" not in self.__dict__:
            raise NotFittedError(
                f"This {type(self).__name__} has not learned anything yet: call fit, partial_fit "
                "or learn_one first."
            )
        return self._learner

    def __getattr__(self, name: str) -> Any:
        # State is read off the learner. Before there is one these names do not exist, so that
        # hasattr() tells a fitted model from a new one.
        reader = _READABLE.get(name)
        if reader is None or "_learner" not in self.__dict__:
            return object.__getattribute__(self, name)  # raises, with the original reason
        with self._reading() as learner:
            return reader(self, learner)

    def __dir__(self) -> list[str]:
        readable = [name for name in _READABLE if hasattr(self, name)]
        return [*super().__dir__(), *readable]


class Reading:
    """A context that hands out a model's learner as it is now, and keeps it from being changed.

    `labels` are those that the learner belongs to.
    """

    __slots__ = ("_gate", "_model", "labels")
    labels: Any

    def __init__(self, model: KernelEstimator):
        self._model = model

    def __enter__(self) -> Learner:
        state = self._model.__dict__
        while True:
            learner = self._model._fitted()
            learner.gate.__enter__()
            self._gate, self.labels = learner.gate, state.get("_labels")
            if state.get("_learner") is learner:  # they were published together
                return learner
            learner.gate.__exit__()

    def __exit__(self, *error: object) -> None:
        self._gate.__exit__()


def _truncation_error(model: KernelEstimator, learner: Learner) -> float:
    expansion = learner.state.expansion
    if not expansion.lost.size:
        raise AttributeError(
            "truncation_error_ is known with budget=OldestOut(..., max_age=...) or max_error=... "
            "only; max_error=0.0 just keeps it."
        )
    return float(expansion.scale[0] * expansion.lost[0])


_READABLE = {
    "n_seen_": lambda model, learner: int(learner.state.expansion.n_seen[0]),
    "step_size_": lambda model, learner: float(learner.state.step_size.eta[0]),
    "n_capped_": lambda model, learner: int(learner.state.step_size.n_capped[0]),
    "drift_score_": lambda model, learner: float(learner.state.step_size.drift[0]),
    "margin_": lambda model, learner: float(learner.state.margin.epsilon[0]),
    "support_vectors_": lambda model, learner: learner.points.stored(learner.n_points)[
        learner.kept
    ],
    "dual_coef_": lambda model, learner: (
        model._per_label(coefficients(learner.state)[:, learner.kept].T).T
    ),
    "intercept_": lambda model, learner: model._per_label(learner.state.intercept.b[None].copy())[
        0
    ],
    "n_support_": lambda model, learner: len(learner.kept),
    "truncation_error_": _truncation_error,
    "kernel_": lambda model, learner: learner.points.kernel,
    "n_skipped_": lambda model, learner: sum(model.__dict__.get("_skipped", {}).values()),
    "skipped_": lambda model, learner: dict(model.__dict__.get("_skipped", {})),
}

"""What the three estimators share: parameters to parts, rows to the backend, state to read."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, validate_data

from kernelstream import losses
from kernelstream.backends import cpu
from kernelstream.budgets import Merge, as_budget
from kernelstream.kernels import RBF, Kernel, as_kernel
from kernelstream.learner.learn import Trail
from kernelstream.learner.model import Learner, Parts, build
from kernelstream.learner.predict import coefficients
from kernelstream.margins import Fixed, Nu, as_margin
from kernelstream.parts import integer_at_least, number, one_of
from kernelstream.step_sizes import as_step_size
from kernelstream.updates import Implicit, as_update

__all__ = ["KernelEstimator"]

_DEFAULT_REGULARIZATION = 1e-6
_KERNEL_DEFAULTS = {"gamma": "auto", "degree": 3, "coef0": 0.0}


class KernelEstimator(BaseEstimator):
    """Base of the estimators. Subclasses say the task and how targets become numbers."""

    task: ClassVar[str]
    default_margin: ClassVar[float | Nu] = 1.0

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
    _learner: Learner

    # --- parameters to parts ---------------------------------------------------------------------

    def _parts(self, kernel: Kernel, single_output: bool) -> Parts:
        """Check every parameter and make the parts."""
        name = one_of("loss", self.loss, losses.names(self.task))
        entry = losses.find(self.task, name, single_output)
        margin = None if self.margin == type(self).default_margin else self.margin
        margin = as_margin(margin, self.nu, type(self).default_margin)
        adaptive = not isinstance(margin, Fixed)
        if adaptive and not entry.accepts_nu:
            raise ValueError(
                f"nu={margin.nu!r} does not go with loss={name!r}, which has no margin to adapt: "
                "leave nu out, or choose hinge, novelty, epsilon_insensitive or huber."
            )
        update = as_update(self.update)
        if isinstance(update, Implicit) and not entry.accepts_implicit:
            raise ValueError(
                f"update='implicit' does not go with loss={name!r}, which has no margin: from a "
                "model at zero an implicit step never moves. Use loss='hinge', or "
                "update='explicit'."
            )
        budget = as_budget(self.budget)
        if isinstance(budget, Merge) and not isinstance(kernel, RBF):
            raise ValueError(
                f"budget={budget!r} does not go with kernel={kernel!r}: a point between two others "
                "is known for the RBF kernel only. Use LeastLoss, or kernel='rbf'."
            )
        if name == "huber":
            number("margin", margin.initial if adaptive else margin.value, above=0)
        if self.regularization is not None:
            c = number("regularization", self.regularization, at_least=0)
        else:  # with nu the papers fix c at 1 (53), except in regression
            c = 1.0 if adaptive and self.task != "regression" else _DEFAULT_REGULARIZATION
        return Parts(
            kernel=kernel,
            loss=entry.rule,
            margin=margin,
            step_size=as_step_size(self.step_size, self.task),
            update=update,
            budget=budget,
            fit_intercept=bool(getattr(self, "fit_intercept", False)),
            regularization=c,
            loss_weight=number("C", self.C, above=0),
        )

    def _kernel(self, X: np.ndarray, whole_data: bool) -> Kernel:
        """The kernel with all its numbers. `whole_data`: X is all there will be."""
        gamma = self.gamma
        if gamma == "scale" and isinstance(self.kernel, str):
            if not whole_data:
                raise ValueError(
                    "gamma='scale' needs all the data and works in fit only: in partial_fit the "
                    "model would depend on how the stream is cut into blocks. Give a number, or "
                    "'auto' for 1 / n_features."
                )
            variance = X.var()
            gamma = 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
        chosen = {"gamma": gamma, "degree": self.degree, "coef0": self.coef0}
        changed = {k: v for k, v in chosen.items() if v != _KERNEL_DEFAULTS[k]}
        return as_kernel(self.kernel, changed).resolve(X.shape[1])

    def _start(self, X: np.ndarray, n_outputs: int, single_output: bool, whole_data: bool) -> None:
        """Make a learner that has seen nothing."""
        parts = self._parts(self._kernel(X, whole_data), single_output)
        self._learner = build(parts, X.shape[1], n_outputs, X.dtype)

    # --- rows in ---------------------------------------------------------------------------------

    def _rows(self, X: Any, y: Any = "no_validation", reset: bool = False, **options: Any) -> Any:
        """X (and y) as checked arrays, X in the learner's precision once there is one."""
        checked = validate_data(
            self, X, y, reset=reset, dtype=[np.float64, np.float32], order="C", **options
        )
        X = checked if isinstance(y, str) else checked[0]
        if not reset and X.dtype != self._learner.dtype:
            with np.errstate(over="ignore"):  # a number that float32 cannot hold is refused later
                X = X.astype(self._learner.dtype)
        return X if isinstance(y, str) else (X, checked[1])

    def _weights(self, sample_weight: Any, X: np.ndarray) -> np.ndarray:
        if sample_weight is None:
            return np.ones(len(X))
        weight = check_array(
            sample_weight, dtype=np.float64, ensure_2d=False, order="C", copy=True,
            input_name="sample_weight",
        )  # fmt: skip
        if weight.shape != (len(X),):
            raise ValueError(
                f"sample_weight.shape == {weight.shape}, expected {(len(X),)}: one number a row."
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

    @contextmanager
    def _unchanged_on_error(self) -> Iterator[None]:
        """Whatever goes wrong inside, the estimator is afterwards as it was before."""
        before = dict(self.__dict__)
        learner = before.get("_learner")
        try:
            if learner is None:
                yield
            else:
                with cpu.all_or_nothing(learner):
                    yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _epochs(self, n_rows: int) -> Iterator[np.ndarray | slice]:
        """The order of the rows in each pass of `fit`: as given, or shuffled by random_state."""
        n_epochs = integer_at_least("n_epochs", self.n_epochs, 1)
        random = None if self.random_state is None else check_random_state(self.random_state)
        for _ in range(n_epochs):
            yield slice(None) if random is None else random.permutation(n_rows)

    def _learn(self, X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Trail:
        return cpu.learn(self._learner, X, y, weight)

    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> list[Trail]:
        """`partial_fit`, which answers what happened at each row; in several trails where a new
        class changed the number of scores."""
        raise TypeError(f"{type(self).__name__} must say how it learns a block.")

    # --- one row at a time -----------------------------------------------------------------------

    def _row(self, x: Any) -> np.ndarray:
        """One row as an array of the learner's precision; its values are checked by the backend."""
        learner = self._learner
        if type(x) is not np.ndarray or x.dtype != learner.dtype or not x.flags.c_contiguous:
            try:
                with np.errstate(over="ignore"):
                    x = np.ascontiguousarray(x, dtype=learner.dtype)
            except (TypeError, ValueError) as error:
                raise type(error)(f"x={x!r} is not a row of numbers: {error}") from None
        if x.ndim != 1 or len(x) != learner.n_features:
            raise ValueError(
                f"x has the shape {x.shape}, but this model learned from rows of "
                f"{learner.n_features} features: give a one-dimensional array of that length."
            )
        return x

    # --- state to read ---------------------------------------------------------------------------

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
        return reader(self._learner)

    def __dir__(self) -> list[str]:
        readable = list(_READABLE) if "_learner" in self.__dict__ else []
        return [*super().__dir__(), *readable]


_READABLE = {
    "n_seen_": lambda learner: int(learner.state.expansion.n_seen[0]),
    "step_size_": lambda learner: float(learner.state.step_size.eta[0]),
    "margin_": lambda learner: float(learner.state.margin.epsilon[0]),
    "support_vectors_": lambda learner: learner.points.rows[: learner.n_points].copy(),
    "dual_coef_": lambda learner: coefficients(learner.state),
    "intercept_": lambda learner: learner.state.intercept.b.copy(),
    "n_support_": lambda learner: learner.n_points,
    "kernel_": lambda learner: learner.points.kernel,
}

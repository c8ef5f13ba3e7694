"""Dictionaries to the rows of an estimator, and back, for River."""

import inspect
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from river import base

from kernelstream.estimators.bad_rows import BadRowPolicy, Sifted, problems_of_rows, with_reasons
from kernelstream.learner.rows import BadRow
from kernelstream.tables.columns import numbers_in_order
from kernelstream.tables.frames import as_table
from kernelstream.tables.values import as_number, kind_of

__all__ = ["Adapter", "like"]


class Adapter(base.Estimator):
    """Dictionaries to rows of a model that widens as features appear.

    A subclass names the estimator behind, of which it has the parameters.
    """

    _estimator: ClassVar[Any]  # a class of estimators
    _left_out: ClassVar[tuple[str, ...]] = ()  # parameters that mean nothing to River
    _width_is_final = False  # whether features may not come late
    missing: Any = "error"
    on_bad_row: Any

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "_estimator" in vars(cls):
            cls.__init__ = _init_like(cls._estimator, cls._left_out)  # type: ignore[method-assign]

    def __init__(self, *values: Any, **parameters: Any) -> None:
        raise TypeError(f"{type(self).__name__} has no estimator behind.")

    def _begin(self) -> None:
        self._columns: dict[Any, int] = {}
        self._model: Any = None
        self._skipped: dict[str, int] = {}
        self._has_told_of_late = False
        self._has_tables = False  # then rows go to the model as they are

    @property
    def model(self) -> Any:
        """Return the scikit-learn estimator behind, or None before the first row."""
        return self._model

    def _new_model(self) -> Any:
        return self._estimator(**{k: v for k, v in self._get_params().items() if k != "on_bad_row"})

    def _policy(self) -> BadRowPolicy:
        return BadRowPolicy(self.on_bad_row)

    def _report(self, bad: list[BadRow]) -> None:
        """Count rows that were left out, and tell whoever wants to know."""
        self._skipped = with_reasons(self._skipped, bad)
        self._policy().tell(bad)

    def _problems(self, rows: np.ndarray) -> tuple[Any, list[str | None]]:
        return problems_of_rows(rows, None, self._allows_nan())

    def _allows_nan(self) -> bool:
        return self.missing != "error"

    def _number(self, name: Any, value: Any) -> float:
        if self._allows_nan() and (value is None or value != value):  # NaN
            return math.nan
        return _number(name, value)

    @property
    def n_skipped_(self) -> int:
        """Return how many rows were left out by ``on_bad_row``."""
        return sum(self._skipped.values())

    @property
    def skipped_(self) -> dict[str, int]:
        """Return the same by reason."""
        return dict(self._skipped)

    def _learn_one(self, x: dict[Any, Any], *target: Any) -> None:
        """Learn a row, or do with it what `on_bad_row` says."""
        try:
            if self._are_table(x):
                self._learn_table([self._known(x, x)], *([y] for y in target))
                return
            if not x and self._width_is_final and not self._is_fitted:
                raise ValueError("the first row has no features: begin with one that has all.")
            values = {name: self._number(name, value) for name, value in x.items()}
            with self._widened(values):
                self._model.learn_one(self._placed(values), *target)
        except (TypeError, ValueError) as error:
            self._report([self._policy().refused(error)])

    def _learn_many(self, X: Any, *target: Any) -> None:
        """Learn the rows of a frame, or do with bad ones what `on_bad_row` says."""
        y = np.asarray(target[0]) if target else None

        def learn(rows: np.ndarray, y: Any) -> None:
            with self._widened(names):
                self._model.partial_fit(self._spread(names, rows), *([] if y is None else [y]))

        if self._are_table(X):
            if not self._policy().skips:
                self._learn_table(self._known(X, X.columns), *target)
                return
            records = X.to_dicts() if hasattr(X, "to_dicts") else X.to_dict("records")
            for i, x in enumerate(records):
                self._learn_one(x, *([] if y is None else [y[i]]))
            return
        names = list(X.columns)
        rows = numbers_in_order(X, None)
        if not self._policy().skips:
            learn(rows, y)
            return
        sifted = Sifted(rows, y, None, self._problems, self.target_check())
        while sifted.kept.size:
            sound, targets, _ = sifted.sound()
            try:
                learn(sound, targets)
                break
            except BadRow as refused:
                sifted.leave_out(refused)
        self._report(sifted.bad)

    def _are_table(self, rows: Any) -> bool:
        """Return whether a row or a frame is a table: it has other entries than numbers."""
        if self._is_fitted or not self._allows_nan():
            return self._has_tables
        if isinstance(rows, dict):
            return any(map(_is_text_or_date, rows.values()))
        table = as_table(rows)
        return table is not None and any(kind != "number" for kind in table.kinds())

    def _learn_table(self, rows: Any, *target: Any) -> None:
        model = self._model if self._is_fitted else self._new_model()
        model.partial_fit(rows, *target)
        self._model, self._has_tables = model, True

    def target_check(self) -> Callable[[Any], str | None]:
        """Return what tells the problem of a target, as the estimator does."""
        model = self._new_model() if self._model is None else self._model
        return model.target_check()

    @contextmanager
    def _widened(self, names: Any) -> Iterator[None]:
        """Give every name a position in the rows; restore everything if the block fails."""
        columns, model, width = dict(self._columns), self._model, self._width()
        try:
            self._add_columns(names)
            yield
        except BaseException:
            self._columns, self._model = columns, model
            if self._is_fitted and self._width() != width:
                model.widen(width)
            raise

    def _known(self, table: Any, names: Any) -> Any:
        """Return a row or a frame without columns that the first one did not have.

        It is told once that there are such.
        """
        if not self._is_fitted:
            return table
        known = set(self._model.feature_names_in_)
        late = [name for name in names if str(name) not in known]
        if late:
            self._tell_of_late(late)
        return self._row(table) if isinstance(table, dict) else self._block(table)

    def _row(self, x: dict[Any, Any]) -> Any:
        """Return a row for a prediction; features that were never learned play no part."""
        if self._has_tables:
            names = set(self._model.feature_names_in_)
            return {name: value for name, value in x.items() if str(name) in names}
        known = {name: value for name, value in x.items() if name in self._columns}
        return self._placed({name: self._number(name, value) for name, value in known.items()})

    def _placed(self, values: dict[Any, float]) -> np.ndarray:
        row = np.zeros(self._width())
        for name, value in values.items():
            if name in self._columns:
                row[self._columns[name]] = value
        return row

    def _width(self) -> int:
        if self._model is None or not self._model.__sklearn_is_fitted__():
            return max(len(self._columns), 1)
        return self._model.n_features_in_

    def _add_columns(self, names: Any) -> None:
        new = [name for name in names if name not in self._columns]
        if new and self._width_is_final and self._is_fitted:
            self._tell_of_late(new)
            return
        for name in sorted(new, key=repr):  # the same places whatever the order of a dictionary
            self._columns[name] = len(self._columns)
        if self._model is None:
            self._model = self._new_model()
        elif new and len(self._columns) > self._width() and self._model.__sklearn_is_fitted__():
            self._model.widen(max(len(self._columns), 2 * self._width()))

    def _tell_of_late(self, names: list[Any]) -> None:
        """Say once that features are left out which the first row did not have."""
        if not self._has_told_of_late:
            self._has_told_of_late = True
            warnings.warn(
                f"feature {names[0]!r} is left out: {type(self).__name__} has places for the "
                "features of its first row. Begin with a row that has every feature, or use "
                "KernelClassifier, KernelRegressor or NoveltyDetector, which take new ones.",
                stacklevel=7,
            )

    def _block(self, X: Any) -> Any:
        """Return the rows of a frame for predictions, without unknown features."""
        if self._has_tables:
            names = set(self._model.feature_names_in_)
            return X[[name for name in X.columns if str(name) in names]]
        return self._spread(list(X.columns), numbers_in_order(X, None))

    def _spread(self, names: list[Any], values: np.ndarray) -> np.ndarray:
        """Return the columns of a block in the model's places."""
        block = np.zeros((len(values), self._width()))
        for k, name in enumerate(names):
            if name in self._columns:
                block[:, self._columns[name]] = values[:, k]
        return block

    @property
    def _is_fitted(self) -> bool:
        return self._model is not None and self._model.__sklearn_is_fitted__()


def _is_text_or_date(value: Any) -> bool:
    """Return whether a feature is a text that is no number, or a date."""
    return kind_of(value) in ("category", "date")


def _number(name: Any, value: Any) -> float:
    try:
        number = as_number(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"the feature {name!r} is {value!r}, which is not a number: encode it first, for "
            "example with river.preprocessing.OneHotEncoder."
        ) from None
    if not math.isfinite(number):
        raise ValueError(f"the feature {name!r} is {value!r}: leave this row out or fill it in.")
    return number


def _init_like(estimator: type, left_out: tuple[str, ...]) -> Callable[..., None]:
    """Return an `__init__` with the parameters of an estimator, for River to read and to clone."""
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    given = inspect.signature(estimator).parameters.values()
    signature = inspect.Signature([own, *(p for p in given if p.name not in left_out)])

    def __init__(*values: Any, **parameters: Any) -> None:  # noqa: N807 (it is one)
        bound = signature.bind(*values, **parameters)
        bound.apply_defaults()
        self = bound.arguments.pop("self")
        for name, value in bound.arguments.items():
            setattr(self, name, value)
        self._begin()

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__


def like(X: Any, values: Any, name: str | None = None) -> Any:
    """Return values as a series (one-dimensional) or frame of the library that X comes from."""
    if hasattr(X, "index") and not callable(X.index):
        import pandas as pd

        if isinstance(values, dict):
            return pd.DataFrame(values, index=X.index)
        return pd.Series(values, index=X.index, name=name)
    import polars as pl

    if isinstance(values, dict):
        return pl.DataFrame({str(k): v for k, v in values.items()})
    return pl.Series(name or "", list(values))

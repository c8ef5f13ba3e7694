"""Rows as they come to rows as a machine learns them: arrays, sparse rows, tables, dictionaries."""

import math
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array, check_X_y, validate_data

from kernelstream.arrays import is_elsewhere
from kernelstream.compile import as_argument
from kernelstream.estimators.bad_rows import problems_of_rows, unmasked
from kernelstream.estimators.learned import Encoded, Learned, Rows
from kernelstream.estimators.missing import Means, new_means
from kernelstream.estimators.rows import checked_weights, require_weight
from kernelstream.learner.learner import Learner
from kernelstream.learner.rows import BadRow
from kernelstream.stores import as_sparse_rows, rows_on
from kernelstream.tables.columns import FILL_IN, Columns, warn_of_text
from kernelstream.tables.frames import Table, as_record, as_table, has_columns
from kernelstream.tables.values import as_plain_numbers
from kernelstream.threads import sum_of_squares

__all__ = ["Intake", "first_row"]

_NUMBERS = {float, int, np.float64}  # types of a row that needs no closer look


class Intake:
    """What rows of any kind pass on their way to the machine of an estimator.

    An intake is for one call. It looks at what the model has learned at that moment, and learns the
    names and the number of columns (`feature_names_in_`, `n_features_in_`) with the first rows.

    Parameters
    ----------
    model : estimator
        With the parameters `missing` and `device`, and `precisions`.
    learned : Learned or None
        What the model knows.
    """

    __slots__ = ("learned", "model")

    def __init__(self, model: Any, learned: Learned | None) -> None:
        self.model = model
        self.learned = learned

    # --- rows that cannot be learned -------------------------------------------------------------

    def problems(self, X: Any) -> tuple[Any, list[str | None]]:
        """Return X, and what is wrong with each of its rows before any is learned.

        X comes back as it is, or, where it has rows of different lengths or entries that are no
        numbers, as an array in which such rows are zero. A table comes back as a `Table`.
        """
        if isinstance(X, Encoded):
            return X, [None] * len(X)
        found: dict[int, str] = {}
        allows_nan = self.model.missing != "error"
        table = self._table(X, found)
        if table is None:
            width = None if self.learned is None else self.learned.row_width
            return problems_of_rows(X, width, allows_nan)
        found = self._columns_for(table).problems(table, allows_nan) | found
        return table, [found.get(i) for i in range(table.n_rows)]

    def _columns_for(self, table: Table) -> Columns:
        """Return what the columns of a table become, in the order of the table."""
        learned = self.learned
        if learned is None:
            return Columns.of(table)
        return Columns.of_numbers(table.names) if learned.columns is None else learned.columns

    # --- blocks ----------------------------------------------------------------------------------

    def take(
        self, X: Any, y: Any = "no_validation", sample_weight: Any = None,
        whole_data: bool = False, **options: Any,
    ) -> Rows:  # fmt: skip
        """Return rows to be learned, as numbers none of which is missing; y is checked only.

        `whole_data` asks for at least one row with a weight, as `fit` needs it.
        """
        learned, model = self.learned, self.model
        if learned is not None and learned.columns is None and self._are_plain(X, y):
            weight = (
                np.ones(len(X))
                if sample_weight is None
                else (checked_weights(sample_weight, len(X)))
            )
            means = learned.means
            if means is not None:
                means, X = means.including(X, weight)
            return Rows(X, np.ones(len(X)) if isinstance(y, str) else y, weight, means=means)
        if learned is not None and isinstance(X, Encoded):
            X, y = self._rows(np.asarray(X), y, True, **options)
            weight = _weights(sample_weight, X.shape[0], whole_data)
            return Rows(X, y, weight, columns=learned.columns, means=learned.means)
        columns, table = None, self._table(X)
        if table is not None and learned is None:
            warn_of_text(table, Columns.of(table))
        if table is not None and not self._is_plain(table):
            columns = self._columns_for(table)
            columns, X = columns.including(table, _weights(sample_weight, table.n_rows, whole_data))
            self._refuse_missing(columns, X)
            if learned is None:
                model.n_features_in_ = len(table.names)
                model.feature_names_in_ = np.array(table.names, dtype=object)
        elif table is not None:
            X = self._numbers(table, X)
        X = self._rows(X, y, table is not None, **options)
        X, y = (X, np.ones(X.shape[0])) if isinstance(y, str) else X
        weight = _weights(sample_weight, X.shape[0], whole_data)
        if learned is not None:
            means = learned.means
        else:
            markable = None if columns is None else columns.markable()
            means = new_means(model.missing, X, markable)
        if means is not None:
            means, X = means.including(np.asarray(X), weight)  # which may be rows of a device
        return Rows(X, y, weight, columns=columns, means=means)

    def ask(self, X: Any) -> Any:
        """Return rows to be scored, as numbers none of which is missing."""
        learned = self.learned
        assert learned is not None
        table = self._table(X)
        if table is not None and learned.columns is not None:
            X = learned.columns.encoded(table)
            self._refuse_missing(learned.columns, X)
        elif table is not None:
            X = self._numbers(table, X)
        X = self._rows(X, is_encoded=table is not None)
        return X if learned.means is None else learned.means.filled(np.asarray(X))

    def _table(self, X: Any, problems: dict[int, str] | None = None) -> Table | None:
        """Return X as a table, if it has column names, or the model learned from a table."""
        learned = self.learned
        if learned is not None and learned.columns is not None:
            known = learned.columns.names
            return None if isinstance(X, Encoded) else as_table(X, known, problems)
        if not has_columns(X):
            return None
        names = self.model.__dict__.get("feature_names_in_")
        if learned is None or names is None or not isinstance(X, list | Table):
            return as_table(X, None, problems)  # scikit-learn checks the names of data frames
        return as_table(X, names.tolist(), problems)

    def _is_plain(self, table: Table) -> bool:
        """Return whether a table becomes an array of numbers, one for each column."""
        if self.learned is not None:
            return self.learned.columns is None
        return all(kind == "number" for kind in table.kinds())

    def _numbers(self, table: Table, X: Any) -> np.ndarray:
        """Return a table of numbers as an array, its names checked, or learned from the first."""
        if isinstance(X, list | Table):
            self._check_names(table, X)
        else:
            reset = self.learned is None
            validate_data(self.model, X, reset=reset, skip_check_array=True)
        columns = Columns.of_numbers(table.names)
        rows = columns.encoded(table)
        self._refuse_missing(columns, rows)
        return rows

    def _check_names(self, table: Table, X: Any) -> None:
        """Check, or learn, the column names of rows that are no data frame."""
        model, learned = self.model, self.learned
        if learned is None:
            model.n_features_in_ = len(table.names)
            if table.is_named:
                model.feature_names_in_ = np.array(table.names, dtype=object)
        elif "feature_names_in_" in model.__dict__:
            return  # `_table` has put them in order
        elif not table.is_named:
            if len(table.names) != learned.row_width:
                raise ValueError(
                    f"X has {len(table.names)} features, but {type(model).__name__} is expecting "
                    f"{learned.row_width} features as input."
                )
        else:
            example = X[0] if isinstance(X, list) else table.names
            raise TypeError(
                f"{example!r} has names, but this model learned from rows without: give an array, "
                "or begin with a dictionary or a data frame."
            )

    def _refuse_missing(self, columns: Columns, X: np.ndarray) -> None:
        """Refuse encoded rows in which something is missing, unless `missing` fills it in."""
        found = columns.missing(X) if self.model.missing == "error" else None
        if found is not None:
            raise BadRow(found[0], f"{found[1]} is missing (NaN): {FILL_IN}")

    def _rows(
        self, X: Any, y: Any = "no_validation", is_encoded: bool = False, **options: Any
    ) -> Any:  # fmt: skip
        """Return X (and y) as checked arrays, X as the machine keeps rows once there is one."""
        model, learned = self.model, self.learned
        if model.device is not None and (is_elsewhere(X) or model.may_go_to_device(X)):
            return self._rows_elsewhere(X, y, **options)
        if self._are_plain(X, y, is_encoded):
            return X if isinstance(y, str) else (X, y)
        X, y = as_plain_numbers(unmasked(X)), unmasked(y)
        if model.missing != "error" and not sparse.issparse(X):
            options["ensure_all_finite"] = "allow-nan"
        options.update(dtype=list(model.precisions), order="C", accept_sparse="csr")
        if is_encoded:  # its names and its width are known to be right
            check: Any = partial(check_array if isinstance(y, str) else check_X_y, X)
        else:
            check = partial(validate_data, model, X, reset=learned is None)
        try:
            checked = check(**options) if isinstance(y, str) else check(y=y, **options)
        except (TypeError, ValueError):
            _refuse_text(X)
            self._refuse_not_finite(X)
            raise
        X = checked if isinstance(y, str) else checked[0]
        if learned is not None:
            X = _as_kept(X, learned.machine)
        elif sparse.issparse(X):
            X = as_sparse_rows(X)
        return X if isinstance(y, str) else (X, checked[1])

    def _refuse_not_finite(self, X: Any) -> None:
        """Name the first row that is not finite, if that is what is wrong, and the remedy."""
        is_sparse = sparse.issparse(X)
        values = sparse.csr_array(X).data if is_sparse else np.asarray(X)
        if values.dtype.kind not in "fO":
            return
        try:
            values = values.astype(float)
        except (TypeError, ValueError):
            return
        allows_nan = self.model.missing != "error" and not is_sparse
        wrong = np.isinf(values) if allows_nan else ~np.isfinite(values)
        if not wrong.any():
            return
        if is_sparse:
            entry = int(np.flatnonzero(wrong)[0])
            row = int(np.searchsorted(sparse.csr_array(X).indptr, entry, side="right")) - 1
            what = "leave this row out, or give dense rows, in which missing='mean' fills it in"
        elif values.ndim == 2:
            row = int(np.flatnonzero(wrong.any(axis=1))[0])
            entry, what = row * values.shape[1] + int(np.flatnonzero(wrong[row])[0]), FILL_IN
        else:
            return
        if np.isnan(values.ravel()[entry]):
            raise BadRow(row, f"Input X contains NaN: {what}")
        raise BadRow(row, "Input X contains infinity: leave this row out")

    def _rows_elsewhere(self, X: Any, y: Any, **options: Any) -> Any:
        """Return X as rows of a device, and y checked; the machine refuses other numbers."""
        model, learned = self.model, self.learned
        n_features = None if learned is None else learned.row_width
        if X.ndim != 2 or not X.shape[0]:
            raise ValueError(
                f"X has the shape {tuple(X.shape)}: give an array of rows and features, and at "
                "least one row."
            )
        if n_features is None:
            model.n_features_in_ = X.shape[1]
        elif n_features != X.shape[1]:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(model).__name__} is expecting "
                f"{n_features} features as input."
            )
        rows = rows_on(model.device, X)
        if isinstance(y, str):
            return rows
        return rows, check_X_y(np.zeros((X.shape[0], 1)), y, **options)[1]

    def _are_plain(self, X: Any, y: Any, is_encoded: bool = False) -> bool:
        """Return whether these are arrays as the machine takes them, in which nothing is wrong.

        scikit-learn's checks, which find out what else they may be, take longer than a small block
        takes to learn.
        """
        learned, model = self.learned, self.model
        if learned is None or type(X) is not np.ndarray or model.device is not None:
            return False
        if "feature_names_in_" in model.__dict__ and not is_encoded:
            return False
        machine = learned.machine
        if machine.is_sparse or X.dtype != machine.dtype or not X.flags.carray or X.ndim != 2:
            return False
        width = X.shape[1] if is_encoded else model.n_features_in_
        if X.shape[1] != width or not X.shape[0] or not math.isfinite(sum_of_squares(X)):
            return False
        if isinstance(y, str):
            return True
        is_column = type(y) is np.ndarray and y.ndim == 1 and len(y) == X.shape[0]
        return is_column and y.dtype.kind in "biufU" and (
            y.dtype.kind != "f" or math.isfinite(sum_of_squares(y))
        )  # fmt: skip

    # --- one row at a time -----------------------------------------------------------------------

    def _named(self, x: Any) -> Any:
        """Return a row as a dictionary if it has names and the model too; else as it is."""
        if type(x) is np.ndarray or isinstance(x, dict):
            return x
        record = as_record(x) if "feature_names_in_" in self.model.__dict__ else None
        return x if record is None else record

    def row(self, x: Any) -> Any:
        """Return one row as a block, as the machine keeps rows; the machine checks the values."""
        learned = self.learned
        assert learned is not None
        x = self._named(x)
        if learned.columns is not None:
            return self.ask(first_row(x))
        X = self._by_name(x) if isinstance(x, dict) else self._given_row(x)
        return X if learned.means is None else learned.means.filled(X)

    def counted_row(self, x: Any) -> tuple[Any, Means | None]:
        """Return one row that is to be learned, as a block, and the means after it."""
        learned = self.learned
        assert learned is not None
        if learned.means is None:
            return self.row(x), None
        x = self._named(x)
        X = self._by_name(x) if isinstance(x, dict) else self._given_row(x)
        means, X = learned.means.including_row(X)
        return X, means

    def _by_name(self, record: dict[Any, Any]) -> Any:
        """Return a dictionary as a block, for a model that learns from numbers."""
        learned = self.learned
        assert learned is not None
        names = self.model.__dict__.get("feature_names_in_", ())
        if len(names) == len(record) and set(map(type, record.values())) <= _NUMBERS:
            try:
                row = [[record[name] for name in names]]
                return _as_kept(np.array(row, dtype=float), learned.machine)
            except KeyError:
                pass
        table = self._table([record])
        assert table is not None
        return _as_kept(self._numbers(table, [record]), learned.machine)

    def _given_row(self, x: Any) -> Any:
        """Return one row as a block, in which something may be missing."""
        learned = self.learned
        assert learned is not None
        machine = learned.machine
        if type(x) is not np.ndarray or x.dtype != machine.dtype or not x.flags.carray:
            if sparse.issparse(x) and machine.is_sparse and x.shape == (1, machine.n_features):
                return _as_kept(x, machine)  # at the cost of its nonzeros
            if sparse.issparse(x):
                x = x.toarray()[0] if x.ndim == 2 and x.shape[0] == 1 else x.toarray()
            try:
                with np.errstate(over="ignore"):
                    x = as_argument(as_plain_numbers(unmasked(x)), machine.dtype)
            except (TypeError, ValueError) as error:
                raise type(error)(f"x={x!r} is not a row of numbers: {error}") from None
        if x.ndim != 1 or len(x) != learned.row_width:
            raise ValueError(
                f"x has the shape {x.shape}, but this model learned from rows of "
                f"{learned.row_width} features: give a one-dimensional array of that length."
            )
        X = x.reshape(1, -1)
        if machine.is_sparse:
            return sparse.csr_array(X)
        return X


def first_row(x: Any) -> Any:
    """Return one row as a block, by name if it has names."""
    record = None if type(x) is np.ndarray else as_record(x)
    if record is not None:
        return [record]
    return x if sparse.issparse(x) and x.ndim == 2 else np.asarray(x).reshape(1, -1)


def _weights(sample_weight: Any, n_rows: int, whole_data: bool) -> np.ndarray:
    """Return the weights of rows, of which `fit` needs at least one."""
    weight = checked_weights(sample_weight, n_rows)
    if whole_data:
        require_weight(weight)
    return weight


def _refuse_text(X: Any) -> None:
    """Say what to do with text in an array, if that is what is wrong."""
    if hasattr(X, "columns") or sparse.issparse(X):
        return
    for value in np.ravel(np.asarray(X, dtype=object)).tolist():
        try:
            float(value)
        except ValueError:
            raise ValueError(
                f"X contains {value!r}, which is not a number: could not convert string to float. "
                "Columns of text belong into a table of pandas or polars, or into dictionaries: "
                "these are taken as they are (docs/tables.md)."
            ) from None
        except TypeError:
            return


def _as_kept(X: Any, machine: Learner) -> Any:
    """Return rows in the machine's precision, sparse or dense as its points are."""
    with np.errstate(over="ignore"):  # a number that float32 cannot hold is refused later
        if machine.is_sparse:
            return as_sparse_rows(X, machine.dtype)
        X = X.toarray() if sparse.issparse(X) else X
        return np.ascontiguousarray(X, dtype=machine.dtype)

"""Sparse rows, which may have features that the rows before did not have."""

from typing import Any

from scipy import sparse

__all__ = ["matched"]


def matched(model: Any, X: Any) -> Any:
    """Rows as wide as the model. For new features of sparse rows it is the model that widens.

    Such a feature is zero in all that was learned, as if it had been declared from the beginning.
    """
    if not sparse.issparse(X) or not model.__sklearn_is_fitted__():
        return X
    if X.shape[1] > model.n_features_in_:
        model.widen(X.shape[1])
    shape = X.shape[0], model.n_features_in_
    return sparse.csr_array((X.data, X.indices, X.indptr), shape=shape)

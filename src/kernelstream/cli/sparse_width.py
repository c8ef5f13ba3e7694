"""Sparse rows, which may have features that earlier rows did not have."""

from typing import Any

from scipy import sparse

__all__ = ["matched"]


def matched(model: Any, X: Any) -> Any:
    """Return rows with as many features as the model, which grows if sparse rows have more.

    A new feature counts as zero in all earlier rows, as if it had been declared at the beginning.
    """
    if not sparse.issparse(X) or not model.__sklearn_is_fitted__():
        return X
    if X.shape[1] > model.n_features_in_:
        model.widen(X.shape[1])
    shape = X.shape[0], model.n_features_in_
    return sparse.csr_array((X.data, X.indices, X.indptr), shape=shape)

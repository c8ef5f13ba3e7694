"""Rows that are put into sparse slots, and taken back."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from kernelstream.kernels import Linear
from kernelstream.stores.sparse import SparseStore

N_SLOTS, N_FEATURES = 6, 9


def rows_of(random, n):
    return sparse.random_array((n, N_FEATURES), density=0.3, format="csr", rng=random)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 12), min_size=1, max_size=4))
def test_rows_lie_where_they_were_put(seed, sizes):
    """Of several rows for one slot the last stays; a slot below zero is none."""
    random = np.random.default_rng(seed)
    kernel = Linear()
    store = SparseStore(kernel, N_SLOTS, N_FEATURES, np.dtype(np.float64))
    first = rows_of(random, 3)
    store.replace(np.arange(3), first, kernel.row_cache(first))
    expected, before = first.toarray(), store.rows.toarray().tobytes()
    store.begin()
    for n in sizes:
        X = rows_of(random, n)
        slots = random.integers(-1, len(expected) + 1, n)  # at most one more than there are
        expected = np.concatenate([expected, np.zeros((1, N_FEATURES))])
        slots[0] = len(expected) - 1
        store.replace(slots, X, kernel.row_cache(X))
        for slot, x in zip(slots, X.toarray(), strict=True):
            if slot >= 0:
                expected[slot] = x
    np.testing.assert_array_equal(store.rows.toarray(), expected)
    np.testing.assert_array_equal(store.row_cache, kernel.row_cache(sparse.csr_array(expected)))
    store.undo()
    assert store.rows.toarray().tobytes() == before

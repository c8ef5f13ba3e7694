"""Every kernel: its formula, blocks of any shape, positive semidefinite, safe."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.metrics.pairwise import laplacian_kernel, linear_kernel, polynomial_kernel, rbf_kernel

from kernelstream.kernels import (
    RBF,
    Bias,
    Custom,
    Homogenized,
    Laplacian,
    Linear,
    Matern,
    Normalized,
    Polynomial,
    Scaled,
    Sum,
    as_kernel,
    names,
)


def matern(X, Z, gamma):
    s = np.sqrt(gamma) * cdist(X, Z)
    return (1 + s) * np.exp(-s)


CASES = {
    "matern": (Matern(0.3), partial(matern, gamma=0.3)),
    "bias": (Bias(2.0), lambda X, Z: np.full((len(X), len(Z)), 2.0)),
    "scaled": (Scaled(Linear(), 0.3), lambda X, Z: 0.3 * (X @ Z.T)),
    "sum": (
        Sum(Bias(), Scaled(Linear(), 0.2), RBF(0.3), Scaled(Matern(0.3), 2.0)),
        lambda X, Z: 1 + 0.2 * (X @ Z.T) + rbf_kernel(X, Z, 0.3) + 2 * matern(X, Z, 0.3),
    ),
    "sum-apart": (
        Sum([RBF(0.3), Laplacian(0.3), Custom(lambda X, Z: X @ Z.T)]),
        lambda X, Z: rbf_kernel(X, Z, 0.3) + laplacian_kernel(X, Z, 0.3) + X @ Z.T,
    ),
    "rbf": (RBF(0.3), lambda X, Z: rbf_kernel(X, Z, 0.3)),
    "linear": (Linear(), linear_kernel),
    "laplacian": (Laplacian(0.3), lambda X, Z: laplacian_kernel(X, Z, 0.3)),
    "custom": (Custom(lambda X, Z: X @ Z.T), linear_kernel),
    **{
        f"poly-{n}": (
            Polynomial(n, 0.3, 1.5), partial(polynomial_kernel, degree=n, gamma=0.3, coef0=1.5)
        )
        for n in range(1, 12)
    },
}  # fmt: skip
each_kernel = pytest.mark.parametrize(("kernel", "formula"), CASES.values(), ids=CASES.keys())
rows = arrays(float, st.tuples(st.integers(1, 6), st.just(3)), elements=st.floats(-10, 10))


@each_kernel
@given(rows, rows)
def test_a_block_is_what_scikit_learn_says(kernel, formula, X, Z):
    np.testing.assert_allclose(kernel(X, Z), formula(X, Z), rtol=1e-9, atol=1e-9)


@each_kernel
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_row_has_the_same_numbers_in_any_block(kernel, formula, dtype):
    random = np.random.default_rng(0)
    P, X = (random.normal(size=(n, 5)).astype(dtype) for n in (37, 11))
    numbers = kernel.row_cache(P), kernel.row_cache(X)
    whole = np.empty((37, 11), dtype)
    kernel.block(P, X, *numbers, whole)
    alone = np.empty((37, 1), dtype)
    for j in range(11):
        kernel.block(P, X[j : j + 1], numbers[0], numbers[1][j : j + 1], alone)
        np.testing.assert_allclose(
            alone[:, 0], whole[:, j], rtol=1e-4 if dtype is np.float32 else 1e-10
        )
    diagonal = kernel.diagonal(numbers[0])
    if diagonal is not None:
        expected = np.diag(kernel(P.astype(float)))
        np.testing.assert_allclose(np.broadcast_to(diagonal, 37), expected, rtol=1e-4)


@each_kernel
def test_positive_semidefinite(kernel, formula):
    X = np.random.default_rng(0).normal(size=(40, 3))
    eigenvalues = np.linalg.eigvalsh(kernel(X))
    assert eigenvalues.min() > -1e-9 * eigenvalues.max()


@each_kernel
def test_magnitude_bounds_every_value(kernel, formula):
    random = np.random.default_rng(0)
    X = random.normal(size=(50, 3)) * 10 ** random.uniform(-3, 3, (50, 1))
    if kernel.is_bounded_by_cache:
        bound = max(1.0, kernel.magnitude(kernel.row_cache(X)).max())
        assert np.abs(kernel(X)).max() <= bound * (1 + 1e-9)


def test_auto_is_one_over_the_number_of_features():
    assert RBF().resolve(4) == RBF(gamma=0.25)
    assert Polynomial().resolve(4) == Polynomial(gamma=0.25)
    assert Linear().resolve(4) == Linear()
    assert RBF(2.0).resolve(4) == RBF(2.0)


def test_parts_are_equal_by_type_and_value():
    assert RBF(1.0) == RBF(1.0)
    assert RBF(1.0) != RBF(2.0)
    assert RBF(1.0) != Laplacian(1.0)
    assert len({RBF(1.0), RBF(1.0), Laplacian(1.0)}) == 2
    assert repr(Polynomial(degree=9, gamma=1.0)) == "Polynomial(coef0=0.0, degree=9, gamma=1.0)"


def test_kernels_have_names():
    for name in names():
        assert as_kernel(name, {}).resolve(3)([[1.0, 2.0, 3.0]]).shape == (1, 1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_far_from_zero_lose_no_digits(dtype):
    """Unscaled rows: the difference of two huge norms would be noise."""
    random = np.random.default_rng(0)
    offset = 7e5 if dtype == np.float64 else 3e3
    X = (offset + random.normal(size=(20, 3))).astype(dtype)
    exact = X.astype(float)
    expected = np.exp(-0.3 * ((exact[:, None] - exact[None]) ** 2).sum(-1))
    for kernel, constant in ((RBF(0.3), 0.0), (Sum(Bias(), RBF(0.3)), 1.0)):
        out = np.empty((20, 20), dtype)
        numbers = kernel.row_cache(X)
        kernel.block(X, X, numbers, numbers, out)
        np.testing.assert_allclose(
            out, constant + expected, rtol=1e-9 if dtype == np.float64 else 1e-5
        )


SUMS = [
    Sum(Bias(), Scaled(Linear(), 0.2), RBF(0.3), Matern(0.4)),
    Sum(Homogenized(Polynomial(2, 0.3, 1.0), 0.5), Scaled(Laplacian(0.3), 2.0)),
    Sum(Normalized(Polynomial(2, 0.3, 1.0)), Sum(Bias(), Linear())),
]


@pytest.mark.parametrize("kernel", SUMS, ids=["products", "apart", "nested"])
def test_sums_of_sparse_rows_and_single_columns_are_those_of_blocks(kernel):
    random = np.random.default_rng(0)
    X, Z = (np.where(random.random((n, 4)) < 0.5, 0.0, random.normal(size=(n, 4))) for n in (9, 7))
    expected = sum(part(X, Z) for part in kernel.kernels)
    np.testing.assert_allclose(kernel(X, Z), expected, rtol=1e-12)
    np.testing.assert_allclose(kernel(csr_array(X), csr_array(Z)), expected, rtol=1e-12)
    out, rule = np.zeros(9), kernel.to_rule()
    for j in range(7):
        rule.write_column(np.ascontiguousarray(X.T), 9, Z[j], out)
        np.testing.assert_allclose(out, expected[:, j], rtol=1e-12)


def test_a_sum_is_a_part_like_the_others():
    kernel = Bias() + Linear() * 0.5 + RBF()
    assert kernel == Sum(Bias(), Scaled(Linear(), 0.5), RBF())
    assert kernel == Sum([Bias(), Scaled(Linear(), 0.5), RBF()])
    assert kernel != Sum(Bias(), RBF())
    assert clone(kernel) == kernel
    assert hash(clone(kernel)) == hash(kernel)
    assert kernel.resolve(4).kernels[2] == RBF(0.25)
    assert Scaled(Linear()).resolve(4) == Scaled(Linear(), 0.25)
    assert repr(kernel.resolve(4)) == (
        "Sum(Bias(value=1.0), Scaled(factor=0.5, kernel=Linear()), RBF(gamma=0.25))"
    )
    kernel.set_params(kernels_2__gamma=3.0, kernels_0=Linear())
    assert kernel == Sum(Linear(), Scaled(Linear(), 0.5), RBF(3.0))
    assert kernel.get_params()["kernels_1__factor"] == 0.5
    with pytest.raises(TypeError, match="not a kernel object"):
        Sum(RBF(1.0), 3.0)
    with pytest.raises(ValueError, match="factor=0"):
        Scaled(Linear(), 0.0)

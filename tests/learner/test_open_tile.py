"""Rows of the second order one by one: what a block gives, while P and K^-1 wait."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kernelstream as ks
from kernelstream.budgets import Independent
from kernelstream.kernels import RBF, Homogenized, Polynomial
from kernelstream.learner import open_tile, second_order
from kernelstream.learner.machine import Machine
from kernelstream.scalings import Renewed
from kernelstream.updates import Dual

from ..conftest import interpret
from .test_dictionary import parts, regressor
from .test_second_order import lively_rows

KERNELS = [RBF(0.5), Homogenized(RBF(0.3), 0.5), Polynomial(2, 0.3, 1.0)]


def cut(random, n_rows):
    """A stream in pieces, most of which are single rows."""
    start = 0
    while start < n_rows:
        length = int(random.choice([1, 1, 1, 1, 7, 40]))
        yield slice(start, min(start + length, n_rows))
        start += length


def matrices(machine):
    machine, n = second_order.closed(machine), machine.n_points
    budget, dual = machine.state.budget, machine.state.update
    squares = dual.covariance, budget.inverse, budget.gram
    return [dual.values[:, :n], *(square[:n, :n] for square in squares)]


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(KERNELS), st.sampled_from([None, 20]), st.sampled_from([0.0, 0.1]),
    st.sampled_from([0.0, 0.1]), st.sampled_from([1, 3]), st.sampled_from([1.0, 3.0]),
    st.integers(0, 10**6),
)  # fmt: skip
def test_rows_one_by_one_are_their_block(kernel, size, ridge, c, n_outputs, worth, seed):
    random = np.random.default_rng(seed)
    X, y = lively_rows(150, seed)
    y = np.digitize(y, [-0.5, 0.5]).astype(float) if n_outputs > 1 else y
    budget = Independent(0.05, size, ridge, 1.0 if size is None else worth)
    weight = random.choice([0.0, 1.0, 1.0, 2.5], len(y))
    with pytest.MonkeyPatch.context() as patch:
        interpret(patch)
        found = []
        for pieces in ([slice(None)], cut(random, len(y))):
            machine = Machine(parts(kernel, Dual(), budget, c), 3, n_outputs, np.dtype(float))
            scores = [machine.learn(X[i], y[i], weight[i])[0].scores for i in pieces]
            found.append((machine, np.concatenate(scores)))
    (block, expected), (single, said) = found
    size = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(said, expected, rtol=1e-9, atol=1e-9 * size)
    np.testing.assert_allclose(single.scores(X), block.scores(X), rtol=1e-9, atol=1e-9 * size)
    np.testing.assert_array_equal(single.support(), block.support())
    for one, other in zip(matrices(single), matrices(block), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7 * np.abs(other).max())


def rows_alone(model, X, y):
    for x, target in zip(X, y, strict=True):
        model.learn_one(x, target)
    return model


def test_compiled_with_files_deviations_refused_rows_and_renewals(tmp_path):
    """One compiled combination: files go on bit for bit, a refused row leaves no trace."""
    X, y = lively_rows(230, 1)
    scaling = Renewed(metric=True)

    def new():
        # so that coordinates are exact to the last digits, and rows can join alone
        return regressor(
            kernel=Homogenized(RBF(1.0), 1.0), budget=Independent(0.1, 24, worth=3.0),
            scaling=scaling, target_scaling=Renewed(), fit_intercept=False,
        )  # fmt: skip

    single = rows_alone(new().partial_fit(X[:5], y[:5]), X[5:150], y[5:150])
    tile = single.machine_.state.update.tile
    assert 0 < tile.n_joined[0] < tile.n_rows[0] == 150 - 128
    block = new().partial_fit(X[:150], y[:150])
    for one, other in zip(
        single.predict(X, return_std=True), block.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    assert single.predict_one(X[7]) == pytest.approx(single.predict(X[7:8])[0], rel=1e-9)
    before = single.to_bytes()
    for x, target in ((np.full(3, np.inf), 0.0), (X[0], 1e200)):
        with pytest.raises(ValueError, match=r"row 0|refused"):
            single.learn_one(x, target)
        assert single.to_bytes() == before
    single.save(tmp_path / "model.ks")
    again = ks.load(tmp_path / "model.ks")
    for stop in (155, 230):
        for model in (single, again):
            rows_alone(model, X[model.n_seen_ : stop], y[model.n_seen_ : stop])
        assert single.to_bytes() == again.to_bytes()
    block.partial_fit(X[150:], y[150:])
    np.testing.assert_allclose(single.predict(X), block.predict(X), rtol=1e-9, atol=1e-9)


def test_what_is_undone_is_as_it_was():
    """Of a machine with an open tile: a block that closes it, and rows that are added to it."""
    X, y = lively_rows(200, 2)
    machine = Machine(parts(RBF(0.5), Dual(), Independent(0.01, 24), 0.1), 3, 1, np.dtype(float))
    for i in range(80):
        machine.learn_row(X[i : i + 1], y[i])
    for n_rows in (1, 3, 100):
        for i in range(80, 85):  # the copy that undoes is brought up to date by lines
            machine.begin()
            machine.learn_row(X[i : i + 1], y[i])
            machine.commit()
        machine.begin()
        before = {name: array.copy() for name, array in machine.to_arrays().items()}
        if n_rows == 3:
            for i in range(3):
                machine.learn_row(X[i : i + 1], y[i])
        else:
            machine.learn(X[100 : 100 + n_rows], y[100 : 100 + n_rows], np.ones(n_rows))
        assert machine.roll_back()
        for name, array in machine.to_arrays().items():
            np.testing.assert_array_equal(array, before[name], err_msg=name)


@pytest.mark.usefixtures("without_compiler")
def test_a_file_whose_open_tile_makes_no_sense():
    X, y = lively_rows(20, 3)
    model = rows_alone(regressor(budget=Independent(0.01, 24)), X, y)
    arrays = model.machine_.to_arrays()
    for name, value in (("n_joined", 63), ("n_rows", 3), ("joined", 40)):
        wrong = {key: array.copy() for key, array in arrays.items()}
        wrong[f"update.tile.{name}"][:] = value
        twin = Machine(model.machine_.parts, 3, 1, np.dtype(float))
        with pytest.raises(ValueError, match=r"not there|no sense"):
            twin.fill(wrong)


def test_half_of_a_symmetric_matrix_is_enough():
    random = np.random.default_rng(0)
    for n in (0, 1, 3, 4, 9, 30):
        square, x, out = random.normal(size=(32, 32)), random.normal(size=32), np.ones(32)
        square += square.T
        open_tile.multiply(square, n, x, out)
        np.testing.assert_allclose(out[:n], square[:n, :n] @ x[:n], rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(out[n:], 1.0)

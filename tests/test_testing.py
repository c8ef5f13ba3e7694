"""The public contract suite accepts every part of the package, and finds each kind of defect."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from kernelstream import budgets, kernels, label_kernels, margins, scalings, step_sizes, updates
from kernelstream.losses import loss
from kernelstream.parts import all_parts, part
from kernelstream.testing import check_part

LINEAR = {"kernel": "linear", "budget": "auto"}
FOLDED = {"budget": "auto"}
PARTS = [
    (kernels.RBF(), {}),
    (kernels.Custom(lambda X, Z: X @ Z.T), {}),
    (kernels.Nystroem(kernels.RBF(0.5), 8), FOLDED),
    (kernels.Forest(n_trees=4), {**FOLDED, "step_size": "adagrad"}),
    (kernels.Bias() + kernels.RBF() * 0.5, {}),
    (margins.Nu(0.2), {}),
    (budgets.SmallestOut(9), {}),
    (budgets.LeastLoss(9), {}),
    (scalings.Running(), {}),
    (step_sizes.VectorSMD(), LINEAR),
    (updates.RLS(), LINEAR),
    (updates.Ballseptron(), {"loss": "perceptron", "step_size": 1.0}),
    (label_kernels.Taxonomy.from_paths(["a/b", "a/c", "d"]), {}),
]


@pytest.mark.parametrize(("made", "companions"), PARTS, ids=lambda value: type(value).__name__)
def test_parts_of_the_package_pass(made, companions):
    check_part(made, **companions)


@pytest.mark.parametrize("cls", [entry.cls for entry in all_parts("loss")])
def test_losses_of_the_package_pass(cls):
    check_part(cls)


class Changing(kernels.RBF):
    def __init__(self, gamma: Any = 1.0):
        self.gamma = 2.0 * gamma


class Skew(kernels.Linear):
    def block(self, P, X, p, x, out):
        out[...] = P @ X.T + P[:, :1]


class Indefinite(kernels.Linear):
    def block(self, P, X, p, x, out):
        out[...] = -(P @ X.T)


class OfTheBlock(kernels.Linear):
    def block(self, P, X, p, x, out):
        out[...] = np.exp(-((P[:, None] - X[None]) ** 2).sum(-1)) * len(X)


class NotUnit(kernels.Linear):
    has_unit_diagonal = True


class Understated(kernels.Linear):
    def magnitude(self, x):
        return 0.01 * x


class Counting(step_sizes.Constant):
    """Counts in Python how often it was lowered, so that the number of blocks matters."""

    n_lowered = 0

    def to_rule(self):
        type(self).n_lowered += 1
        return super().to_rule()._replace(initial=0.1 * type(self).n_lowered)


BROKEN = {
    "must store its arguments": Changing(),
    "k\\(x, z\\) and k\\(z, x\\)": Skew(),
    "not positive semidefinite": Indefinite(),
    "a row alone": OfTheBlock(),
    "has_unit_diagonal": NotUnit(),
    "magnitude": Understated(),
}


@pytest.mark.usefixtures("own_registry")
@pytest.mark.parametrize("message", BROKEN)
def test_a_broken_kernel_is_found(message):
    made = BROKEN[message]
    part("kernel")(type(made))
    with pytest.raises(AssertionError, match=message):
        check_part(made)


@pytest.mark.usefixtures("own_registry")
def test_a_part_whose_models_depend_on_more_than_their_rows_is_found():
    part("step_size")(Counting)
    with pytest.raises(AssertionError, match="after one block"):
        check_part(Counting())


def test_a_part_must_be_registered():
    with pytest.raises(AssertionError, match="is not registered"):
        check_part(Changing())


def broken_loss(**methods):
    """A squared loss, of which some methods are other ones."""

    class Wrong(NamedTuple):
        def value(self, scores, y, margin):
            return 0.5 * (scores[0] - y) ** 2

        def gradient(self, scores, y, margin, xi):
            xi[0] = scores[0] - y
            return False

        def is_curved(self):
            return True

        def curvature(self, scores, y, margin, direction, product):
            product[0] = direction[0]
            return 1.0

    for name, method in methods.items():
        setattr(Wrong, name, method)
    return loss("wrong", "regression", single_output=True, accepts_nu=False)(Wrong)


def tripled(self, scores, y, margin, xi):
    xi[0] = 3.0 * (scores[0] - y)
    return False


def shifted(self, scores, y, margin):
    return 0.5 * (scores[0] - y) ** 2 - 1.0


def flat(self, scores, y, margin, direction, product):
    return 1.0


def unbounded(self, scores, y, margin, direction, product):
    product[0] = direction[0]
    return 0.5


@pytest.mark.usefixtures("own_registry")
@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"gradient": tripled}, "gradient and derivative"),
        ({"value": shifted}, "never negative"),
        ({"curvature": flat}, "curvature of"),
        ({"curvature": unbounded}, "the bound 0.5"),
    ],
)
def test_a_broken_loss_is_found(methods, message):
    with pytest.raises(AssertionError, match=message):
        check_part(broken_loss(**methods))


@pytest.mark.usefixtures("own_registry")
def test_a_part_that_no_estimator_accepts_is_told_what_it_needs():
    with pytest.raises(AssertionError, match="give check_part the parameters"):
        check_part(updates.RLS())

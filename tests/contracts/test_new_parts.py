"""A part of any kind is added by one class, and everything finds it, with no other edit."""

import importlib
import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import kernelstream as ks
from kernelstream.budgets import Budget
from kernelstream.budgets.base import BudgetRule
from kernelstream.compile import code_files
from kernelstream.estimators.files import from_bytes
from kernelstream.expansion import IS_DROPPED, JOINS, REPLACES, Replacing
from kernelstream.kernels import MappedKernel
from kernelstream.kernels.quantities import SQUARED_DISTANCE
from kernelstream.learner.learn import learn_tile
from kernelstream.losses import loss
from kernelstream.margins import Margin
from kernelstream.margins.base import MarginRule
from kernelstream.parts import Field, all_parts, named, number, part, registry, rule
from kernelstream.step_sizes import Proposal, StepSize, StepSizeRule
from kernelstream.updates import Decay, Update, UpdateRule


class SquaredHinge(NamedTuple):
    """``l = max(0, margin - y f)^2 / 2``."""

    def value(self, scores, y, margin):
        gap = max(0.0, margin - y * scores[0])
        return 0.5 * gap * gap

    def gradient(self, scores, y, margin, xi):
        gap = max(0.0, margin - y * scores[0])
        xi[0] = -y * gap
        return gap > 0.0

    def is_curved(self):
        return True

    def curvature(self, scores, y, margin, direction, product):
        rho = 1.0 if y * scores[0] < margin else 0.0
        product[0] = rho * direction[0]
        return rho


@rule
class RationalMap(NamedTuple):
    gamma: Any

    def map_value(self, q):
        return 1.0 / (1.0 + self.gamma * q)


class Rational(MappedKernel):
    """``1 / (1 + gamma |x - z|^2)``."""

    quantity = SQUARED_DISTANCE

    def __init__(self, gamma: Any = "auto"):
        self.gamma = gamma

    def to_map(self, number_type):
        return RationalMap(number_type(self.gamma))


class LogState(NamedTuple):
    eta: Any
    n_steps: Any


@rule(defaults=StepSizeRule)
class LogRule(NamedTuple):
    initial: float

    def propose(self, step_state, n_seen, loss, regularizer, correlation):
        eta = self.next_step(self.initial, 0.0, 0.0, n_seen, 0.0)
        return Proposal(eta, correlation, 0.0, 0.0, 1.0)

    def accept(self, step_state, proposal, taken, capped, has_gradient):
        step_state.eta[0] = taken
        step_state.n_steps[0] += 1

    def next_step(self, first, eta, felt, n_seen, slope):
        return first / (1.0 + math.log(1.0 + n_seen))


class LogDecay(StepSize):
    """``initial / (1 + log(1 + t))``, with a state of its own."""

    def __init__(self, initial: float = 0.5):
        self.initial = initial

    def state(self):
        return LogState(eta=Field((), float(self.initial)), n_steps=Field((), 0, int))

    def to_rule(self):
        return LogRule(number("initial", self.initial, above=0))


@rule(defaults=UpdateRule)
class SignRule(NamedTuple):
    def move(self, model, row, eta, with_intercept, out):
        for k in range(row.xi.shape[0]):
            out.alpha[k] = 0.0 - eta * np.sign(row.xi[k])
            out.beta[k] = 0.0
        return Decay(eta, 1.0, 0.0, 0.0)


class SignStep(Update):
    """Steps by the sign of the gradient alone."""

    def to_rule(self):
        return SignRule()


class ChanceState(NamedTuple):
    seed: Any


@rule(defaults=BudgetRule)
class ChanceRule(NamedTuple):
    size: int

    def make_room(self, budget_state, expansion, tile, i, point):
        n = expansion.n_points[0]
        if n < self.size:
            return Replacing(JOINS, n)
        budget_state.seed[0] = (1103515245 * budget_state.seed[0] + 12345) % 2**31
        slot = budget_state.seed[0] % (n + 1)
        return Replacing(IS_DROPPED, -1) if slot == n else Replacing(REPLACES, slot)


class ChanceOut(Budget):
    """A point chosen by chance goes, the new one included."""

    def __init__(self, size: int = 16):
        self.size = size

    def state(self):
        return ChanceState(seed=Field((), 1, int))

    def to_rule(self):
        return ChanceRule(int(self.size))


@rule(defaults=MarginRule)
class GrowingRule(NamedTuple):
    initial: float
    first_step: float

    def adapt_margin(self, margin_state, step_size, n_seen, direction, violated, weight):
        margin_state.epsilon[0] *= 1.0001


class Growing(Margin):
    """A margin that grows a little at every row."""

    def __init__(self, value: float = 1.0):
        self.value = value

    def to_rule(self, first_step):
        return GrowingRule(float(self.value), 0.0)


@pytest.fixture(autouse=True)
def registered(own_registry):
    """Each part under its decorator, for as long as a test runs."""
    loss(
        "squared_hinge", "classification", single_output=True, accepts_nu=False,
        accepts_implicit=False,
    )(SquaredHinge)  # fmt: skip
    part("kernel", "rational")(Rational)
    part("step_size", "log_decay")(LogDecay)
    part("update", "sign")(SignStep)
    part("budget")(ChanceOut)
    part("margin")(Growing)


CHOICES = {
    "loss": {"loss": "squared_hinge"},
    "kernel": {"kernel": "rational", "gamma": 0.5},
    "kernel object": {"kernel": Rational(0.5)},
    "step size": {"step_size": "log_decay"},
    "step size object": {"step_size": LogDecay(0.3)},
    "update": {"update": "sign", "step_size": 0.1},
    "budget": {"budget": ChanceOut(8)},
    "margin": {"margin": Growing(0.5)},
    "all": {
        "loss": "squared_hinge", "kernel": Rational(0.5), "step_size": LogDecay(0.3),
        "budget": ChanceOut(8), "margin": Growing(0.5),
    },
}  # fmt: skip
X = np.random.default_rng(0).normal(size=(120, 3))
y = np.where(X[:, 0] * X[:, 1] > 0, "yes", "no")


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("name", CHOICES)
def test_a_model_learns_in_blocks_and_lives_in_files(name):
    make = lambda: ks.KernelClassifier(**{"budget": 16, **CHOICES[name]})  # noqa: E731
    blocks, rows = make(), make()
    for start in range(0, 120, 30):
        some = slice(start, start + 30)
        blocks.partial_fit(X[some], y[some], classes=["no", "yes"])
    for x, label in zip(X, y, strict=True):
        rows.partial_fit(x[None], [label], classes=["no", "yes"])
    np.testing.assert_allclose(blocks.dual_coef_, rows.dual_coef_, rtol=1e-9)
    twin = from_bytes(blocks.to_bytes())
    assert twin.to_bytes() == blocks.to_bytes()
    assert twin.get_params()["budget"] == blocks.get_params()["budget"]
    bad = X[:30].copy()
    bad[-1] = np.nan
    before = blocks.to_bytes()
    with pytest.raises(ValueError, match="NaN"):
        blocks.partial_fit(bad, y[:30])
    assert blocks.to_bytes() == before


def test_a_model_of_new_parts_compiles_and_so_does_a_fleet():
    chosen = {k: v for k, v in CHOICES["all"].items() if k != "loss"}
    model = ks.KernelClassifier(**CHOICES["all"]).partial_fit(X, y, classes=["no", "yes"])
    assert model.score(X, y) > 0.6
    fleet = ks.Fleet("norma", "regressor", n_models=3, n_features=3, **{**chosen, "margin": 1.0})
    fleet.learn(X[:90], X[:90, 0], models=np.arange(90) % 3)
    alone = ks.make("norma", "regressor", **{**chosen, "margin": 1.0})
    alone.partial_fit(X[:90:3], X[:90:3, 0])
    np.testing.assert_allclose(fleet.model(0).predict(X), alone.predict(X), rtol=1e-9)
    # A part may be edited while this package is not: machine code of its old lines is not kept.
    made = [kinds for kinds in learn_tile.addresses if "SquaredHinge" in str(kinds)]
    assert made
    assert not any(code_files.find(learn_tile.code_name(kinds)) for kinds in made)
    ks.KernelClassifier(budget=16).partial_fit(X, y, classes=["no", "yes"])
    assert any(code_files.find(learn_tile.code_name(kinds)) for kinds in learn_tile.addresses)


def test_names_lists_and_errors_know_new_parts():
    assert "rational" in ks.kernels.names()
    assert "squared_hinge" in ks.losses.names("classification")
    with pytest.raises(ValueError, match="'log_decay'"):
        ks.KernelClassifier(step_size="lgo_decay").partial_fit(X, y)
    with pytest.raises(ValueError, match="'sign'"):
        ks.KernelClassifier(update="sing").partial_fit(X, y)
    assert named("ChanceOut") is ChanceOut


def test_every_part_has_one_name_over_all_kinds():
    entries = all_parts()
    assert len({entry.cls.__name__ for entry in entries}) == len(entries)
    with pytest.raises(ValueError, match="two parts of the name RBF"):

        @part("budget")
        class RBF(Budget):
            """Files could not tell it from the kernel."""


@pytest.mark.parametrize(
    "package", ["kernels", "losses", "margins", "step_sizes", "updates", "budgets"]
)
def test_a_new_file_in_a_package_is_imported_by_itself(package, tmp_path, monkeypatch):
    home = importlib.import_module(f"kernelstream.{package}")
    (tmp_path / "brand_new.py").write_text(
        "from kernelstream.parts import Part, part\n\n\n"
        f'@part("{package}")\nclass BrandNew{package.title().replace("_", "")}(Part):\n    pass\n'
    )
    monkeypatch.setattr(home, "__path__", [*home.__path__, str(tmp_path)])
    before = set(registry._ENTRIES)
    registry.discover(home.__name__, [str(tmp_path)])
    assert set(registry._ENTRIES) - before

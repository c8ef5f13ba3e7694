"""Parameters are declared once, and behave as scikit-learn's users expect."""

import inspect
import pickle
from dataclasses import KW_ONLY
from typing import Any, ClassVar

import pytest
from sklearn.base import BaseEstimator, clone

import kernelstream as ks
from kernelstream import committee
from kernelstream.parts import Part, all_parts, parameters
from kernelstream.parts import number as checked

ESTIMATORS = [
    ks.KernelClassifier, ks.KernelRegressor, ks.NoveltyDetector, ks.AutoClassifier,
    ks.AutoRegressor, ks.AutoDetector, committee.CommitteeClassifier,
    committee.CommitteeRegressor, committee.CommitteeDetector,
]  # fmt: skip


@parameters
class Widening(Part):
    start: float = 1.0
    _: KW_ONLY
    rate: float = 0.5
    steps: Any = (1, 2)
    is_scaled: ClassVar[bool] = False

    def check(self):
        checked("rate", self.rate, above=0)


@parameters
class Narrowing(Widening):
    _: KW_ONLY
    rate: float = 0.25
    least: float = 0.0


def test_init_is_made_of_annotations():
    part = Narrowing(3.0, least=0.1)
    assert part.get_params() == {"start": 3.0, "rate": 0.25, "steps": (1, 2), "least": 0.1}
    assert repr(part) == "Narrowing(least=0.1, rate=0.25, start=3.0, steps=(1, 2))"
    assert list(inspect.signature(Narrowing).parameters) == ["start", "rate", "steps", "least"]
    assert clone(part) == part != Narrowing(3.0)
    assert hash(clone(part)) == hash(part)
    assert pickle.loads(pickle.dumps(part)) == part
    assert part.set_params(rate=2.0).rate == 2.0
    with pytest.raises(TypeError, match="positional"):
        Narrowing(1.0, 2.0)
    with pytest.raises(TypeError, match="unheard"):
        Narrowing(unheard=1)
    with pytest.raises(ValueError, match="rate=-1"):
        Narrowing(rate=-1)


def test_an_init_by_hand_is_kept():
    class Older(Widening):
        def __init__(self, start: float = 5.0):
            super().__init__(start)

    assert Older().get_params() == {"start": 5.0}


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_estimators(cls):
    taken = list(inspect.signature(cls).parameters.values())
    first, *others = taken
    assert first.kind is first.POSITIONAL_OR_KEYWORD
    assert all(p.kind is p.KEYWORD_ONLY and p.default is not p.empty for p in others)
    model = cls()
    assert model.get_params(deep=False) == {p.name: p.default for p in taken}
    assert repr(model) == f"{cls.__name__}()"
    assert {type(value) for value in vars(model).values()} <= {
        type(p.default) for p in taken
    }  # nothing but parameters
    name = others[-1].name
    assert getattr(clone(model).set_params(**{name: "other"}), name) == "other"
    assert clone(cls("value")).get_params()[first.name] == "value"


def test_nested_parameters():
    model = ks.KernelClassifier(ks.kernels.RBF(2.0), budget=ks.budgets.SmallestOut(8))
    model.set_params(kernel__gamma=0.5, budget__size=9)
    assert repr(model) == "KernelClassifier(budget=SmallestOut(size=9), kernel=RBF(gamma=0.5))"
    assert clone(model).kernel == ks.kernels.RBF(0.5)


def test_every_part_can_be_cloned_by_its_parameters():
    for entry in all_parts():
        if issubclass(entry.cls, BaseEstimator):
            signature = inspect.signature(entry.cls).parameters.values()
            if all(p.default is not p.empty for p in signature if p.kind is not p.VAR_POSITIONAL):
                try:
                    part = entry.cls()
                except TypeError:  # one that has to be given something, such as kernels
                    continue
                assert clone(part) == part
                assert sorted(part.get_params(deep=False)) == sorted(
                    p.name for p in signature if p.kind is not p.VAR_POSITIONAL
                )

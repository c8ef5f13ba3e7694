"""Kernel machines that learn from a stream, in bounded memory, and set their own step size."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelstream import (
        budgets,
        committee,
        datasets,
        kernels,
        label_kernels,
        margins,
        presets,
        scalings,
        step_sizes,
        streams,
        updates,
        vision,
    )
    from kernelstream.averaging import average
    from kernelstream.checkpoints import Checkpointer
    from kernelstream.committee import AutoClassifier, AutoDetector, AutoRegressor, Committee
    from kernelstream.estimators import KernelClassifier, KernelRegressor, NoveltyDetector
    from kernelstream.evaluate import PrequentialResult, prequential
    from kernelstream.fleet import Fleet, KeyedFleet, ModelStore
    from kernelstream.learner.rows import BadRow
    from kernelstream.loading import load
    from kernelstream.persistence import FileError
    from kernelstream.presets import make
    from kernelstream.stores import Device

__version__ = "0.1.0"

# Where each public name lives. Names are imported when they are first used: scikit-learn and Numba
# take a second to import, and `kernelstream --help` needs neither.
_HOME = {
    "AutoClassifier": "committee",
    "AutoDetector": "committee",
    "AutoRegressor": "committee",
    "BadRow": "learner.rows",
    "Checkpointer": "checkpoints",
    "Committee": "committee",
    "Device": "stores",
    "FileError": "persistence",
    "Fleet": "fleet",
    "KernelClassifier": "estimators",
    "KernelRegressor": "estimators",
    "KeyedFleet": "fleet",
    "ModelStore": "fleet",
    "NoveltyDetector": "estimators",
    "PrequentialResult": "evaluate",
    "average": "averaging",
    "load": "loading",
    "make": "presets",
    "prequential": "evaluate",
}
_MODULES = [
    "budgets", "committee", "datasets", "kernels", "label_kernels", "margins", "presets",
    "scalings", "step_sizes", "streams", "updates", "vision",
]  # fmt: skip

__all__ = [
    "AutoClassifier",
    "AutoDetector",
    "AutoRegressor",
    "BadRow",
    "Checkpointer",
    "Committee",
    "Device",
    "FileError",
    "Fleet",
    "KernelClassifier",
    "KernelRegressor",
    "KeyedFleet",
    "ModelStore",
    "NoveltyDetector",
    "PrequentialResult",
    "__version__",
    "average",
    "budgets",
    "committee",
    "datasets",
    "kernels",
    "label_kernels",
    "load",
    "make",
    "margins",
    "prequential",
    "presets",
    "scalings",
    "step_sizes",
    "streams",
    "updates",
    "vision",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return _imported(name)
    if name in _HOME:
        value = getattr(_imported(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _imported(name: str) -> Any:
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)

"""Kernel machines that learn from a stream, in bounded memory, and set their own step size."""

from kernelstream import budgets, kernels, margins, presets, step_sizes, streams, updates
from kernelstream.backends.cpu import BadRow
from kernelstream.estimators import KernelClassifier, KernelRegressor, NoveltyDetector, load
from kernelstream.evaluate import PrequentialResult, prequential
from kernelstream.persistence import FileError
from kernelstream.presets import make

__version__ = "0.1.0"

__all__ = [
    "BadRow",
    "FileError",
    "KernelClassifier",
    "KernelRegressor",
    "NoveltyDetector",
    "PrequentialResult",
    "__version__",
    "budgets",
    "kernels",
    "load",
    "make",
    "margins",
    "prequential",
    "presets",
    "step_sizes",
    "streams",
    "updates",
]

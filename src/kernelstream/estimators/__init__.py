"""scikit-learn estimators with `partial_fit`, and one row at a time."""

from kernelstream.estimators.base import StreamEstimator
from kernelstream.estimators.classifier import KernelClassifier
from kernelstream.estimators.classifying import Classifying
from kernelstream.estimators.novelty import Detecting, NoveltyDetector
from kernelstream.estimators.regressor import KernelRegressor, Regressing

__all__ = [
    "Classifying", "Detecting", "KernelClassifier", "KernelRegressor", "NoveltyDetector",
    "Regressing", "StreamEstimator",
]  # fmt: skip

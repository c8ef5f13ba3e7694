"""scikit-learn estimators with `partial_fit`, and one row at a time."""

from kernelstream.estimators.classifier import KernelClassifier
from kernelstream.estimators.novelty import NoveltyDetector
from kernelstream.estimators.regressor import KernelRegressor

__all__ = ["KernelClassifier", "KernelRegressor", "NoveltyDetector"]

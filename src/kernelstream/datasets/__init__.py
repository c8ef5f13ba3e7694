"""The data sets of the papers, from local folders or downloaded and cached (docs/datasets.md)."""

from kernelstream.datasets.dataset import Dataset
from kernelstream.datasets.files import DatasetError
from kernelstream.datasets.table import describe, load, names

__all__ = ["Dataset", "DatasetError", "describe", "load", "names"]

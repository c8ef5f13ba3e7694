"""The papers' data by name: looked for in folders, or fetched once and kept (docs/datasets.md)."""

from kernelstream.datasets.dataset import Dataset
from kernelstream.datasets.files import DatasetError
from kernelstream.datasets.table import describe, load, names

__all__ = ["Dataset", "DatasetError", "describe", "load", "names"]

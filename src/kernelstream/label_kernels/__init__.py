"""Label structures: how similar two labels are, and how far apart.

A label structure has a kernel kappa between labels and a distance Delta between labels. Because of
the kernel, what is learned about one label is also learned about related labels (63). Because of
the distance, confusing related labels costs less (25). Labels are in a tree (`Taxonomy`) or in a
graph (`LabelGraph`), or both matrices are given (`LabelMatrix`).

Inside a learner the kernel is a linear map of the outputs. With kappa = B B^T, the score of label y
is the inner product of the y-th row of B with the outputs, and a loss of scores becomes a loss of
outputs; the rest of a learner does not depend on it. In a taxonomy an output is a node, and the row
of a label in B has a one at each node from the label up to the root, so that kappa counts common
ancestors (65). The root itself is omitted: a loss adds to one label what it subtracts from others,
so the coefficient of the root is always zero.
"""

from kernelstream.label_kernels.base import LabelStructure
from kernelstream.label_kernels.tables import LabelGraph, LabelMatrix
from kernelstream.label_kernels.taxonomy import Taxonomy
from kernelstream.parts import discover

__all__ = ["LabelGraph", "LabelMatrix", "LabelStructure", "Taxonomy"]

discover(__name__, __path__)

"""How alike are two labels, and how far apart?

A label structure is two sets of numbers: a kernel kappa between labels, by which what is learned
of one label is learned of its relatives too, and a distance Delta, by which a confusion of
relatives costs less (63), (25). Labels live in a tree (`Taxonomy`), in a graph (`LabelGraph`), or
come with both matrices given (`LabelMatrix`).

Inside a learner the kernel is a change of outputs. With kappa = B B^T, the score of label y is the
inner product of the y-th row of B with the outputs, and a loss of scores becomes a loss of outputs;
nothing else in a learner knows of it. In a taxonomy an output is a node, and a label's row of B has
a one at each node from the label up to the root, so that kappa counts common ancestors (65). The
root itself is left out: what a loss adds to one label it takes from others, and so the root's
coefficient is always zero.
"""

from kernelstream.label_kernels.base import LabelStructure
from kernelstream.label_kernels.tables import LabelGraph, LabelMatrix
from kernelstream.label_kernels.taxonomy import Taxonomy
from kernelstream.parts import discover

__all__ = ["LabelGraph", "LabelMatrix", "LabelStructure", "Taxonomy"]

discover(__name__, __path__)

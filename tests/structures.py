"""Small label structures of every kind, with four outputs each."""

import numpy as np

from kernelstream import losses
from kernelstream.label_kernels import LabelGraph, LabelMatrix, Taxonomy

TREE = Taxonomy.from_nested({"animals": [0, 1], 2: None})
GRAPH = LabelGraph.from_edges([(0, 1), (1, 2, 0.5), (2, 3, 2.0)])
MATRIX = LabelMatrix(
    [0, 1, 2, 3],
    kernel=np.array([[2, 1, 0, 0.5], [1, 2, 0.3, 0], [0, 0.3, 1, 0], [0.5, 0, 0, 1.5]]),
    distance=np.array([[0, 1, 2, 1], [0.5, 0, 2, 1], [1, 1, 0, 3.0], [2, 1, 1, 0]]),
)
STRUCTURES = {"tree": TREE, "graph": GRAPH, "matrix": MATRIX}


def every_loss():
    """Each registered loss with the kind of its outputs; structured ones with each structure."""
    for entry in losses.all_losses():
        if not entry.structured:
            yield "one" if entry.single_output else "many", entry
        else:
            for kind, structure in STRUCTURES.items():
                yield kind, entry._replace(rule=entry.rule(structure.to_rule()))


def n_labels(entry, n_outputs):
    return entry.rule.labels.n_labels() if entry.structured else n_outputs

"""Labels in a graph, and labels with a given kernel and given distances."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import expm
from scipy.sparse.csgraph import shortest_path

from kernelstream.label_kernels.base import LabelStructure, check_names, plain
from kernelstream.label_kernels.rules import MatrixLabels, PlainLabels
from kernelstream.parts import number, parameters, part

__all__ = ["LabelGraph", "LabelMatrix"]


class _TableStructure(LabelStructure):
    """A structure with matrices over all pairs of labels."""

    labels: tuple

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"<{type(self).__name__} of {len(self.labels)} labels>"

    def label_names(self) -> list[Any]:
        return list(self.labels)

    def n_bytes(self) -> int:
        return 4 * 8 * len(self.labels) ** 2  # the matrices, and those from which they are computed

    def _rule_of(self, kernel: np.ndarray | None, distance: np.ndarray) -> Any:
        distance = np.ascontiguousarray(distance, dtype=float)
        if kernel is None:
            return PlainLabels(distance)
        return MatrixLabels(_symmetric_root(kernel), distance)


def _symmetric_root(kernel: Any) -> np.ndarray:
    values, vectors = np.linalg.eigh(kernel)
    return np.ascontiguousarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _check_kernel(kernel: Any, n: int) -> None:
    _check_square("kernel", kernel, n)
    largest = np.abs(kernel).max()
    if np.abs(kernel - kernel.T).max() > 1e-8 * largest:
        raise ValueError("kernel is not symmetric: kappa(y, z) must equal kappa(z, y).")
    smallest = np.linalg.eigvalsh(kernel)[0]
    if smallest < -1e-8 * largest:
        raise ValueError(
            f"kernel has the eigenvalue {smallest:.3g}: it must be positive semidefinite. "
            "Add a multiple of the identity, or use a diffusion kernel."
        )


def _check_square(name: str, matrix: Any, n: int) -> None:
    if not isinstance(matrix, np.ndarray) or matrix.shape != (n, n):
        shape = getattr(matrix, "shape", None)
        raise ValueError(
            f"{name} must be an array of shape {(n, n)}, one row per label, not {shape}."
        )
    if not np.isfinite(matrix).all():
        raise ValueError(f"{name} contains NaN or infinity.")


@part("label_structure")
@parameters
class LabelGraph(_TableStructure):
    """Labels in a graph: the distance is the length of the shortest path (25).

    Use `from_edges`, `from_networkx` or `from_scipy` to make one. Nodes that are not labels may
    connect labels; they are never predicted.

    Parameters
    ----------
    labels : tuple of str or int
        The labels, in the order of the scores.
    edges : tuple of (node, node, length)
        The undirected edges, with positive lengths. A node that is not in `labels` is not a label.
    kernel : {"identity", "diffusion"} or ndarray, default="identity"
        The kernel between labels. "diffusion" is ``exp(-time L)`` with the Laplacian L of the whole
        graph, in which an edge has the weight 1 / length. An array must be positive semidefinite,
        in the order of `labels`.
    time : float, default=1.0
        The time of the diffusion.

    References
    ----------
    Kondor, Lafferty: Diffusion Kernels on Graphs and Other Discrete Input Spaces. ICML 2002.

    Examples
    --------
    >>> from kernelstream.label_kernels import LabelGraph
    >>> graph = LabelGraph.from_edges([("low", "middle"), ("middle", "high", 2.0)])
    >>> graph.distances(["low"], ["high"])
    array([3.])
    >>> star = LabelGraph.from_edges([("hub", k, 0.5) for k in "abc"], labels="abc")
    >>> star.distances(["a", "a"], ["b", "c"])  # as far apart as plain labels
    array([1., 1.])
    """

    labels: tuple
    edges: tuple
    kernel: Any = "identity"
    time: float = 1.0

    def check(self) -> None:
        check_names("labels", self.labels)
        if len(self.labels) < 2:
            raise ValueError(f"labels={self.labels!r}: give at least two labels.")
        for edge in self.edges:
            if len(edge) != 3:
                raise ValueError(f"edges contains {edge!r}: give (node, node, length).")
            number(f"the length of the edge {edge[:2]!r}", edge[2], above=0)
        nodes = self.nodes()
        check_names("edges", nodes[len(self.labels) :])
        alone = set(self.labels).difference(*(edge[:2] for edge in self.edges))
        if alone:
            raise ValueError(
                f"labels: {sorted(alone, key=str)[0]!r} is in no edge. Connect it, or give "
                "distances with LabelMatrix."
            )
        number("time", self.time, above=0)
        if isinstance(self.kernel, str):
            if self.kernel not in ("identity", "diffusion"):
                raise ValueError(
                    f"kernel={self.kernel!r} is unknown: choose 'identity', 'diffusion' or give an "
                    "array."
                )
        else:
            _check_kernel(self.kernel, len(self.labels))

    def nodes(self) -> list[Any]:
        """Return the labels, followed by the nodes that are not labels."""
        return list(
            dict.fromkeys([*self.labels, *(name for edge in self.edges for name in edge[:2])])
        )

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        others = len(self.nodes()) - len(self.labels)
        between = f" and {others} other nodes" if others else ""
        return f"<LabelGraph of {len(self.labels)} labels{between}>"

    def _lengths(self) -> sparse.csr_array:
        nodes = self.nodes()
        position = {name: i for i, name in enumerate(nodes)}
        n = len(nodes)
        shortest: dict[tuple[int, int], float] = {}
        for first, second, length in self.edges:
            pair = (min(position[first], position[second]), max(position[first], position[second]))
            shortest[pair] = min(float(length), shortest.get(pair, np.inf))
        # SciPy's searches of graphs took indices of 32 bits only, up to version 1.12.
        rows, columns = np.array(list(shortest), dtype=np.int32).reshape(-1, 2).T
        return sparse.csr_array((np.array(list(shortest.values())), (rows, columns)), (n, n))

    def _make_rule(self) -> Any:
        lengths = self._lengths()
        n = len(self.labels)  # which come first among the nodes
        distance = shortest_path(lengths, directed=False, indices=np.arange(n))[:, :n]
        if not np.isfinite(distance).all():
            first, second = np.argwhere(~np.isfinite(distance))[0]
            raise ValueError(
                f"edges: there is no path from {self.labels[first]!r} to {self.labels[second]!r}. "
                "Connect the graph, or give distances with LabelMatrix."
            )
        if not isinstance(self.kernel, str):
            return self._rule_of(np.asarray(self.kernel), distance)
        if self.kernel == "identity":
            return self._rule_of(None, distance)
        weights = lengths.toarray()
        weights[weights > 0] = 1.0 / weights[weights > 0]
        weights = weights + weights.T
        np.fill_diagonal(weights, 0.0)
        laplacian = np.diag(weights.sum(axis=1)) - weights
        diffused = expm(-float(self.time) * laplacian)
        return self._rule_of(diffused[:n, :n], distance)

    @classmethod
    def from_edges(
        cls, edges: Iterable[Any], kernel: Any = "identity", time: float = 1.0,
        labels: Iterable[Any] | None = None,
    ) -> "LabelGraph":  # fmt: skip
        """Make a graph from its edges, (node, node) or (node, node, length).

        Parameters
        ----------
        edges : iterable of tuple
            The edges; an edge without a length has the length 1.
        kernel, time
            As in the class.
        labels : iterable, default=None
            The nodes that are labels, in the order of the scores; None means all nodes.
        """
        full = []
        for edge in edges:
            if len(edge) not in (2, 3):
                raise ValueError(f"edges contains {edge!r}: give (node, node) or with a length.")
            length = edge[2] if len(edge) == 3 else 1.0
            full.append((plain(edge[0]), plain(edge[1]), plain(length)))
        if labels is None:
            labels = dict.fromkeys(name for edge in full for name in edge[:2])
        return cls(tuple(plain(name) for name in labels), tuple(full), kernel, time)

    @classmethod
    def from_networkx(
        cls, graph: Any, weight: str = "weight", kernel: Any = "identity", time: float = 1.0,
        labels: Iterable[Any] | None = None,
    ) -> "LabelGraph":  # fmt: skip
        """Make a graph from a networkx graph.

        Parameters
        ----------
        graph : networkx.Graph
            The graph.
        weight : str, default="weight"
            The attribute of an edge that has its length; the length is 1 if it is missing.
        kernel, time
            As in the class.
        labels : iterable, default=None
            The nodes that are labels, in the order of the scores; None means all nodes.
        """
        edges = tuple((u, v, float(data.get(weight, 1.0))) for u, v, data in graph.edges(data=True))
        return cls(tuple(graph.nodes if labels is None else labels), edges, kernel, time)

    @classmethod
    def from_scipy(
        cls, matrix: Any, labels: Iterable[Any] | None = None, kernel: Any = "identity",
        time: float = 1.0,
    ) -> "LabelGraph":  # fmt: skip
        """Make a graph from a sparse matrix of lengths.

        Parameters
        ----------
        matrix : scipy sparse matrix or array of shape (n, n)
            The lengths of the edges.
        labels : sequence, default=None
            The name of every node, or None for a node that is not a label. By default the names are
            0 to n - 1.
        kernel, time
            As in the class.
        """
        entries = sparse.coo_array(matrix)
        if entries.shape[0] != entries.shape[1]:
            raise ValueError(f"matrix has the shape {entries.shape}: give a square one.")
        names = list(range(entries.shape[0])) if labels is None else [plain(n) for n in labels]
        if len(names) != entries.shape[0]:
            raise ValueError(f"labels has {len(names)} names, matrix {entries.shape[0]} lines.")
        chosen = tuple(name for name in names if name is not None)
        names = [f"(node {i})" if name is None else name for i, name in enumerate(names)]
        edges = tuple(
            (names[i], names[j], float(length))
            for i, j, length in zip(entries.row, entries.col, entries.data, strict=True)
        )
        return cls(chosen, edges, kernel, time)


@part("label_structure")
@parameters
class LabelMatrix(_TableStructure):
    """Labels with a given kernel and given distances.

    Parameters
    ----------
    labels : sequence of str or int
        The labels, in the order of the scores.
    kernel : ndarray of shape (n, n), default=None
        The kernel between labels, symmetric and positive semidefinite. None means the identity,
        that is, labels have nothing in common.
    distance : ndarray of shape (n, n), default=None
        The cost of predicting the second label if the first is true: not negative, zero on the
        diagonal, not necessarily symmetric. None means a cost of one for every confusion.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.label_kernels import LabelMatrix
    >>> costs = np.array([[0.0, 1.0], [5.0, 0.0]])
    >>> LabelMatrix(["healthy", "ill"], distance=costs).distances(["ill"], ["healthy"])
    array([5.])
    """

    labels: Any
    kernel: Any = None
    distance: Any = None

    def check(self) -> None:
        n = len(self.labels)
        check_names("labels", [plain(name) for name in self.labels])
        if n < 2:
            raise ValueError(f"labels={self.labels!r}: give at least two labels.")
        if self.kernel is not None:
            _check_kernel(self.kernel, n)
        if self.distance is not None:
            _check_square("distance", self.distance, n)
            if (self.distance < 0).any() or np.diag(self.distance).any():
                raise ValueError("distance must not be negative, and zero on its diagonal.")

    def label_names(self) -> list[Any]:
        return [plain(name) for name in self.labels]

    def _make_rule(self) -> Any:
        n = len(self.labels)
        distance = 1.0 - np.eye(n) if self.distance is None else self.distance
        return self._rule_of(self.kernel, distance)

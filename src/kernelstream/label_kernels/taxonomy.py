"""Labels in a tree."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from kernelstream.label_kernels.base import LabelStructure, check_names, plain
from kernelstream.label_kernels.rules import TreeLabels
from kernelstream.parts import parameters, part

__all__ = ["Taxonomy"]


@part("label_structure")
@parameters
class Taxonomy(LabelStructure):
    """A tree of labels, with the common-ancestor kernel (65) and the tree distance (62).

    ``kappa(y, z)`` is the number of ancestors that y and z share, where a node is its own ancestor;
    ``Delta(y, z)`` is half the number of edges of the path between them. Use `from_parents`,
    `from_paths`, `from_nested` or `from_networkx` to make one.

    Parameters
    ----------
    nodes : tuple of str or int
        The name of every node, parents before their children; the first is the root.
    parents : tuple of int
        The position of each node's parent in `nodes`, -1 for the root.
    inner_nodes : bool, default=False
        Whether inner nodes are labels too, which may then be given as y and be predicted.
        Otherwise only the leaves are labels.

    References
    ----------
    Cai, Hofmann: Hierarchical Document Categorization with Support Vector Machines. CIKM 2004.

    Examples
    --------
    >>> from kernelstream.label_kernels import Taxonomy
    >>> tree = Taxonomy.from_nested({"storage": ["disk", "tape"], "cables": None})
    >>> tree.label_names()
    ['cables', 'disk', 'tape']
    >>> tree.distances(["disk", "disk"], ["tape", "cables"])
    array([1. , 1.5])
    >>> tree.kernel_matrix()[1]
    array([1., 3., 2.])
    """

    nodes: tuple
    parents: tuple
    inner_nodes: bool = False

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        n_labels = len(self.label_names())
        return f"<{type(self).__name__} of {n_labels} labels, {len(self.nodes)} nodes>"

    def check(self) -> None:
        if len(self.nodes) != len(self.parents):
            raise ValueError(
                f"nodes has {len(self.nodes)} names, parents {len(self.parents)}: give one each."
            )
        check_names("nodes", self.nodes)
        for position, parent in enumerate(self.parents):
            if not (-1 <= parent < position and (parent >= 0 or position == 0)):
                raise ValueError(
                    f"parents[{position}]={parent!r}: the first node is the root, with parent -1, "
                    "and every other comes after its parent. Taxonomy.from_parents takes any order."
                )
        if len(self.label_names()) < 2:
            raise ValueError(f"nodes={self.nodes!r} has fewer than two labels: nothing to learn.")

    def label_names(self) -> list[Any]:
        if self.inner_nodes:
            return list(self.nodes)
        inner = set(self.parents)
        return [name for position, name in enumerate(self.nodes) if position not in inner]

    def n_outputs(self) -> int:
        return len(self.nodes) - 1

    def kernel_matrix(self) -> np.ndarray:
        return super().kernel_matrix() + 1.0  # the root is an ancestor of all

    def _make_rule(self) -> TreeLabels:
        parent = np.array(self.parents[1:], np.int64) - 1
        depth = np.zeros(len(parent), np.int64)
        for m, above in enumerate(parent):
            depth[m] = depth[above] + 1 if above >= 0 else 1
        position = {name: m - 1 for m, name in enumerate(self.nodes)}
        node = np.array([position[name] for name in self.label_names()], np.int64)
        return TreeLabels(parent, depth, node)

    def _hint(self, name: Any) -> str:
        if name in self.nodes:
            return f". {name!r} is an inner node; inner_nodes=True makes those labels too"
        return ""

    def ancestors(self, labels: Any, depth: int) -> np.ndarray:
        """Return the ancestor of each label at a depth, or the label itself if it is not that deep.

        Parameters
        ----------
        labels : array-like of node names
            The labels, or other nodes.
        depth : int
            The depth of the ancestors; that of the root is 0.

        Returns
        -------
        ndarray of names
        """
        position = {name: m for m, name in enumerate(self.nodes)}
        found = []
        for name in np.asarray(labels).reshape(-1).tolist():
            if name not in position:
                raise ValueError(f"{name!r} is no node of {self!r}.")
            path = [position[name]]
            while path[-1] > 0:
                path.append(self.parents[path[-1]])
            found.append(self.nodes[path[::-1][min(depth, len(path) - 1)]])
        return np.array(found)

    @classmethod
    def from_parents(
        cls, parents: Any, names: Iterable[Any] | None = None, inner_nodes: bool = False
    ) -> "Taxonomy":
        """Make a taxonomy from the parent of every node, in any order.

        Parameters
        ----------
        parents : sequence of int, or mapping of names to names
            The position of each node's parent, -1 or None for the root; or the name of each node's
            parent, None for the root (which may also be omitted).
        names : sequence, default=None
            The names of the nodes, if parents are positions; None means the positions themselves.
        inner_nodes : bool, default=False
            Whether inner nodes are labels too.

        Examples
        --------
        >>> from kernelstream.label_kernels import Taxonomy
        >>> Taxonomy.from_parents([-1, 0, 0, 1, 1]).label_names()
        [2, 3, 4]
        """
        if isinstance(parents, Mapping):
            if names is not None:
                raise ValueError("names is for parents given by position; the mapping has names.")
            named = {plain(child): plain(parent) for child, parent in parents.items()}
            for parent in list(named.values()):
                if parent is not None:
                    named.setdefault(parent, None)
            return cls._sorted(named, inner_nodes)
        positions = [-1 if p is None else int(p) for p in parents]
        listed = list(range(len(positions))) if names is None else [plain(n) for n in names]
        if len(listed) != len(positions):
            raise ValueError(
                f"names has {len(listed)} entries, parents {len(positions)}: give one each."
            )
        check_names("names", listed)
        wrong = [p for p in positions if not -1 <= p < len(positions)]
        if wrong:
            raise ValueError(f"parents contains {wrong[0]}, which is no position: -1 is the root.")
        return cls._sorted(
            {name: None if p < 0 else listed[p] for name, p in zip(listed, positions, strict=True)},
            inner_nodes,
        )

    @classmethod
    def from_paths(
        cls, paths: Iterable[str], separator: str = "/", inner_nodes: bool = False
    ) -> "Taxonomy":
        """Make a taxonomy from the paths of its labels, such as "D/05/C".

        Parameters
        ----------
        paths : iterable of str
            One path per label, or one per row of a data set. The name of a label is its path.
        separator : str, default="/"
            The separator between the names of a path.
        inner_nodes : bool, default=False
            Whether inner nodes, whose names are their paths, are labels too.

        Examples
        --------
        >>> from kernelstream.label_kernels import Taxonomy
        >>> tree = Taxonomy.from_paths(["D/05/C", "D/05/B", "D/21"])
        >>> float(tree.distances(["D/05/C"], ["D/21"])[0])
        1.5
        """
        named: dict[Any, Any] = {}
        for path in np.unique(np.asarray(list(paths))).tolist():
            if not isinstance(path, str) or not all(path.split(separator)):
                raise ValueError(
                    f"paths contains {path!r}: give names separated by {separator!r}, none empty."
                )
            pieces = path.split(separator)
            for end in range(len(pieces), 0, -1):
                above = separator.join(pieces[: end - 1]) if end > 1 else None
                named[separator.join(pieces[:end])] = above
        tops = [name for name, parent in named.items() if parent is None]
        if len(tops) > 1:  # they get a common root
            named = {name: "" if parent is None else parent for name, parent in named.items()}
            named[""] = None
        return cls._sorted(named, inner_nodes)

    @classmethod
    def from_nested(cls, tree: Any, root: str = "", inner_nodes: bool = False) -> "Taxonomy":
        """Make a taxonomy from nested dictionaries and lists.

        Parameters
        ----------
        tree : dict or list
            The tree; a leaf is a name in a list, or a key with the value None.
        root : str, default=""
            The name of the root.
        inner_nodes : bool, default=False
            Whether inner nodes are labels too.

        Examples
        --------
        >>> from kernelstream.label_kernels import Taxonomy
        >>> Taxonomy.from_nested({"pets": ["cat", "dog"], "birds": {"wild": ["owl"]}}).label_names()
        ['cat', 'dog', 'owl']
        """
        names: list[Any] = [root]
        parents: list[Any] = [None]
        open_nodes = [(root, tree)]
        while open_nodes:
            parent, below = open_nodes.pop()
            if not isinstance(below, Mapping | list | tuple | set | frozenset):
                raise TypeError(
                    f"tree: below {parent!r} there is {below!r}; give a dict or a list."
                )
            for name in below:
                names.append(plain(name))
                parents.append(parent)
                if isinstance(below, Mapping) and below[name]:
                    open_nodes.append((name, below[name]))
        check_names("tree", names)
        return cls._sorted(dict(zip(names, parents, strict=True)), inner_nodes)

    @classmethod
    def from_networkx(cls, graph: Any, root: Any = None, inner_nodes: bool = False) -> "Taxonomy":
        """Make a taxonomy from a networkx tree.

        Parameters
        ----------
        graph : networkx.DiGraph or networkx.Graph
            The tree; edges of a directed tree go from parent to child.
        root : node, default=None
            The root of an undirected tree.
        inner_nodes : bool, default=False
            Whether inner nodes are labels too.
        """
        nodes = list(graph.nodes)
        if graph.is_directed():
            named: dict[Any, Any] = dict.fromkeys(nodes)
            for parent, child in graph.edges:
                if named[child] is not None:
                    raise ValueError(
                        f"graph: {child!r} has two parents, {named[child]!r} and {parent!r}; a "
                        "taxonomy is a tree. For other graphs use LabelGraph."
                    )
                named[child] = parent
            return cls._sorted(named, inner_nodes)
        if root is None or root not in nodes:
            raise ValueError(
                f"root={root!r}: name the root of an undirected tree, one of its nodes."
            )
        if graph.number_of_edges() != len(nodes) - 1:
            raise ValueError(
                f"graph has {len(nodes)} nodes and {graph.number_of_edges()} edges: a tree has one "
                "edge less than nodes. It has a cycle or is not connected; use LabelGraph."
            )
        named = {root: None}
        reached = [root]
        for parent in reached:
            for child in graph.neighbors(parent):
                if child not in named:
                    named[child] = parent
                    reached.append(child)
        for node in nodes:
            if node not in named:
                raise ValueError(f"graph: there is no path from {root!r} to {node!r}.")
        return cls._sorted(named, inner_nodes)

    @classmethod
    def _sorted(cls, named: dict[Any, Any], inner_nodes: bool) -> "Taxonomy":
        """Make a taxonomy from the parent of every node by name, with parents sorted first."""
        children: dict[Any, list[Any]] = {name: [] for name in named}
        roots = []
        for name, parent in named.items():
            if parent is None:
                roots.append(name)
            else:
                children[parent].append(name)
        if len(roots) > 1:
            raise ValueError(
                f"parents: {roots[0]!r} and {roots[1]!r} both have no parent; a taxonomy has one "
                "root. Put them below a common one."
            )
        order = list(roots)
        for name in order:
            order.extend(children[name])
        if len(order) < len(named):
            reached = set(order)
            lost = next(name for name in named if name not in reached)
            raise ValueError(f"parents: the ancestors of {lost!r} go round in a cycle.")
        position = {name: m for m, name in enumerate(order)}
        parents = tuple(-1 if named[n] is None else position[named[n]] for n in order)
        return cls(tuple(order), parents, inner_nodes)

"""Label structures: their numbers, every way to make one, and what they refuse."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

import kernelstream as ks
from kernelstream.label_kernels import LabelGraph, LabelMatrix, Taxonomy

from .structures import STRUCTURES

# root -> (a -> (c, d -> e)), b
PARENTS = {"a": "root", "b": "root", "c": "a", "d": "a", "e": "d"}


@st.composite
def trees(draw):
    n = draw(st.integers(3, 25))
    parents = [-1] + [draw(st.integers(0, i - 1)) for i in range(1, n)]
    if len(set(range(n)) - set(parents)) < 2:
        parents[-1] = 0
    if len(set(range(n)) - set(parents)) < 2:
        parents.append(0)
    return parents


def ancestors(parents, node):
    """The node and all above it, root included."""
    found = {node}
    while parents[node] >= 0:
        node = parents[node]
        found.add(node)
    return found


@given(trees(), st.booleans(), st.randoms())
def test_kernel_and_distance_of_a_tree_are_those_of_the_paper(parents, inner_nodes, random):
    order = list(range(len(parents)))
    random.shuffle(order)  # any order of the nodes
    shuffled = [-1 if parents[i] < 0 else order.index(parents[i]) for i in order]
    tree = Taxonomy.from_parents(shuffled, names=[f"n{i}" for i in order], inner_nodes=inner_nodes)
    names = tree.label_names()
    above = {f"n{i}": ancestors(parents, i) for i in range(len(parents))}
    expected = set(above) if inner_nodes else set(above) - {f"n{p}" for p in parents}
    assert set(names) == expected
    kernel = [[len(above[y] & above[z]) for z in names] for y in names]  # (65)
    distance = [[0.5 * len(above[y] ^ above[z]) for z in names] for y in names]  # (62)
    np.testing.assert_array_equal(tree.kernel_matrix(), kernel)
    np.testing.assert_array_equal(tree.distance_matrix(), distance)


def test_a_taxonomy_can_be_made_in_many_ways():
    made = [
        Taxonomy.from_parents(PARENTS),
        Taxonomy.from_parents({**PARENTS, "root": None}),
        Taxonomy.from_parents(
            [-1, 0, 0, 1, 1, 4], names=np.array(["root", "a", "b", "c", "d", "e"])
        ),
        Taxonomy.from_nested({"a": {"c": None, "d": ["e"]}, "b": None}, root="root"),
        Taxonomy.from_nested({"a": {"d": {"e": {}}, "c": {}}, "b": []}, root="root"),
        Taxonomy.from_networkx(nx.DiGraph([(p, c) for c, p in PARENTS.items()])),
        Taxonomy.from_networkx(nx.Graph(list(PARENTS.items())), root="root"),
    ]
    for tree in made:
        assert set(tree.label_names()) == {"b", "c", "e"}
        assert tree.distances(["b", "c", "e"], ["e", "e", "e"]).tolist() == [2.0, 1.5, 0.0]
    paths = Taxonomy.from_paths(["a/c", "a/d/e", "b", "a/c"])
    assert paths.label_names() == ["b", "a/c", "a/d/e"]
    np.testing.assert_array_equal(
        paths.distance_matrix(),
        made[0].distance_matrix()[np.ix_(*2 * [[made[0].label_names().index(n) for n in "bce"]])],
    )
    assert made[0].ancestors(["c", "e", "b", "e"], 1).tolist() == ["a", "a", "b", "a"]
    assert Taxonomy.from_paths(["D.05.C", "D.05.B", "D.21"], separator=".").nodes[0] == "D"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Taxonomy.from_parents({"a": "b", "b": "a", "c": "r", "d": "r"}), "in a cycle"),
        (lambda: Taxonomy.from_parents([-1, 2, 1, 0]), "in a cycle"),
        (lambda: Taxonomy.from_parents([-1, 0, -1, 2]), "both have no parent"),
        (lambda: Taxonomy.from_parents([-1, 0, 7]), "7, which is no position"),
        (lambda: Taxonomy.from_parents([-1, 0, 0], names=["r", "a"]), "names has 2 entries"),
        (lambda: Taxonomy.from_parents([-1, 0, 0], names=["r", "a", "a"]), "'a' appears twice"),
        (lambda: Taxonomy.from_parents({"a": "r"}, names=["a"]), "names is for parents"),
        (lambda: Taxonomy.from_parents({"a": "r"}), "fewer than two labels"),
        (lambda: Taxonomy.from_paths(["a//b", "a/c"]), "'a//b'"),
        (lambda: Taxonomy.from_nested({"a": ["x"], "b": ["x"]}), "'x' appears twice"),
        (lambda: Taxonomy.from_networkx(nx.DiGraph([(0, 1), (2, 1)])), "two parents"),
        (lambda: Taxonomy.from_networkx(nx.cycle_graph(3), root=0), "has a cycle"),
        (lambda: Taxonomy.from_networkx(nx.path_graph(3)), "name the root"),
        (lambda: Taxonomy(("a", "b"), (0, -1)), "the first node is the root"),
        (lambda: Taxonomy(("a", "b"), (-1,)), "give one each"),
        (lambda: LabelGraph.from_edges([(0, 1), (2, 3)]).to_rule(), "no path from 0 to 2"),
        (lambda: LabelGraph.from_edges([(0, 1, -1.0)]), r"length of the edge \(0, 1\)=-1.0"),
        (lambda: LabelGraph.from_edges([(0,)]), "give .node, node."),
        (lambda: LabelGraph.from_edges([(0, 1), (1, 2)], labels=[0, 7]), "7 is in no edge"),
        (lambda: LabelGraph.from_edges([("a", "b")], labels=["a"]), "at least two labels"),
        (
            lambda: LabelGraph.from_edges([(0, "x"), (1, "y")], labels=[0, 1]).to_rule(),
            "no path from 0 to 1",
        ),
        (lambda: LabelGraph.from_edges([(0, 1)], kernel="heat"), "kernel='heat' is unknown"),
        (
            lambda: LabelGraph.from_scipy(sparse.csr_array(np.eye(3)), labels=["a"]),
            "labels has 1 names",
        ),
        (lambda: LabelMatrix([0, 1], kernel=np.array([[0, 1.0], [1, 0]])), "eigenvalue -1"),
        (lambda: LabelMatrix([0, 1], kernel=np.array([[1, 0.5], [0, 1]])), "not symmetric"),
        (lambda: LabelMatrix([0, 1], kernel=np.eye(3)), r"shape \(2, 2\)"),
        (lambda: LabelMatrix([0, 1], distance=np.array([[0, -1.0], [1, 0]])), "not be negative"),
        (lambda: LabelMatrix([0, 1], distance=np.array([[0, np.nan], [1, 0]])), "NaN"),
        (lambda: LabelMatrix(["a", "a"]), "'a' appears twice"),
        (lambda: LabelMatrix(["a"]), "at least two"),
    ],
)
def test_what_is_not_a_structure_is_refused_with_the_reason(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_what_is_no_name_or_no_tree_is_a_type_error():
    with pytest.raises(TypeError, match="is not a name"):
        LabelMatrix([0, (1, 2)])
    with pytest.raises(TypeError, match="give a dict or a list"):
        Taxonomy.from_nested({"a": "b", "c": None})


def test_distances_in_a_graph_are_shortest_paths():
    graph = nx.Graph()
    graph.add_weighted_edges_from([("a", "b", 1.0), ("b", "c", 2.0), ("a", "c", 5.0)])
    expected = dict(nx.all_pairs_dijkstra_path_length(graph))
    for made in (
        LabelGraph.from_networkx(graph),
        LabelGraph.from_edges([*graph.edges(data="weight"), ("a", "b", 9.0)]),  # the shorter counts
        LabelGraph.from_scipy(nx.to_scipy_sparse_array(graph), labels=list(graph)),
    ):
        names = made.label_names()
        wanted = [[expected[y][z] for z in names] for y in names]
        np.testing.assert_allclose(made.distance_matrix(), wanted)
        np.testing.assert_array_equal(made.kernel_matrix(), np.eye(3))


def test_the_diffusion_kernel_is_the_exponential_of_the_laplacian():
    made = LabelGraph.from_edges([(0, 1, 2.0), (1, 2, 1.0)], kernel="diffusion", time=0.7)
    laplacian = np.array([[0.5, -0.5, 0], [-0.5, 1.5, -1], [0, -1, 1]])
    values, vectors = np.linalg.eigh(laplacian)
    expected = (vectors * np.exp(-0.7 * values)) @ vectors.T
    np.testing.assert_allclose(made.kernel_matrix(), expected, atol=1e-12)
    given = LabelGraph.from_edges([(0, 1, 2.0), (1, 2, 1.0)], kernel=expected)
    np.testing.assert_allclose(given.kernel_matrix(), expected, atol=1e-12)


@given(trees())
def test_nodes_that_are_no_labels_connect_labels(parents):
    """A tree as a graph, edges of 1/2 and leaves as labels: the taxonomy's distances (62), (25)."""
    tree = Taxonomy.from_parents(parents)
    edges = [(child, parent, 0.5) for child, parent in enumerate(parents) if parent >= 0]
    graph = LabelGraph.from_edges(edges, labels=tree.label_names())
    assert graph.label_names() == tree.label_names()
    assert graph.n_outputs() == len(tree.label_names())
    np.testing.assert_allclose(graph.distance_matrix(), tree.distance_matrix())
    np.testing.assert_array_equal(graph.kernel_matrix(), np.eye(graph.n_outputs()))


def test_diffusion_flows_through_nodes_that_are_no_labels():
    edges = [("a", "hub"), ("b", "hub", 2.0), ("hub", "c"), ("c", "d")]
    for labels in (["d", "a", "b"], np.array(["a", "c"])):
        part = LabelGraph.from_edges(edges, "diffusion", 0.7, labels=labels)
        whole = LabelGraph.from_edges(edges, "diffusion", 0.7)
        at = whole.codes(labels)
        np.testing.assert_allclose(
            part.kernel_matrix(), whole.kernel_matrix()[np.ix_(at, at)], atol=1e-12
        )
        np.testing.assert_allclose(part.distance_matrix(), whole.distance_matrix()[np.ix_(at, at)])
    assert repr(part) == "<LabelGraph of 2 labels and 3 other nodes>"
    assert clone(part) == part
    with pytest.raises(ValueError, match="label 'hub' is unknown"):
        part.codes(["hub"])


def test_every_way_to_a_graph_can_leave_nodes_without_a_label():
    graph = nx.Graph()
    graph.add_weighted_edges_from([("a", "hub", 1.0), ("hub", "c", 2.0), ("a", "c", 5.0)])
    for made in (
        LabelGraph.from_networkx(graph, labels=["a", "c"]),
        LabelGraph.from_edges(graph.edges(data="weight"), labels="ac"),
        LabelGraph.from_scipy(nx.to_scipy_sparse_array(graph), labels=["a", None, "c"]),
    ):
        assert made.label_names() == ["a", "c"]
        np.testing.assert_allclose(made.distance_matrix(), [[0, 3], [3, 0]])


def test_a_star_of_labels_is_plain_labels(tmp_path):
    """Section 4 of the paper: a hub with edges of 1/2 makes (25) the multiclass loss (16)."""
    X = np.random.default_rng(0).normal(size=(80, 3))
    y = np.digitize(X[:, 0] * X[:, 1], [-0.2, 0.2])
    star = LabelGraph.from_edges([("hub", k, 0.5) for k in range(3)], labels=range(3))
    model = ks.KernelClassifier(label_structure=star, step_size=0.1).partial_fit(X, y)
    flat = ks.KernelClassifier(step_size=0.1).partial_fit(X, y, classes=[0, 1, 2])
    np.testing.assert_allclose(model.decision_function(X), flat.decision_function(X), atol=1e-12)
    model.save(tmp_path / "model.ks")
    twin = ks.load(tmp_path / "model.ks")
    assert twin.label_structure == star
    np.testing.assert_array_equal(twin.predict(X), model.predict(X))


def test_a_singular_kernel_is_allowed():
    kernel = np.array([[1.0, 1.0, 0], [1.0, 1.0, 0], [0, 0, 1.0]])
    np.testing.assert_allclose(LabelMatrix("abc", kernel).kernel_matrix(), kernel, atol=1e-12)


@pytest.mark.parametrize("structure", STRUCTURES.values(), ids=STRUCTURES)
def test_structures_behave_as_parts(structure):
    copy = clone(structure)
    assert copy == structure
    assert hash(copy) == hash(structure)
    assert copy != STRUCTURES["tree" if structure is not STRUCTURES["tree"] else "graph"]
    assert "labels" in repr(structure)
    rule = copy.to_rule()
    assert copy.to_rule() is rule
    copy.set_params(**structure.get_params())
    assert copy.to_rule() is not rule


@pytest.mark.parametrize("structure", STRUCTURES.values(), ids=STRUCTURES)
def test_rules_are_one_change_of_outputs(structure):
    """label_scores is B, pull_back its transpose, separate its rows' differences."""
    rule, n = structure.to_rule(), structure.n_outputs()
    B = structure.label_scores(np.eye(n)).T
    random = np.random.default_rng(0)
    xi, outputs = random.normal(size=rule.n_labels()), np.zeros(n)
    rule.pull_back(xi, outputs)
    np.testing.assert_allclose(outputs, B.T @ xi, atol=1e-12)
    delta = structure.distance_matrix()
    for i in range(rule.n_labels()):
        assert rule.kernel_diagonal(i) == pytest.approx(B[i] @ B[i])
        scores, g = np.zeros(rule.n_labels()), random.normal(size=n)
        rule.label_scores(g, i, 0.7, scores)
        np.testing.assert_allclose(scores, B @ g + 0.7 * delta[i], atol=1e-12)
        for j in range(rule.n_labels()):
            outputs = np.zeros(n)
            norm2 = rule.separate(i, j, 2.0, outputs)
            np.testing.assert_allclose(outputs, 2 * (B[i] - B[j]), atol=1e-12)
            assert norm2 == pytest.approx(np.sum((B[i] - B[j]) ** 2), abs=1e-12)
            assert np.count_nonzero(outputs) <= rule.n_touched()


def test_unknown_labels_are_named():
    tree = Taxonomy.from_parents(PARENTS)
    with pytest.raises(ValueError, match="label 'x' is unknown"):
        tree.distances(["b"], ["x"])
    with pytest.raises(ValueError, match="inner_nodes=True"):
        tree.codes(["a"])
    with pytest.raises(ValueError, match="y has 1 labels, predicted has 2"):
        tree.distances(["b"], ["b", "c"])
    with pytest.raises(ValueError, match="is no node"):
        tree.ancestors(["x"], 1)
    assert Taxonomy.from_parents(PARENTS, inner_nodes=True).codes(["a"]).shape == (1,)

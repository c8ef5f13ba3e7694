"""Labels with structure: against the product kernel of the paper, and as a user meets them."""

import json
import pickle

import numpy as np
import pytest

import kernelstream as ks
from kernelstream.label_kernels import LabelGraph, LabelMatrix, Taxonomy
from kernelstream.step_sizes import SMD

from ..conftest import shared_file
from ..structures import STRUCTURES

ANIMALS = Taxonomy.from_nested({"pets": ["cat", "dog"], "birds": ["owl", "crow"]})


def stream(structure, n_rows, seed=0):
    """Classes that lie closer together the closer their labels are."""
    names = np.array(structure.label_names())
    random = np.random.default_rng(seed)
    codes = random.integers(0, len(names), n_rows)
    values, vectors = np.linalg.eigh(structure.kernel_matrix())
    centres = vectors * np.sqrt(np.maximum(values, 0))
    X = centres[codes] + 0.4 * random.normal(size=(n_rows, len(names)))
    return X, names[codes]


def product_kernel_svmd(structure, X, y, gamma, eta, meta, decay, c):
    """Algorithm 2 with k((x, y), (x', y')) = k(x, x') kappa(y, y') (63), by O(t^2) sums."""
    kappa, delta = structure.kernel_matrix(), structure.distance_matrix()
    codes = structure.codes(y)
    points, alpha, beta = [], [], []  # a term is a pair (row, label)
    steps, predicted = [], []
    for x, label in zip(X, codes, strict=True):
        k = np.array([np.exp(-gamma * np.sum((x - z) ** 2)) for z, _ in points])
        columns = np.array([kappa[m] for _, m in points]).reshape(len(points), len(kappa))
        f, v = ((np.array(w) * k) @ columns for w in (alpha, beta))
        predicted.append(int(np.argmax(f)))
        ahead = delta[label] + f
        ahead[label] = -np.inf
        other = int(np.argmax(ahead))
        xi = np.zeros(len(kappa))
        if ahead[other] > f[label]:
            xi[other], xi[label] = 1.0, -1.0
        gram = np.array([
            [np.exp(-gamma * np.sum((p - q) ** 2)) * kappa[i, j] for q, j in points]
            for p, i in points
        ])  # fmt: skip
        pi = np.array(alpha) @ gram @ np.array(beta) if points else 0.0
        eta *= max(0.5, 1 - meta * (c * pi + xi @ v))  # (33), (45)
        steps.append(eta)
        beta = [(1 - eta * c) * decay * b - eta * c * a for a, b in zip(alpha, beta, strict=True)]
        alpha = [(1 - eta * c) * a for a in alpha]
        for m in np.flatnonzero(xi):
            points.append((x, int(m)))
            alpha.append(-eta * xi[m])
            beta.append(-eta * xi[m])
    return np.array(steps), np.array(structure.label_names())[predicted]


@pytest.mark.parametrize("structure", [ANIMALS, *STRUCTURES.values()], ids=["animals", *STRUCTURES])
def test_it_is_svmd_with_the_product_kernel(structure):
    X, y = stream(structure, 60)
    steps, predicted = product_kernel_svmd(structure, X, y, 0.3, 0.2, 0.05, 0.95, 0.01)
    model = ks.KernelClassifier(
        ks.kernels.RBF(0.3), label_structure=structure, regularization=0.01, budget=None,
        step_size=SMD(0.2, 0.05, 0.95, normalized=False),
    )  # fmt: skip
    result = ks.prequential(model, X, y)
    np.testing.assert_allclose(result.step_sizes, steps, rtol=1e-9)
    np.testing.assert_array_equal(result.predictions[1:], predicted[1:])


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("update", ["explicit", "implicit"])
@pytest.mark.parametrize("loss", ["hinge", "log_loss", "perceptron"])
def test_a_flat_tree_is_the_multiclass_learner(loss, update):
    """(16) is a special case of (25): every label a child of the root, edges of weight 1/2."""
    if (loss, update) == ("perceptron", "implicit"):
        return  # which has no implicit step
    flat = Taxonomy.from_parents([-1, 0, 0, 0, 0], names=["root", "a", "b", "c", "d"])
    X, y = stream(flat, 200)
    smd = SMD(0.1, 0.1, 0.99, highest=5, normalized=False)  # no step is cut at its curvature
    results = [
        ks.prequential(
            ks.KernelClassifier(label_structure=structure, loss=loss, update=update, step_size=smd),
            X, y,
        )
        for structure in (flat, LabelMatrix(["a", "b", "c", "d"]), None)
    ]  # fmt: skip
    for result in results[:2]:
        np.testing.assert_allclose(result.scores, results[2].scores, atol=1e-8)
        np.testing.assert_allclose(result.losses, results[2].losses, atol=1e-8)
        np.testing.assert_array_equal(result.predictions, results[2].predictions)


def test_labels_are_what_the_user_calls_them():
    X, y = stream(ANIMALS, 300)
    model = ks.KernelClassifier(label_structure=ANIMALS).partial_fit(X[:1], y[:1])
    assert model.classes_.tolist() == ["cat", "dog", "owl", "crow"]
    model.partial_fit(X, y)
    assert model.score(X, y) > 0.8
    assert model.predict_one(X[0]) == model.predict(X[:1])[0]
    model.learn_one(X[0], y[0])
    scores = model.decision_function(X)
    assert scores.shape == (300, 4)
    np.testing.assert_allclose(
        scores, model.kernel_(X, model.support_vectors_) @ model.dual_coef_.T + model.intercept_
    )
    best = model.top_k(X, 2)
    assert best.shape == (300, 2)
    np.testing.assert_array_equal(best[:, 0], model.predict(X))
    assert model.top_k_score(X, y, k=1) == model.score(X, y) <= model.top_k_score(X, y, k=2)
    assert model.top_k_score(X, y, k=4) == 1
    distance = ANIMALS.distances(y, model.predict(X)).mean()
    assert model.mean_distance(X, y) == distance < 2 * (1 - model.score(X, y))
    integers = LabelGraph.from_edges([(0, 1), (1, 2)])
    X, y = stream(integers, 50)
    assert ks.KernelClassifier(label_structure=integers).fit(X, y).predict(X).dtype.kind == "i"


def test_bad_labels_and_structures_are_refused_and_nothing_changes():
    X, y = stream(ANIMALS, 50)
    model = ks.KernelClassifier(label_structure=ANIMALS).partial_fit(X, y)
    before = model.to_bytes()
    with pytest.raises(ValueError, match="label 'cow' is unknown"):
        model.partial_fit(X[:3], ["cat", "cow", "dog"])
    with pytest.raises(ValueError, match=r"label 'pets' is unknown.*inner_nodes=True"):
        model.learn_one(X[0], "pets")
    with pytest.raises(ValueError, match="'cow' is unknown"):
        ks.KernelClassifier(label_structure=ANIMALS).partial_fit(X, y, classes=["cat", "cow"])
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(np.full((1, 4), np.nan), ["cat"])
    assert model.to_bytes() == before
    with pytest.raises(TypeError, match="label_structure='tree' is not one"):
        ks.KernelClassifier(label_structure="tree").partial_fit(X, y)
    with pytest.raises(ValueError, match="k=5 is out of range"):
        model.top_k(X, 5)
    with pytest.raises(ValueError, match=r"nu=0.1 does not go with loss='log_loss'"):
        ks.KernelClassifier(label_structure=ANIMALS, loss="log_loss", nu=0.1).fit(X, y)


def test_inner_nodes_are_labels_if_asked():
    tree = Taxonomy.from_nested({"pets": ["cat", "dog"], "birds": ["owl"]}, inner_nodes=True)
    random = np.random.default_rng(0)
    centres = {"cat": (1, 1), "dog": (1, -1), "pets": (1, 0), "owl": (-1, 0)}
    y = random.choice(list(centres), 400)
    X = np.array([centres[name] for name in y]) + 0.1 * random.normal(size=(400, 2))
    model = ks.KernelClassifier(label_structure=tree, gamma=2.0).fit(X, y)
    assert model.score(X, y) > 0.95
    assert "pets" in model.predict(X)


def test_nu_holds_with_margins_in_units_of_distance():
    X, y = stream(ANIMALS, 6000)
    model = ks.KernelClassifier(label_structure=ANIMALS, nu=0.3)
    result = ks.prequential(model, X, y)
    assert result.error_rate < 0.25
    assert (result.losses[3000:] > 0).mean() == pytest.approx(0.3, rel=0.15)


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("structure", [ANIMALS, *STRUCTURES.values()], ids=["animals", *STRUCTURES])
def test_a_structured_model_survives_files_and_pickles(tmp_path, structure):
    X, y = stream(structure, 120)
    model = ks.KernelClassifier(label_structure=structure, budget=20).partial_fit(X[:80], y[:80])
    model.save(tmp_path / "model.ks")
    for copy in (ks.load(tmp_path / "model.ks"), pickle.loads(pickle.dumps(model))):
        assert copy.label_structure == structure
        copy.partial_fit(X[80:], y[80:])
        np.testing.assert_array_equal(copy.classes_, model.classes_)
        expected = ks.load(tmp_path / "model.ks").partial_fit(X[80:], y[80:])
        assert copy.to_bytes() == expected.to_bytes()


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("preset", ["svmd", "norma", "ilk", "silk", "silk-md", "pa"])
def test_every_preset_takes_a_label_structure(preset):
    X, y = stream(ANIMALS, 300)
    model = ks.make(preset, "classifier", label_structure=ANIMALS)
    assert ks.prequential(model, X, y).errors[150:].mean() < 0.3


def test_many_labels_keep_a_few_coefficients_a_point():
    tree = Taxonomy.from_paths([f"{k % 5}/{k % 25}/{k}" for k in range(500)])
    names = np.array(tree.label_names())
    random = np.random.default_rng(0)
    codes = random.integers(0, len(names), 900)
    X = np.column_stack([np.sin(codes), np.cos(codes), np.sin(7 * codes)])
    model = ks.KernelClassifier(label_structure=tree, gamma=20.0, budget=300)
    result = ks.prequential(model, X, names[codes])
    assert model.machine_.state.expansion.coef.shape == (6, 2, 300)
    assert model.dual_coef_.shape == (500, 300)
    assert result.errors[600:].mean() < result.errors[:300].mean()
    np.testing.assert_allclose(
        model.decision_function(X[:50]),
        model.kernel_(X[:50], model.support_vectors_) @ model.dual_coef_.T, atol=1e-9,
    )  # fmt: skip


def test_flat_labels_that_are_many_do_so_too(tmp_path):
    random = np.random.default_rng(0)
    y = random.integers(0, 200, 600)
    X = np.column_stack([np.sin(y), np.cos(y), np.sin(5 * y)])
    model = ks.KernelClassifier(budget=100, gamma=5.0).partial_fit(X, y, classes=np.arange(200))
    assert model.machine_.state.expansion.coef.shape == (2, 2, 100)
    model.partial_fit(X[:2], [777, 778])  # late classes
    assert model.predict(X).shape == (600,)
    model.save(tmp_path / "m.ks")
    assert ks.load(tmp_path / "m.ks").to_bytes() == model.to_bytes()


def test_wipo_alpha_the_tree_lowers_error_and_tree_loss():
    """Section 6.4 with the paper's parameters: two passes, shuffled."""
    data = np.load(shared_file("wipo_alpha_d_lsa100.npz"))
    X = data["X"] / np.linalg.norm(data["X"], axis=1, keepdims=True)
    y = data["leaf_names"][data["y"]]
    tree = Taxonomy.from_parents(data["parent"], data["node_names"])
    order = np.tile(np.random.default_rng(0).permutation(len(X)), 2)
    found = {}
    for structure in (tree, None):
        model = ks.KernelClassifier(
            "linear", label_structure=structure, budget=1024, step_size=SMD(1.0, 0.1, 0.999),
            regularization=1 / len(X),
        )  # fmt: skip
        result = ks.prequential(model, X[order], y[order])
        tree_loss = tree.distances(y[order], result.predictions)
        first, second = tree_loss[: len(X)].mean(), tree_loss[len(X) :].mean()
        assert second < first
        found[structure] = tree_loss.mean(), result.error_rate
    assert found[tree][0] < found[None][0] - 0.05
    assert found[tree][1] < found[None][1]


def test_clinc150_after_one_pass():
    import csv
    import gzip

    from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

    with gzip.open(shared_file("clinc150.csv.gz"), "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    domains = json.loads(shared_file("clinc150_tree.json").read_text())["domains"]
    tree = Taxonomy.from_nested(domains)
    train = [row for row in rows if row["in_small_train"] == "1"]
    test = [row for row in rows if row["split"] == "test"]
    train = [train[i] for i in np.random.default_rng(0).permutation(len(train))]
    words = HashingVectorizer(ngram_range=(1, 2), alternate_sign=False, norm=None)
    weights = TfidfTransformer(sublinear_tf=True).fit(words.transform([r["text"] for r in train]))
    X, Z = (
        weights.transform(words.transform([row["text"] for row in part])) for part in (train, test)
    )
    y, z = (np.array([row["intent"] for row in part]) for part in (train, test))
    found = {}
    for structure in (tree, None):
        model = ks.make("pa", "classifier", kernel="linear", label_structure=structure, budget=None)
        result = ks.prequential(model, X, y)
        found[structure] = (
            model.score(Z, z), result.error_rate, tree.distances(y, result.predictions).mean(),
        )  # fmt: skip
        assert model.score(Z, z) > 0.87
    assert found[tree][0] > found[None][0]
    assert found[tree][2] < found[None][2]

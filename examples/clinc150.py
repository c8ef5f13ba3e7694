"""Classify a stream of short English requests, with the tree of their intents.

    python examples/clinc150.py FOLDER      # with clinc150.csv.gz and clinc150_tree.json
    python examples/clinc150.py             # help desk tickets that need no download

CLINC150 has 150 intents in 10 domains (Larson et al., EMNLP 2019, CC BY 3.0; data_full.json,
data_small.json and domains.json of the repository clinc/oos-eval). The columns of the CSV file are
text, intent, domain, split and in_small_train.

Words and pairs of words are hashed, so that no vocabulary is needed, and weighted by how rare they
have been so far. Every batch of the stream is predicted once and then learned once. A confusion
within a domain counts half as much as one across domains, for the learner and in the figures.
"""

import csv
import gzip
import json
import sys
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.preprocessing import normalize

import kernelstream as ks

BLOCK = 100
words = HashingVectorizer(n_features=2**18, ngram_range=(1, 2), alternate_sign=False, norm=None)


class RunningIdf:
    """Weights words by the logarithm of how rare they have been so far."""

    def __init__(self):
        self.n_texts, self.n_texts_with = 0, np.zeros(words.n_features)

    def learn(self, counts):
        self.n_texts += counts.shape[0]
        self.n_texts_with += np.bincount(counts.indices, minlength=len(self.n_texts_with))
        return self

    def transform(self, counts):
        rarity = 1 + np.log((1 + self.n_texts) / (1 + self.n_texts_with))
        weighted = sparse.csr_matrix(counts, copy=True)
        weighted.data = (1 + np.log(weighted.data)) * rarity[weighted.indices]
        return normalize(weighted)


def clinc150(folder):
    """The small training set in random order, the test set, and the tree."""
    with gzip.open(folder / "clinc150.csv.gz", "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    train = [row for row in rows if row["in_small_train"] == "1"]
    train = [train[i] for i in np.random.default_rng(0).permutation(len(train))]
    test = [row for row in rows if row["split"] == "test"]
    tree = json.loads((folder / "clinc150_tree.json").read_text())["domains"]
    return (
        *([row["text"] for row in train], np.array([row["intent"] for row in train])),
        *([row["text"] for row in test], np.array([row["intent"] for row in test])),
        ks.label_kernels.Taxonomy.from_nested(tree),
    )


def tickets():
    texts, labels = ks.streams.tickets(3000)
    tree = ks.label_kernels.Taxonomy.from_paths(labels)
    return texts[:2000], labels[:2000], texts[2000:], labels[2000:], tree


def main(folder=None):
    texts, labels, test_texts, test_labels, tree = clinc150(folder) if folder else tickets()
    idf = RunningIdf()
    model = ks.make("pa", "classifier", kernel="linear", label_structure=tree, budget=None)
    wrong, distance = [], []
    for start in range(0, len(texts), BLOCK):
        counts = words.transform(texts[start : start + BLOCK])
        X, y = idf.learn(counts).transform(counts), labels[start : start + BLOCK]
        result = ks.prequential(model, X, y)
        wrong.extend(result.errors)
        distance.extend(tree.distances(y, result.predictions))
        if (start // BLOCK + 1) % 15 == 0:
            print(
                f"{start + len(y):6,} requests: error {np.mean(wrong):6.1%}, "
                f"of the last 1,000 {np.mean(wrong[-1000:]):6.1%}; "
                f"tree loss {np.mean(distance):.3f}, of the last 1,000 "
                f"{np.mean(distance[-1000:]):.3f}; {model.n_support_:,} support vectors"
            )
    X = idf.transform(words.transform(test_texts))
    print(
        f"\n{len(test_texts):,} new requests: {model.score(X, test_labels):.1%} right, "
        f"{model.top_k_score(X, test_labels, k=3):.1%} among the best three, "
        f"tree loss {model.mean_distance(X, test_labels):.3f}"
    )
    questions = test_texts[:: max(1, len(test_texts) // 4)][:4]
    for text, best in zip(
        questions, model.top_k(idf.transform(words.transform(questions)), 2), strict=True
    ):
        print(f"  {text!r}: {best[0]}, or {best[1]}")
    return model.score(X, test_labels)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)

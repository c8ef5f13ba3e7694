"""A small stream, and a model that is quick to compile."""

import numpy as np

import kernelstream as ks
from kernelstream.serve import Block

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(600, 3))
Y = (X @ [1.0, -2.0, 0.5] > 0).astype(int).tolist()
IDS = [f"row-{i}" for i in range(len(X))]


def new_model():
    return ks.make("linear-pa", "classifier")


def rows(start, stop, ids=True):
    return Block(X[start:stop], Y[start:stop], IDS[start:stop] if ids else None)


def learned_at_once(n_rows=600):
    """The model that learned the first rows, each once, in order."""
    model = new_model()
    ks.prequential(model, X[:n_rows], Y[:n_rows], declare_classes=False)
    return model


def same_model(a, b):
    return a.n_seen_ == b.n_seen_ and np.allclose(a.coef_, b.coef_, rtol=0, atol=1e-9)


def where(served, ids):
    """Which of these ids are those of rows that wait, and which of rows that were learned."""
    waiting, _, learned = served.waiting(ids)
    return waiting, learned


def learn_targets(served, ids, targets):
    """Queue rows that wait, with their targets."""
    waiting, block, _ = served.waiting(ids)
    assert len(waiting) == len(ids)
    return served.submit(block._replace(targets=targets))

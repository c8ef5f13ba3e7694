"""Which methods of a class the reference shows: those that are made for its readers."""

import importlib
import inspect

from kernelstream.estimators import StreamEstimator
from kernelstream.parts import Part

# What a program calls on an estimator; all else serves fleets, files and services.
OF_ESTIMATORS = {
    "decision_function", "finish", "fit", "learn_labels", "learn_one", "mean_distance",
    "partial_fit", "predict", "predict_one", "predict_proba", "save", "score_one",
    "score_samples", "to_bytes", "top_k", "top_k_score",
}  # fmt: skip
# What a program calls on a label structure.
OF_PARTS = {"distance_matrix", "distances", "kernel_matrix", "label_names"}
# What fleets, stores and services ask of each other.
OF_FLEETS_AMONG_THEMSELVES = {
    "adopt", "alike", "as_records", "chunks", "decoded", "described", "empty_fleet", "estimator_of",
    "kind", "known", "leading", "learn_rows", "packed", "put", "readable", "rebuild", "scored",
    "skips_bad_rows", "take_over", "target_check", "unpacked",
}  # fmt: skip


def is_for_authors(cls):
    """Whether other classes of the package are made of it: then all of it is shown."""
    return bool(cls.__subclasses__()) and (cls is Part or cls.__base__ is Part)


def members_of(fullname):
    """The names of the methods and properties of a class, by its full name."""
    module, _, name = fullname.rpartition(".")
    cls = getattr(importlib.import_module(module), name)
    ours = [base for base in cls.__mro__ if base.__module__.startswith("kernelstream")]
    found = {
        key
        for base in ours
        for key, value in vars(base).items()
        if not key.startswith("_")
        if isinstance(value, property) or inspect.isroutine(getattr(cls, key, None))
        if inspect.getdoc(getattr(cls, key))
    }
    if issubclass(cls, StreamEstimator) and cls is not StreamEstimator:
        found = {key for key in found if key in OF_ESTIMATORS or key.endswith("_")}
    elif not issubclass(cls, Part):
        found -= OF_FLEETS_AMONG_THEMSELVES
    elif not is_for_authors(cls):
        inherited = {key for base in ours[1:] for key in vars(base)}
        found -= inherited - OF_PARTS
    return sorted(found)


def setup(app):
    app.config.autosummary_context["members_of"] = members_of
    return {"parallel_read_safe": True}

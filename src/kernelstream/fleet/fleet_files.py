"""A fleet as the header and the arrays of a file, and back."""

from typing import Any

import numpy as np

from kernelstream.estimators.files import RECORDS, labels_from_header
from kernelstream.files.bytes import FileError, check_versions
from kernelstream.files.parts import params_to_json
from kernelstream.fleet.records import Models

__all__ = ["described", "fill_from_file", "labels_of_file"]

_VERSION = 2  # of what a file keeps of a fleet


def described(fleet: Any, beside: dict[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header and the arrays of the file that `Fleet.save` writes."""
    models, labels = fleet.known()
    with models.gate:
        models = models.select(slice(None))
    arrays = {name: models.view(name) for name in models.layout.remembered}
    arrays["points"] = models.points
    header = {
        **beside,
        "class": "Fleet",
        "preset": fleet.preset,
        "task": fleet.task,
        "params": params_to_json(fleet.params, arrays),
        "n_models": len(models),
        "n_features": fleet.n_features,
        "feature_names": fleet.feature_names_,
        "dtype": fleet.dtype.name,
        "labels": None if labels is None else labels.to_json(),
        "n_skipped": fleet.n_skipped_,
        "fleet_versions": _versions(models, labels),
    }
    return header, arrays


def labels_of_file(header: dict[str, Any], structure: Any, max_bytes: int | None) -> Any:
    """Return the labels of a file; None for tasks without labels."""
    labels = labels_from_header(header, structure, max_bytes)
    if (labels is None) == (header["task"] == "classifier"):
        raise FileError(f"the file has the labels {header['labels']!r}.")
    return labels


def _versions(models: Models, labels: Any) -> dict[str, int]:
    """Return the version of each record of a fleet's file."""
    found = {"Fleet": _VERSION, **models.machine.versions()}
    return found if labels is None else {**found, "labels": RECORDS["labels"]}


def fill_from_file(
    models: Models, labels: Any, header: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    """Write the arrays of a file into untrained models, and check every number."""
    check_versions(header["fleet_versions"], _versions(models, labels))
    places = [(name, models.view(name)) for name in models.layout.remembered]
    for name, array in [*places, ("points", models.points)]:
        if arrays[name].shape != array.shape or arrays[name].dtype != array.dtype:
            raise FileError(f"the array {name!r} is not one of such a fleet.")
        array[...] = arrays[name]
    models.check()

"""Parameters and parts as JSON. A file can name the registered parts and nothing else."""

from typing import Any

import numpy as np

from kernelstream.files.bytes import FileError, check_version
from kernelstream.parts import Part, named

__all__ = ["SAVEABLE", "from_json", "params_to_json", "to_json"]

_FUNCTION = "a function"
SAVEABLE: dict[str, Any] = {}  # the estimators that a file can name, by name


def params_to_json(params: dict[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return an estimator's parameters as JSON; arrays that they hold join `arrays`."""
    if callable(params.get("on_bad_row")):  # a file holds no code
        params = {**params, "on_bad_row": "skip"}
    params = {name: value for name, value in params.items() if name != "device"}  # see `load`
    return {name: to_json(value, arrays) for name, value in params.items()}


def to_json(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Return `value` as JSON; arrays in it are added to `arrays`."""
    if isinstance(value, Part):
        params = value.get_params(deep=False)
        return {
            "part": type(value).__name__,
            "version": value.version,
            "params": {k: to_json(v, arrays) for k, v in params.items()},
        }
    if SAVEABLE.get(type(value).__name__) is type(value):  # a member of a committee
        params = params_to_json(value.get_params(deep=False), arrays)
        return {"estimator": type(value).__name__, "version": value.version, "params": params}
    if isinstance(value, dict):
        return {"dict": [[_key(k), to_json(v, arrays)] for k, v in value.items()]}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in "fi":
        name = f"parameter {len(arrays)}"
        arrays[name] = value.astype(float if value.dtype.kind == "f" else np.int64)
        return {"array": name}
    if isinstance(value, tuple | list | np.ndarray):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [to_json(v, arrays) for v in value]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if callable(value):
        return {"part": _FUNCTION}
    raise TypeError(f"{value!r} cannot be saved: use numbers, names and parts as parameters.")


def _key(key: Any) -> Any:
    key = key.item() if isinstance(key, np.generic) else key
    return key if isinstance(key, bool | int | float | str) else str(key)


def from_json(value: Any, arrays: dict[str, np.ndarray], kernel: Any) -> Any:
    """Return the part that `to_json` described; `kernel` replaces a function."""
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]].copy()
    for kind, make in (("tuple", tuple), ("list", list)):
        if kind in value:
            return make(from_json(v, arrays, kernel) for v in value[kind])
    if "dict" in value:
        return {k: from_json(v, arrays, kernel) for k, v in value["dict"]}
    if "estimator" in value:
        cls = SAVEABLE.get(value["estimator"])
        if cls is None:
            raise FileError(f"the file names {value['estimator']!r}, which is unknown here.")
        check_version(value["estimator"], value["version"], cls.version)
        return cls(**{k: from_json(v, arrays, kernel) for k, v in value["params"].items()})
    if value["part"] == _FUNCTION:
        if kernel is None:
            raise FileError(
                "this model has a function as its kernel, which a file cannot hold: "
                "load(path, kernel=the_function)."
            )
        return kernel
    part = named(value["part"])
    if part is None:
        raise FileError(f"the file names the part {value['part']!r}, unknown here.")
    check_version(value["part"], value["version"], part.version)
    return part(**{k: from_json(v, arrays, kernel) for k, v in value["params"].items()})

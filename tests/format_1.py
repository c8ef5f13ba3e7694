"""Files as the first versions wrote them."""

import numpy as np

from kernelstream.files import bytes as file_bytes

_MOVED = {
    "row_cache": "numbers",
    "expansion.outputs.output": "expansion.output",
    "expansion.births.born": "expansion.born",
    "drift.log_level": "step_size.log_level",
    "drift.score": "step_size.drift",
    "gram.gram": "budget.gram",
    "budget.contests": "budget.replaced",
    **{f"expansion.average.{n}": f"expansion.{n}" for n in ("past", "p_sum", "b_sum")},
    "expansion.average.margin_sum": "expansion.margin_sum",
}


def arrays_and_header(model):
    """The header of a model, and its arrays under the names of format 1."""
    header, arrays = file_bytes.from_bytes(model.to_bytes())
    header.pop("format_version")
    coef = arrays.pop("expansion.coef")
    old = {
        "expansion.b": np.empty((0, 0)),
        "expansion.output": np.empty((0, 0), np.int64),
        "budget.gram": np.empty((0, 0)),
        "budget.replaced": np.zeros(1, np.int64),
        **{_MOVED.get(name, name): array for name, array in arrays.items()},
        "expansion.a": coef[:, 0],
    }
    if coef.shape[1] > 1:
        old["expansion.b"] = coef[:, 1]
    return header, old


def written(header, arrays, monkeypatch):
    """The content of a file of format 1."""
    with monkeypatch.context() as patch:
        patch.setattr(file_bytes, "FORMAT_VERSION", 1)
        return file_bytes.to_bytes(header, arrays)

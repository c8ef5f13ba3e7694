"""Files of format 1, in which one record held the arrays of all budgets, updates and step sizes."""

import numpy as np

from kernelstream.expansion.scoring import sum_from_births
from kernelstream.learner.machine import Machine
from kernelstream.learner.state import State, fields, only_nonzeros

__all__ = ["fill", "modernised"]

# Where arrays of format 1 are now. Those of a part that the model does not have were empty, or are
# of no use to it; they are left where they are, and nobody asks for them.
_MOVED = {
    "expansion.output": "expansion.outputs.output",
    "expansion.past": "expansion.average.past",
    "expansion.p_sum": "expansion.average.p_sum",
    "expansion.b_sum": "expansion.average.b_sum",
    "expansion.margin_sum": "expansion.average.margin_sum",
    "step_size.log_level": "drift.log_level",
    "step_size.drift": "drift.score",
    "step_size.n_capped": "update.n_capped",
}


def modernised(arrays: dict[str, np.ndarray], declared: State) -> dict[str, np.ndarray]:
    """The arrays of a file of format 1 under the names that they have now.

    `declared` is the state of a model of the same parts. The arrays may have an axis in front, of
    many models.
    """
    found = {_MOVED.get(name, name): array for name, array in arrays.items()}
    found.update({f"update{name[4:]}": a for name, a in arrays.items() if name.startswith("dual.")})
    a, b = arrays["expansion.a"], arrays["expansion.b"]
    found["expansion.coef"] = np.stack([a, b] if b.size else [a], axis=-2)
    found["gram.gram"] = arrays["budget.gram"]  # asked for where norms are corrected
    found["budget.contests"] = arrays["budget.replaced"]  # and where points compete
    if "expansion.born" in arrays:
        found["expansion.births.born"] = found["budget.born"] = arrays["expansion.born"]
    if "expansion.lost" in arrays:  # was kept over the scalar of the decay
        found["budget.lost"] = arrays["expansion.lost"] * arrays["expansion.scale"][..., :1]
    later = {name for name, field in fields(declared) if field.later}
    return {name: array for name, array in found.items() if array.size or name not in later}


def few_of_many(arrays: dict[str, np.ndarray], n_lines: int) -> dict[str, np.ndarray]:
    """Arrays of a model whose many classes came with the stream, and which had a line for each."""
    coef, past, output = only_nonzeros(
        arrays["expansion.coef"], arrays.get("expansion.average.past"), n_lines
    )
    found = {**arrays, "expansion.coef": coef, "expansion.outputs.output": output}
    return found if past is None else {**found, "expansion.average.past": past}


def fill(machine: Machine, arrays: dict[str, np.ndarray]) -> None:
    """Let a machine take over the arrays of a file of format 1."""
    arrays = modernised(arrays, machine.declared)
    names = {name for name, _ in fields(machine.declared)}
    output = arrays.get("expansion.outputs.output")
    if "expansion.outputs.output" in names and (output is None or not output.size):
        arrays = few_of_many(arrays, machine.sizes()["lines"])
    machine.fill(arrays)
    if "expansion.average.past" in names and "expansion.average.past" not in arrays:
        # an averaged perceptron, from before the sum was kept
        sum_from_births(machine.state.expansion, arrays["expansion.births.born"])

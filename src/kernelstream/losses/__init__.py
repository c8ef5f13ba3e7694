"""How wrong is this score, and which way is better?

A loss is a rule (see `kernelstream.parts`): it knows scores, the target and the margin, never x.

=====================  ==========================================================================
``value``              l(scores, y)
``gradient``           writes xi = dl/dscores, returns whether the row violates the margin
``is_curved``          whether the second derivative is anything but zero
``curvature``          writes (d2l/dscores2) direction, returns a bound on its largest eigenvalue
``margin_direction``   which way a violation moves an adaptive margin: -1, +1, or 0 (no margin)
=====================  ==========================================================================

Class attributes say where it belongs: ``name`` and ``task`` (what a user asks for),
``single_output`` (one score, or one a label), ``accepts_nu`` (whether the margin may adapt).
At a kink a loss takes the one-sided derivative that its docstring names.

A new loss is one new file in this folder: it is found by itself, here and in the contract tests.
"""

import importlib
import pkgutil
from typing import Any

__all__ = ["all_losses", "find", "names"]


def _discover() -> list[type]:
    found = []
    for module_info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        for candidate in vars(module).values():
            own = isinstance(candidate, type) and candidate.__module__ == module.__name__
            if own and issubclass(candidate, tuple) and "gradient" in vars(candidate):
                found.append(candidate)
    return found


_LOSSES = _discover()


def all_losses() -> list[type]:
    """Every loss rule of the package."""
    return list(_LOSSES)


def names(task: str) -> list[str]:
    """The names that a user can ask for, for a task."""
    return sorted({loss.name for loss in _LOSSES if loss.task == task})  # type: ignore[attr-defined]


def find(task: str, name: str, single_output: bool) -> Any:
    """The loss rule of a task by name, for models with one output or with one a label."""
    for loss in _LOSSES:
        if (loss.task, loss.name, loss.single_output) == (task, name, single_output):  # type: ignore[attr-defined]
            return loss()
    raise LookupError(f"no loss {name!r} for {task} (single_output={single_output})")

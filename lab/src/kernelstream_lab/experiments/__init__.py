"""The experiments of the papers, one file each.

An experiment is a function that takes a `Setting` (data, seed, full or quick run) and returns an
`Outcome` (series, table, checks, notes). Its decorator `experiment` describes it and says how its
series are drawn. It is found automatically, here, on the command line and in the tests, by the name
of its file: ``kernelstream reproduce svmd-switch`` runs ``svmd_switch.py``.

>>> from kernelstream_lab import experiments
>>> outcome = experiments.find("ilk-drift").run(quick=True)
>>> outcome.rows[0].quantity
'ILK, mistakes in 2,000 rows'
"""

import importlib
import pkgutil

from kernelstream_lab.experiments.outcome import Check, Outcome, Row
from kernelstream_lab.experiments.registry import (
    Experiment,
    all_experiments,
    experiment,
    find,
    names,
)
from kernelstream_lab.experiments.setting import Setting

__all__ = [
    "Check", "Experiment", "Outcome", "Row", "Setting", "all_experiments", "experiment", "find",
    "names",
]  # fmt: skip

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

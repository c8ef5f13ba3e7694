"""Keyed streams past one machine, on Apache Spark: ``pip install 'kernelstream[spark]'``.

Spark's Python costs about a millisecond per group, so that keys are learned in *blocks*: the key's
hash says to which of (say) 64 blocks it belongs, and each block is one `KeyedFleet`, packed as
bytes in one *cell*. Every model is, bit for bit, that of a `KeyedFleet` in one process. A table of
models has two columns, ``block`` and ``cell``; it can be written and read like any other as
Parquet. Kernelstream must be installed on all machines of the cluster.

Needs PySpark 4 and Java 17. See docs/scale.md.
"""

from kernelstream.spark.models import checkpoint_models, reshard, save_models, to_fleet
from kernelstream.spark.needs import session
from kernelstream.spark.streaming import learn_stream
from kernelstream.spark.tables import fit_average, fit_keys, predict

__all__ = [
    "checkpoint_models", "fit_average", "fit_keys", "learn_stream", "predict", "reshard",
    "save_models", "session", "to_fleet",
]  # fmt: skip

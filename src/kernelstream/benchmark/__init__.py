"""The public benchmark: many learners on the same streams, each row predicted, then learned.

Its streams are generated, or come inside scikit-learn and River: nothing is downloaded. Those of
the half "choosing" are there to choose methods and constants by; those of the half "reporting" are
only reported (docs/benchmarks.md).
"""

from kernelstream.benchmark.contestants import CONTESTANTS, Contestant
from kernelstream.benchmark.report import write_report
from kernelstream.benchmark.run import Result, measure, run_all
from kernelstream.benchmark.streams import STREAMS, TASKS, Stream

__all__ = [
    "CONTESTANTS",
    "STREAMS",
    "TASKS",
    "Contestant",
    "Result",
    "Stream",
    "measure",
    "run_all",
    "write_report",
]

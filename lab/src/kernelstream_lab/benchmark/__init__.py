"""The public benchmark: many learners on the same streams, each row predicted, then learned.

Its streams are generated, or come inside scikit-learn and River: nothing is downloaded. Those of
the half "choosing" are there to choose methods and constants by; those of the half "reporting" are
only reported (docs/benchmarks.md).
"""

from kernelstream_lab.benchmark.contestants import CONTESTANTS, Contestant
from kernelstream_lab.benchmark.report import write_report
from kernelstream_lab.benchmark.run import Result, measure, run_all
from kernelstream_lab.benchmark.streams import STREAMS, TASKS, Stream

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

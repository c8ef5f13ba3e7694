"""Numbers of blocks that Spark spreads evenly over its partitions.

Spark puts a row with the group key b into the partition ``pmod(murmur3(b), partitions)``. With the
block numbers 0 to 63, 27 of 64 partitions stay empty, and others have several blocks. So block i
gets the smallest number whose hash is i modulo the number of blocks. Then every partition has
equally many blocks, for any number of partitions that divides the number of blocks.
"""

import logging
import warnings
from functools import lru_cache
from typing import Any

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as fn
from pyspark.sql.streaming.listener import StreamingQueryListener

from kernelstream.parts import integer_at_least

__all__ = [
    "PARTITIONS",
    "block_numbers",
    "index_of",
    "numbered",
    "partitions_for",
    "set_partitions",
]

PARTITIONS = "spark.sql.shuffle.partitions"
_SPARKS_DEFAULT = 200
_LOG = logging.getLogger("kernelstream")
_AT_A_TIME = 4  # candidates for each block, in one pass


def _hashes(numbers: np.ndarray) -> np.ndarray:
    """Return Spark's hash of 32-bit integers: murmur3 with the seed 42."""
    with np.errstate(over="ignore"):
        k = numbers.astype(np.uint32) * np.uint32(0xCC9E2D51)
        k = (k << np.uint32(15)) | (k >> np.uint32(17))
        h = np.uint32(42) ^ (k * np.uint32(0x1B873593))
        h = (h << np.uint32(13)) | (h >> np.uint32(19))
        h = h * np.uint32(5) + np.uint32(0xE6546B64)
        h ^= np.uint32(4)  # bytes
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
            h = (h ^ (h >> np.uint32(shift))) * np.uint32(factor)
        return (h ^ (h >> np.uint32(16))).view(np.int32)


@lru_cache(maxsize=64)
def block_numbers(blocks: int) -> tuple[int, ...]:
    """Return a number for each block, whose hash is the block's index modulo `blocks`."""
    found = np.full(blocks, -1, np.int64)
    start = 0
    while (found < 0).any():
        numbers = np.arange(start, start + _AT_A_TIME * blocks)
        start += len(numbers)
        indices, first = np.unique(_hashes(numbers) % blocks, return_index=True)
        new = found[indices] < 0
        found[indices[new]] = numbers[first[new]]
    return tuple(found.tolist())


def _array(blocks: int) -> Column:
    text = ",".join(map(str, block_numbers(blocks)))
    return fn.expr(f"cast(split('{text}', ',') as array<int>)")  # which Spark computes once


def numbered(index: Column, blocks: int) -> Column:
    """Return the block's number as a column, from its index."""
    return fn.element_at(_array(blocks), index.cast("int") + fn.lit(1))


def index_of(number: Column, blocks: int) -> Column:
    """Return the block's index as a column, from its number."""
    return (fn.array_position(_array(blocks), number) - fn.lit(1)).cast("int")


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def partitions_for(spark: Any, blocks: int) -> int:
    """Return into how many partitions a table at rest with so many blocks is shuffled."""
    most = min(blocks, int(spark.conf.get(PARTITIONS, str(_SPARKS_DEFAULT)) or _SPARKS_DEFAULT))
    best = max(d for d in _divisors(blocks) if d <= most)
    return best if 2 * best >= most else most


def set_partitions(spark: Any, blocks: int, partitions: Any) -> int:
    """Set the number of shuffle partitions of a session's streams, and return it.

    Without a number from the user, that of the session counts, if the session does not have Spark's
    default of 200 and every partition gets equally many blocks. Otherwise there are as many
    partitions as cores, or a few more, so that each has equally many blocks.
    """
    if partitions is None:
        there = int(spark.conf.get(PARTITIONS, str(_SPARKS_DEFAULT)) or _SPARKS_DEFAULT)
        if there != _SPARKS_DEFAULT and blocks % there == 0:
            return there
        cores = max(int(spark.sparkContext.defaultParallelism), 1)
        partitions = min((d for d in _divisors(blocks) if d >= cores), default=blocks)
    partitions = integer_at_least("partitions", partitions, 1)
    if blocks % partitions:
        warnings.warn(
            f"partitions={partitions} does not divide blocks={blocks}: some partitions have more "
            "blocks than others, or none. Choose blocks as a multiple of partitions.",
            stacklevel=3,
        )
    spark.conf.set(PARTITIONS, str(partitions))
    return partitions


class _PartitionWatch(StreamingQueryListener):
    """Warns, once for each query, of a checkpoint that keeps another number of partitions."""

    def __init__(self) -> None:
        self.wanted: set[int] = set()  # of the queries of this session
        self._warned: set[str] = set()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Do nothing: the number is known after the first batch."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Compare the number of partitions of the state with those that were asked for."""
        progress = event.progress
        for operator in progress.stateOperators:
            there = int(operator.numShufflePartitions)
            is_ours = operator.operatorName.startswith("transformWithState")
            if is_ours and there not in self.wanted and str(progress.id) not in self._warned:
                self._warned.add(str(progress.id))
                _LOG.warning(
                    "the checkpoint of query %s has %d shuffle partitions, which it keeps, and "
                    "learn_stream asked for %s: start it with partitions=%d, or with a new "
                    "checkpoint and models=checkpoint_models(spark, the old one).",
                    progress.name or progress.id, there,
                    " or ".join(map(str, sorted(self.wanted))), there,
                )  # fmt: skip

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Do nothing."""


_WATCHES: dict[str, _PartitionWatch] = {}  # by session


def watch_partitions(spark: Any, partitions: int) -> None:
    """Warn if a query of this session has a checkpoint with another number of partitions."""
    session = f"{spark.sparkContext.applicationId} {spark.sparkContext.startTime}"
    if session not in _WATCHES:
        _WATCHES[session] = _PartitionWatch()
        spark.streams.addListener(_WATCHES[session])
    _WATCHES[session].wanted.add(partitions)

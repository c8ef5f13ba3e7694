"""Sparse rows of LIBSVM text."""

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any, TextIO

import numpy as np
from scipy import sparse

from kernelstream.tables.blocks import BLOCK_CHARACTERS, Block
from kernelstream.tables.text import SourceError, numbered_lines, open_text

__all__ = ["read_libsvm"]

_LARGEST_INDEX = 2**31 - 1  # sparse rows have 32-bit indices
_MOST_FEATURES = 2**20  # where nobody has said how many there are: a model has a weight for each


def read_libsvm(source: str, block_rows: int, n_features: int | None) -> Iterator[Block]:
    """Read lines ``label index:value ...``, with indices from 1. The label is optional."""
    with open_text(source) as file:
        lines = _libsvm_lines(file, source)
        empty = True
        while True:
            labels: list[Any] = []
            entries: list[dict[int, float]] = []
            places, broken, length = [], {}, 0
            for number, words in islice(lines, block_rows):
                length += sum(map(len, words))
                labels.append("" if ":" in words[0] else words.pop(0))
                values, problem = _libsvm_values(words, n_features)
                if problem is not None:
                    broken[len(entries)] = problem
                entries.append(values)
                places.append(f"line {number}")
                if length > BLOCK_CHARACTERS:
                    break
            if not entries:
                return
            empty = empty and not any(entries) and not broken
            if empty:
                raise SourceError(f"{source}: there is no index:value in it: is it LIBSVM text?")
            width = n_features or 1 + max(max(row, default=0) for row in entries)
            rows = sparse.csr_array(
                (
                    np.array([value for row in entries for value in row.values()], dtype=float),
                    np.array([index for row in entries for index in row], dtype=np.int32),
                    np.cumsum([0, *map(len, entries)]),
                ),
                shape=(len(entries), width),
            )
            yield Block([], rows, labels, places, broken)


def _libsvm_lines(file: TextIO, source: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the words of every line that is not blank, with the line number."""
    for number, line in numbered_lines(file, source):
        words = line.split("#")[0].split()
        if words:
            yield number, words


def _libsvm_values(words: list[str], n_features: int | None) -> tuple[dict[int, float], str | None]:
    """Return values by index, from 0, and None; or no values and the problem of the line."""
    values: dict[int, float] = {}
    for word in words:
        try:
            index_text, value_text = word.split(":")
            index, value = int(index_text), float(value_text)
        except ValueError:
            return {}, f"{word!r} is not index:value"
        if index < 1:
            return {}, f"{word!r} has the index {index}: indices count from 1"
        if index > _LARGEST_INDEX:
            return {}, f"{word!r} has an index above {_LARGEST_INDEX}: number the features anew"
        if n_features is not None and index > n_features:
            return {}, f"it has a feature {index}, of {n_features} (see --features)"
        if n_features is None and index > _MOST_FEATURES:
            return {}, (
                f"it has a feature {index:,}, beyond the {_MOST_FEATURES:,} that a model has room "
                f"for: number or hash the features anew, or allow more by --features {index}"
            )
        if not math.isfinite(value):
            return {}, f"{word!r} has a value that is not a finite number"
        values[index - 1] = value
    return values, None

"""Modules that cannot be imported without a package that not everybody needs."""

from importlib.util import find_spec

_OF_SPARK = ["src/kernelstream/spark/*", "tests/spark/driver.py"]

collect_ignore_glob = [] if find_spec("pyspark") else _OF_SPARK

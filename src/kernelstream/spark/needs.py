"""What Spark needs: Java, PySpark and their friends."""

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["session"]

_MODULES = {"pyspark": "PySpark", "pandas": "pandas", "pyarrow": "PyArrow",
            "google.protobuf": "protobuf"}  # fmt: skip
# The state of a stream lies in RocksDB; of a batch only what changed is written.
_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass":
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}  # fmt: skip


def require_modules() -> None:
    """Refuse to go on without PySpark, and name what is missing."""
    for module, name in _MODULES.items():
        try:
            found = find_spec(module)
        except ModuleNotFoundError:  # of the package around it
            found = None
        if found is None:
            raise ModuleNotFoundError(
                f"kernelstream.spark needs {name}: pip install 'kernelstream[spark]'", name=module
            )


def require_java() -> None:
    """Refuse to go on without Java, which Spark runs on."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME={home} has no bin/java" if home else "there is no java on the PATH"
        raise RuntimeError(
            f"Spark needs Java 17, and {where}: install it (on Debian, apt-get install "
            "openjdk-17-jre-headless), or set JAVA_HOME."
        )


require_modules()


def session(master: str | None = None, **settings: Any) -> Any:
    """Return a Spark session whose Python is this one and whose state store is RocksDB.

    Any other session does as well: `learn_stream` sets the state store where nobody has.

    Parameters
    ----------
    master : str, default=None
        Such as "local[2]". None: as Spark is configured.
    **settings
        Of Spark, with ``__`` for a dot: ``spark__sql__shuffle__partitions=8``.

    Returns
    -------
    pyspark.sql.SparkSession

    Raises
    ------
    RuntimeError
        If there is no Java.

    Examples
    --------
    >>> from kernelstream import spark as kspark  # doctest: +SKIP
    >>> spark = kspark.session("local[2]")  # doctest: +SKIP
    """
    require_java()
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder
    if master is not None:
        builder = builder.master(master)
    dotted = {name.replace("__", "."): str(value) for name, value in settings.items()}
    for name, value in {**_SETTINGS, **dotted}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def prepare_state_store(spark: Any) -> None:
    """Choose RocksDB for the state of streams, unless the session has chosen for itself."""
    for name, value in _SETTINGS.items():
        if "rocksdb" in name or "RocksDB" not in spark.conf.get(name, ""):
            spark.conf.set(name, value)

"""Where models go that have been idle for long, and come back from: one SQLite file."""

import json
import shutil
import sqlite3
import threading
import uuid
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kernelstream.files.bytes import FileError, beside, check_version
from kernelstream.fleet.keys import from_text, to_text
from kernelstream.parts import integer_at_least

__all__ = ["ModelStore"]

_APPLICATION = 0x4B535452  # "KSTR"
_VERSION = 1
_FOR_EVER = 2**62
_AT_A_TIME = 500  # keys in a question, models in an answer
_SCHEMA = """
CREATE TABLE about (state TEXT NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE models (
    key TEXT NOT NULL, since INTEGER NOT NULL, until INTEGER NOT NULL, record INTEGER NOT NULL,
    checksum INTEGER NOT NULL, PRIMARY KEY (key, since)) WITHOUT ROWID;
CREATE TABLE records (id INTEGER PRIMARY KEY, content BLOB NOT NULL);
CREATE INDEX closed ON models (until) WHERE until < 4611686018427387904;
"""


class About(NamedTuple):
    """What a store knows of itself."""

    id: str
    kind: str | None = None  # of the models, which are all of one kind
    serial: int = 0  # how many transactions there were
    marks: tuple[int, ...] = ()  # where fleets stood whose files were written, the last ones
    pending: tuple[int, ...] = ()  # where others stood whose files may not be written yet
    n_models: int = 0
    n_records: int = 0  # the largest number of a record
    total: int = 0  # the sum of what `_digest` says of every line of `models`


class ModelStore:
    """A file of models that a `KeyedFleet` has moved out of memory.

    It is an SQLite database in WAL mode. A block of rows makes one transaction, so that a crash at
    any moment leaves the store as it was after some block. A model that comes back stays in the
    store, as an older version, as long as a saved fleet may need it: after a crash a fleet is
    loaded from its last checkpoint, and `KeyedFleet.attach` puts the store back to that moment.

    Every model has a checksum. Keys are checked when the store is opened, so that a changed bit is
    a `FileError`, and never a model that seems to be new.

    Parameters
    ----------
    path : str or path-like
        The file; it is made where there is none. One process holds it at a time.
    keep : int, default=8
        To how many of the last times that its fleet was saved the store can be put back. It should
        be more than a `Checkpointer` keeps.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import kernelstream as ks
    >>> store = ks.ModelStore(pathlib.Path(tempfile.mkdtemp()) / "models.db")
    >>> fleet = ks.KeyedFleet("svmd", "regressor", budget=8, max_models=1, store=store)
    >>> scores = fleet.learn(["a", "b", "a"], [[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> len(fleet), len(store), "b" in fleet
    (2, 1, True)
    """

    def __init__(self, path: Any, keep: int = 8):
        self.path = Path(path)
        self.keep = integer_at_least("keep", keep, 1)
        self._lock = threading.RLock()
        self._connection = self._opened()

    # --- opening ---------------------------------------------------------------------------------

    def _opened(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=0.2, isolation_level=None, check_same_thread=False
        )
        try:
            self._begin(connection)
        except sqlite3.OperationalError as error:
            connection.close()
            if "locked" in str(error):
                raise BlockingIOError(
                    f"{self.path} is held by another ModelStore, of this process or of one that "
                    "is still running: close that one, or give this run a store of its own."
                ) from None
            raise FileError(
                f"{self.path} cannot be opened as a store of models: {error}."
            ) from None
        except Exception as error:  # whatever a changed bit may lead to
            connection.close()
            if isinstance(error, FileError):
                raise
            raise FileError(f"{self.path} is not a sound store of models: {error}.") from None
        return connection

    def _begin(self, connection: sqlite3.Connection) -> None:
        """Hold the file, make what is not there, and check what is."""
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        application, version = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version")
        )
        n_tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        if n_tables and application != _APPLICATION:
            raise FileError(f"{self.path} is not a store of models.")
        if n_tables:
            check_version(f"the store {self.path}", version, _VERSION)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")  # which holds the file from now on
        if not n_tables:
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {_VERSION}")
            self._about = About(uuid.uuid4().hex)
            _write_about(connection, self._about)
        connection.execute("COMMIT")
        self._about = _read_about(connection, self.path)
        total, n_models = 0, 0
        for line in connection.execute("SELECT * FROM models"):
            total, n_models = total + _digest(line), n_models + (line[2] == _FOR_EVER)
        if (total, n_models) != (self._about.total, self._about.n_models):
            raise FileError(f"{self.path} was changed or damaged: its keys do not add up.")

    @staticmethod
    def copy_file(source: Any, path: Any) -> None:
        """Copy the file of a store that nobody holds; the copy is there whole or not at all.

        Parameters
        ----------
        source, path : str or path-like
        """
        for end in ("-wal", ""):  # what a crash has left beside the file belongs to it
            old, new = Path(f"{source}{end}"), Path(f"{path}{end}")
            new.unlink(missing_ok=True)
            if end == "" or old.exists():
                with beside(new) as half:
                    shutil.copyfile(old, half)

    def close(self) -> None:
        """Let another process have the store."""
        with self._lock:
            self._connection.close()

    def clear(self) -> "ModelStore":
        """Forget every model, for a run that begins anew; the store itself is returned."""
        with self._lock, self._transaction() as connection:
            connection.execute("DELETE FROM models")
            connection.execute("DELETE FROM records")
            self._set(connection, About(uuid.uuid4().hex))
        return self

    # --- reading ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._about.n_models

    def __contains__(self, key: Any) -> bool:
        with self._lock, self._clear_errors():
            found = self._connection.execute(
                "SELECT 1 FROM models WHERE key = ? AND until = ?", (to_text(key), _FOR_EVER)
            ).fetchone()
        return found is not None

    def __iter__(self) -> Iterator[Any]:
        for lines in self._lines("key"):
            yield from (from_text(line[0]) for line in lines)

    def chunks(self) -> Iterator[tuple[list[Any], list[bytes]]]:
        """Yield all keys and their models, some at a time, in the order of the keys' text."""
        for lines in self._lines("key, checksum, content"):
            yield [from_text(line[0]) for line in lines], [self._sound(*line) for line in lines]

    def _lines(self, columns: str) -> Iterator[list[tuple[Any, ...]]]:
        last = ""
        while True:
            with self._lock, self._clear_errors():
                lines = self._connection.execute(
                    f"SELECT {columns} FROM models LEFT JOIN records ON id = record "
                    "WHERE until = ? AND key > ? ORDER BY key LIMIT ?",
                    (_FOR_EVER, last, _AT_A_TIME),
                ).fetchall()
            if not lines:
                return
            yield lines
            last = lines[-1][0]

    def read(self, keys: list[Any]) -> dict[Any, bytes]:
        """Return the models of those keys that are in the store."""
        found: dict[Any, bytes] = {}
        if not len(self):
            return found
        by_text = {to_text(key): key for key in keys}
        texts = list(by_text)
        for start in range(0, len(texts), _AT_A_TIME):
            asked = texts[start : start + _AT_A_TIME]
            with self._lock, self._clear_errors():
                lines = self._connection.execute(
                    "SELECT key, checksum, content FROM models LEFT JOIN records ON id = record "
                    f"WHERE until = ? AND key IN ({', '.join('?' * len(asked))})",
                    (_FOR_EVER, *asked),
                ).fetchall()
            found.update({by_text[line[0]]: self._sound(*line) for line in lines})
        return found

    def _sound(self, text: str, checksum: int, content: Any) -> bytes:
        if not isinstance(content, bytes) or zlib.crc32(content) != checksum:
            raise FileError(f"the model of {text} in {self.path} was changed or damaged.")
        return content

    # --- writing ---------------------------------------------------------------------------------

    def exchange(self, taken: Iterable[Any], put: dict[Any, bytes], kind: str) -> None:
        """Take models back to memory and move others out, in one transaction.

        Parameters
        ----------
        taken : iterable
            The keys of the models that are in memory again.
        put : dict
            The models that leave memory, by key.
        kind : str
            What all models have in common, as text. The first exchange decides it.
        """
        self.check_kind(kind)
        with self._lock, self._transaction() as connection:
            about = self._about._replace(kind=kind)
            serial = about.serial + 1
            newest = max((*about.marks, *about.pending), default=-1)
            n_models, total, n_records = about.n_models, about.total, about.n_records
            for key in taken:
                line = connection.execute(
                    "SELECT * FROM models WHERE key = ? AND until = ?", (to_text(key), _FOR_EVER)
                ).fetchone()
                if line is None:
                    continue
                n_models, total = n_models - 1, total - _digest(line)
                if newest >= line[1]:  # a saved fleet knows it
                    closed = (*line[:2], serial, *line[3:])
                    total += _digest(closed)
                    connection.execute(
                        "UPDATE models SET until = ? WHERE key = ? AND since = ?",
                        (serial, *line[:2]),
                    )
                else:
                    _delete(connection, line)
            lines, contents = [], []
            for key, content in put.items():
                n_records += 1
                line = to_text(key), serial, _FOR_EVER, n_records, zlib.crc32(content)
                total += _digest(line)
                lines.append(line)
                contents.append((n_records, content))
            connection.executemany("INSERT INTO models VALUES (?, ?, ?, ?, ?)", lines)
            connection.executemany("INSERT INTO records VALUES (?, ?)", contents)
            self._set(connection, about._replace(
                serial=serial, n_models=n_models + len(lines), n_records=n_records, total=total
            ))  # fmt: skip

    def mark(self) -> dict[str, Any]:
        """Return the present moment for a file of the fleet, and keep what it takes to go back.

        A file that is never written takes none of the places of those that were: the moment stays
        pending until `confirm`.
        """
        with self._lock:
            about = self._about
            if about.serial not in (*about.marks, *about.pending):
                pending = (*about.pending, about.serial)[-self.keep :]
                self._remember(about._replace(pending=pending))
            return {"id": about.id, "serial": about.serial}

    def confirm(self, mark: dict[str, Any]) -> None:
        """Note that a file with this mark has been written.

        Parameters
        ----------
        mark : dict
            What `mark` returned.
        """
        with self._lock:
            about, serial = self._about, mark["serial"]
            if about.id == mark["id"] and serial not in about.marks:
                marks = tuple(sorted((*about.marks, serial)))[-self.keep :]
                pending = tuple(other for other in about.pending if other > serial)
                self._remember(about._replace(marks=marks, pending=pending))

    def _remember(self, about: About) -> None:
        """Keep these moments, and delete versions of models to which no moment leads back."""
        oldest = min((*about.marks, *about.pending))
        with self._transaction() as connection:
            total = about.total
            for line in connection.execute(
                "SELECT * FROM models WHERE until < 4611686018427387904 AND until <= ?", (oldest,)
            ).fetchall():
                total -= _digest(line)
                _delete(connection, line)
            self._set(connection, about._replace(total=total))

    def begin(self, mark: dict[str, Any] | None) -> None:
        """Attach the store to a fleet: a new one, or one saved at a mark."""
        with self._lock:
            about = self._about
            if mark is None:
                if about.serial:
                    raise ValueError(
                        f"{self.path} has {len(self):,} models of an earlier run. To go on, load "
                        "the fleet that was saved with it and attach the store; to begin anew, "
                        "store.clear()."
                    )
            elif about.id != mark["id"]:
                raise FileError(f"{self.path} is not the store that this fleet was saved with.")
            elif about.serial < mark["serial"]:
                raise FileError(f"{self.path} is older than the fleet: was it copied too early?")
            elif about.serial > mark["serial"]:
                self._go_back(int(mark["serial"]))

    def check_kind(self, kind: str) -> None:
        """Refuse a fleet whose models are of another kind than those of the store.

        Parameters
        ----------
        kind : str
        """
        if self._about.kind not in (None, kind):
            raise FileError(
                f"the models of {self.path} are of another kind than this fleet's (other "
                "parameters, labels or features): give the fleet a store of its own."
            )

    def _go_back(self, serial: int) -> None:
        """Undo all transactions after one, at which the fleet was saved."""
        if serial not in (*self._about.marks, *self._about.pending):
            raise FileError(
                f"{self.path} has gone on since, and goes back to the last {self.keep} times that "
                "its fleet was saved only: give ModelStore a larger keep."
            )
        with self._transaction() as connection:
            lines = connection.execute("SELECT * FROM models WHERE since > ?", (serial,))
            for line in lines.fetchall():
                _delete(connection, line)
            connection.execute(
                "UPDATE models SET until = ? WHERE until > ? AND until < ?",
                (_FOR_EVER, serial, _FOR_EVER),
            )
            total, n_models = 0, 0
            for line in connection.execute("SELECT * FROM models"):
                total, n_models = total + _digest(line), n_models + (line[2] == _FOR_EVER)
            about = self._about
            marks, pending = (
                tuple(mark for mark in moments if mark <= serial)
                for moments in (about.marks, about.pending)
            )
            self._set(connection, about._replace(
                serial=serial, marks=marks, pending=pending, total=total, n_models=n_models
            ))  # fmt: skip

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield all or nothing, in the file and in what the store knows of itself."""
        with self._clear_errors():
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        self._about = self._next

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            if self._connection.in_transaction:  # one that failed, and could not be undone then
                self._connection.execute("ROLLBACK")
            yield
        except sqlite3.DatabaseError as error:
            raise FileError(f"{self.path} cannot be used: {error}.") from error

    def _set(self, connection: sqlite3.Connection, about: About) -> None:
        _write_about(connection, about)
        self._next = about

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError(
            "a ModelStore is a file that one process holds, and cannot be copied: split() the "
            "fleet, or save it."
        )

    def __repr__(self) -> str:
        return f"ModelStore({str(self.path)!r}, keep={self.keep})"


def _digest(line: tuple[Any, ...]) -> int:
    """Return a number for a line of `models`; their sum changes when any of them does."""
    return zlib.crc32(repr(line).encode())


def _delete(connection: sqlite3.Connection, line: tuple[Any, ...]) -> None:
    connection.execute("DELETE FROM records WHERE id = ?", (line[3],))
    connection.execute("DELETE FROM models WHERE key = ? AND since = ?", line[:2])


def _write_about(connection: sqlite3.Connection, about: About) -> None:
    state = json.dumps(about._asdict())
    connection.execute("DELETE FROM about")
    connection.execute("INSERT INTO about VALUES (?, ?)", (state, zlib.crc32(state.encode())))


def _read_about(connection: sqlite3.Connection, path: Path) -> About:
    lines = connection.execute("SELECT * FROM about").fetchall()
    if len(lines) != 1 or zlib.crc32(str(lines[0][0]).encode()) != lines[0][1]:
        raise FileError(f"{path} was changed or damaged.")
    found = json.loads(lines[0][0])
    moments = {name: tuple(found[name]) for name in ("marks", "pending")}
    return About(**{**found, **moments})

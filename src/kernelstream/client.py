"""A client of the service: rows out, predictions back, and no row learned twice."""

import random
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
import msgspec

__all__ = ["Client", "Learned", "Predicted", "ServiceError"]

_AGAIN = {429, 502, 503, 504}  # answers after which a request is sent again
_LONGEST_WAIT = 5.0  # seconds
_JSON = {"Content-Type": "application/json"}
_INFINITIES = frozenset((float("inf"), float("-inf")))


class ServiceError(Exception):
    """A request that the service refused; `problem` is what it said (RFC 9457).

    Attributes
    ----------
    status : int
    problem : dict
        With `title`, `detail`, and where rows are bad `rows`, each with its number and reason.
    """

    def __init__(self, status: int, problem: dict[str, Any]):
        super().__init__(f"{status} {problem.get('title', '')}: {problem.get('detail', '')}")
        self.status = status
        self.problem = problem


class Predicted(NamedTuple):
    """Predictions, and the ids under which the rows wait for targets, if they do.

    Attributes
    ----------
    predictions : list
    ids : list of str or None
        Under which the rows wait for targets.
    scores : list or None
        A number for each row, or one for each class, if they were asked for.
    """

    predictions: list[Any]
    ids: list[str] | None = None
    scores: list[Any] | None = None


class Learned(NamedTuple):
    """How many rows were accepted, and what else became of them.

    Attributes
    ----------
    accepted : int
        How many rows.
    repeated : int
        How many had been learned before, by their ids.
    skipped : list of dict
        The number and the reason of each.
    predictions : list
        Of `step`, before each row was learned.
    unknown : list of str
        Ids of `labels` under which no row waits.
    """

    accepted: int
    repeated: int
    skipped: list[dict[str, Any]]
    predictions: list[Any]
    unknown: list[str]


class Client:
    """Ask and teach a model of a service.

    A request that fails on its way, or that is told to come back later, is sent again. Rows have
    ids, made here unless they are given, by which the service knows a row that it has learned: a
    row is never learned twice. Whoever calls again after an exception gives the ids, the same ones
    both times, since some of the rows may have been learned.

    Parameters
    ----------
    url : str
        Of the service, such as "http://127.0.0.1:8765".
    model : str
        The model's name.
    token : str, default=None
    retries : int, default=8
        How often a request is sent again, with waits that double from 0.1 s on.
    timeout : float, default=60.0
        Seconds to wait for an answer.
    rows_per_request : int, default=1000
        Longer blocks are sent in several requests.

    Examples
    --------
    >>> from kernelstream.client import Client
    >>> client = Client("http://127.0.0.1:8765", "model")
    >>> client.learn([[0.1, 2.0]], ["yes"])  # doctest: +SKIP
    Learned(accepted=1, repeated=0, skipped=[], predictions=[], unknown=[])
    >>> client.close()
    """

    def __init__(
        self, url: str, model: str, *, token: str | None = None, retries: int = 8,
        timeout: float = 60.0, rows_per_request: int = 1000,
    ):  # fmt: skip
        self.model = model
        self.retries = retries
        self.rows_per_request = rows_per_request
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def predict(
        self, X: Any, ids: Any = None, wait: bool = False, *, keys: Any = None,
        scores: bool = False,
    ) -> Predicted:  # fmt: skip
        """Predict rows.

        Parameters
        ----------
        X : array-like, data frame, or list of dicts by column name
        ids : sequence, default=None
            Under which the rows wait for targets (`labels`).
        wait : bool, default=False
            Whether rows wait for targets under new ids, where `ids` gives none.
        keys : sequence of str, int or tuples of these, default=None
            Of a fleet: the key of every row.
        scores : bool, default=False
            Whether the scores are told, too.
        """
        rows = _plain(X)
        ids = _new_ids(len(rows)) if ids is None and wait else ids
        said = [
            self._post(f"predict?scores={'true' if scores else 'false'}", body)
            for body in self._bodies(rows, None, ids, keys)
        ]

        def all_of(name: str) -> list[Any]:
            return [entry for answer in said for entry in answer.get(name, [])]

        return Predicted(all_of("predictions"), all_of("ids") or None, all_of("scores") or None)

    def learn(
        self, X: Any, y: Any = None, ids: Any = None, on_bad_row: str = "raise", *,
        keys: Any = None,
    ) -> Learned:  # fmt: skip
        """Learn rows; they are on the service's disk when this returns.

        Parameters
        ----------
        X : array-like, data frame, or list of dicts by column name
        y : array-like, default=None
            Left out for novelty.
        ids : sequence of str or int, default=None
            One for each row; None: new ones.
        on_bad_row : {"raise", "skip"}, default="raise"
        keys : sequence of str, int or tuples of these, default=None
            Of a fleet: the key of every row.
        """
        return self._learn(f"learn?on_bad_row={on_bad_row}", X, y, ids, keys)

    def step(self, X: Any, y: Any = None, ids: Any = None, *, keys: Any = None) -> Learned:
        """Predict rows, then learn them; parameters as in `learn`.

        Where an answer was lost, the predictions of rows that had been learned are those after it.
        """
        return self._learn("step", X, y, ids, keys)

    def labels(self, ids: Any, y: Any) -> Learned:
        """Learn rows whose targets come later, by the ids that `predict` was given or returned."""
        given = {"ids": _plain(ids), "targets": _plain(y)}
        _check_lengths("ids", given)
        return _total(_told(self._post("labels", body)) for body in self._parts(given))

    def state(self) -> dict[str, Any]:
        """Everything that a person can read about the model."""
        return self._send("GET", self._path, None)

    def _learn(self, action: str, X: Any, y: Any, ids: Any, keys: Any) -> Learned:
        rows = _plain(X)
        ids = _new_ids(len(rows)) if ids is None else ids
        return _total(
            _told(self._post(action, body), place * self.rows_per_request)
            for place, body in enumerate(self._bodies(rows, y, ids, keys))
        )

    def _bodies(self, X: Any, y: Any, ids: Any, keys: Any) -> Iterator[dict[str, Any]]:
        given = {"rows": X, "targets": y, "ids": ids, "keys": keys}
        columns = {name: _plain(values) for name, values in given.items() if values is not None}
        columns["rows"] = [_without_infinity(row) for row in columns["rows"]]
        _check_lengths("rows", columns)
        return self._parts(columns)

    def _parts(self, columns: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
        """Columns in parts that are short enough for a request."""
        n_rows = len(next(iter(columns.values())))
        for start in range(0, n_rows, self.rows_per_request):
            part = slice(start, start + self.rows_per_request)
            yield {name: values[part] for name, values in columns.items()}

    @property
    def _path(self) -> str:
        return f"/v1/models/{quote(self.model, safe='')}"

    def _post(self, action: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._send("POST", f"{self._path}/{action}", body)

    def _send(self, method: str, path: str, body: Any) -> dict[str, Any]:
        """Send a request until it is answered, or the tries are used up."""
        content = None if body is None else _encode(body)
        for attempt in range(self.retries + 1):
            wait = min(0.1 * 2**attempt, _LONGEST_WAIT) * (0.5 + random.random())
            try:
                answer = self._http.request(method, path, content=content, headers=_JSON)
            except httpx.TransportError:
                if attempt == self.retries:
                    raise
            else:
                if answer.is_success:
                    return answer.json()
                if answer.status_code not in _AGAIN or attempt == self.retries:
                    raise ServiceError(answer.status_code, _problem(answer))
                asked = answer.headers.get("Retry-After", "")
                wait = max(wait, min(float(asked), _LONGEST_WAIT)) if asked.isdigit() else wait
            time.sleep(wait)
        raise AssertionError("the loop returns or raises")


def _new_ids(n: int) -> list[str]:
    return [uuid.uuid4().hex for _ in range(n)]


def _told(answer: dict[str, Any], first: int = 0) -> Learned:
    skipped = [{**bad, "row": bad["row"] + first} for bad in answer.get("skipped", [])]
    return Learned(
        answer["accepted"], answer["repeated"], skipped, answer.get("predictions", []),
        answer.get("unknown", []),
    )  # fmt: skip


def _total(parts: Iterable[Learned]) -> Learned:
    """What became of the rows of several requests."""
    total = Learned(0, 0, [], [], [])
    for part in parts:
        total = Learned(
            total.accepted + part.accepted, total.repeated + part.repeated,
            total.skipped + part.skipped, total.predictions + part.predictions,
            total.unknown + part.unknown,
        )  # fmt: skip
    return total


def _check_lengths(of: str, columns: dict[str, list[Any]]) -> None:
    """All columns must be as long as that one."""
    names = {"rows": "X", "targets": "y"}
    for name, values in columns.items():
        if len(values) != len(columns[of]):
            unit = "rows" if of == "rows" else "entries"
            raise ValueError(
                f"{names.get(of, of)} has {len(columns[of]):,} {unit}, and "
                f"{names.get(name, name)} has {len(values):,}."
            )


def _problem(answer: httpx.Response) -> dict[str, Any]:
    try:
        found = answer.json()
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"title": answer.reason_phrase, "detail": ""}


def _plain(values: Any) -> Any:
    """Arrays, data frames and other sequences as lists."""
    for how in ("to_dicts", "tolist"):  # Polars' frames; NumPy's arrays and pandas' columns
        if callable(getattr(values, how, None)):
            return getattr(values, how)()
    if callable(getattr(values, "to_dict", None)):  # pandas' frames
        return values.to_dict("records")
    return list(values)


def _without_infinity(row: Any) -> Any:
    """A row with the names of infinities, which the service refuses like other text.

    JSON has no infinity. It would be sent as null, which stands for a number that is missing.
    """
    is_record = isinstance(row, dict)
    try:
        if _INFINITIES.isdisjoint(row.values() if is_record else row):
            return row
    except TypeError:  # no row, or something in it that is no entry: the service says so
        return row
    if is_record:
        return {name: _named_if_infinite(value) for name, value in row.items()}
    return [_named_if_infinite(value) for value in row]


def _named_if_infinite(value: Any) -> Any:
    return str(float(value)) if value in _INFINITIES else value


def _known_to_json(value: Any) -> Any:
    """Numbers of NumPy, and what pandas has for dates and for a gap; others JSON knows."""
    if callable(getattr(value, "tolist", None)):
        return value.tolist()
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if callable(getattr(value, "isoformat", None)):
        return value.isoformat()
    raise TypeError(f"{value!r}, a {type(value).__name__}, cannot be sent: give numbers or text.")


_encode = msgspec.json.Encoder(enc_hook=_known_to_json).encode  # NaN is null

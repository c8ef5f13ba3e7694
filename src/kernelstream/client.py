"""A client of the service: it sends rows, returns predictions, and no row is learned twice."""

import random
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
import msgspec

__all__ = ["Client", "Learned", "Predicted", "ServiceError"]

_AGAIN = {429, 502, 503, 504}  # statuses after which a request is sent again
_LONGEST_WAIT = 5.0  # seconds
_JSON = {"Content-Type": "application/json"}
_INFINITIES = frozenset((float("inf"), float("-inf")))


class ServiceError(Exception):
    """A request that the service refused.

    Attributes
    ----------
    status : int
        HTTP's status code.
    problem : dict
        The problem details (RFC 9457): `title`, `detail`, and `rows` with the number and reason of
        each bad row.
    """

    def __init__(self, status: int, problem: dict[str, Any]):
        super().__init__(f"{status} {problem.get('title', '')}: {problem.get('detail', '')}")
        self.status = status
        self.problem = problem


class Predicted(NamedTuple):
    """The predictions of some rows.

    Attributes
    ----------
    predictions : list
    ids : list of str or None
        The ids under which the rows wait for their targets; None if they do not wait.
    scores : list or None
        A number for each row, or one for each class; None without ``scores=True``.
    """

    predictions: list[Any]
    ids: list[str] | None = None
    scores: list[Any] | None = None


class Learned(NamedTuple):
    """The result of rows that were sent to be learned.

    Attributes
    ----------
    accepted : int
        The number of rows that are on the service's disk.
    repeated : int
        The number of rows whose ids were learned before.
    skipped : list of dict
        The number and the reason of each row that was left out.
    predictions : list
        From `step`: the prediction of each row before it was learned.
    unknown : list of str
        From `labels`: ids under which no row waits.
    """

    accepted: int
    repeated: int
    skipped: list[dict[str, Any]]
    predictions: list[Any]
    unknown: list[str]


class Client:
    """A client for one model of a service.

    A request is sent again if the connection fails or if the service is busy. Rows have ids, given
    by the caller or made here, by which the service recognizes a row: no row is learned twice. To
    repeat a call after an exception, pass the same ids both times: some rows may have been learned.

    If no try is answered, methods raise a `ConnectionError` with the URL; if the service refuses
    the request, a `ServiceError`.

    Parameters
    ----------
    url : str
        The address of the service, such as "http://127.0.0.1:8765".
    model : str
        The model's name.
    token : str, default=None
        The service's token, if it has one.
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
        self.url = url
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
            The ids under which the rows wait for their targets (`labels`).
        wait : bool, default=False
            Whether the rows wait for their targets under new ids, if `ids` is None.
        keys : sequence of str, int or tuples of these, default=None
            The key of every row, for a fleet.
        scores : bool, default=False
            Whether to return the scores, too.
        """
        rows = _plain(X)
        ids = _new_ids(len(rows)) if ids is None and wait else ids
        answers = [
            self._post(f"predict?scores={'true' if scores else 'false'}", body)
            for body in self._bodies(rows, None, ids, keys)
        ]

        def all_of(name: str) -> list[Any]:
            return [entry for answer in answers for entry in answer.get(name, [])]

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
            The targets; None for novelty detection.
        ids : sequence of str or int, default=None
            One for each row; None: new ones.
        on_bad_row : {"raise", "skip"}, default="raise"
        keys : sequence of str, int or tuples of these, default=None
            The key of every row, for a fleet.
        """
        return self._learn(f"learn?on_bad_row={on_bad_row}", X, y, ids, keys)

    def step(self, X: Any, y: Any = None, ids: Any = None, *, keys: Any = None) -> Learned:
        """Predict rows, then learn them; parameters as in `learn`.

        If an answer was lost and the request repeated, rows that had been learned are predicted by
        the model that knows them.
        """
        return self._learn("step", X, y, ids, keys)

    def labels(self, ids: Any, y: Any) -> Learned:
        """Learn rows by delayed labels, under the ids that `predict` was given or returned."""
        given = {"ids": _plain(ids), "targets": _plain(y)}
        _check_lengths("ids", given)
        return _total(_learned(self._post("labels", body)) for body in self._parts(given))

    def state(self) -> dict[str, Any]:
        """Return everything that a person can read about the model."""
        return self._send("GET", self._path, None)

    def _learn(self, action: str, X: Any, y: Any, ids: Any, keys: Any) -> Learned:
        rows = _plain(X)
        ids = _new_ids(len(rows)) if ids is None else ids
        return _total(
            _learned(self._post(action, body), place * self.rows_per_request)
            for place, body in enumerate(self._bodies(rows, y, ids, keys))
        )

    def _bodies(self, X: Any, y: Any, ids: Any, keys: Any) -> Iterator[dict[str, Any]]:
        given = {"rows": X, "targets": y, "ids": ids, "keys": keys}
        columns = {name: _plain(values) for name, values in given.items() if values is not None}
        columns["rows"] = [_without_infinity(row) for row in columns["rows"]]
        _check_lengths("rows", columns)
        return self._parts(columns)

    def _parts(self, columns: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
        """Split columns into parts that are short enough for a request."""
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
        """Send a request until it is answered or no try is left."""
        content = None if body is None else _encode(body)
        for attempt in range(self.retries + 1):
            wait = min(0.1 * 2**attempt, _LONGEST_WAIT) * (0.5 + random.random())
            try:
                answer = self._http.request(method, path, content=content, headers=_JSON)
            except httpx.TransportError as error:
                if attempt == self.retries:
                    raise ConnectionError(self._no_answer(error)) from error
            else:
                if answer.is_success:
                    return dict(answer.json())
                if answer.status_code not in _AGAIN or attempt == self.retries:
                    raise ServiceError(answer.status_code, _problem(answer))
                asked = answer.headers.get("Retry-After", "")
                wait = max(wait, min(float(asked), _LONGEST_WAIT)) if asked.isdigit() else wait
            time.sleep(wait)
        raise AssertionError("the loop returns or raises")

    def _no_answer(self, error: httpx.TransportError) -> str:
        tries = "once" if self.retries == 0 else f"{self.retries + 1} times"
        what = (
            "answered too late"
            if isinstance(error, httpx.TimeoutException)
            else "cannot be reached"
        )
        return (
            f"{self.url} {what}, asked {tries} ({error or type(error).__name__}). Is the service "
            "running there, and does the URL name its host and port?"
        )


def _new_ids(n: int) -> list[str]:
    return [uuid.uuid4().hex for _ in range(n)]


def _learned(answer: dict[str, Any], first: int = 0) -> Learned:
    skipped = [{**bad, "row": bad["row"] + first} for bad in answer.get("skipped", [])]
    return Learned(
        answer["accepted"], answer["repeated"], skipped, answer.get("predictions", []),
        answer.get("unknown", []),
    )  # fmt: skip


def _total(parts: Iterable[Learned]) -> Learned:
    """Add up the results of several requests."""
    total = Learned(0, 0, [], [], [])
    for part in parts:
        total = Learned(
            total.accepted + part.accepted, total.repeated + part.repeated,
            total.skipped + part.skipped, total.predictions + part.predictions,
            total.unknown + part.unknown,
        )  # fmt: skip
    return total


def _check_lengths(of: str, columns: dict[str, list[Any]]) -> None:
    """Raise if a column is longer or shorter than the column `of`."""
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
    """Return arrays, data frames and other sequences as lists."""
    for how in ("to_dicts", "tolist"):  # Polars' frames; NumPy's arrays and pandas' columns
        if callable(getattr(values, how, None)):
            return getattr(values, how)()
    if callable(getattr(values, "to_dict", None)):  # pandas' frames
        return values.to_dict("records")
    return list(values)


def _without_infinity(row: Any) -> Any:
    """Return a row with infinities as text, which the service refuses.

    JSON has no infinity: it would be sent as null, which is a missing number.
    """
    is_record = isinstance(row, dict)
    try:
        if _INFINITIES.isdisjoint(row.values() if is_record else row):
            return row
    except TypeError:  # not a row, or with something that is not an entry: the service says so
        return row
    if is_record:
        return {name: _named_if_infinite(value) for name, value in row.items()}
    return [_named_if_infinite(value) for value in row]


def _named_if_infinite(value: Any) -> Any:
    return str(float(value)) if value in _INFINITIES else value


def _known_to_json(value: Any) -> Any:
    """Return numbers, dates and durations of NumPy, and dates and gaps of pandas, as JSON has them.

    A duration is a number of seconds, as everywhere.
    """
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind == "m":  # whose list may hold integers of any unit
        return float(value / type(value)(1, "s"))
    if kind == "M":
        return str(value)
    if callable(getattr(value, "tolist", None)):
        return value.tolist()
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if callable(getattr(value, "isoformat", None)):
        return value.isoformat()
    raise TypeError(f"{value!r}, a {type(value).__name__}, cannot be sent: give numbers or text.")


_encode = msgspec.json.Encoder(enc_hook=_known_to_json).encode  # NaN is null

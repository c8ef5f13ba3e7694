"""Errors as problem details (RFC 9457): what is wrong, in which row, and the remedy."""

from typing import Any

from kernelstream.serve.limits import Limits

__all__ = ["Problem", "bad_rows", "malformed", "reasons", "too_many_rows", "unreadable_row"]

_MOST_LISTED = 100
_LONGEST = 300  # characters of a reason


class Problem(Exception):  # noqa: N818 (the RFC's name)
    """A request that is refused.

    Parameters
    ----------
    status : int
        HTTP's status code.
    kind : str
        The last part of the problem's type, such as "bad-rows".
    title : str
        A title that all problems of a kind share.
    detail : str
        What is wrong with this request, and the remedy.
    headers : dict, default=None
    **more
        Further members of the answer.
    """

    def __init__(
        self, status: int, kind: str, title: str, detail: str,
        headers: dict[str, str] | None = None, **more: Any,
    ):  # fmt: skip
        super().__init__(detail)
        self.status = status
        self.headers = headers or {}
        self.content = {
            "type": f"urn:kernelstream:problem:{kind}", "title": title, "status": status,
            "detail": detail, **more,
        }  # fmt: skip


def bad_rows(problems: dict[int, str], remedy: str = "") -> Problem:
    """Return the problem of bad rows, by number and reason."""
    first = min(problems)
    listed = reasons({row: problems[row] for row in sorted(problems)[:_MOST_LISTED]})
    others = f" (and {len(problems) - 1:,} more)" if len(problems) > 1 else ""
    return Problem(
        422, "bad-rows", "Some rows cannot be used",
        f"Row {first}: {listed[0]['reason']}{others}. Nothing was learned. Mend these rows, or "
        f"leave them out{remedy}.", row=first, n_bad=len(problems), rows=listed,
    )  # fmt: skip


def reasons(problems: dict[int, str]) -> list[dict[str, Any]]:
    """Return bad rows as an answer lists them."""
    return [{"row": row, "reason": problems[row][:_LONGEST]} for row in sorted(problems)]


def unreadable_row(row: int, reason: str) -> Problem:
    """Return the problem of a row that cannot be decoded, after which no row is checked."""
    return bad_rows({row: reason})


def malformed(detail: str) -> Problem:
    """Return the problem of a body that cannot be read."""
    return Problem(400, "malformed-body", "The body cannot be read", detail)


def too_many_rows(n_rows: int, limits: Limits) -> Problem:
    """Return the problem of a body with too many rows."""
    return Problem(
        413, "too-many-rows", "Too many rows in one request",
        f"The request has {n_rows:,} rows, and the limit is {limits.rows:,}: send them in several "
        "requests.", limit=limits.rows,
    )  # fmt: skip

"""Errors as problem details (RFC 9457): what is wrong, where, and what to do."""

from typing import Any

__all__ = ["Problem", "bad_rows"]

_MOST_LISTED = 100


class Problem(Exception):  # noqa: N818 (the RFC's name)
    """A request that is refused.

    Parameters
    ----------
    status : int
        HTTP's status code.
    kind : str
        The last part of the problem's type, such as "bad-rows".
    title : str
        The same for all problems of a kind.
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


def bad_rows(problems: dict[int, str]) -> Problem:
    """Rows that cannot be learned or predicted, by number and reason."""
    first = min(problems)
    listed = [{"row": row, "reason": problems[row]} for row in sorted(problems)[:_MOST_LISTED]]
    others = f" (and {len(problems) - 1:,} more)" if len(problems) > 1 else ""
    return Problem(
        422, "bad-rows", "Some rows cannot be used",
        f"Row {first}: {problems[first]}{others}. Nothing was learned. Mend these rows, or leave "
        "them out; on_bad_row=skip does that for rows to learn.",
        row=first, n_bad=len(problems), rows=listed,
    )  # fmt: skip

"""Warnings that point at the user's own line."""

import inspect
import warnings

__all__ = ["warn_user"]


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line, outside this package, from which it was called.

    Parameters
    ----------
    text : str
    category : type, default=UserWarning

    Examples
    --------
    >>> import warnings
    >>> from kernelstream.parts import warn_user
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_user("scale the rows")
    >>> str(caught[0].message)
    'scale the rows'
    """
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals["__name__"].split(".")[0] == "kernelstream":
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)

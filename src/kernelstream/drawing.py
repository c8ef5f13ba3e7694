"""The look that all plots share. Matplotlib itself is imported by those who draw."""

from typing import Any

__all__ = ["BLUE", "GREY", "ORANGE", "PURPLE", "in_percent", "tidy"]

BLUE, ORANGE, GREY, PURPLE = "#0b6e99", "#e07a1f", "#8a8a8a", "#6a4c93"


def tidy(*plots: Any) -> None:
    """Remove the frame above and on the right, and add a faint grid."""
    for axes in plots:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)


def in_percent(axis: Any, digits: int = 0) -> None:
    """Format shares as percentages, also on a logarithmic axis."""
    from matplotlib.ticker import NullFormatter, PercentFormatter

    axis.set_major_formatter(PercentFormatter(1.0, decimals=digits))
    axis.set_minor_formatter(NullFormatter())

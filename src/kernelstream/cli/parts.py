"""The table of all parts."""

from kernelstream import (
    budgets,
    committee,
    kernels,
    label_kernels,
    losses,
    margins,
    scalings,
    step_sizes,
    stores,
    updates,
)
from kernelstream.parts import Entry, all_parts

__all__ = ["as_markdown", "rows"]

_KINDS = {
    "scaling": (scalings, "what do kernels see of a row?"),
    "kernel": (kernels, "how alike are two inputs?"),
    "label_structure": (label_kernels, "how alike are two labels, how far apart?"),
    "loss": (losses, "how wrong is this score, which way is better?"),
    "margin": (margins, "how much is enough?"),
    "step_size": (step_sizes, "how far to go?"),
    "update": (updates, "how does a gradient become coefficients?"),
    "budget": (budgets, "which points stay?"),
    "device": (stores, "where do points live?"),
    "detector_member": (committee.novelty.members, "how new does a row look?"),
    "mixing": (committee, "how much does each member of a committee count?"),
}


def rows() -> list[tuple[str, str, str, str]]:
    """Return the kind, class, names and summary of every part."""
    found = []
    for kind in _KINDS:
        for entry in sorted(all_parts(kind), key=lambda entry: entry.cls.__name__):
            found.append((kind, entry.cls.__name__, ", ".join(entry.names), _summary(entry)))
    return found


def _summary(entry: Entry) -> str:
    """Return the first paragraph of a class's docstring, on one line."""
    return " ".join((entry.cls.__doc__ or "").strip().split("\n\n")[0].split())


def as_markdown() -> str:
    """Return the table as a page."""
    made_by = "This page is generated from the registry by `kernelstream parts --markdown`."
    lines = ["# The parts", "", made_by, ""]
    for kind, (package, question) in _KINDS.items():
        lines += [f"## {kind.replace('_', ' ').capitalize()}: {question}", "",
                  f"In `{package.__name__}`.", "", "| class | name | what it is |",
                  "|---|---|---|"]  # fmt: skip
        own = [row for row in rows() if row[0] == kind]
        for _, name, names, text in own:
            escaped = text.replace("|", "\\|")
            lines.append(f"| `{name}` | {names} | {escaped} |")
        lines.append("")
    return "\n".join(lines)

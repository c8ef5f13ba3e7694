"""The pages at the root of the project, as pages of the site."""

import re
from pathlib import Path

PAGES = [
    "ARCHITECTURE.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md",
    "RELEASING.md", "SECURITY.md",
]  # fmt: skip


def copy_pages(app):
    """Copy them into ``docs/project``, with links that lead to the pages of the site."""
    root, folder = Path(app.srcdir).parent, Path(app.srcdir) / "project"
    folder.mkdir(exist_ok=True)
    for name in PAGES:
        text = re.sub(r"\]\(docs/", "](../", (root / name).read_text())
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def lead_to_copies(app, docname, source):
    """A page of docs/ that links to the root of the project links to its copy on the site."""
    source[0] = re.sub(r"\]\(((?:\.\./)*)\.\./([A-Z_]+\.md)", r"](\1project/\2", source[0])


def setup(app):
    app.connect("builder-inited", copy_pages)
    app.connect("source-read", lead_to_copies)
    return {"parallel_read_safe": True}

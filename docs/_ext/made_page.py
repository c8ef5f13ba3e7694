"""Pages of the reference that are made of the code itself."""

from pathlib import Path


def setup_of(name, page):
    """The `setup` of an extension that writes a page of the reference before the site is built."""

    def write(app):
        path = Path(app.srcdir) / "reference" / name
        text = page()
        if not path.exists() or path.read_text() != text:  # an unchanged page is not built again
            path.write_text(text)

    def setup(app):
        app.connect("builder-inited", write)
        return {"parallel_read_safe": True}

    return setup

"""``kernelstream serve``: models that learn while they are asked, over HTTP."""

import logging
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["feed_service", "register"]


def register(app: typer.Typer, errors_as_messages: object) -> None:
    """Add the command to the command line."""

    @app.command()
    def serve(
        models: Annotated[
            Path | None,
            typer.Argument(help="A model, a fleet, or a folder of files *.ks."),
        ] = None,
        checkpoint: Annotated[
            Path | None,
            typer.Option(
                help="Folder for checkpoints and logs, created if missing; by default the folder "
                "kept beside the model."
            ),
        ] = None,
        host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
        port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8765,
        token_file: Annotated[
            Path | None,
            typer.Option(
                help="File with the token that callers must send; required unless --host is this "
                "machine."
            ),
        ] = None,
        checkpoint_rows: Annotated[
            int, typer.Option(min=1, help="Number of rows between two checkpoints.")
        ] = 10_000,
        sync: Annotated[
            str,
            typer.Option(
                help="batch or request: whether requests that come together share a write to disk."
            ),
        ] = "batch",
        limit: Annotated[
            list[str] | None,
            typer.Option(
                help="A limit of the service, such as rows=100000; may be given several times. "
                "Names and defaults: kernelstream.serve.Limits."
            ),
        ] = None,
        demo: Annotated[
            bool, typer.Option("--demo", help="Serve two models on a generated stream.")
        ] = False,
    ) -> None:
        """Serve models over HTTP: predict, learn, and watch them at /.

        Accepted rows are on the disk; after a crash the same command continues with them.
        """
        with errors_as_messages(), _stopping_while_it_starts():  # type: ignore[operator]
            _check(models, checkpoint, demo)
            _require_extra()
            from kernelstream.serve.server import check_host, read_token

            token = None if token_file is None else read_token(token_file)
            check_host(host, token)
            options = {"token": token, "limits": _limits(limit or [])}
            if demo:
                _serve_demo(host, port, options)
            else:
                assert models is not None
                options |= {"checkpoint_rows": checkpoint_rows, "sync": sync}
                _serve(models, checkpoint, host, port, options)


def feed_service(
    source: str, target: str | None, to: str, token_file: Path | None, form: str | None,
    key: str | None = None,
) -> str:  # fmt: skip
    """Send the rows of a source to a service; return a summary."""
    _require_extra()
    from kernelstream.cli.feed import feed
    from kernelstream.client import ServiceError
    from kernelstream.serve.server import read_token

    try:
        token = None if token_file is None else read_token(token_file)
        return feed(source, target, to, token, form, key)
    except ServiceError as error:
        raise ValueError(f"{to}: {error}") from None
    except ConnectionError as error:
        raise ValueError(
            f"{error} Give the same command again later: of the last 100,000 rows that the service "
            "has learned, none is learned twice."
        ) from None


def _require_extra() -> None:
    try:
        import httpx  # noqa: F401
        import litestar  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{error}: install the service with pip install 'kernelstream[serve]'."
        ) from None


def _check(models: Path | None, checkpoint: Path | None, demo: bool) -> None:
    """Check the arguments that depend on each other, before anything is loaded."""
    if demo == (models is not None):
        raise ValueError("give a model's file or a folder of models, or --demo.")
    if demo and checkpoint is not None:
        raise ValueError("--demo keeps nothing that it learns: leave --checkpoint out.")
    if models is not None and not models.exists():
        raise ValueError(f"{models}: there is no such file or folder.")


def _folder_for(models: Path, checkpoint: Path | None) -> Path:
    """Return the folder for checkpoints and logs: by default ``kept`` beside the models."""
    if checkpoint is not None:
        return checkpoint
    folder = (models if models.is_dir() else models.absolute().parent) / "kept"
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"the folder {folder} for checkpoints and logs cannot be created ({error}): give "
            "another one, such as --checkpoint kept."
        ) from None
    return folder


def _limits(given: list[str]) -> Any:
    """Return the limits of a service; some are given as name=number."""
    from kernelstream.serve.limits import Limits

    found = {}
    for text in given:
        name, _, value = text.partition("=")
        if name not in Limits._fields or not (value.isascii() and value.isdigit() and int(value)):
            raise ValueError(
                f"--limit {text}: give a name and a number from 1 on, such as rows=100000; "
                f"the names are {', '.join(Limits._fields)}."
            )
        found[name] = int(value)
    return Limits(**found)


@contextmanager
def _stopping_while_it_starts() -> Iterator[None]:
    """Let SIGTERM end a service that still loads and compiles; later the server handles it.

    Otherwise SIGTERM would not end the first process of a container.
    """

    def stop(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _serve(
    models: Path, checkpoint: Path | None, host: str, port: int, options: dict[str, Any]
) -> None:  # fmt: skip
    from kernelstream.serve.server import Server
    from kernelstream.serve.service import Service

    folder = _folder_for(models, checkpoint)
    _log_to_stderr()
    if checkpoint is None:
        print(f"What is learned is kept in {folder} (--checkpoint).", file=sys.stderr)
    service = Service.from_files(models, folder, **options)
    for model in service.models.values():
        if model.position:
            print(
                f"{model.name} continues at row {model.position:,} of {folder / model.name}, and "
                "not with its file. Move that folder away to begin again from the file.",
                file=sys.stderr,
            )  # fmt: skip
    try:
        Server(service, host, port, announce=True).run()
    finally:
        service.close()


def _log_to_stderr() -> None:
    """Write warnings and errors to standard error, with the time, with or without a terminal."""
    logging.captureWarnings(True)
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )


def _serve_demo(host: str, port: int, options: dict[str, Any]) -> None:
    from kernelstream.serve.demo import Demo
    from kernelstream.serve.server import Server

    with tempfile.TemporaryDirectory(prefix="kernelstream-demo-") as folder:
        demo = Demo(folder, **options)
        try:
            print("The first start compiles for some seconds before rows appear.", file=sys.stderr)
            Server(demo.service, host, port, announce=True).run()
        finally:
            demo.close()

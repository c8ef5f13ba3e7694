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
            Path | None, typer.Option(help="Folder for checkpoints and logs, made if needed.")
        ] = None,
        host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
        port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8765,
        token_file: Annotated[
            Path | None,
            typer.Option(help="File of the token that callers must send; needed beyond localhost."),
        ] = None,
        checkpoint_rows: Annotated[
            int, typer.Option(min=1, help="Number of rows between two checkpoints.")
        ] = 10_000,
        sync: Annotated[
            str, typer.Option(help="batch or request: what is written to the disk together.")
        ] = "batch",
        limit: Annotated[
            list[str] | None,
            typer.Option(
                help="How much the service takes on, such as rows=100000; may be given several "
                "times. Names and defaults: kernelstream.serve.Limits."
            ),
        ] = None,
        demo: Annotated[
            bool, typer.Option("--demo", help="Serve two models on a generated stream.")
        ] = False,
    ) -> None:
        """Serve models over HTTP: predict, learn, and watch them at /.

        Rows that were accepted are on the disk; after a crash the same command goes on with them.
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
    """Send the rows of a source to a service; a summary."""
    _require_extra()
    import httpx

    from kernelstream.cli.feed import feed
    from kernelstream.client import ServiceError
    from kernelstream.serve.server import read_token

    try:
        token = None if token_file is None else read_token(token_file)
        return feed(source, target, to, token, form, key)
    except ServiceError as error:
        raise ValueError(f"{to}: {error}") from None
    except httpx.TransportError as error:
        raise ValueError(
            f"{to} cannot be reached ({error}): is the service running there? Of the last 100,000 "
            "rows that it has learned none is learned again when the same command is given later."
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
    if demo == (models is not None):
        raise ValueError("give a model's file or a folder of models, or --demo.")
    if demo and checkpoint is not None:
        raise ValueError("--demo keeps nothing that it learns: leave --checkpoint out.")
    if models is not None and checkpoint is None:
        raise ValueError("--checkpoint is missing: give a folder in which what is learned is kept.")
    if models is not None and not models.exists():
        raise ValueError(f"{models}: there is no such file or folder.")


def _limits(given: list[str]) -> Any:
    """The limits of a service, of which some are given as name=number."""
    from kernelstream.serve.limits import Limits

    found = {}
    for text in given:
        name, _, value = text.partition("=")
        if name not in Limits._fields or not (value.isascii() and value.isdigit() and int(value)):
            raise ValueError(
                f"--limit {text}: give a name and a number from 1 on, such as rows=100000; names "
                f"are {', '.join(Limits._fields)}."
            )
        found[name] = int(value)
    return Limits(**found)


@contextmanager
def _stopping_while_it_starts() -> Iterator[None]:
    """Let SIGTERM end a service that still loads and compiles; later the server sees to it.

    The first process of a container would not be ended by it otherwise.
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

    logging.captureWarnings(True)
    service = Service.from_files(models, checkpoint, **options)
    try:
        Server(service, host, port, announce=True).run()
    finally:
        service.close()


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

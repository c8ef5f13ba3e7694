"""The service as a process: uvicorn around the application, with a graceful stop."""

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import uvicorn

from kernelstream.serve.app import create_app
from kernelstream.serve.connections import protocol_of
from kernelstream.serve.service import Service

__all__ = ["LOCAL_HOSTS", "Server", "check_host", "read_token"]

LOCAL_HOSTS = ("127.0.0.1", "::1", "localhost")
_LEAST_CHARACTERS = 16


class Server(uvicorn.Server):
    """A server that tells open pages when it stops, so that it does not wait for them.

    Parameters
    ----------
    service : Service
    host : str
    port : int
    announce : bool, default=False
        Whether to print the address when it starts to listen.
    """

    def __init__(self, service: Service, host: str, port: int, announce: bool = False):
        check_host(host, service.token)
        self.service = service
        self._announce = announce
        # Learning and answering share Python's lock: short intervals keep answers quick.
        sys.setswitchinterval(0.001)
        super().__init__(
            uvicorn.Config(
                create_app(service),
                host=host,
                port=port,
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=10,
                server_header=False,
                http=protocol_of(service.connections),
                ws="none",
                proxy_headers=False,
                backlog=256,
            )
        )

    async def startup(self, sockets: Any = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        self._closing = asyncio.create_task(self.service.connections.close_idle())
        if self._announce and self.started:
            host, names = self.config.host, ", ".join(self.service.models)
            shown = f"[{host}]" if ":" in host else host
            print(f"http://{shown}:{self.config.port}/ serves {names}", file=sys.stderr, flush=True)

    async def shutdown(self, sockets: Any = None) -> None:
        """Finish the requests that have begun, and stop."""
        self._closing.cancel()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Ctrl-C, or a signal to stop."""
        self.service.is_stopping = True
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True  # and the signal is not raised again: this is an orderly end


def check_host(host: str, token: str | None) -> None:
    """Raise if a service without a token can be reached from other machines."""
    if host not in LOCAL_HOSTS and token is None:
        raise ValueError(
            f"host={host!r} can be reached from other machines: give a token (--token-file), or "
            "use 127.0.0.1."
        )


def read_token(path: Path) -> str:
    """Return the token in a file; it must have at least 16 characters."""
    token = path.read_text(encoding="utf-8").strip()
    if len(token) < _LEAST_CHARACTERS or not token.isascii() or not token.isprintable():
        raise ValueError(
            f"{path} holds no token: write one of at least {_LEAST_CHARACTERS} characters into it, "
            "such as `python -c 'import secrets; print(secrets.token_urlsafe())'` prints."
        )
    return token

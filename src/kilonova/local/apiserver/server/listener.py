"""The socket of the API server, and the options of the server on it."""

import errno
import socket

from kilonova.kube.serving.http_server import ServerOptions, format_bind_error, open_listener
from kilonova.local.apiserver.server.connection import ApiConnection

API_SERVER_OPTIONS = ServerOptions(
    connection=ApiConnection,
    keep_alive_seconds=3600,
    grace_seconds=1,
    backlog=2048,
    date_header=False,
)


class PortInUse(Exception):
    """The port cannot be bound: usually another process listens on it."""


def bind_socket(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one.

    It listens at once: of two processes that only bind, both would succeed.
    """
    try:
        bound = open_listener(host, port, API_SERVER_OPTIONS.backlog)
    except OSError as error:
        raise PortInUse(
            f"port {port} of {host} cannot be used ({format_bind_error(error)}): "
            f"{_bind_hint(error)}"
        ) from error
    bound.setblocking(False)
    return bound


def _bind_hint(error: OSError) -> str:
    other = "choose another with --port N (0 takes a free one)"
    match error.errno:
        case errno.EADDRINUSE:
            return f"stop the process that listens there, or {other}"
        case errno.EACCES:
            return other
        case _:
            return "set an address of this machine with --host HOST"

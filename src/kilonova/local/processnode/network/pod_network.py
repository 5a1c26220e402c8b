"""The pod network in the shim's event loop.

Each readable listener is served one call at a time, so that a busy pod does not delay the others.
Only a connection that is still being established outlives its callback.
"""

import asyncio
import errno
from collections.abc import Mapping, Sequence
from typing import Any

from . import sockets
from .call_handler import PendingConnection, handle_call
from .decision import NetworkPod
from .listener import ListenerClosed, SeccompListener
from .routes import RouteMap, ServiceRoute


class PodNetwork:
    """The network of all pods of this machine. Used from one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._routes = RouteMap()
        self._listeners: dict[int, tuple[SeccompListener, NetworkPod]] = {}
        self._pending_connects: dict[int, _PendingConnect] = {}

    def add_listener(self, notify_fd: int, address: str) -> None:
        """Serve a container's listener for the pod with that address.

        The network owns the descriptor and closes it when the last process has exited.
        """
        listener = SeccompListener(notify_fd)
        self._listeners[notify_fd] = (listener, self._find_pod(address))
        self._loop.add_reader(notify_fd, self._handle_notification, notify_fd)

    def set_routes(self, routes: Sequence[Mapping[str, Any]]) -> None:
        """Replace all routes; `RouteError` if one is invalid, and nothing changes."""
        self._routes = RouteMap([ServiceRoute.from_json(route) for route in routes])

    def close(self) -> None:
        """Close all listeners: in pods that still run, bind and connect fail from now on."""
        for wait in list(self._pending_connects.values()):
            wait.cancel()
        for fd in list(self._listeners):
            self._remove_listener(fd)

    def _find_pod(self, address: str) -> NetworkPod:
        """The pod of an address: its containers share the bound ports."""
        pods = (pod for _, pod in self._listeners.values() if pod.address == address)
        return next(pods, NetworkPod(address))

    def _handle_notification(self, fd: int) -> None:
        listener, pod = self._listeners[fd]
        try:
            notification = listener.receive()
        except ListenerClosed:
            self._remove_listener(fd)
            return
        if notification is None:
            return
        pending = handle_call(listener, notification, pod, self._routes)
        if pending is not None:
            _PendingConnect(self._loop, listener, pending, self._pending_connects)

    def _remove_listener(self, fd: int) -> None:
        listener, _ = self._listeners.pop(fd)
        self._loop.remove_reader(fd)
        for wait in [wait for wait in self._pending_connects.values() if wait.listener is listener]:
            wait.cancel()
        listener.close()


class _PendingConnect:
    """Waits on behalf of a caller until its connection is established, has failed, or timed out."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: SeccompListener,
        connection: PendingConnection,
        waits: "dict[int, _PendingConnect]",
    ) -> None:
        self.listener = listener
        self._loop = loop
        self._connection = connection
        self._waits = waits
        self._fd = connection.socket.fileno()
        waits[self._fd] = self
        loop.add_writer(self._fd, self._finish)
        patience = sockets.get_send_timeout(connection.socket)
        self._timer = None if patience is None else loop.call_later(patience, self._time_out)

    def cancel(self) -> None:
        """Stop waiting."""
        self._loop.remove_writer(self._fd)
        if self._timer is not None:
            self._timer.cancel()
        self._connection.socket.close()
        del self._waits[self._fd]

    def _finish(self) -> None:
        self._respond(sockets.finish_connect(self._connection.socket, self._connection.target))

    def _time_out(self) -> None:
        self._respond(errno.EINPROGRESS)

    def _respond(self, error: int) -> None:
        self.cancel()
        self.listener.respond(self._connection.notification_id, error)

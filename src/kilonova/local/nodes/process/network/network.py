"""The network at work in the keeper's event loop.

A listener is served one call at a time as the event loop finds it readable, so that a busy pod
does not keep the others waiting. Only a connection that is still under way outlives its turn.
"""

import asyncio
import errno
from collections.abc import Mapping, Sequence
from typing import Any

from . import sockets
from .decision import Pod
from .listener import Listener, ListenerEnded
from .routes import Route, Routes
from .serving import UnderWay, serve_call


class Network:
    """All pods of this machine. Used from one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._routes = Routes()
        self._served: dict[int, tuple[Listener, Pod]] = {}
        self._waits: dict[int, _Wait] = {}

    def adopt(self, notify_fd: int, address: str) -> None:
        """Serve a container's listener, as of the pod with that address.

        The fd is the network's from now on; it is closed when its last process is gone.
        """
        listener = Listener(notify_fd)
        self._served[notify_fd] = (listener, self._pod(address))
        self._loop.add_reader(notify_fd, self._serve, notify_fd)

    def set_routes(self, routes: Sequence[Mapping[str, Any]]) -> None:
        """These are all routes from now on; `RouteError` if one is none, and nothing changes."""
        self._routes = Routes([Route.from_json(route) for route in routes])

    def close(self) -> None:
        """Give all listeners back: in pods that still run, bind and connect fail from now on."""
        for wait in list(self._waits.values()):
            wait.end()
        for fd in list(self._served):
            self._release(fd)

    def _pod(self, address: str) -> Pod:
        """The containers of a pod know of each other's ports."""
        pods = (pod for _, pod in self._served.values() if pod.address == address)
        return next(pods, Pod(address))

    def _serve(self, fd: int) -> None:
        listener, pod = self._served[fd]
        try:
            notification = listener.receive()
        except ListenerEnded:
            self._release(fd)
            return
        if notification is None:
            return
        under_way = serve_call(listener, notification, pod, self._routes)
        if under_way is not None:
            _Wait(self._loop, listener, under_way, self._waits)

    def _release(self, fd: int) -> None:
        listener, _ = self._served.pop(fd)
        self._loop.remove_reader(fd)
        for wait in [wait for wait in self._waits.values() if wait.listener is listener]:
            wait.end()
        listener.close()


class _Wait:
    """Waits in a caller's stead until its connection is there, has failed, or takes too long."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: Listener,
        under_way: UnderWay,
        waits: "dict[int, _Wait]",
    ) -> None:
        self.listener = listener
        self._loop = loop
        self._under_way = under_way
        self._waits = waits
        self._fd = under_way.socket.fileno()
        waits[self._fd] = self
        loop.add_writer(self._fd, self._over)
        patience = sockets.patience(under_way.socket)
        self._timer = None if patience is None else loop.call_later(patience, self._too_long)

    def end(self) -> None:
        """Wait no more."""
        self._loop.remove_writer(self._fd)
        if self._timer is not None:
            self._timer.cancel()
        self._under_way.socket.close()
        del self._waits[self._fd]

    def _over(self) -> None:
        self._answer(sockets.finish_connect(self._under_way.socket, self._under_way.to))

    def _too_long(self) -> None:
        self._answer(errno.EINPROGRESS)

    def _answer(self, error: int) -> None:
        self.end()
        self.listener.answer(self._under_way.call, error)

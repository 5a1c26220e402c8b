"""Connections that stay open in both directions: exec, attach, port-forward; and the proxies.

A client asks for one with an ordinary request that wants to *upgrade* its connection. Who asks,
whether they may, which pod and container are meant and whether its node can do it are settled
first, with ordinary refusals. Only then the connection is taken from the HTTP server.

The words, from the bottom up:

- a *wire* carries bytes both ways: the socket, or the messages of a WebSocket as one stream;
- a *WebSocket* carries messages, *SPDY* carries many streams on one wire (client-go's own way,
  today inside a WebSocket, formerly on the bare socket);
- a *console* is the client's end of a process, whichever of the two carries it;
- a *session* is what runs on an upgraded connection until either side has done.

Nothing is gathered: who does not read stops the one who writes, through to the process or the
client at the other end. A client that vanishes ends its session, and its command with it.
"""

from kilonova.local.streaming.proxy import Proxied, Proxies, ProxyRequest, is_proxied
from kilonova.local.streaming.session import Upgrade, serve
from kilonova.local.streaming.wire import SocketWire

__all__ = [
    "Proxied",
    "Proxies",
    "ProxyRequest",
    "SocketWire",
    "Upgrade",
    "is_proxied",
    "serve",
]

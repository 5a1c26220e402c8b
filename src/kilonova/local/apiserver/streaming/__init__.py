"""Streaming connections to pods: exec, attach, port-forward; and the proxies.

A client requests one with an ordinary request that *upgrades* its connection. Authentication,
authorization, the selection of pod and container, and the check that the node supports it come
first, with ordinary error responses. Only then is the connection hijacked from the HTTP server.

Terms, from the bottom up:

- a *byte stream* carries bytes both ways: the socket, or the messages of a WebSocket;
- a *WebSocket* carries messages, *SPDY* carries many streams on one byte stream (client-go's own
  protocol, today inside a WebSocket, formerly on the socket itself);
- the *client streams* are the standard streams of a remote command, over either of them;
- a *session* runs on an upgraded connection until either side ends it.

Nothing is buffered: backpressure reaches the process or the client at the other end. A client that
vanishes ends its session, and its command with it.
"""

from kilonova.local.apiserver.streaming.byte_stream import SocketStream
from kilonova.local.apiserver.streaming.proxy import PodProxy, ProxyReply, ProxyRequest
from kilonova.local.apiserver.streaming.session import Upgrade, serve_session

__all__ = [
    "PodProxy",
    "ProxyReply",
    "ProxyRequest",
    "SocketStream",
    "Upgrade",
    "serve_session",
]
